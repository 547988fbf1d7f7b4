#include "verbs/refusals.h"

#include <fmt/format.h>

#include <array>

#include "adapter/queues/qp_rules.h"
#include "verbs/explain.h"

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

[[gnu::cold]] void explain_post(const char* call, const Qp& qp, const char* unknown) noexcept {
  if (!explains()) return;
  const adapter::PostResult why = qp.object->take_refusal();
  explain("{}: QP {:#x} in state {}: {}", call, qp.c.qp_base.qp_num, static_cast<int>(qp.c.qp_base.state),
          why != adapter::PostResult::kOk ? to_string(why) : std::string_view(unknown));
}

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
  return fmt::format("{}: a partition that is not in use, or a change that this moment forbids", move);
}

}  // namespace weft::verbs
