#include "verbs/explain/refusals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "adapter/queues/qp_rules.h"

namespace weft::verbs {
namespace {

using adapter::QpAttr;
using adapter::QpRule;

struct Attribute {
  uint32_t bit;
  const char* name;
  const char* mask;  // name of the bit in attr_mask
  const char* allowed;
  uint32_t (*value)(const QpAttr& attr);  // null: the value says nothing
};
constexpr std::array kAttributes{
    Attribute{adapter::kQpAttrCurState, "cur_qp_state", "IBV_QP_CUR_STATE", "RTR to SQE",
              [](const QpAttr& attr) { return static_cast<uint32_t>(attr.cur_state); }},
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
    Attribute{adapter::kQpAttrAltPath, "alt_ah_attr", "IBV_QP_ALT_PATH", "values as for the primary path",
              nullptr},
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

namespace {

uint32_t rkey_of(const ibv_send_wr& wr) noexcept {
  switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      return wr.wr.rdma.rkey;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return wr.wr.atomic.rkey;
    default:
      return 0;
  }
}

}  // namespace

PostFacts facts_of(const ibv_send_wr& wr) noexcept {
  PostFacts out{.opcode = static_cast<adapter::SendOpcode>(wr.opcode),
                .segments = static_cast<size_t>(std::max(wr.num_sge, 0)),
                .is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0,
                .rkey = rkey_of(wr)};
  for (const ibv_sge& sge : std::span(wr.sg_list, out.segments)) out.bytes += sge.length;
  return out;
}

namespace {

std::string state_words(const Qp& qp, std::string_view from) {
  return fmt::format("the QP is in state {}: {}",
                     to_string(static_cast<adapter::QpState>(qp.c.qp_base.state)), from);
}

std::string receive_words(Reason why, const Qp& qp) {
  switch (why) {
    case Reason::kBadState:
      return state_words(qp, "receives are taken from INIT on; call ibv_modify_qp first");
    case Reason::kWouldBlock:
      return fmt::format(
          "the receive queue is full: {} receives (max_recv_wr); poll the CQ for those that have completed",
          qp.cap.max_recv_wr);
    case Reason::kTooManySges:
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

std::string send_words(Reason why, const Qp& qp, const PostFacts& send) {
  switch (why) {
    case Reason::kBadState:
      return state_words(qp,
                         "requests are taken from RTS on; call ibv_modify_qp to RTR and RTS first, or with "
                         "rdma_cm wait for RDMA_CM_EVENT_ESTABLISHED");
    case Reason::kWouldBlock:
      return fmt::format(
          "the send queue is full: {} requests (max_send_wr) whose completions were not polled; call "
          "ibv_poll_cq, and signal at least one request of each {}",
          qp.cap.max_send_wr, qp.cap.max_send_wr);
    case Reason::kNoRemoteKey:
      return fmt::format(
          "rkey {:#x}: the request needs mr->rkey and the address of the peer's region; the peer has to send "
          "both",
          send.rkey);
    case Reason::kBadOpcode:
      if (send.is_inline && brings_data(send.opcode))
        return "IBV_SEND_INLINE is for data that leave this side; a read or atomic brings data: drop the "
               "flag";
      return fmt::format("opcode {} or a flag of send_flags does not exist on this QP: {}",
                         static_cast<uint32_t>(send.opcode), service_operations(qp.c.qp_base.qp_type));
    case Reason::kTooManySges:
      return fmt::format("{} segments, and the QP was made for at most {} (max_send_sge)", send.segments,
                         qp.cap.max_send_sge);
    case Reason::kBadAtomic:
      return fmt::format("{} segment{} of {} bytes: an atomic operation has one segment of 8 bytes",
                         send.segments, send.segments == 1 ? "" : "s", send.bytes);
    case Reason::kInlineTooLong:
      return fmt::format("{} bytes inline, and the QP was made for at most {} (max_inline_data)", send.bytes,
                         qp.cap.max_inline_data);
    case Reason::kTooLong:
      return fmt::format("{} bytes: {}", send.bytes,
                         qp.c.qp_base.qp_type == IBV_QPT_UD
                             ? "a datagram is at most as long as the path's MTU"
                             : "longer than max_msg_sz of the port");
    default:
      return std::string(to_string(why));
  }
}

}  // namespace

std::string post_words(Reason why, const Qp& qp, const PostFacts* send) {
  return send == nullptr ? receive_words(why, qp) : send_words(why, qp, *send);
}

[[gnu::cold]] void explain_post(const char* call, const Qp& qp, Reason why, const PostFacts* send) noexcept {
  no_throw(0, [&] {
    if (explains()) explain("{}: QP {:#x}: {}", call, qp.c.qp_base.qp_num, post_words(why, qp, send));
    return 0;
  });
}

namespace {

std::string attribute_words(Reason why, const QpRule& rule, const QpAttr& attr, uint32_t mask,
                            uint32_t ports) {
  const uint32_t named = mask & ~uint32_t{adapter::kQpAttrState};
  if (const uint32_t missing = rule.required & ~named; why == Reason::kMissingAttribute)
    return fmt::format("attr_mask lacks {}; set {} and add the bit{}", names_of(missing, &Attribute::mask),
                       names_of(missing, &Attribute::name), std::has_single_bit(missing) ? "" : "s");
  if (why == Reason::kUnexpectedAttribute)
    return fmt::format("attr_mask must not have {}",
                       names_of(named & ~(rule.required | rule.optional), &Attribute::mask));
  if (why == Reason::kNoPartition) return fmt::format("pkey_index {}: {}", attr.pkey_index, to_string(why));
  if (why == Reason::kNoAltPartition)
    return fmt::format("alt_pkey_index {}: {}", attr.alt.pkey_index, to_string(why));
  for (const Attribute& row : kAttributes) {
    if (why != Reason::kBadValue || (mask & row.bit) == 0) continue;
    if (adapter::check_qp_values(attr, row.bit, ports) != Reason::kOk)
      return fmt::format("{}{} out of range: {}", row.name, value_of(row, attr), row.allowed);
  }
  return std::string(to_string(why));
}

}  // namespace

std::string change_words(Reason why, const Qp& qp, adapter::QpState from, const QpAttr& attr, uint32_t mask,
                         uint32_t ports) {
  const adapter::QpState to = (mask & adapter::kQpAttrState) != 0 ? attr.state : from;
  if (why == Reason::kOtherState)
    return fmt::format("cur_qp_state says {}, and the QP is in {}", to_string(attr.cur_state),
                       to_string(from));
  const adapter::QpRule* rule =
      adapter::find_qp_rule(static_cast<adapter::QpType>(qp.c.qp_base.qp_type), from, to);
  return fmt::format(
      "{} to {}: {}", to_string(from), to_string(to),
      rule != nullptr ? attribute_words(why, *rule, attr, mask, ports) : std::string(to_string(why)));
}

std::string refusal_words(const Refusal& why) {
  const std::string line = why.text();
  const size_t name = line.find(": ");  // the adapter's name of the call
  return name == std::string::npos ? std::string(to_string(why.reason())) : line.substr(name + 2);
}

}  // namespace weft::verbs
