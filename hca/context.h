// hca/context.h -- the objects of one open() of a device, and its asynchronous events.
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

/// Any thread. Makes objects and destroys them, in any order in which no object in use is destroyed.
class Context final : public ContextBase {
 public:
  Context(DeviceCore& core, std::shared_ptr<EventFd> descriptor);
  ~Context() override;

  [[nodiscard]] Made<ProtectionDomain> alloc_pd();
  [[nodiscard]] Made<CompletionChannel> create_channel();
  /// Without a channel the CQ has no notifications.
  [[nodiscard]] Made<Cq> create_cq(uint32_t cqes, CompletionChannel* channel = nullptr, void* user = nullptr,
                                   uint32_t vector = 0);
  [[nodiscard]] Made<Srq> create_srq(ProtectionDomain& pd, uint32_t wqes, uint32_t sges, void* user = nullptr,
                                     const XrcPlace& xrc = {});
  [[nodiscard]] Made<Qp> create_qp(ProtectionDomain& pd, const QpInit& init);
  /// kAgain: the domain is not open and `open.create` is false. kTaken: the domain is open and
  /// `open.exclusive` is set.
  [[nodiscard]] Made<XrcDomain> open_xrcd(const XrcOpen& open = {});
  /// Makes an XRC target. Only `config`, `user` and `shared` of `init` are used.
  [[nodiscard]] Made<Qp> create_target(XrcDomain& domain, const QpInit& init);
  /// Makes another handle of a target of the same domain, which any context of this device may have made. The
  /// target ends with its last handle. kNoSuchObject: no target of the domain has this number.
  [[nodiscard]] Made<Qp> open_target(XrcDomain& domain, Qpn number, void* user = nullptr);
  [[nodiscard]] Made<MemoryRegion> reg_mr(ProtectionDomain& pd, std::span<std::byte> memory,
                                          adapter::Access access,
                                          const adapter::RegisterOptions& options = {});
  /// A region made of pages of memory in any order, which peers and requests address as one range from 0 on,
  /// or from `options.base_addr` (TPT-ATT-01..04). The list is copied; the pages must outlive the
  /// registration. Costs 8 bytes per page. kBadSize: `page_bytes` is no power of two from kPageBytesMin to
  /// kPageBytesMax. kBadRange: no bytes, an offset beyond the first page, a null page, or a number of pages
  /// that does not fit. Other answers as for reg_mr().
  [[nodiscard]] Made<MemoryRegion> reg_pages(ProtectionDomain& pd, const adapter::PageList& pages,
                                             adapter::Access access,
                                             const adapter::RegisterOptions& options = {});
  /// Another region over the memory of `existing`, a registered region of any context of this device: a new
  /// entry with keys of its own, in another domain if the caller likes, and no new page table (TPT-REG-08).
  /// The two regions end in any order; the memory must outlive both. First address: as for a new region of
  /// this memory, not that of `existing`. kForeignObject: a region of another device. kNoSuchKey: a
  /// reserved region that is not registered. kBadRights: a local right that `existing` has not. kConfined:
  /// one of two different domains is a user process's.
  [[nodiscard]] Made<MemoryRegion> share_mr(ProtectionDomain& pd, const MemoryRegion& existing,
                                            adapter::Access access,
                                            const adapter::RegisterOptions& options = {});
  /// A region over addresses of the domain's process (Spaces::assign()). Peers and requests use the
  /// process's own addresses unless the options say otherwise. kMissingObject: there is no memory manager.
  /// kConfined: the process's mode does not allow this kind of address. kBadRange: its segments do not
  /// permit the access. SAN-LMP-06.
  [[nodiscard]] Made<MemoryRegion> reg_addresses(ProtectionDomain& pd, adapter::AddressKind kind,
                                                 uint64_t address, uint64_t length, adapter::Access access,
                                                 const adapter::RegisterOptions& options = {});
  /// A region whose memory is set later by a registration request: MemoryRegion::stage(), then
  /// Qp::post_registration(). Registrations with remote rights need `with_rkey`. TPT-REG-02..07.
  [[nodiscard]] Made<MemoryRegion> reserve_mr(ProtectionDomain& pd, bool with_rkey);
  [[nodiscard]] Made<Window> alloc_window(ProtectionDomain& pd,
                                          adapter::WindowKind kind = adapter::WindowKind::kKey);
  [[nodiscard]] Made<AddressHandle> create_ah(ProtectionDomain& pd, const adapter::AhAttr& attr);
  /// Waits until the program has acknowledged all events of the object that it took, and drops events that it
  /// has not taken. kBusy while another object uses it; then nothing has changed.
  [[nodiscard]] Answer destroy(Object* object) noexcept;

  /// Readable while asynchronous events wait, one unit per event.
  [[nodiscard]] int async_fd() const noexcept { return source_.descriptor->fd(); }
  [[nodiscard]] int poll_fd() const noexcept { return source_.descriptor->poll_fd(); }
  /// Waits for the next event unless async_fd() is O_NONBLOCK. `out` is set only on kOk; an event of an
  /// object must then be acknowledged before the object can be destroyed. Other answers: kAgain,
  /// kInterrupted, kForked.
  [[nodiscard]] Answer get_async_event(AsyncEvent& out);
  void ack_async_event(const AsyncEvent& event) noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  void add_event(const AsyncEvent& event) noexcept override;
  /// Ends all objects and puts them in front of `ended`, linked by `refs.older`; the caller frees them
  /// without the lock. False when regions are left because a peer moves their data: call it again.
  [[nodiscard]] bool release_all(Object*& ended) noexcept;

 private:
  template <class T, class Take, class... Args>
  Made<T> make(std::initializer_list<const Object*> uses, Take&& take, Args&&... args);
  template <class T>
  T* keep(std::unique_ptr<T> object) noexcept;
  [[nodiscard]] Answer unmake(Object& object, bool& unacknowledged) noexcept;
  void unlink(Object& object) noexcept;

  EventSource source_;
  // Element 0 is the device, element n is port n; elements are never moved.
  std::vector<WaitingEvents> ports_;
  PendingList waiting_;
  Object* newest_ = nullptr;
};

}  // namespace weft::hca
