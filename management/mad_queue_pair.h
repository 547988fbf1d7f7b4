// management/mad_queue_pair.h -- QP0 or QP1 of a port: a UD queue pair of management datagrams, for programs
// that drive their adapter themselves. Programs with threads have rdma_cm/gsi_port.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "base/result.h"
#include "management/mad_port.h"

namespace weft::management {

/// A received datagram. The source LID is checked by the sender's switch port (decisions section 4).
struct MadDatagram {
  Lid from{};
  std::span<const std::byte> bytes{};  // until the next call of receive()
};

/// Owner: the adapter's thread. Sending is best effort: a caller that needs an answer repeats its message.
class MadQueuePair final : public MadPort {
 public:
  MadQueuePair(adapter::ChannelAdapter& adapter, uint8_t port) : adapter_(adapter), port_(port) {}
  ~MadQueuePair() override;
  MadQueuePair(const MadQueuePair&) = delete;
  MadQueuePair& operator=(const MadQueuePair&) = delete;

  /// @param wanted  kQpnSmi for subnet management, kQpnGsi for all other classes. kQpnAny: any number; tests
  ///                speak to QP1 from such a queue pair
  Status open(Qpn wanted = kQpnGsi);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return qp_ != nullptr; }

  /// To QP0 of `to` if this is QP0, else to QP1.
  [[nodiscard]] bool send(Lid to, const MadBytes& mad) noexcept override { return send(to, mad, {}); }
  [[nodiscard]] bool send(Lid to, const MadBytes& mad, ServiceLevel sl) noexcept;
  /// Always false: a session needs no flooding.
  [[nodiscard]] bool flood(const MadBytes& /*mad*/) noexcept override { return false; }
  /// False if there is none. A damaged datagram has no bytes.
  [[nodiscard]] bool receive(MadDatagram& out) noexcept;

 private:
  Status create(Qpn wanted);
  bool post_recv(uint32_t slot) noexcept;
  void reap_sends() noexcept;

  adapter::ChannelAdapter& adapter_;
  uint8_t port_;
  Qpn remote_ = kQpnGsi;
  uint32_t qkey_ = kQkeyGsi;
  adapter::PdId pd_;
  adapter::CompletionQueue* send_cq_ = nullptr;
  adapter::CompletionQueue* recv_cq_ = nullptr;
  adapter::QueuePair* qp_ = nullptr;
  std::vector<std::byte> memory_;
  adapter::MemoryRegion region_;
  bool has_pd_ = false;
  bool has_region_ = false;
  uint32_t next_send_ = 0;
  uint32_t sends_in_flight_ = 0;
  int lent_slot_ = -1;  // to the caller of receive()
};

}  // namespace weft::management
