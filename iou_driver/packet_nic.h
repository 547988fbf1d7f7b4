// iou_driver/packet_nic.h -- `--nic packet:IF`: a real interface (a veth, an Ethernet card) through a packet
// socket with vnet headers (decisions 5.8). Our own frames do not come back (PACKET_IGNORE_OUTGOING); VLAN
// tags that the kernel took out are put back; open checksums of veth frames travel as such; GRO is limited to
// frames that fit an element. The socket outlives the interface: it is bound to the next interface of that
// name, which needs no capability.
#pragma once

#include <net/if.h>

#include <memory>
#include <string>
#include <utility>

#include "base/net/kernel_port.h"

namespace weft::iou {

/// Owner: the unit's thread.
class PacketNic final : public KernelPort {
 public:
  /// Opens the socket too. Needs CAP_NET_RAW; the error names an alternative.
  static Result<std::unique_ptr<PacketNic>> open(const std::string& interface_name);
  /// Takes a raw AF_PACKET socket of protocol 0, neither bound nor set up, from the privileged process that
  /// opened it. If the interface is missing, the port starts without it and attaches when it appears.
  static Result<std::unique_ptr<PacketNic>> adopt(UniqueFd socket, const std::string& interface_name);

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  void set_carrier(bool) noexcept override {}
  /// No effect: frames arrive as the kernel has them, and the driver half cuts them where needed.
  Status set_offloads(Offload) override { return {}; }
  Status set_mac(const MacAddress& mac) override;
  /// The socket always sees every frame: the hosts' addresses are not the interface's own.
  Status set_promiscuous(bool) override { return {}; }

 private:
  PacketNic(UniqueFd socket, NetInterface interface) noexcept
      : KernelPort(std::move(socket), std::move(interface), IFF_RUNNING, Side::kInterfaceReceives) {}
  Status attach() override;
  void detach() noexcept override;
  void count_descriptor_losses() noexcept override;
  Status set_up_socket();
  [[nodiscard]] uint32_t put_tag_back(std::span<std::byte> into, uint32_t bytes, uint16_t protocol,
                                      uint16_t tag) noexcept;
};

}  // namespace weft::iou
