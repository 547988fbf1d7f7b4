// rdma_cm/event_content.h -- fills the content of events for programs, as the kernel does.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <span>

#include "messages/mad/cm.h"
#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

[[nodiscard]] rdma_ucm_event_resp make_event(const CmId& id, CmEvent event, int32_t status = 0) noexcept;
// Parameters of a REQ or REP; responder resources and initiator depth from the receiver's point of view.
void set_offer(rdma_ucm_event_resp& event, const CmReq& req) noexcept;
void set_offer(rdma_ucm_event_resp& event, const CmRep& rep) noexcept;
/// Private data of a message for the program, always in full length.
void set_private(rdma_ucm_event_resp& event, const CmId& id, std::span<const std::byte> data) noexcept;
/// Address attributes that lead to the LID.
[[nodiscard]] ib_uverbs_ah_attr make_ah(Lid lid, uint8_t port) noexcept;

}  // namespace weft::rdma_cm
