#include "verbs/refusals.h"

#include <algorithm>
#include <array>
#include <span>

#include "adapter/queues/qp_rules.h"

namespace weft::verbs {
namespace {

using adapter::QpAttr;
using adapter::QpRule;

struct Attribute {
  uint32_t bit;
  const char* name;
  const char* allowed;
};
constexpr std::array kAttributes{
    Attribute{adapter::kQpAttrCurState, "cur_qp_state", "RTR to SQE"},
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
    Attribute{adapter::kQpAttrAltPath, "alt_ah_attr", "values as for the primary path"},
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

std::string receive_words(Reason why, const Qp& qp) {
  switch (why) {
    case Reason::kBadState:
      return state_words(qp, "receives are taken from INIT on");
    case Reason::kWouldBlock:
      return fmt::format("the receive queue is full: {} receives (max_recv_wr)", qp.cap.max_recv_wr);
    case Reason::kTooManySges:
      return fmt::format("more segments than the QP was made for: {} (max_recv_sge)", qp.cap.max_recv_sge);
    default:
      return std::string(to_string(why));
  }
}

std::string send_words(Reason why, const Qp& qp, const PostFacts& send) {
  switch (why) {
    case Reason::kBadState:
      return state_words(qp, "requests are taken from RTS on");
    case Reason::kWouldBlock:
      return fmt::format(
          "the send queue is full: {} requests (max_send_wr) whose completions were not polled",
          qp.cap.max_send_wr);
    case Reason::kTooManySges:
      return fmt::format("{} segments, and the QP was made for at most {} (max_send_sge)", send.segments,
                         qp.cap.max_send_sge);
    case Reason::kBadAtomic:
      return fmt::format("{} segments of {} bytes: an atomic operation has one of 8", send.segments,
                         send.bytes);
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
  if (explains()) explain("{}: QP {:#x}: {}", call, qp.c.qp_base.qp_num, post_words(why, qp, send));
}

namespace {

std::string attribute_words(Reason why, const QpRule& rule, const QpAttr& attr, uint32_t mask,
                            uint32_t ports) {
  const uint32_t named = mask & ~uint32_t{adapter::kQpAttrState};
  if (why == Reason::kMissingAttribute)
    return fmt::format("attr_mask lacks {}", names_of(rule.required & ~named));
  if (why == Reason::kUnexpectedAttribute)
    return fmt::format("attr_mask must not have {}", names_of(named & ~(rule.required | rule.optional)));
  if (why == Reason::kNoPartition) return fmt::format("pkey_index {}: {}", attr.pkey_index, to_string(why));
  if (why == Reason::kNoAltPartition)
    return fmt::format("alt_pkey_index {}: {}", attr.alt.pkey_index, to_string(why));
  for (const Attribute& row : kAttributes) {
    if (why != Reason::kBadValue || (mask & row.bit) == 0) continue;
    if (adapter::check_qp_values(attr, row.bit, ports) != Reason::kOk)
      return fmt::format("{} out of range: {}", row.name, row.allowed);
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

decltype(nullptr) no_object(const char* call, const Refusal& why) noexcept {
  guarded(0, [&] {
    const std::string line = why.text();
    const size_t name = line.find(": ");  // the adapter's name of the call
    explain("{}: {}", call,
            name == std::string::npos ? to_string(why.reason()) : std::string_view(line).substr(name + 2));
    return 0;
  });
  return no_object(errno_of(why.reason()));
}

}  // namespace weft::verbs
