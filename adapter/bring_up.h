// adapter/bring_up.h -- walks a QP from where it is to RTS (or RTR) in one call, with the attributes its
// service needs (PUSH-WQ-06). What a program does with three ibv_modify_qp() calls.
#pragma once

#include "adapter/verbs.h"

namespace weft::adapter {

class ChannelAdapter;
class QueuePair;

/// Walks RESET, INIT, RTR, RTS as far as `target`. `attr` names the peer on connected services (dlid,
/// dest_qpn, both PSNs) and the Q_Key on datagram services; what the service does not have is ignored.
/// Agent's thread. Stops at the first refusal, leaving the QP in the state it had reached.
[[nodiscard]] ModifyResult bring_up(ChannelAdapter& adapter, QueuePair& qp, QpAttr attr,
                                    QpState target = QpState::kRts);

}  // namespace weft::adapter
