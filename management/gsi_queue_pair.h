// management/gsi_queue_pair.h -- QP1 of a port: the UD queue pair of management datagrams, for programs that
// drive their adapter themselves. Programs with threads have rdma_cm/gsi_port.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "base/result.h"
#include "management/mad_port.h"

namespace weft::management {

/// A received datagram. The source LID is checked by the sender's switch port (decisions section 4).
struct GsiDatagram {
  Lid from{};
  std::span<const std::byte> bytes{};  // until the next call of receive()
};

/// Owner: the adapter's thread. Sending is best effort: a caller that needs an answer repeats its message.
class GsiQueuePair final : public MadPort {
 public:
  GsiQueuePair(adapter::ChannelAdapter& adapter, uint8_t port) : adapter_(adapter), port_(port) {}
  ~GsiQueuePair() override;
  GsiQueuePair(const GsiQueuePair&) = delete;
  GsiQueuePair& operator=(const GsiQueuePair&) = delete;

  /// @param wanted  kQpnAny for any number: tests speak from such a queue pair
  Status open(Qpn wanted = kQpnGsi);
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return qp_ != nullptr; }

  [[nodiscard]] bool send(Lid to, const MadBytes& mad) noexcept override { return send(to, mad, {}); }
  [[nodiscard]] bool send(Lid to, const MadBytes& mad, ServiceLevel sl) noexcept;
  /// Always false: a session needs no flooding.
  [[nodiscard]] bool flood(const MadBytes& /*mad*/) noexcept override { return false; }
  /// False if there is none. A damaged datagram has no bytes.
  [[nodiscard]] bool receive(GsiDatagram& out) noexcept;

 private:
  Status create(Qpn wanted);
  bool post_recv(uint32_t slot) noexcept;
  void reap_sends() noexcept;

  adapter::ChannelAdapter& adapter_;
  uint8_t port_;
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
