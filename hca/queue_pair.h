// hca/queue_pair.h -- queue pairs as a consumer has them.
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

/// What a QP is created as. The PD, CQs, SRQ and `wanted_qpn` of the adapter's own configuration are not
/// looked at.
struct QpInit {
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;         // where receives are taken from; the QP has none of its own then
  bool management = false;    // QP1 of config.port, for what manages connections
  XrcDomain* xrcd = nullptr;  // of a target, in place of all of these
  adapter::QpConfig config{};
  void* user = nullptr;
};

/// What a window of type 1 is tied to (ibv_mw_bind).
struct WindowBind {
  uint64_t wr_id = 0;
  uint32_t flags = 0;  // SendFlag
  const MemoryRegion* region = nullptr;
  uint64_t addr = 0;    // within the region
  uint64_t length = 0;  // 0: the window is untied
  adapter::Access access = adapter::Access::kNone;
};

/// What a registration request makes of the memory that was staged for a region.
struct Registration {
  MemoryRegion* region = nullptr;  // of Context::reserve_mr(), in the domain of the QP
  adapter::Access access = adapter::Access::kNone;
  std::optional<uint64_t> addr{};  // its first byte as peers and requests name it; none: its own address
};

/// Any thread.
class Qp final : public Object {
 public:
  /// All handles of one XRC target, which ends with the last of them.
  using Handles = std::shared_ptr<std::list<Qp*>>;

  Qp(ContextBase& context, const QpInit& init, ProtectionDomain* pd = nullptr) noexcept;

  [[nodiscard]] Qpn number() const noexcept { return number_; }

  /// Posts the requests in order until one is refused; `posted` tells how many were accepted. One doorbell
  /// and one turn for all of them. kReentered in a signal handler that has interrupted another call of its
  /// thread on the device.
  [[nodiscard]] Answer post_send(std::span<const adapter::SendRequest> list, size_t& posted) noexcept;
  /// Posts all requests or, when one of them is refused, none.
  [[nodiscard]] Answer post_batch(std::span<const adapter::SendRequest> list) noexcept;
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  /// Why a post was refused, said once; kOk when none was since. For diagnostics.
  [[nodiscard]] adapter::PostResult take_refusal() noexcept;
  /// Posts a bind of a window of type 1 and tells its new key, which opens the range once the request has
  /// completed; the key before is dead then. kInvalid for windows of another type or domain, for a range
  /// without a region and for kZeroBased; nothing has changed unless kOk. Windows of other types are bound by
  /// post_send().
  [[nodiscard]] Answer bind_window(Window& window, const WindowBind& bind, Rkey& key) noexcept;
  /// Posts a registration request; what is posted behind it may use both keys of region() without waiting
  /// (TPT-REG-03). QpConfig::registration says what follows when it cannot be carried out. kInvalid for a
  /// region of another domain; nothing was posted unless kOk.
  [[nodiscard]] Answer post_registration(const Registration& what, uint64_t wr_id,
                                         uint32_t flags = adapter::kSendSignaled) noexcept;
  /// A registration and an operation behind it as one request (TPT-ULP-01): both are posted or none, and the
  /// completion is the operation's, unless the QP signals all requests. A registration that cannot be carried
  /// out completes in its place, with its `wr_id`; the operation is flushed then.
  [[nodiscard]] Answer post_registration(const Registration& what,
                                         const adapter::SendRequest& operation) noexcept;
  [[nodiscard]] Answer modify(const adapter::QpAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::QpAttr& attr, adapter::QpConfig& config) const noexcept;

  /// Joins a multicast group of its port, or leaves it; multicast_lid() says the LID of a group. A member is
  /// not destroyed: kBusy. kInvalid of what is no group, of a service without groups, of a QP that is no
  /// member; kNoMemory when AdapterLimits::multicast_members are there.
  [[nodiscard]] Answer attach_mcast(const Gid& gid, Lid lid);
  [[nodiscard]] Answer detach_mcast(const Gid& gid, Lid lid) noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::QueuePair& pair() const noexcept { return *pair_; }
  /// It is a handle of the adapter's QP from now on.
  void enter(adapter::QueuePair& pair) noexcept;
  /// And of an XRC target one more of `handles`, at the place made for it.
  void join(Handles handles, std::list<Qp*>& place) noexcept;
  /// Null of all but targets.
  [[nodiscard]] const Handles& handles() const noexcept { return handles_; }
  [[nodiscard]] const XrcDomain* xrcd() const noexcept { return xrcd_; }
  void abandon() noexcept override;
  [[nodiscard]] Answer release() noexcept override;
  /// To the error state, whatever the program says.
  void fail() noexcept;

 private:
  /// This handle goes. True when it was the last.
  [[nodiscard]] bool let_go() noexcept;
  /// The first request of `list` becomes the registration.
  [[nodiscard]] Answer register_and(const Registration& what, std::span<adapter::SendRequest> list) noexcept;
  /// All of them or none; the caller holds the device.
  [[nodiscard]] Answer post_all(std::span<const adapter::SendRequest> list) noexcept;
  /// Up to the first that is refused; the caller holds the device.
  template <class Request>
  Answer post(std::span<const Request> list, size_t& posted) noexcept;

  struct Membership {
    Gid gid{};
    Lid lid{};
    [[nodiscard]] bool operator==(const Membership&) const noexcept = default;
  };

  adapter::QueuePair* pair_ = nullptr;
  XrcDomain* xrcd_ = nullptr;
  Handles handles_;
  std::array<Object*, 5> uses_;  // PD, CQs, SRQ, XRC domain; null: none
  Qpn number_{};
  adapter::PostResult refusal_ = adapter::PostResult::kOk;
  std::list<Membership> groups_;  // each counts as a user of the QP
  // Once it has ended: given back without the lock.
  adapter::QpMemory memory_;
  std::list<Membership> left_;
  std::list<Qp*> place_;  // among `handles_`
};

}  // namespace weft::hca
