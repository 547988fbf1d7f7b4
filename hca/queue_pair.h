// hca/queue_pair.h -- queue pairs as a consumer has them.
#pragma once

#include <cstdint>
#include <span>

#include "adapter/adapter.h"
#include "hca/object.h"

namespace weft::hca {

class Cq;
class ProtectionDomain;
class Srq;

/// What a QP is created as. The PD, CQs, SRQ and `wanted_qpn` of the adapter's own configuration are not
/// looked at.
struct QpInit {
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;  // where receives are taken from; the QP has none of its own then
  adapter::QpConfig config{};
  void* user = nullptr;
};

/// Any thread.
class Qp final : public Object {
 public:
  Qp(ContextBase& context, const QpInit& init, ProtectionDomain& pd, adapter::QueuePair& pair) noexcept;

  [[nodiscard]] Qpn number() const noexcept { return number_; }
  [[nodiscard]] Cq& send_cq() const noexcept { return send_cq_; }
  [[nodiscard]] Cq& recv_cq() const noexcept { return recv_cq_; }

  /// Posts the requests in order until one is refused; `posted` tells how many were accepted. One doorbell
  /// and one turn for all of them.
  [[nodiscard]] Answer post_send(std::span<const adapter::SendRequest> list, size_t& posted) noexcept;
  [[nodiscard]] Answer post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept;
  [[nodiscard]] Answer modify(const adapter::QpAttr& attr, uint32_t mask) noexcept;
  [[nodiscard]] Answer query(adapter::QpAttr& attr, adapter::QpConfig& config) const noexcept;

  [[nodiscard]] Answer release() noexcept override;

 private:
  adapter::QueuePair& pair_;
  ProtectionDomain& pd_;
  Srq* srq_;
  Cq& send_cq_;
  Cq& recv_cq_;
  Qpn number_;
};

}  // namespace weft::hca
