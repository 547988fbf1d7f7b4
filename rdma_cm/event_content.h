// rdma_cm/event_content.h -- what an event tells a program beside its name: filled as the kernel does.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <span>

#include "messages/mad/cm.h"
#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

[[nodiscard]] rdma_ucm_event_resp make_event(const CmId& id, CmEvent event, int32_t status = 0) noexcept;
// What a REQ or REP offers; responder resources and initiator depth as the receiver sees them.
void set_offer(rdma_ucm_event_resp& event, const CmReq& req) noexcept;
void set_offer(rdma_ucm_event_resp& event, const CmRep& rep) noexcept;
/// The private data of a message that is a program's, always in full length.
void set_private(rdma_ucm_event_resp& event, const CmId& id, std::span<const std::byte> data) noexcept;
/// How to reach the LID.
[[nodiscard]] ib_uverbs_ah_attr make_ah(Lid lid, uint8_t port) noexcept;

}  // namespace weft::rdma_cm
