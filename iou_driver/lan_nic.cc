#include "iou_driver/lan_nic.h"

#include "base/check.h"
#include "base/net/tap_port.h"
#include "iou_driver/echo_nic.h"
#include "iou_driver/packet_nic.h"
#include "iou_driver/pcap_nic.h"
#include "iou_driver/slirp_nic.h"

namespace weft::iou {
namespace {

using Nic = Result<std::unique_ptr<FramePort>>;

/// Address of the replaying NIC, which has no interface.
constexpr MacAddress kPcapMac{0x02, 0, 0, 0, 0x9C, 0x01};

template <class Port>
Nic made(Result<std::unique_ptr<Port>> port) {
  if (!port) return port.error();
  return std::unique_ptr<FramePort>(std::move(*port));
}

}  // namespace

Nic open_nic(const node::NicName& nic, int fd, const Clock& clock) {
  switch (nic.kind) {
    case node::NicKind::kEcho:
      return std::unique_ptr<FramePort>(std::make_unique<EchoNic>(EchoNicConfig{}));
    case node::NicKind::kTap:
      return made(fd >= 0 ? TapPort::adopt(UniqueFd(fd), nic.argument) : TapPort::open(nic.argument));
    case node::NicKind::kPacket:
      return made(fd >= 0 ? PacketNic::adopt(UniqueFd(fd), nic.argument) : PacketNic::open(nic.argument));
    case node::NicKind::kSlirp:
      return made(SlirpNic::open(SlirpNicConfig{}, clock));
    case node::NicKind::kPcap:
      return made(PcapNic::open(nic.argument, nic.output, kPcapMac));
  }
  WEFT_CHECK(false, "a kind of NIC that is none");
  return Error{};
}

bool is_model(node::NicKind kind) noexcept {
  return node::row_of(kind).argument != node::PortArgument::kInterface;
}

}  // namespace weft::iou
