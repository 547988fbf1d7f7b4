// hca/shared_queue.h -- shared receive queues and XRC domains for consumers.
#pragma once

#include <optional>
#include <span>

#include "adapter/adapter.h"
#include "hca/memory.h"
#include "hca/object.h"
#include "hca/xrc_file.h"

namespace weft::hca {

class Cq;

/// `create`: make the domain if the file has none yet. `exclusive`: fail if the file has one.
struct XrcOpen {
  std::optional<XrcFile> file{};  // none: a domain that only its opener uses
  bool create = true;
  bool exclusive = false;
};

/// One open of an XRC domain, which joins XRC targets and the shared receive queues that their peers name by
/// number. Any thread.
class XrcDomain final : public Object {
 public:
  XrcDomain(ContextBase& context, const std::optional<XrcFile>& file) noexcept
      : Object(context, nullptr), file_(file) {}
  [[nodiscard]] adapter::XrcdId id() const noexcept { return id_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(adapter::XrcdId id) noexcept { id_ = id; }

 private:
  [[nodiscard]] Answer release() noexcept override;
  adapter::XrcdId id_{};
  std::optional<XrcFile> file_;
  // Entry taken out of the list of shared domains by release(); freed without the lock.
  SharedXrcds::node_type ended_;
};

/// For an SRQ of XRC targets: its domain, and the CQ in which its messages complete.
struct XrcPlace {
  XrcDomain* domain = nullptr;
  Cq* cq = nullptr;
};

/// Any thread.
class Srq final : public Object {
 public:
  Srq(ContextBase& context, void* user, ProtectionDomain& pd, adapter::SharedReceiveQueue& queue,
      const XrcPlace& xrc) noexcept;

  /// The number by which peers of XRC targets name the queue.
  [[nodiscard]] uint32_t number() const noexcept;

  /// Like Qp::post_recv().
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  /// `mask`: adapter::SrqAttrMask. kNoMemory when no memory is left for the new number of WQEs; then nothing
  /// has changed.
  [[nodiscard]] Answer modify(const adapter::SrqAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::SrqAttr& out) const noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::SharedReceiveQueue& queue() const noexcept { return queue_; }
  void enter(adapter::SharedReceiveQueue* queue) noexcept;

 private:
  [[nodiscard]] Answer release() noexcept override;
  ProtectionDomain& pd_;
  adapter::SharedReceiveQueue& queue_;
  XrcPlace xrc_;
  adapter::SrqMemory memory_;  // the adapter's queue after release(); freed without the lock
};

}  // namespace weft::hca
