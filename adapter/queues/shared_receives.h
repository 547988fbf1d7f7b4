// adapter/queues/shared_receives.h -- the shared receive queues (SRQ) of an adapter, and its XRC domains. QPs
// of any service that receives may share a queue; its segments are checked in its own protection domain, and
// each message completes where its QP completes. A queue of an XRC domain serves the domain's targets, whose
// peers name it by number, and has a completion queue of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/config.h"
#include "adapter/queues/recv_queue.h"
#include "adapter/verbs.h"
#include "base/result.h"

namespace weft::adapter {

class CompletionQueue;
struct Engine;

/// The shared receive queues of an adapter. Owner: the adapter's thread.
class SharedReceives {
 public:
  /// `pds`, `cqs`: which protection domains and completion queues there are.
  SharedReceives(Engine& engine, const std::vector<bool>& pds,
                 const std::vector<std::unique_ptr<CompletionQueue>>& cqs);
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  // ---- kernel agent --------------------
  Refusable<SharedReceiveQueue*> create(const SrqConfig& config);
  /// The same in two steps: memory, which anybody may take at any time, and its place in the adapter. Nothing
  /// of `config` is checked before the second.
  [[nodiscard]] static SrqMemory make(const SrqConfig& config);
  Refusable<SharedReceiveQueue*> create(const SrqConfig& config, SrqMemory&& memory);
  /// Changes what `mask` (SrqAttrMask) names, all of it or nothing. The limit event comes once for each time
  /// a limit is set: as soon as fewer WQEs wait than that, be it at once.
  Refusable<> modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask);
  /// The same with memory taken beforehand; what the WQEs stood in is the caller's then.
  Refusable<> modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask, RecvRoom& room);
  /// Memory for such a change, which anybody may take at any time; none for one that is refused anyway.
  [[nodiscard]] RecvRoom room_for(const SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask) const;
  [[nodiscard]] SrqAttr query(const SharedReceiveQueue& srq) const noexcept;
  /// Forgets what is queued. Refused while a QP takes from it. XRC targets take from queues by number and
  /// hold none; one that is receiving into this queue goes to ERR.
  Refusable<> destroy(SharedReceiveQueue* srq);
  /// The same, but for its memory, which is the caller's then.
  Refusable<> destroy(SharedReceiveQueue* srq, SrqMemory& memory);
  /// What peers of XRC targets call it.
  [[nodiscard]] uint32_t number(const SharedReceiveQueue& srq) const noexcept;
  [[nodiscard]] bool owns(const SharedReceiveQueue* srq) const noexcept;
  /// No queue belongs to `pd`.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;
  Refusable<XrcdId> alloc_xrcd();
  /// Refused while it has queues or targets.
  Refusable<> dealloc_xrcd(XrcdId xrcd);
  /// A target of the domain was made, or ends.
  [[nodiscard]] bool has(XrcdId xrcd) const noexcept;
  void enter(XrcdId xrcd) noexcept { ++xrcds_[xrcd.value()].users; }
  void leave(XrcdId xrcd) noexcept { --xrcds_[xrcd.value()].users; }

  // ---- data path --------------------
  /// Queues one WQE without telling the adapter. kWouldBlock when all are in use.
  [[nodiscard]] PostResult post(SharedReceiveQueue& srq, const RecvRequest& request) noexcept;
  /// The doorbell. A sender that found the queue empty asks again by itself (RNR).
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

  const std::vector<bool>& pds_;
  const std::vector<std::unique_ptr<CompletionQueue>>& cqs_;
  std::vector<Xrcd> xrcds_;      // by id; 0 is none
  std::vector<uint32_t> steps_;  // times that each place has had a queue
};

}  // namespace weft::adapter
