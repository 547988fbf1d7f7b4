// iou_driver/packet_nic.h -- `--nic packet:IF`: a real interface (a veth, an Ethernet card) through a packet
// socket with vnet headers (decisions 5.8). Our own frames do not come back (PACKET_IGNORE_OUTGOING); VLAN
// tags that the kernel took out are put back; open checksums of veth frames travel as such; the interface is
// made to gather no frame longer than an element.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/frame_port.h"
#include "base/net_interface.h"
#include "base/unique_fd.h"

namespace weft {

/// Owner: the unit's thread.
class PacketNic final : public FramePort {
 public:
  /// Opens the socket too. Needs CAP_NET_RAW; the error says so and what works without.
  static Result<std::unique_ptr<PacketNic>> open(const std::string& interface_name);
  /// Takes a raw AF_PACKET socket of protocol 0, neither bound nor set up, from who was allowed to open one.
  static Result<std::unique_ptr<PacketNic>> adopt(UniqueFd socket, const std::string& interface_name);

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  /// Looks at the interface's state a few times a second.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override { return next_look_; }
  void set_carrier(bool) noexcept override {}
  [[nodiscard]] bool carrier() const noexcept override { return up_; }
  /// What comes in is as the kernel has it; the driver half cuts what a host cannot take.
  Status set_offloads(Offload) override { return {}; }
  Status set_mac(const MacAddress& mac) override;
  Status set_mtu(uint32_t mtu_bytes) override;
  /// The socket always sees every frame: the hosts' addresses are not the interface's own.
  Status set_promiscuous(bool) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 private:
  PacketNic(UniqueFd socket, NetInterface interface) noexcept
      : socket_(std::move(socket)), interface_(std::move(interface)) {}
  Status prepare();
  Status set_up_socket();
  [[nodiscard]] uint32_t put_tag_back(std::span<std::byte> into, uint32_t bytes, uint16_t protocol,
                                      uint16_t tag) noexcept;

  UniqueFd socket_;
  NetInterface interface_;
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;
  Instant next_look_ = Instant::min();
  bool up_ = true;
};

}  // namespace weft
