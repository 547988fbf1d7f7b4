// adapter/bring_up.h -- moves a QP from its present state to RTS (or RTR) in one call, with the attributes
// that its service needs (PUSH-WQ-06). A program does this with three ibv_modify_qp() calls.
#pragma once

#include "adapter/verbs.h"

namespace weft::adapter {

class ChannelAdapter;
class QueuePair;

/// Moves the QP through RESET, INIT, RTR and RTS up to `target`. `attr` names the peer for connected services
/// (dlid, dest_qpn, both PSNs) and the Q_Key for datagram services. Attributes that the service does not have
/// are ignored. Call on the adapter's thread. Stops at the first refusal; the QP keeps the state that it has
/// reached.
[[nodiscard]] ModifyResult bring_up(ChannelAdapter& adapter, QueuePair& qp, QpAttr attr,
                                    QpState target = QpState::kRts);

}  // namespace weft::adapter
