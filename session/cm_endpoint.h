// session/cm_endpoint.h -- a UD queue pair that speaks the datagrams of messages/cm.h: QP1 of the listener,
// or the private QP from which a host session asks and on which it is answered.
#pragma once

#include <cstdint>

#include "adapter/adapter.h"
#include "base/result.h"
#include "messages/cm.h"
#include "session/buffer_recv_pool.h"

namespace weft::session {

/// A datagram that decoded, and who sent it. The source LID is checked by the sender's switch port (decisions
/// section 4); the source QPN is where answers go.
struct CmDatagram {
  CmMessage message;
  Lid lid;
  Qpn qpn;
};

enum class CmReceive : uint8_t { kNone, kMessage, kMalformed };

/// Owner: the adapter's thread. Sending is best effort: whoever cares asks again.
class CmEndpoint {
 public:
  explicit CmEndpoint(adapter::ChannelAdapter& adapter) : adapter_(adapter) {}
  ~CmEndpoint();
  CmEndpoint(const CmEndpoint&) = delete;
  CmEndpoint& operator=(const CmEndpoint&) = delete;

  /// @param wanted  kQpnGsi to listen, Qpn(0) for any
  Status open(Qpn wanted, uint8_t port);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return qp_ != nullptr; }

  /// False when nothing could be sent now.
  bool send(const CmMessage& message, Lid to, Qpn qpn, ServiceLevel sl) noexcept;
  /// Takes one datagram; kMalformed took one that does not decode.
  [[nodiscard]] CmReceive receive(CmDatagram& out) noexcept;

 private:
  Status create(Qpn wanted, uint8_t port);
  bool post_recv(uint32_t slot) noexcept;
  void reap_sends() noexcept;

  adapter::ChannelAdapter& adapter_;
  adapter::PdId pd_;
  adapter::CompletionQueue* send_cq_ = nullptr;
  adapter::CompletionQueue* recv_cq_ = nullptr;
  adapter::QueuePair* qp_ = nullptr;
  PoolMemory memory_;
  adapter::MemoryRegion region_;
  bool has_pd_ = false;
  bool has_region_ = false;
  uint32_t next_send_ = 0;
  uint32_t sends_in_flight_ = 0;
};

}  // namespace weft::session
