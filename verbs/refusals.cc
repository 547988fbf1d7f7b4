#include "verbs/refusals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
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
  const char* mask;  // name of the bit in attr_mask
  const char* allowed;
  uint32_t (*value)(const QpAttr& attr);  // null: the value says nothing
};
constexpr std::array kAttributes{
    Attribute{adapter::kQpAttrAccess, "qp_access_flags", "IBV_QP_ACCESS_FLAGS",
              "local write and the three remote rights", nullptr},
    Attribute{adapter::kQpAttrPkeyIndex, "pkey_index", "IBV_QP_PKEY_INDEX",
              "an entry of the port's table that is in use",
              [](const QpAttr& attr) { return uint32_t{attr.pkey_index}; }},
    Attribute{adapter::kQpAttrPort, "port_num", "IBV_QP_PORT", "a port of the device, from 1",
              [](const QpAttr& attr) { return uint32_t{attr.port}; }},
    Attribute{adapter::kQpAttrQkey, "qkey", "IBV_QP_QKEY", "any", nullptr},
    Attribute{adapter::kQpAttrAddress, "ah_attr", "IBV_QP_AV",
              "dlid 1 to 0xFFFE (the lid of the peer's ibv_query_port), sl 0 to 15", nullptr},
    Attribute{adapter::kQpAttrPathMtu, "path_mtu", "IBV_QP_PATH_MTU", "1 to 5", nullptr},
    Attribute{adapter::kQpAttrTimeout, "timeout", "IBV_QP_TIMEOUT", "0 to 31", nullptr},
    Attribute{adapter::kQpAttrRetryCount, "retry_cnt", "IBV_QP_RETRY_CNT", "0 to 7",
              [](const QpAttr& attr) { return uint32_t{attr.retry_count}; }},
    Attribute{adapter::kQpAttrRnrRetry, "rnr_retry", "IBV_QP_RNR_RETRY", "0 to 7",
              [](const QpAttr& attr) { return uint32_t{attr.rnr_retry}; }},
    Attribute{adapter::kQpAttrRqPsn, "rq_psn", "IBV_QP_RQ_PSN", "24 bits", nullptr},
    Attribute{adapter::kQpAttrMaxRdAtomic, "max_rd_atomic", "IBV_QP_MAX_QP_RD_ATOMIC",
              "at most max_qp_init_rd_atom of ibv_query_device",
              [](const QpAttr& attr) { return uint32_t{attr.max_rd_atomic}; }},
    Attribute{adapter::kQpAttrMinRnrTimer, "min_rnr_timer", "IBV_QP_MIN_RNR_TIMER", "0 to 31", nullptr},
    Attribute{adapter::kQpAttrSqPsn, "sq_psn", "IBV_QP_SQ_PSN", "24 bits", nullptr},
    Attribute{adapter::kQpAttrMaxDestRdAtomic, "max_dest_rd_atomic", "IBV_QP_MAX_DEST_RD_ATOMIC",
              "at most max_qp_rd_atom of ibv_query_device",
              [](const QpAttr& attr) { return uint32_t{attr.max_dest_rd_atomic}; }},
    Attribute{adapter::kQpAttrDestQpn, "dest_qp_num", "IBV_QP_DEST_QPN", "24 bits", nullptr},
};

std::string value_of(const Attribute& row, const QpAttr& attr) {
  return row.value != nullptr ? fmt::format(" {}", row.value(attr)) : std::string();
}

/// Names of attributes, as fields or as bits of attr_mask.
std::string names_of(uint32_t bits, const char* Attribute::*name) {
  std::string out;
  for (const Attribute& row : kAttributes) {
    if ((bits & row.bit) == 0) continue;
    out += out.empty() ? row.*name : fmt::format(", {}", row.*name);
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
      return state_words(qp, "receives are taken from INIT on; call ibv_modify_qp first");
    case adapter::PostResult::kWouldBlock:
      return fmt::format(
          "the receive queue is full: {} receives (max_recv_wr); poll the CQ for those that have completed",
          qp.cap.max_recv_wr);
    case adapter::PostResult::kTooManySges:
      return fmt::format("more segments than the QP was made for: {} (max_recv_sge)", qp.cap.max_recv_sge);
    default:
      return std::string(to_string(why));
  }
}

