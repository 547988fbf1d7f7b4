// hca/shared_queue.h -- shared receive queues as a consumer has them.
#pragma once

#include <optional>
#include <span>

#include "adapter/adapter.h"
#include "hca/memory.h"
#include "hca/object.h"
#include "hca/xrc_file.h"

namespace weft::hca {

class Cq;

/// `create`: make the domain when it is not open by the file; `exclusive`: only then.
struct XrcOpen {
  std::optional<XrcFile> file{};  // none: a domain of this process alone
  bool create = true;
  bool exclusive = false;
};

/// One open of an XRC domain: of targets, and of the shared receive queues that their peers name by number.
/// Any thread.
class XrcDomain final : public Object {
 public:
  XrcDomain(ContextBase& context, const std::optional<XrcFile>& file) noexcept
      : Object(context, nullptr), file_(file) {}
  [[nodiscard]] adapter::XrcdId id() const noexcept { return id_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(adapter::XrcdId id) noexcept { id_ = id; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  adapter::XrcdId id_{};
  std::optional<XrcFile> file_;
  SharedXrcds::node_type ended_;  // its place among those that are shared: given back without the lock
};

/// What a queue for XRC targets has beside others: its domain, and where its messages complete.
struct XrcPlace {
  XrcDomain* domain = nullptr;
  Cq* cq = nullptr;
};

/// Any thread.
class Srq final : public Object {
 public:
  Srq(ContextBase& context, void* user, ProtectionDomain& pd, adapter::SharedReceiveQueue& queue,
      const XrcPlace& xrc) noexcept;

  /// What peers of XRC targets call it.
  [[nodiscard]] uint32_t number() const noexcept;

  /// As Qp::post_recv().
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  /// `mask`: adapter::SrqAttrMask. kNoMemory when there is none for as many WQEs; nothing has changed then.
  [[nodiscard]] Answer modify(const adapter::SrqAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::SrqAttr& out) const noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::SharedReceiveQueue& queue() const noexcept { return queue_; }
  void enter() noexcept;
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  adapter::SharedReceiveQueue& queue_;
  XrcPlace xrc_;
  adapter::SrqMemory memory_;  // of the adapter's queue once it has ended: given back without the lock
};

}  // namespace weft::hca
