// fabric/link/link_handshake.h -- what a link end offers and how two offers become LinkParams (decisions
// 2.8). No I/O: every carrier moves the same 64 bytes its own way.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"
#include "messages/link_hello.h"

namespace weft::fabric {

/// What one end wants. Sizes must be equal at both ends; lanes and credits become the smaller of both.
struct LinkConfig {
  Guid guid;
  Lid lid;                // endnode: wanted, kLidNone = the one its GUID has
  bool any_port = false;  // not in the topology: the switch gives it a port, a LID and a GUID
  // With any_port: the secret that goes with a GUID of its own. A joiner that shows both is the same endnode,
  // in another process too; `lid` is then the LID it would like. 0: it has none.
  uint64_t identity = 0;
  uint32_t cell_payload_bytes = kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;  // 0: a whole cell per flit
  uint32_t lanes = kDataLanesDefault;
  uint32_t credits_per_lane = kCreditsPerLaneDefault;
  bool cut_through = false;  // this end forwards before the tail has come
  bool is_switch = false;
};

/// Says what is wrong with a configuration, naming the option and the range.
Status check_link_config(const LinkConfig& config);

/// Flits of the largest cell.
[[nodiscard]] uint32_t flits_per_cell(uint32_t cell_payload_bytes, uint32_t flit_payload_bytes) noexcept;

[[nodiscard]] LinkHello make_hello(const LinkConfig& config, uint64_t boot_nonce) noexcept;

/// The accepting side's answer to HELLO. `lid`, `port` and `subnet` are what admission decided; `params` is
/// set only with LinkRefusal::kNone.
struct LinkGrant {
  Lid lid;
  uint16_t port = 0;
  SubnetId subnet;
  Guid guid{};  // given to an endnode that had none
};
[[nodiscard]] LinkRefusal answer_hello(const LinkConfig& own, const LinkHello& hello, const LinkGrant& grant,
                                       LinkHello& welcome, LinkParams& params) noexcept;
[[nodiscard]] LinkHello make_refusal(const LinkConfig& own, uint64_t boot_nonce, LinkRefusal reason) noexcept;
/// A REFUSE for people: what is short or wrong, its value, what helps.
[[nodiscard]] std::string describe_refusal(const LinkHello& refuse);
/// True when the same HELLO may be welcome a while later though nothing is done about it.
[[nodiscard]] constexpr bool passes_with_time(LinkRefusal refusal) noexcept {
  return refusal == LinkRefusal::kRate || refusal == LinkRefusal::kNoLid;
}

/// The joining side checks WELCOME against its own offer: a peer that chose what was not offered is refused.
[[nodiscard]] LinkRefusal take_welcome(const LinkConfig& own, const LinkHello& welcome,
                                       LinkParams& params) noexcept;

/// The HELLOs of a joining end, from attempt to attempt. An end that named no port has no identity before its
/// first WELCOME, unless it brings one. Afterwards it has the identity that the switch gave it; when it comes
/// back, it shows the nonce of the incarnation before, which only it and the switch know. Owner: a connector.
class JoiningEnd {
 public:
  explicit JoiningEnd(const LinkConfig& config) noexcept : config_(config), any_port_(config.any_port) {}

  /// The next HELLO, with a nonce that was not used before.
  [[nodiscard]] LinkHello hello(uint64_t nonce) noexcept;
  /// The answer to it; see take_welcome(). After kNotOwner the joiner stops claiming that identity.
  [[nodiscard]] LinkRefusal take(const LinkHello& answer, LinkParams& params) noexcept;

 private:
  LinkConfig config_;
  bool any_port_;
  bool joined_ = false;         // GUID and LID in the configuration are the switch's gift
  uint64_t said_ = 0;           // nonce of the last HELLO
  uint64_t last_welcomed_ = 0;  // of the last one that was welcomed
};

/// Slots of a ring whose slots hold one flit each (decisions P7).
struct RingGeometry {
  uint32_t slot_bytes = 0;  // multiple of 64
  uint32_t slots = 0;       // power of two
};
[[nodiscard]] RingGeometry ring_geometry(uint32_t flit_payload_bytes) noexcept;

}  // namespace weft::fabric
