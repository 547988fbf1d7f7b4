// adapter/queues/shared_receives.h -- the shared receive queues (SRQ) of an adapter, and its XRC domains. QPs
// of every service that receives can share a queue. The queue's own protection domain checks its segments;
// each message completes on the receive CQ of its QP. A queue of an XRC domain serves the XRC targets of the
// domain, whose peers name the queue by number, and has its own completion queue.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/config.h"
#include "adapter/queues/recv_queue.h"
#include "adapter/verbs.h"
#include "base/result.h"

namespace weft::adapter {

class CompletionQueues;
class ProtectionDomains;
struct Engine;

/// The shared receive queues of an adapter. Owner: the adapter's thread.
class SharedReceives {
 public:
  /// `pds`, `cqs`: the protection domains and completion queues of the adapter.
  SharedReceives(Engine& engine, const ProtectionDomains& pds, const CompletionQueues& cqs);
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  // ---- kernel agent --------------------
  Refusable<SharedReceiveQueue*> create(const SrqConfig& config);
  /// The same in two steps: make() checks the sizes and takes the memory, and may be called by any thread
  /// at any time; create() checks the rest and gives the queue its place in the adapter.
  Refusable<SrqMemory> make(const SrqConfig& config) const;
  Refusable<SharedReceiveQueue*> create(SrqMemory&& memory);
  /// Changes the attributes in `mask` (SrqAttrMask), all or none. Each set limit gives one limit event, as
  /// soon as fewer WQEs than the limit wait; this can be at once.
  Refusable<> modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask);
  /// The same with memory taken beforehand. Memory that is left in `room` belongs to the caller.
  Refusable<> modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask, RecvRoom& room);
  /// Checks the size of such a change and takes the memory, none when `mask` names no size; any thread may
  /// call this at any time.
  Refusable<RecvRoom> room_for(const SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask) const;
  [[nodiscard]] SrqAttr query(const SharedReceiveQueue& srq) const noexcept;
  /// Drops the queued WQEs. Refused while a QP takes from the queue. XRC targets name queues by number and do
  /// not count as users; a target that is receiving into this queue goes to ERR. The queue's memory goes to
  /// `memory`, unless that is null.
  Refusable<> destroy(SharedReceiveQueue* srq, SrqMemory* memory = nullptr);
  /// The number by which peers of XRC targets name the queue.
  [[nodiscard]] uint32_t number(const SharedReceiveQueue& srq) const noexcept;
  [[nodiscard]] bool owns(const SharedReceiveQueue* srq) const noexcept;
  /// No shared receive queue belongs to `pd`.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;
  Refusable<XrcdId> alloc_xrcd();
  /// Refused while the domain has queues or targets.
  Refusable<> dealloc_xrcd(XrcdId xrcd);
  /// The domain is open.
  [[nodiscard]] bool has(XrcdId xrcd) const noexcept;
  /// A queue or target of the domain was made, or ends.
  void enter(XrcdId xrcd) noexcept { ++xrcds_[xrcd.value()].users; }
  void leave(XrcdId xrcd) noexcept { --xrcds_[xrcd.value()].users; }

  // ---- data path --------------------
  /// Queues one WQE without the doorbell. kWouldBlock when all WQEs are in use.
  [[nodiscard]] PostResult post(SharedReceiveQueue& srq, const RecvRequest& request) noexcept;
  /// The doorbell. A sender that got an RNR NAK repeats its message by itself.
  void ring(SharedReceiveQueue& srq) noexcept;
  /// post() and ring().
  [[nodiscard]] PostResult post_recv(SharedReceiveQueue& srq, const RecvRequest& request) noexcept;

 private:
  Engine& engine_;
  struct Xrcd {
    bool open = false;
    uint32_t users = 0;  // queues and targets
  };

  [[nodiscard]] Refusable<> check(const SrqConfig& config) const;
  void let_go(SharedReceiveQueue& srq) noexcept;

  const ProtectionDomains& pds_;
  const CompletionQueues& cqs_;
  std::vector<Xrcd> xrcds_;      // by id; place 0 stands for none
  std::vector<uint32_t> steps_;  // how many queues each place has had, modulo the numbers
};

}  // namespace weft::adapter
