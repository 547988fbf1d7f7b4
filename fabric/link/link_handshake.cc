// How it works: HELLO carries the offer of the joining side. The accepting side compares the sizes, takes the
// smaller lane and credit counts and the highest common version, and answers with the result. The joining
// side checks that the result lies within its offer. Neither side relies on the other's calculation.
#include "fabric/link/link_handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "messages/cell.h"

namespace weft::fabric {
namespace {

uint32_t flit_payload_of(const LinkConfig& config) noexcept {
  return config.flit_payload_bytes != 0 ? config.flit_payload_bytes
                                        : cell_bytes_max(config.cell_payload_bytes);
}

/// A switch that stores a cell before it forwards needs credits for all flits of a cell at once (decisions
/// 2.6). An endnode reassembles cells in its own memory and gives every flit back, so it needs no minimum.
bool enough_credits(const LinkConfig& own, uint32_t credits) noexcept {
  const bool stores = own.is_switch && !own.cut_through;
  return !stores || credits >= flits_per_cell(own.cell_payload_bytes, flit_payload_of(own));
}

LinkParams make_params(const LinkConfig& own, const LinkHello& agreed) noexcept {
  LinkParams params;
  params.local_guid = own.guid;
  params.lid = agreed.lid;
  params.subnet = agreed.subnet;
  params.switch_port = agreed.port;
  params.flit_payload_bytes = agreed.flit_payload_bytes;
  params.cell_payload_bytes = agreed.cell_payload_bytes;
  params.lanes = agreed.lanes;
  params.credits_per_lane = agreed.credits_per_lane;
  if (agreed.pkeys[0] != 0) params.pkeys = agreed.pkeys;
  params.whole_cell_flits = agreed.flit_payload_bytes >= cell_bytes_max(agreed.cell_payload_bytes);
  return params;
}

}  // namespace

Status check_link_config(const LinkConfig& config) {
  if (config.cell_payload_bytes < kCellPayloadBytesMin || config.cell_payload_bytes > kCellPayloadBytesMax) {
    return Error{fmt::format("cell payload of {} bytes: choose {} to {}", config.cell_payload_bytes,
                             kCellPayloadBytesMin, kCellPayloadBytesMax)};
  }
  const uint32_t flit_bytes = flit_payload_of(config);
  if (flit_bytes < kFlitPayloadBytesMin || flit_bytes > cell_bytes_max(config.cell_payload_bytes)) {
    return Error{fmt::format("flit payload of {} bytes: choose 0 for whole cells, or {} to {}", flit_bytes,
                             kFlitPayloadBytesMin, cell_bytes_max(config.cell_payload_bytes))};
  }
  if (config.lanes < 1 || config.lanes > kDataLanesMax) {
    return Error{fmt::format("{} lanes: choose 1 to {}", config.lanes, kDataLanesMax)};
  }
  if (config.credits_per_lane < 1 || config.credits_per_lane > kCreditsPerLaneMax) {
    return Error{
        fmt::format("{} credits per lane: choose 1 to {}", config.credits_per_lane, kCreditsPerLaneMax)};
  }
  if (!enough_credits(config, config.credits_per_lane)) {
    return Error{fmt::format(
        "{} credits per lane cannot hold one cell of {} flits: give more credits, larger flits or "
        "cut-through",
        config.credits_per_lane, flits_per_cell(config.cell_payload_bytes, flit_bytes))};
  }
  return {};
}

uint32_t flits_per_cell(uint32_t cell_payload_bytes, uint32_t flit_payload_bytes) noexcept {
  return (cell_bytes_max(cell_payload_bytes) + flit_payload_bytes - 1) / flit_payload_bytes;
}

LinkHello make_hello(const LinkConfig& config, uint64_t boot_nonce) noexcept {
  LinkHello hello;
  hello.lid = config.lid;
  hello.flags =
      static_cast<uint16_t>((config.cut_through ? kLinkCutThrough : 0) |
                            (config.is_switch ? kLinkSwitch : 0) | (config.any_port ? kLinkAnyPort : 0));
  if (config.any_port) hello.version_min = kLinkVersionAnyPort;
  hello.guid = config.guid;
  hello.boot_nonce = boot_nonce;
  hello.flit_payload_bytes = flit_payload_of(config);
  hello.cell_payload_bytes = config.cell_payload_bytes;
  hello.lanes = static_cast<uint16_t>(config.lanes);
  hello.credits_per_lane = static_cast<uint16_t>(config.credits_per_lane);
  return hello;
}

LinkRefusal answer_hello(const LinkConfig& own, const LinkHello& hello, const LinkGrant& grant,
                         LinkHello& welcome, LinkParams& params) noexcept {
  if (hello.kind != LinkMessageKind::kHello) return LinkRefusal::kVersion;
  const uint16_t version = std::min(hello.version_max, kLinkVersionMax);
  if (version < hello.version_min || version < kLinkVersionMin) return LinkRefusal::kVersion;
  if (hello.cell_payload_bytes != own.cell_payload_bytes) return LinkRefusal::kCellPayload;
  if (hello.flit_payload_bytes != flit_payload_of(own)) return LinkRefusal::kFlitPayload;
  const uint32_t credits = std::min<uint32_t>(hello.credits_per_lane, own.credits_per_lane);
  if (!enough_credits(own, credits)) return LinkRefusal::kCredits;
  LinkHello answer = make_hello(own, hello.boot_nonce);
  answer.kind = LinkMessageKind::kWelcome;
  answer.version_min = answer.version_max = version;
  answer.lid = grant.lid;
  answer.port = grant.port;
  answer.subnet = grant.subnet;
  answer.lanes = static_cast<uint16_t>(std::min<uint32_t>(hello.lanes, own.lanes));
  answer.credits_per_lane = static_cast<uint16_t>(credits);
  if (version >= kLinkVersionAnyPort) {
    answer.identity = grant.guid == Guid{} ? hello.guid.value() : grant.guid.value();
    answer.pkeys[0] = kPkeyDefault;  // there is one partition
  }
  welcome = answer;
  params = make_params(own, answer);
  params.peer_guid = grant.guid == Guid{} ? hello.guid : grant.guid;
  return LinkRefusal::kNone;
}

LinkHello make_refusal(const LinkConfig& own, uint64_t boot_nonce, LinkRefusal reason) noexcept {
  LinkHello refusal = make_hello(own, boot_nonce);
  refusal.kind = LinkMessageKind::kRefuse;
  refusal.refusal = reason;
  return refusal;
}

std::string describe_refusal(const LinkHello& refuse) {
  const uint16_t spare = refuse.port;
  switch (refuse.refusal) {
    case LinkRefusal::kNoPort:
      if (spare == 0) return "no free port: the switch has no spare ports; set spare_ports in its [[switch]]";
      return fmt::format(
          "no free port: all {} spare ports of the switch are in use; end a program, or set a "
          "higher spare_ports in its [[switch]] (254 at most)",
          spare);
    case LinkRefusal::kNoLid:
      return fmt::format(
          "no free lid: each LID of the switch's {} spare ports is in use, or rests for 60 s after "
          "its program; fewer switches with spare_ports leave more LIDs to each",
          spare);
    case LinkRefusal::kRate:
      return fmt::format(
          "too many attempts: one process, key or machine may take half of the switch's {} spare "
          "ports at once; a higher spare_ports in its [[switch]] raises it (254 at most)",
          spare);
    case LinkRefusal::kLidTaken:
      return "lid taken: another process has joined under this name, GUID and LID";
    case LinkRefusal::kNotOwner:
      return "identity belongs to another: another key or secret has this name, GUID and LID";
    case LinkRefusal::kNotAllowed:
      return "node not allowed to join: its key is neither in spare_keys of the switch nor that of a node";
    case LinkRefusal::kCellPayload:
      return fmt::format("cell payload differs: the switch's is {} bytes", refuse.cell_payload_bytes);
    case LinkRefusal::kFlitPayload:
      return fmt::format("flit payload differs: the switch's is {} bytes", refuse.flit_payload_bytes);
    case LinkRefusal::kNone:
    case LinkRefusal::kVersion:
    case LinkRefusal::kCredits:
    case LinkRefusal::kLidInvalid:
    case LinkRefusal::kCount:
      break;
  }
  return std::string(to_string(refuse.refusal));
}

LinkRefusal take_welcome(const LinkConfig& own, const LinkHello& welcome, LinkParams& params) noexcept {
  if (welcome.kind == LinkMessageKind::kRefuse) return welcome.refusal;
  if (welcome.kind != LinkMessageKind::kWelcome) return LinkRefusal::kVersion;
  if (welcome.version_max < kLinkVersionMin || welcome.version_max > kLinkVersionMax)
    return LinkRefusal::kVersion;
  if (welcome.cell_payload_bytes != own.cell_payload_bytes) return LinkRefusal::kCellPayload;
  if (welcome.flit_payload_bytes != flit_payload_of(own)) return LinkRefusal::kFlitPayload;
  if (welcome.lanes > own.lanes || welcome.credits_per_lane > own.credits_per_lane ||
      !enough_credits(own, welcome.credits_per_lane))
    return LinkRefusal::kCredits;
  // For an endnode of a spare port, the LID in its HELLO is only a wish.
  if (!own.any_port && own.lid != kLidNone && welcome.lid != own.lid) return LinkRefusal::kLidInvalid;
  const bool nameless = welcome.identity == 0 || welcome.lid == kLidNone;
  if (own.any_port && (welcome.version_max < kLinkVersionAnyPort || nameless)) return LinkRefusal::kVersion;
  if (own.any_port && own.guid != Guid{} && welcome.identity != own.guid.value())
    return LinkRefusal::kNotOwner;
  params = make_params(own, welcome);
  if (own.any_port) params.local_guid = Guid(welcome.identity);
  params.peer_guid = welcome.guid;
  return LinkRefusal::kNone;
}

LinkHello JoiningEnd::hello(uint64_t nonce) noexcept {
  LinkHello out = make_hello(config_, nonce);
  // Until it has been welcomed, a joiner presents the nonce of its last HELLO, because the WELCOME may have
  // been lost.
  if (config_.identity != 0) {
    out.identity = config_.identity;
  } else if (any_port_) {
    out.identity = joined_ ? last_welcomed_ : said_;
  }
  said_ = nonce;
  return out;
}

LinkRefusal JoiningEnd::take(const LinkHello& answer, LinkParams& params) noexcept {
  const LinkRefusal refusal = take_welcome(config_, answer, params);
  if (!any_port_) return refusal;
  if (refusal == LinkRefusal::kNone) {
    joined_ = true;
    last_welcomed_ = said_;
    config_.guid = params.local_guid;
    config_.lid = params.lid;
  } else if (refusal == LinkRefusal::kNotOwner || refusal == LinkRefusal::kLidInvalid) {
    joined_ = false;
    said_ = 0;
    config_.lid = kLidNone;
    if (config_.identity == 0) config_.guid = Guid{};
  }
  return refusal;
}

RingGeometry ring_geometry(uint32_t flit_payload_bytes) noexcept {
  RingGeometry out;
  out.slot_bytes = (kFlitHeaderBytes + flit_payload_bytes + 63U) & ~63U;
  out.slots =
      std::clamp(std::bit_floor(kLinkRingBytes / out.slot_bytes), kLinkRingSlotsMin, kLinkRingSlotsMax);
  return out;
}

}  // namespace weft::fabric
