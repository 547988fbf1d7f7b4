// adapter/queues/shared_receives.h -- the shared receive queues (SRQ) of an adapter. QPs of any service that
// receives may share one; its segments are checked in its own protection domain, and each message completes
// where its QP completes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/config.h"
#include "adapter/verbs.h"
#include "base/result.h"

namespace weft::adapter {

struct Engine;

/// The shared receive queues of an adapter. Owner: the adapter's thread.
class SharedReceives {
 public:
  /// `pds`: which protection domains there are.
  SharedReceives(Engine& engine, const std::vector<bool>& pds) noexcept;
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  // ---- kernel agent --------------------
  Result<SharedReceiveQueue*> create(const SrqConfig& config);
  /// Changes what `mask` (SrqAttrMask) names, all of it or nothing. The limit event comes once for each time
  /// a limit is set: as soon as fewer WQEs wait than that, be it at once.
  Status modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask);
  [[nodiscard]] SrqAttr query(const SharedReceiveQueue& srq) const noexcept;
  /// Forgets what is queued. Refused while a QP takes from it.
  Status destroy(SharedReceiveQueue* srq);
  [[nodiscard]] bool owns(const SharedReceiveQueue* srq) const noexcept;
  /// No queue belongs to `pd`.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;

  // ---- data path --------------------
  /// Queues one WQE without telling the adapter. kWouldBlock when all are in use.
  [[nodiscard]] PostResult post(SharedReceiveQueue& srq, const RecvRequest& request) noexcept;
  /// The doorbell. A sender that found the queue empty asks again by itself (RNR).
  void ring(SharedReceiveQueue& srq) noexcept;
  /// post() and ring().
  [[nodiscard]] PostResult post_recv(SharedReceiveQueue& srq, const RecvRequest& request) noexcept;

 private:
  Engine& engine_;
  const std::vector<bool>& pds_;
  std::vector<std::unique_ptr<SharedReceiveQueue>> queues_;
};

}  // namespace weft::adapter
