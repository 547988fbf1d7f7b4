// fabric/link/link_handshake.h -- what a link end offers, and how two offers become LinkParams (decisions
// 2.8). No I/O: each kind of carrier moves the same messages in its own way.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"
#include "messages/link_hello.h"

namespace weft::fabric {

/// Configuration of one end. Sizes must be equal at both ends. Lanes and credits become the smaller of both.
struct LinkConfig {
  Guid guid;
  Lid lid;                // endnode: the LID it wants; kLidNone: the one that belongs to its GUID
  bool any_port = false;  // not in the topology: the switch gives it a port, a LID and a GUID
  // With any_port: the secret that belongs to the joiner's own GUID. A joiner that shows both is the same
  // endnode, even from another process; `lid` is then the LID that it would like. 0: the joiner has no
  // secret.
  uint64_t identity = 0;
  uint32_t cell_payload_bytes = kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;  // 0: a whole cell per flit
  uint32_t lanes = kDataLanesDefault;
  uint32_t credits_per_lane = kCreditsPerLaneDefault;
  bool cut_through = false;  // this end forwards a cell before its tail has arrived
  bool is_switch = false;
};

/// Checks a configuration. The error names the setting and the allowed range.
Status check_link_config(const LinkConfig& config);

/// Number of flits of the largest cell.
[[nodiscard]] uint32_t flits_per_cell(uint32_t cell_payload_bytes, uint32_t flit_payload_bytes) noexcept;

[[nodiscard]] LinkHello make_hello(const LinkConfig& config, uint64_t boot_nonce) noexcept;

/// Decisions of admission that go into WELCOME. In answer_hello(), `params` is set only with
/// LinkRefusal::kNone.
struct LinkGrant {
  Lid lid;
  uint16_t port = 0;
  SubnetId subnet;
  Guid guid{};  // GUID for an endnode without one; zero: the endnode keeps its own
};
[[nodiscard]] LinkRefusal answer_hello(const LinkConfig& own, const LinkHello& hello, const LinkGrant& grant,
                                       LinkHello& welcome, LinkParams& params) noexcept;
[[nodiscard]] LinkHello make_refusal(const LinkConfig& own, uint64_t boot_nonce, LinkRefusal reason) noexcept;
/// Text of a REFUSE for people: what is missing or wrong, its value, what to do.
[[nodiscard]] std::string describe_refusal(const LinkHello& refuse);
/// True when the same HELLO may succeed later without any change by the user.
[[nodiscard]] constexpr bool passes_with_time(LinkRefusal refusal) noexcept {
  return refusal == LinkRefusal::kRate || refusal == LinkRefusal::kNoLid;
}

/// The joining side checks WELCOME against its own offer, and refuses values that it did not offer.
[[nodiscard]] LinkRefusal take_welcome(const LinkConfig& own, const LinkHello& welcome,
                                       LinkParams& params) noexcept;

/// Makes the HELLOs of a joining end over all its attempts. An end that named no port has no identity before
/// its first WELCOME, unless its configuration has one. From then on it has the identity that the switch gave
/// it. When it comes back, it shows the nonce of the previous incarnation, which only it and the switch know.
/// Owner: a connector.
class JoiningEnd {
 public:
  explicit JoiningEnd(const LinkConfig& config) noexcept : config_(config), any_port_(config.any_port) {}

  /// The next HELLO. `nonce` must not have been used before.
  [[nodiscard]] LinkHello hello(uint64_t nonce) noexcept;
  /// Takes the answer to the last HELLO; see take_welcome(). After kNotOwner the joiner stops claiming that
  /// identity.
  [[nodiscard]] LinkRefusal take(const LinkHello& answer, LinkParams& params) noexcept;

 private:
  LinkConfig config_;
  bool any_port_;
  bool joined_ = false;         // the switch gave GUID and LID in config_
  uint64_t said_ = 0;           // nonce of the last HELLO
  uint64_t last_welcomed_ = 0;  // nonce of the last HELLO that was welcomed
};

/// Shape of a ring whose slots hold one flit each (decisions P7).
struct RingGeometry {
  uint32_t slot_bytes = 0;  // multiple of 64
  uint32_t slots = 0;       // power of two
};
[[nodiscard]] RingGeometry ring_geometry(uint32_t flit_payload_bytes) noexcept;

}  // namespace weft::fabric