/// Data that the peer sends cannot be inline.
bool brings_data(adapter::SendOpcode opcode) noexcept {
  return opcode == adapter::SendOpcode::kRdmaRead || opcode == adapter::SendOpcode::kCompareSwap ||
         opcode == adapter::SendOpcode::kFetchAdd;
}

std::string_view service_operations(ibv_qp_type type) noexcept {
  if (type == IBV_QPT_UD) return "UD has only sends";
  return type == IBV_QPT_UC ? "UC has no reads and atomics" : "RC has sends, writes, reads and atomics";
}

std::string send_words(adapter::PostResult why, const Qp& qp, const PostFacts& send) {
  switch (why) {
    case adapter::PostResult::kBadState:
      return state_words(qp,
                         "requests are taken from RTS on; call ibv_modify_qp to RTR and RTS first, or with "
                         "rdma_cm wait for RDMA_CM_EVENT_ESTABLISHED");
    case adapter::PostResult::kWouldBlock:
      return fmt::format(
          "the send queue is full: {} requests (max_send_wr) whose completions were not polled; call "
          "ibv_poll_cq, and signal at least one request of each {}",
          qp.cap.max_send_wr, qp.cap.max_send_wr);
    case adapter::PostResult::kNoRemoteKey:
      return fmt::format(
          "rkey {:#x}: the request needs mr->rkey and the address of the peer's region; the peer has to send "
          "both",
          send.rkey);
    case adapter::PostResult::kBadOpcode:
      if (send.is_inline && brings_data(send.opcode))
        return "IBV_SEND_INLINE is for data that leave this side; a read or atomic brings data: drop the "
               "flag";
      return fmt::format("opcode {} or a flag of send_flags does not exist on this QP: {}",
                         static_cast<uint32_t>(send.opcode), service_operations(qp.c.qp_base.qp_type));
    case adapter::PostResult::kTooManySges:
      return fmt::format("{} segments, and the QP was made for at most {} (max_send_sge)", send.segments,
                         qp.cap.max_send_sge);
    case adapter::PostResult::kBadAtomic:
      return fmt::format("{} segment{} of {} bytes: an atomic operation has one segment of 8 bytes",
                         send.segments, send.segments == 1 ? "" : "s", send.bytes);
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

[[gnu::cold]] void explain_post(const char* call, const Qp& qp, int error, const char* unknown,
                                const PostFacts* send) noexcept {
  if (!explains()) return;
  for (const hca::Answer answer : {hca::Answer::kForked, hca::Answer::kReentered}) {
    if (error == hca::to_errno(answer))
      return explain("{}: QP {:#x}: {}", call, qp.c.qp_base.qp_num, to_string(answer));
  }
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
  if (rule == nullptr)
    return fmt::format(
        "{}: there is no such move: a QP goes RESET, INIT, RTR, RTS, one step for each ibv_modify_qp", move);
  const uint32_t named = mask & ~uint32_t{adapter::kQpAttrState};
  if (const uint32_t missing = rule->required & ~named; missing != 0)
    return fmt::format("{}: attr_mask lacks {}; set {} and add the bit{}", move,
                       names_of(missing, &Attribute::mask), names_of(missing, &Attribute::name),
                       std::has_single_bit(missing) ? "" : "s");
  if (const uint32_t extra = named & ~(rule->required | rule->optional); extra != 0)
    return fmt::format("{}: attr_mask must not have {}", move, names_of(extra, &Attribute::mask));
  for (const Attribute& row : kAttributes) {
    if ((mask & row.bit) == 0) continue;
    if (adapter::check_qp_values(attr, row.bit, ports) == adapter::ModifyResult::kOk) continue;
    return fmt::format("{}: {}{} out of range: {}", move, row.name, value_of(row, attr), row.allowed);
  }
  return fmt::format("{}: {}", move, why_not_now(qp, from, attr, mask));
}

}  // namespace weft::verbs
