// fabric/switch/spare_ports.h -- ports of a switch for endnodes that nobody listed. Whoever asks gets a free
// port, and with it a LID and a GUID that are lent to it. When it goes, the port is free at once; the LID
// rests (kSpareLidRest) unless its own endnode comes back for it, which it shows by the nonce of its last
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
#include "fabric/switch/switch.h"

namespace weft::fabric {

struct SpareConfig {
  uint32_t ports = 0;
  Lid first_lid;  // of spare_lids(ports) in a row
  Duration rest = kSpareLidRest;
};

/// Who says HELLO, as far as the carrier knows.
struct Joiner {
  std::string_view origin;  // process or machine: what a rate holds for
  std::string_view key;     // name that goes with its CURVE key; empty without keys
};

/// May a new incarnation replace a link that is still up?
enum class Takeover : uint8_t { kRefuse, kAllow };

/// New endnodes of one origin: at once no more than half of the ports, and in the time that a LID rests no
/// more than half of the LIDs, so that nobody takes all of them by joining again and again. The table is
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
  /// The ports are `first_port` and those after it. The switch outlives this, `random` too.
  SparePorts(Switch& fabric, const SpareConfig& config, PortNumber first_port, RandomSource& random,
             const LinkTimers& timers);
  ~SparePorts();

  /// What a HELLO may have. Nothing is lent before take().
  struct Choice {
    size_t lid = 0;  // index among the LIDs
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
  /// A LID, and who has it or had it last.
  struct Lent {
    Guid guid{};
    uint64_t nonce = 0;         // of the incarnation now, or the last one
    uint64_t nonce_before = 0;  // shown with it: an endnode that missed its WELCOME shows this again
    uint64_t brought = 0;       // shown first, with a GUID that was new here
    PortNumber port = kPortNone;
    Instant free_at = Instant::min();
    std::string key;
  };

  [[nodiscard]] LinkRefusal find_own(const LinkHello& hello, const Joiner& joiner, bool guid_is_listed,
                                     Instant now, size_t& lid);
  [[nodiscard]] LinkRefusal find_new(const LinkHello& hello, const Joiner& joiner, Instant now, size_t& lid);
  [[nodiscard]] LinkRefusal find_free(const Joiner& joiner, Instant now, size_t& lid);
  [[nodiscard]] Guid make_guid() noexcept;
  void gone(SparePort& port, Instant now);

  Switch& fabric_;
  SpareConfig config_;
  PortNumber first_port_;
  RandomSource& random_;
  JoinPace pace_;
  std::vector<std::unique_ptr<SparePort>> ports_;
  std::vector<PortNumber> free_ports_;
  std::vector<Lent> lids_;
  std::set<std::pair<Instant, size_t>> free_lids_;  // by the end of their rest
  std::unordered_map<uint64_t, size_t> by_nonce_;   // of those that are lent
  std::unordered_map<uint64_t, size_t> by_guid_;    // of those that were ever lent
};

}  // namespace weft::fabric
