#include "verbs/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "adapter/queues/qp_rules.h"
#include "verbs/addresses.h"
#include "verbs/explain.h"
#include "verbs/open_device.h"
#include "verbs/process_node.h"

namespace weft::verbs {
namespace {

using adapter::QpAttr;

struct Attribute {
  uint32_t bit;
  const char* name;
  const char* allowed;
};
constexpr std::array kAttributes{
    Attribute{adapter::kQpAttrAccess, "qp_access_flags", "local write and the three remote rights"},
    Attribute{adapter::kQpAttrPkeyIndex, "pkey_index", "an entry of the port's table that is in use"},
    Attribute{adapter::kQpAttrPort, "port_num", "a port of the device, from 1"},
    Attribute{adapter::kQpAttrQkey, "qkey", "any"},
    Attribute{adapter::kQpAttrAddress, "ah_attr", "dlid 1 to 0xFFFE, sl 0 to 15"},
    Attribute{adapter::kQpAttrPathMtu, "path_mtu", "1 to 5"},
    Attribute{adapter::kQpAttrTimeout, "timeout", "0 to 31"},
    Attribute{adapter::kQpAttrRetryCount, "retry_cnt", "0 to 7"},
    Attribute{adapter::kQpAttrRnrRetry, "rnr_retry", "0 to 7"},
    Attribute{adapter::kQpAttrRqPsn, "rq_psn", "24 bits"},
    Attribute{adapter::kQpAttrMaxRdAtomic, "max_rd_atomic", "at most max_qp_rd_atom of the device"},
    Attribute{adapter::kQpAttrMinRnrTimer, "min_rnr_timer", "0 to 31"},
    Attribute{adapter::kQpAttrSqPsn, "sq_psn", "24 bits"},
    Attribute{adapter::kQpAttrMaxDestRdAtomic, "max_dest_rd_atomic", "at most max_qp_rd_atom of the device"},
    Attribute{adapter::kQpAttrDestQpn, "dest_qp_num", "24 bits"},
};

std::string names_of(uint32_t bits) {
  std::string out;
  for (const Attribute& row : kAttributes) {
    if ((bits & row.bit) == 0) continue;
    out += out.empty() ? row.name : fmt::format(", {}", row.name);
    bits &= ~row.bit;
  }
  if (bits != 0) out += fmt::format("{}bits {:#x}", out.empty() ? "" : ", ", bits);
  return out;
}

}  // namespace

PostFacts facts_of(const ibv_send_wr& wr) noexcept {
  PostFacts out{.opcode = static_cast<adapter::SendOpcode>(wr.opcode),
                .segments = static_cast<size_t>(std::max(wr.num_sge, 0)),
                .is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0};
  for (const ibv_sge& sge : std::span(wr.sg_list, out.segments)) out.bytes += sge.length;
  return out;
}

namespace {

std::string state_words(const Qp& qp, std::string_view from) {
  return fmt::format("the QP is in state {}: {}",
                     to_string(static_cast<adapter::QpState>(qp.c.qp_base.state)), from);
}

std::string receive_words(adapter::PostResult why, const Qp& qp) {
  switch (why) {
    case adapter::PostResult::kBadState:
      return state_words(qp, "receives are taken from INIT on");
    case adapter::PostResult::kWouldBlock:
      return fmt::format("the receive queue is full: {} receives (max_recv_wr)", qp.cap.max_recv_wr);
    case adapter::PostResult::kTooManySges:
      return fmt::format("more segments than the QP was made for: {} (max_recv_sge)", qp.cap.max_recv_sge);
    default:
      return std::string(to_string(why));
  }
}

std::string send_words(adapter::PostResult why, const Qp& qp, const PostFacts& send) {
  switch (why) {
    case adapter::PostResult::kBadState:
      return state_words(qp, "requests are taken from RTS on");
    case adapter::PostResult::kWouldBlock:
      return fmt::format(
          "the send queue is full: {} requests (max_send_wr) whose completions were not polled",
          qp.cap.max_send_wr);
    case adapter::PostResult::kTooManySges:
      return fmt::format("{} segments, and the QP was made for at most {} (max_send_sge)", send.segments,
                         qp.cap.max_send_sge);
    case adapter::PostResult::kBadAtomic:
      return fmt::format("{} segments of {} bytes: an atomic operation has one of 8", send.segments,
                         send.bytes);
    case adapter::PostResult::kInlineTooLong:
      return fmt::format("{} bytes inline, and the QP was made for at most {} (max_inline_data)", send.bytes,
                         qp.cap.max_inline_data);
    case adapter::PostResult::kTooLong:
      return fmt::format("{} bytes: {}", send.bytes,
                         qp.c.qp_base.qp_type == IBV_QPT_UD
                             ? "a datagram is at most as long as the path's MTU"
                             : "longer than max_msg_sz of the port");
    default:
      return std::string(to_string(why));
  }
}

}  // namespace

std::string post_words(adapter::PostResult why, const Qp& qp, const PostFacts* send) {
  return send == nullptr ? receive_words(why, qp) : send_words(why, qp, *send);
}

[[gnu::cold]] void explain_post(const char* call, const Qp& qp, const char* unknown,
                                const PostFacts* send) noexcept {
  if (!explains()) return;
  const adapter::PostResult why = qp.object->take_refusal();
  explain("{}: QP {:#x}: {}", call, qp.c.qp_base.qp_num,
          why != adapter::PostResult::kOk ? post_words(why, qp, send) : std::string(unknown));
}

namespace {

/// Finds the reason among the checks that depend on the QP's present state, in the adapter's order
/// (AdapterCore::check_move, check_migration).
std::string why_not_now(const Qp& qp, adapter::QpState from, const QpAttr& attr, uint32_t mask) {
  const auto named = [mask](uint32_t bit) { return (mask & bit) != 0; };
  const auto has_partition = [&qp](uint16_t index) {
    ProcessNode& node = *ours(qp.c.qp_base.context).node;
    return (pkey_at(node, index) & 0x7FFF) != 0;
  };
  if (named(adapter::kQpAttrCurState) && attr.cur_state != from)
    return fmt::format("cur_qp_state says {}, and the QP is in {}", to_string(attr.cur_state),
                       to_string(from));
  if (named(adapter::kQpAttrAltPath) && !has_partition(attr.alt.pkey_index))
    return fmt::format("alt_pkey_index {}: the port's table has no partition there", attr.alt.pkey_index);
  if (named(adapter::kQpAttrAltPath))
    return "alt_ah_attr: the path in force is armed, or the other port has cells of another size";
  if (named(adapter::kQpAttrPathMigState))
    return "path_mig_state: no alternate path is loaded, or it is not rearmed yet";
  if (named(adapter::kQpAttrPkeyIndex) && !has_partition(attr.pkey_index))
    return fmt::format("pkey_index {}: the port's table has no partition there", attr.pkey_index);
  if (from == adapter::QpState::kSqd && named(adapter::kQpAttrAddress | adapter::kQpAttrPort))
    return "ah_attr and port_num change only once IBV_EVENT_SQ_DRAINED has come";
  if (named(adapter::kQpAttrPort))
    return fmt::format("port_num {}: the QP belongs to multicast groups of another port", attr.port);
  return "the adapter refused it";
}

}  // namespace

std::string why_not(const Qp& qp, adapter::QpState from, const QpAttr& attr, uint32_t mask, uint32_t ports) {
  const adapter::QpState to = (mask & adapter::kQpAttrState) != 0 ? attr.state : from;
  const auto type = static_cast<adapter::QpType>(qp.c.qp_base.qp_type);
  const std::string move = fmt::format("{} to {}", to_string(from), to_string(to));
  const adapter::QpRule* rule = adapter::find_qp_rule(type, from, to);
  if (rule == nullptr) return fmt::format("{}: no such move for this service", move);
  const uint32_t named = mask & ~uint32_t{adapter::kQpAttrState};
  if (const uint32_t missing = rule->required & ~named; missing != 0)
    return fmt::format("{}: attr_mask lacks {}", move, names_of(missing));
  if (const uint32_t extra = named & ~(rule->required | rule->optional); extra != 0)
    return fmt::format("{}: attr_mask must not have {}", move, names_of(extra));
  for (const Attribute& row : kAttributes) {
    if ((mask & row.bit) == 0) continue;
    if (adapter::check_qp_values(attr, row.bit, ports) == adapter::ModifyResult::kOk) continue;
    return fmt::format("{}: {} out of range: {}", move, row.name, row.allowed);
  }
  return fmt::format("{}: {}", move, why_not_now(qp, from, attr, mask));
}

}  // namespace weft::verbs
