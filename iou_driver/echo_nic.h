// iou_driver/echo_nic.h -- `--nic echo`: a LAN with one object on it that answers ARP, neighbour
// solicitations, ICMP and ICMPv6 echo, and UDP to port 7. No root, no descriptor, no clock: equal input gives
// equal output. The object is outside the fabric (PUSH-NODE-05): it handles frames, not cells or queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/net/model_port.h"

namespace weft::iou {

inline constexpr uint16_t kUdpEchoPort = 7;

struct EchoNicConfig {
  MacAddress nic_mac{0x02, 0, 0, 0, 0xEC, 0x01};     // of the unit's NIC
  MacAddress object_mac{0x02, 0, 0, 0, 0xEC, 0x00};  // of the LAN object
  std::array<uint8_t, 4> ipv4{10, 77, 0, 1};
  std::array<uint8_t, 16> ipv6{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01};
  uint32_t mtu_bytes = 9000;
  uint32_t answers = 256;  // frames the object can hold until the unit reads them; then it is busy
};

/// Owner: the unit's thread. Every frame is answered, refused as busy, or counted as kNoReceiver.
class EchoNic final : public ModelPort {
 public:
  explicit EchoNic(const EchoNicConfig& config);

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return used_ != 0 ? Instant::min() : kNever; }

 private:
  bool answer(std::span<std::byte> frame) noexcept;
  bool answer_arp(std::span<std::byte> frame, uint32_t at) noexcept;
  bool answer_ipv4(std::span<std::byte> frame, uint32_t at, uint32_t transport) noexcept;
  bool answer_ipv6(std::span<std::byte> frame, uint32_t at, uint32_t transport) noexcept;
  bool answer_neighbour(std::span<std::byte> frame, uint32_t at, std::span<std::byte> icmp) noexcept;
  void turn_addresses(std::span<std::byte> frame) noexcept;
  [[nodiscard]] std::byte* slot(uint32_t index) noexcept {
    return storage_.data() + size_t{index % config_.answers} * slot_bytes_;
  }

  EchoNicConfig config_;
  uint32_t slot_bytes_;
  std::vector<std::byte> storage_;  // answers x slot_bytes_
  std::vector<uint32_t> bytes_;     // length of each answer
  uint32_t first_ = 0;              // oldest answer
  uint32_t used_ = 0;
};

}  // namespace weft::iou
