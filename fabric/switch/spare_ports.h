// fabric/switch/spare_ports.h -- ports of a switch for endnodes that its topology does not list. An endnode
// that asks gets a free port, and with it a LID and a GUID that are lent to it. When it goes, the port is
// free at once; the LID rests (kSpareLidRest) unless its own endnode comes back for it, which it shows by the
// nonce of its last incarnation.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"
#include "fabric/switch/leases.h"
#include "fabric/switch/switch.h"

namespace weft::fabric {

struct SpareConfig {
  uint32_t ports = 0;
  Lid first_lid;      // of lid_count() in a row
  uint32_t lids = 0;  // 0: spare_lids(ports)
  Duration rest = kSpareLidRest;

  [[nodiscard]] uint32_t lid_count() const noexcept {
    return ports == 0 || lids != 0 ? lids : spare_lids(ports);
  }
};

/// The endnode that says HELLO, as far as the carrier knows.
struct Joiner {
  std::string_view origin;  // process or machine: what a rate holds for
  std::string_view key;     // name of its CURVE key, or its address; empty: a process of our user, here
};

/// May a new incarnation replace a link that is still up?
enum class Takeover : uint8_t { kRefuse, kAllow };

/// New endnodes of one origin: at once no more than half of the ports, and in the time that a LID rests no
/// more than half of the LIDs, so that no origin takes all of them by joining again and again. The table is
/// bounded; the origin heard longest ago makes room.
class JoinPace {
 public:
  explicit JoinPace(const SpareConfig& config) noexcept;
  [[nodiscard]] bool allow(std::string_view origin, Instant now);

 private:
  static constexpr size_t kOriginsMax = 64;
  struct Origin {
    std::string name;
    Instant full_until = Instant::min();  // its allowance is whole again from then on
    Instant last = Instant::min();
  };
  Duration interval_;  // in which one more may join
  int64_t burst_;
  std::array<Origin, kOriginsMax> origins_;
};

/// Owner: the switch's thread.
class SparePorts {
 public:
  /// The ports are `first_port` and those after it. The switch outlives this, `random` and `store` too.
  /// @param store  null: leases end with this object
  SparePorts(Switch& fabric, const SpareConfig& config, PortNumber first_port, RandomSource& random,
             const LinkTimers& timers, LeaseStore* store = nullptr);
  ~SparePorts();

  /// What a HELLO may have. Nothing is lent before take().
  struct Choice {
    uint32_t lid = 0;  // index among the LIDs
    PortNumber port = 0;
    LinkGrant grant;
    LinkEngine* engine = nullptr;
  };
  /// `guid_is_listed`: the HELLO's GUID belongs to a node of the table.
  [[nodiscard]] LinkRefusal choose(const LinkHello& hello, const Joiner& joiner, Takeover takeover,
                                   Instant now, bool guid_is_listed, Choice& out);
  /// The endnode is welcome to it.
  void take(const Choice& choice, const LinkHello& hello, const Joiner& joiner);

  [[nodiscard]] uint32_t ports() const noexcept { return static_cast<uint32_t>(ports_.size()); }
  [[nodiscard]] LinkEngine& engine(size_t index) noexcept;

 private:
  class SparePort;
  struct Lent : Lease {
    PortNumber port = kPortNone;
  };

  void load_leases(Instant now);
  [[nodiscard]] LinkRefusal find_own(const LinkHello& hello, const Joiner& joiner, bool guid_is_listed,
                                     Instant now, uint32_t& lid);
  [[nodiscard]] LinkRefusal find_new(const LinkHello& hello, const Joiner& joiner, Instant now,
                                     uint32_t& lid);
  [[nodiscard]] LinkRefusal find_free(const Joiner& joiner, Instant now, uint32_t& lid);
  [[nodiscard]] bool may_wish(uint32_t lid, const Joiner& joiner, Instant now) const noexcept;
  void skip_lent() noexcept;
  [[nodiscard]] uint32_t lid_count() const noexcept { return config_.lid_count(); }
  [[nodiscard]] uint32_t anonymous() const noexcept { return anonymous_lids(lid_count()); }
  [[nodiscard]] Guid make_guid() noexcept;
  void gone(SparePort& port, Instant now);

  Switch& fabric_;
  SpareConfig config_;
  PortNumber first_port_;
  RandomSource& random_;
  JoinPace pace_;
  std::vector<std::unique_ptr<SparePort>> ports_;
  std::vector<PortNumber> free_ports_;
  LeaseStore* store_;
  bool loaded_ = false;
  std::unordered_map<uint32_t, Lent> lids_;         // that an endnode has or had
  std::set<std::pair<Instant, uint32_t>> resting_;  // by the end of their rest
  uint32_t fresh_ = 0;                              // the next LID that no endnode has had
  uint32_t fresh_left_;
  std::unordered_map<uint64_t, uint32_t> by_nonce_;  // of endnodes that are here
  std::unordered_map<uint64_t, uint32_t> by_guid_;   // of all in lids_
};

}  // namespace weft::fabric
