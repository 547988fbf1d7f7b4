// hca/shared_queue.h -- shared receive queues as a consumer has them.
#pragma once

#include <span>

#include "adapter/adapter.h"
#include "hca/memory.h"
#include "hca/object.h"

namespace weft::hca {

/// Any thread.
class Srq final : public Object {
 public:
  Srq(ContextBase& context, void* user, ProtectionDomain& pd, adapter::SharedReceiveQueue& queue) noexcept
      : Object(context, user), pd_(pd), queue_(queue) {
    ++pd_.books.users;
  }

  /// As Qp::post_recv().
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  /// `mask`: adapter::SrqAttrMask.
  [[nodiscard]] Answer modify(const adapter::SrqAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::SrqAttr& out) const noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::SharedReceiveQueue& queue() const noexcept { return queue_; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  adapter::SharedReceiveQueue& queue_;
};

}  // namespace weft::hca
