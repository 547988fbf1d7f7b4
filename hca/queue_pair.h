// hca/queue_pair.h -- queue pairs for consumers.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>

#include "adapter/adapter.h"
#include "hca/object.h"
#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft::hca {

class Cq;
class MemoryRegion;
class ProtectionDomain;
class Srq;
class Window;
class XrcDomain;

/// Parameters of a new QP. PD, CQs, SRQ and `wanted_qpn` in `config` are ignored.
struct QpInit {
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;         // source of receive requests, in place of the QP's own receive queue
  bool management = false;    // make QP1 of config.port, for connection management
  XrcDomain* xrcd = nullptr;  // for an XRC target, instead of the members above
  adapter::QpConfig config{};
  void* user = nullptr;
  std::shared_ptr<void> shared{};  // for an XRC target: the consumer's own, for all handles (Qp::shared)
};

/// Binding of a window of type 1 (ibv_mw_bind).
struct WindowBind {
  uint64_t wr_id = 0;
  uint32_t flags = 0;  // SendFlag
  const MemoryRegion* region = nullptr;
  uint64_t addr = 0;    // within the region
  uint64_t length = 0;  // 0: unbind the window
  adapter::Access access = adapter::Access::kNone;
};

/// Parameters of a registration request for staged memory.
struct Registration {
  MemoryRegion* region = nullptr;  // made by Context::reserve_mr() in the QP's domain
  adapter::Access access = adapter::Access::kNone;
  // Address of the first byte for peers and requests; none: its address in the process.
  std::optional<uint64_t> addr{};
};

/// The adapter keeps the state of the QP: its process, its sizes, its kinds of transfer. A program reaches
/// that state by posts, modify() and query() alone, and query() gives copies (SAN-LMP-07). Any thread.
class Qp final : public Object {
 public:
  /// What the handles of one XRC target share. The target ends with its last handle; its memory stays until
  /// each handle is freed, because an ended handle may still wait for acknowledgements.
  struct Target {
    std::list<Qp*> handles;
    adapter::QpMemory memory;  // filled when the target ends
  };

  Qp(ContextBase& context, const QpInit& init, ProtectionDomain* pd = nullptr) noexcept;

  [[nodiscard]] Qpn number() const noexcept { return number_; }
  /// QpInit::shared of the XRC target that this is a handle of.
  [[nodiscard]] const std::shared_ptr<void>& shared() const noexcept { return shared_; }

  /// Posts the requests in order until one is refused. `posted` is the number of accepted requests. All of
  /// them share one doorbell and one turn. kReentered in a signal handler that has interrupted another call
  /// of its thread on the device.
  [[nodiscard]] Answer post_send(std::span<const adapter::SendRequest> list, size_t& posted) noexcept;
  /// Posts all requests, or none if one of them is refused.
  [[nodiscard]] Answer post_batch(std::span<const adapter::SendRequest> list) noexcept;
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  /// Posts a bind of a window of type 1. `key` is the new key. It permits access once the request has
  /// completed; the previous key is then invalid. kBindWrongType or kBindWrongPd for a window of another
  /// type or domain, kMissingObject for a range without a region, kBindBadRights for kZeroBased; nothing
  /// has changed unless kOk. Windows of other types are bound by post_send().
  [[nodiscard]] Answer bind_window(Window& window, const WindowBind& bind, Rkey& key) noexcept;
  /// Posts a registration request. Requests posted after it may use both keys of region() without waiting
  /// (TPT-REG-03). QpConfig::registration decides what happens if it cannot be carried out. kForeignObject
  /// for a region of another domain; nothing was posted unless kOk.
  [[nodiscard]] Answer post_registration(const Registration& what, uint64_t wr_id,
                                         uint32_t flags = adapter::kSendSignaled) noexcept;
  /// Posts a registration and an operation behind it as one request (TPT-ULP-01): both are posted or neither.
  /// The completion is the operation's, unless the QP signals all requests. If the registration cannot be
  /// carried out, it completes with the operation's `wr_id`, and the operation is flushed.
  [[nodiscard]] Answer post_registration(const Registration& what,
                                         const adapter::SendRequest& operation) noexcept;
  [[nodiscard]] Answer modify(const adapter::QpAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::QpAttr& attr, adapter::QpConfig& config) const noexcept;

  /// Joins or leaves a multicast group of the QP's port; multicast_lid() gives the LID of a group. While the
  /// QP is a member, destroying it answers kBusy. kBadAddress: no multicast group. kNotOfService: no UD QP.
  /// kNotMember: (detach) no member. kTableFull: AdapterLimits::multicast_members is reached.
  [[nodiscard]] Answer attach_mcast(const Gid& gid, Lid lid) noexcept;
  [[nodiscard]] Answer detach_mcast(const Gid& gid, Lid lid) noexcept;
  /// Gives this RAW QP the IPv6 packets of one protocol for one address, until unregister_protocol(): those
  /// that come to the QP's port as raw frames for kQpnByProtocol (SAN-XPORT-16). With QpConfig::raw_ipv6 a
  /// receive has the whole packet (SAN-XPORT-15). The adapter drops packets for which no QP has registered.
  /// Register after INIT, which sets the port: a registered QP keeps its port, and destroying it answers
  /// kBusy. Registering twice is registering once.
  /// @param next_header  protocol number of the packet's first header behind the IPv6 header: 6 is TCP
  /// @param address  destination of the packets; need not be an address of the port
  /// @return kNotOfService: no RAW QP; kTaken: another QP has the protocol of this address and port;
  ///         kTableFull: AdapterLimits::raw_protocols is reached; kNotMember: (unregister) not registered.
  ///         Nothing has changed unless kOk.
  [[nodiscard]] Answer register_protocol(uint8_t next_header, const Gid& address) noexcept;
  [[nodiscard]] Answer unregister_protocol(uint8_t next_header, const Gid& address) noexcept;

 private:
  friend class Context;
  friend class Device;

  // ---- for the two, under the device's lock --------------------
  /// Makes this object a handle of the adapter's QP.
  void enter(adapter::QueuePair* pair) noexcept;
  /// Also appends this handle to those of its XRC target; `place` is the list node, one element, allocated
  /// before the lock.
  void join(std::shared_ptr<Target> target, std::list<Qp*>& place) noexcept;
  void abandon() noexcept override;
  [[nodiscard]] Answer release() noexcept override;
  /// Moves the QP to the error state.
  void fail() noexcept;

  // ---- its own --------------------
  /// Gives this handle up. True when it was the last one.
  [[nodiscard]] bool let_go() noexcept;
  /// Posts `list`, whose first request becomes the registration.
  [[nodiscard]] Answer register_and(const Registration& what, std::span<adapter::SendRequest> list) noexcept;
  /// Posts all or none; the caller holds the lock.
  [[nodiscard]] Answer post_all(std::span<const adapter::SendRequest> list) noexcept;
  /// Posts until one is refused; the caller holds the lock.
  template <class Request>
  Answer post(std::span<const Request> list, size_t& posted) noexcept;

  adapter::QueuePair* pair_ = nullptr;
  std::shared_ptr<void> shared_;
  XrcDomain* xrcd_ = nullptr;
  std::shared_ptr<Target> target_;  // null unless the QP is an XRC target
  std::array<Object*, 5> uses_;     // PD, CQs, SRQ, XRC domain; null: none
  Qpn number_{};
  // Filled by release(); freed without the lock.
  adapter::QpMemory memory_;
  std::list<Qp*> place_;  // list node taken out of `target_`
};

}  // namespace weft::hca
