// fabric/switch/spare_ports.h -- ports of a switch for endnodes that its topology does not list. An endnode
// that joins is lent a free port, a LID and a GUID. When it leaves, the port is free at once. The LID rests
// (kSpareLidRest), unless its own endnode comes back for it and proves this by the nonce of its last
// incarnation.
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
  Lid first_lid;      // first of lid_count() consecutive LIDs
  uint32_t lids = 0;  // 0: spare_lids(ports)
  Duration rest = kSpareLidRest;

  [[nodiscard]] uint32_t lid_count() const noexcept {
    return ports == 0 || lids != 0 ? lids : spare_lids(ports);
  }
};

/// The endnode that sends HELLO, as far as the carrier knows it.
struct Joiner {
  std::string_view origin;  // process or machine to which a rate applies
  std::string_view
      key;  // name of its CURVE key, or its address; empty: a process of our user on this machine
};

/// Whether a new incarnation may replace a link that is still up.
enum class Takeover : uint8_t { kRefuse, kAllow };

/// Limits new endnodes per origin: at most half of the ports at once, and at most half of the LIDs within the
/// time that a LID rests. So no origin takes all LIDs by joining again and again. The table is bounded: a new
/// origin replaces the one whose last HELLO is the oldest.
class JoinPace {
 public:
  explicit JoinPace(const SpareConfig& config) noexcept;
  [[nodiscard]] bool allow(std::string_view origin, Instant now);

 private:
  static constexpr size_t kOriginsMax = 64;
  struct Origin {
    std::string name;
    Instant full_until = Instant::min();  // from this time on its allowance is whole again
    Instant last = Instant::min();
  };
  Duration interval_;  // time after which one more endnode may join
  int64_t burst_;
  std::array<Origin, kOriginsMax> origins_;
};

/// Owner: the switch's thread.
class SparePorts {
 public:
  /// The ports are `first_port` and those after it. `fabric`, `random` and `store` must outlive this object.
  /// @param store  null: leases end with this object
  SparePorts(Switch& fabric, const SpareConfig& config, PortNumber first_port, RandomSource& random,
             const LinkTimers& timers, LeaseStore* store = nullptr);
  ~SparePorts();

  /// Port, LID and GUID chosen for a HELLO. Nothing is lent before take().
  struct Choice {
    uint32_t lid = 0;  // index among the spare LIDs
    PortNumber port = 0;
    LinkGrant grant;
    LinkEngine* engine = nullptr;
  };
  /// Chooses for a HELLO. `guid_is_listed`: its GUID belongs to a node of the table.
  [[nodiscard]] LinkRefusal choose(const LinkHello& hello, const Joiner& joiner, Takeover takeover,
                                   Instant now, bool guid_is_listed, Choice& out);
  /// Lends the choice to the endnode.
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
  std::unordered_map<uint32_t, Lent> lids_;         // LIDs that an endnode has or had
  std::set<std::pair<Instant, uint32_t>> resting_;  // resting LIDs by the end of their rest
  uint32_t fresh_ = 0;                              // the next LID that no endnode has had
  uint32_t fresh_left_;
  std::unordered_map<uint64_t, uint32_t> by_nonce_;  // LIDs of present endnodes
  std::unordered_map<uint64_t, uint32_t> by_guid_;   // all LIDs in lids_
};

}  // namespace weft::fabric
