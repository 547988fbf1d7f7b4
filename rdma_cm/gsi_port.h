// rdma_cm/gsi_port.h -- QP1 of a device: sends and receives management datagrams, to one endnode or to the
// group of all endnodes with connection management.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "hca/context.h"
#include "hca/device.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

/// A received datagram.
struct GsiDatagram {
  Lid from{};
  std::span<const std::byte> mad{};  // valid until the next receive()
};

/// One owner thread, or a lock around it.
class GsiPort final : public MadPort {
 public:
  static constexpr uint32_t kRecvSlots = 256;

  GsiPort() = default;
  ~GsiPort() override;
  GsiPort(const GsiPort&) = delete;
  GsiPort& operator=(const GsiPort&) = delete;

  /// Opens the device and makes QP1 of its first port.
  Status open(hca::Device& device);
  /// The next datagram; false when there is none.
  [[nodiscard]] bool receive(GsiDatagram& out) noexcept;
  /// From now on the next datagram makes fd() readable.
  void arm() noexcept;
  [[nodiscard]] int fd() const noexcept { return channel_->poll_fd(); }
  /// Takes the events that made fd() readable.
  void clear() noexcept;
  /// Readable while events of the device wait.
  [[nodiscard]] int events_fd() const noexcept { return context_->poll_fd(); }
  /// The next event of the device; false when there is none.
  [[nodiscard]] bool next_event(hca::AsyncEvent& out) noexcept;

  [[nodiscard]] bool send(Lid to, const MadBytes& mad) noexcept override;
  [[nodiscard]] bool flood(const MadBytes& mad) noexcept override;

 private:
  Status make_objects();
  Status bring_up();
  [[nodiscard]] bool post_recv(uint32_t slot) noexcept;
  [[nodiscard]] bool post(const MadBytes& mad, adapter::SendRequest request) noexcept;
  [[nodiscard]] adapter::Sge slot_sge(uint32_t slot, uint32_t bytes) const noexcept;

  hca::Device* device_ = nullptr;
  hca::Context* context_ = nullptr;
  hca::ProtectionDomain* pd_ = nullptr;
  hca::CompletionChannel* channel_ = nullptr;
  hca::Cq* send_cq_ = nullptr;
  hca::Cq* recv_cq_ = nullptr;
  hca::Qp* qp_ = nullptr;
  hca::MemoryRegion* region_ = nullptr;
  hca::AddressHandle* everybody_ = nullptr;
  std::vector<std::byte> memory_;
  uint32_t next_send_ = 0;
  uint32_t sends_in_flight_ = 0;
  int received_slot_ = -1;  // lent to the caller of receive()
};

}  // namespace weft::rdma_cm
