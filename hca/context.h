// hca/context.h -- what one open() of a device owns, and its asynchronous events.
#pragma once

#include <span>
#include <vector>

#include "base/pending_list.h"
#include "hca/channel.h"
#include "hca/events.h"
#include "hca/memory.h"
#include "hca/queue_pair.h"
#include "hca/shared_queue.h"
#include "hca/spaces.h"

namespace weft::hca {

/// Any thread. Objects are made here and destroyed here, in any order that leaves none in use.
class Context final : public ContextBase {
 public:
  Context(DeviceCore& core, std::shared_ptr<EventFd> descriptor);
  ~Context() override;

  [[nodiscard]] Made<ProtectionDomain> alloc_pd();
  [[nodiscard]] Made<CompletionChannel> create_channel();
  /// `channel` may be null: such a CQ has no notifications.
  [[nodiscard]] Made<Cq> create_cq(uint32_t cqes, CompletionChannel* channel = nullptr, void* user = nullptr);
  [[nodiscard]] Made<Srq> create_srq(ProtectionDomain& pd, uint32_t wqes, uint32_t sges, void* user = nullptr,
                                     const XrcPlace& xrc = {});
  [[nodiscard]] Made<Qp> create_qp(ProtectionDomain& pd, const QpInit& init);
  /// kAgain: the domain is not open and is not to be made; kInvalid: it is there and must not be.
  [[nodiscard]] Made<XrcDomain> open_xrcd(const XrcOpen& open = {});
  /// An XRC target; of `init` its configuration and user count.
  [[nodiscard]] Made<Qp> create_target(XrcDomain& domain, const QpInit& init);
  /// A further handle of a target of the same domain, whichever context of this device has made it. The
  /// target ends with its last handle. kInvalid: no target of the domain has the number.
  [[nodiscard]] Made<Qp> open_target(XrcDomain& domain, Qpn number, void* user = nullptr);
  [[nodiscard]] Made<MemoryRegion> reg_mr(ProtectionDomain& pd, std::span<std::byte> memory,
                                          adapter::Access access,
                                          const adapter::RegisterOptions& options = {});
  /// A region over addresses of the domain's process (Spaces::assign()); peers and requests name the address
  /// itself unless the options say otherwise. kInvalid without a memory manager, for a kind of address that
  /// the process's mode does not allow, for what its segments do not open, and without a key. SAN-LMP-06.
  [[nodiscard]] Made<MemoryRegion> reg_addresses(ProtectionDomain& pd, adapter::AddressKind kind,
                                                 uint64_t address, uint64_t length, adapter::Access access,
                                                 const adapter::RegisterOptions& options = {});
  /// A region that registration requests fill: MemoryRegion::stage(), then Qp::post_registration(). With an
  /// RKey for registrations with remote rights. TPT-REG-02..07.
  [[nodiscard]] Made<MemoryRegion> reserve_mr(ProtectionDomain& pd, bool with_rkey);
  [[nodiscard]] Made<Window> alloc_window(ProtectionDomain& pd,
                                          adapter::WindowKind kind = adapter::WindowKind::kKey);
  [[nodiscard]] Made<AddressHandle> create_ah(ProtectionDomain& pd, const adapter::AhAttr& attr);
  /// Waits until the events of the object that were taken are acknowledged, and drops those that were not.
  /// kBusy while another object uses it; nothing has changed then.
  [[nodiscard]] Answer destroy(Object* object) noexcept;

  /// Readable once for each asynchronous event that waits.
  [[nodiscard]] int async_fd() const noexcept { return source_.descriptor->fd(); }
  [[nodiscard]] int poll_fd() const noexcept { return source_.descriptor->poll_fd(); }
  /// Waits for the next event unless async_fd() is O_NONBLOCK. `out` is set on kOk; an event of an object
  /// must be acknowledged before that can be destroyed. kAgain, kInterrupted, kForked.
  [[nodiscard]] Answer get_async_event(AsyncEvent& out);
  void ack_async_event(const AsyncEvent& event) noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  void add_event(const AsyncEvent& event) noexcept override;
  /// Ends everything. @return the objects, in a list by `books.older`, for who gives their memory back
  /// without the lock
  [[nodiscard]] Object* release_all() noexcept;

 private:
  template <class T>
  T* keep(std::unique_ptr<T> object) noexcept;
  void unlink(Object& object) noexcept;

  EventSource source_;
  std::vector<WaitingEvents> ports_;  // of the device at 0, of port n at n; never moved
  PendingList waiting_;
  Object* newest_ = nullptr;
};

}  // namespace weft::hca
