#include "adapter/bring_up.h"

#include "adapter/adapter.h"
#include "adapter/queues/qp_rules.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

ModifyResult bring_up(ChannelAdapter& adapter, QueuePair& qp, QpAttr attr, QpState target) {
  for (const QpState next : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (next <= qp.state || next > target) continue;
    const QpRule* rule = find_qp_rule(qp.config.type, qp.state, next);
    if (rule == nullptr) return ModifyResult::kBadTransition;
    attr.state = next;
    const uint32_t mask = kQpAttrState | rule->required | (rule->optional & kQpAttrAccess);
    const ModifyResult result = adapter.modify_qp(qp, attr, mask);
    if (result != ModifyResult::kOk) return result;
  }
  return qp.state == target ? ModifyResult::kOk : ModifyResult::kBadTransition;
}

}  // namespace weft::adapter
