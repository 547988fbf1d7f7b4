#include "iou_driver/packet_nic.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/endian.h"
#include "base/net/ethernet.h"
#include "base/net/vnet_header.h"

namespace weft::iou {
namespace {

constexpr uint32_t kKernelVnetBytes =
    10;  // virtio_net_hdr; every kernel knows it (the 12-byte form came with 6.5)
constexpr int kSocketBufferBytes = 4 << 20;

template <class T>
Status set_option(int fd, int level, int option, const T& value, const char* what) {
  if (::setsockopt(fd, level, option, &value, sizeof value) != 0) return errno_error(what, errno);
  return {};
}

packet_mreq promiscuous_on(int index) noexcept {
  packet_mreq membership{};
  membership.mr_ifindex = index;
  membership.mr_type = PACKET_MR_PROMISC;
  return membership;
}

Result<UniqueFd> open_socket(const std::string& interface_name) {
  Result<NetInterface> interface = NetInterface::open(interface_name);
  if (!interface) return interface.error();
  // Protocol 0: no frame comes in before the socket is bound and set up.
  UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) return fd;
  if (errno == EPERM || errno == EACCES) {
    return Error{"packet: interface " + interface_name +
                 ": not permitted: needs CAP_NET_RAW; slirp, pcap and echo work without"};
  }
  return errno_error("packet: socket", errno);
}

}  // namespace

/// Sets options and binds; needs no capability.
Status PacketNic::set_up_socket() {
  const int on = 1;
  for (const auto& [option, what] : {std::pair{PACKET_VNET_HDR, "packet: vnet header"},
                                     std::pair{PACKET_AUXDATA, "packet: auxiliary data"},
                                     std::pair{PACKET_IGNORE_OUTGOING, "packet: ignore outgoing"}}) {
    if (Status set = set_option(fd_.get(), SOL_PACKET, option, on, what); !set) return set;
  }
  // SO_RCVBUFFORCE exceeds the user's limit but needs a capability; SO_RCVBUF is the fall-back.
  if (!set_option(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, kSocketBufferBytes, "packet: buffer").ok()) {
    (void)set_option(fd_.get(), SOL_SOCKET, SO_RCVBUF, kSocketBufferBytes, "packet: buffer").ok();
  }
  const packet_mreq membership = promiscuous_on(interface_.index());
  if (Status set =
          set_option(fd_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership, "packet: promiscuous");
      !set) {
    return set;
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = interface_.index();
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_error("packet: interface " + interface_.name(), errno);
  }
  return {};
}

Result<std::unique_ptr<PacketNic>> PacketNic::open(const std::string& interface_name) {
  Result<UniqueFd> socket = open_socket(interface_name);
  if (!socket) return socket.error();
  return adopt(std::move(*socket), interface_name);
}

Result<std::unique_ptr<PacketNic>> PacketNic::adopt(UniqueFd socket, const std::string& interface_name) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_PACKET) {
    return Error{"packet: descriptor is no packet socket"};
  }
  Result<NetInterface> interface = NetInterface::expect(interface_name);
  if (!interface) return interface.error();
  std::unique_ptr<PacketNic> nic(
      new PacketNic(std::move(socket), std::move(*interface)));  // tidy: private constructor
  constexpr Offload kOffloads = kOffloadsAll;  // the kernel does the missing offloads in software
  if (nic->interface_.index() == 0) {
    nic->describe_absent("packet", kOffloads);
    return nic;
  }
  if (Status set_up = nic->attach(); !set_up) return set_up.error();
  if (Status described = nic->describe("packet", kOffloads); !described) return described.error();
  return nic;
}

Status PacketNic::attach() {
  const int none = 0;
  (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);  // there may be none
  return set_up_socket();
}

/// A renamed interface still exists, so promiscuous mode is taken from it and the socket stops listening to
/// it.
void PacketNic::detach() noexcept {
  const packet_mreq membership = promiscuous_on(interface_.index());
  (void)::setsockopt(fd_.get(), SOL_PACKET, PACKET_DROP_MEMBERSHIP, &membership, sizeof membership);
  sock_filter nothing{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program{.len = 1, .filter = &nothing};
  (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);  // reading it clears it
}

void PacketNic::count_descriptor_losses() noexcept {
  tpacket_stats seen{};  // counted from the last query
  socklen_t bytes = sizeof seen;
  if (::getsockopt(fd_.get(), SOL_PACKET, PACKET_STATISTICS, &seen, &bytes) == 0 && seen.tp_drops != 0)
    counters_.add(PortCounter::kSocketDrops, seen.tp_drops);
}

FrameReadResult PacketNic::read_frame(std::span<std::byte> into) noexcept {
  if (!here()) [[unlikely]]
    return {FrameIo::kDown, 0};
  if (into.size() < kVnetBytes + kEthernetHeaderBytes + kVlanTagBytes) return {FrameIo::kDropped, 0};
  const std::span<std::byte> frame = into.subspan(kVnetBytes);
  iovec parts[2]{{into.data(), kKernelVnetBytes}, {frame.data(), frame.size()}};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(tpacket_auxdata))];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) return read_failed(errno);
  auto bytes = static_cast<size_t>(got);
  if ((message.msg_flags & MSG_TRUNC) != 0 || bytes > kKernelVnetBytes + frame.size()) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  if (bytes < kKernelVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kReadMalformed);
    return {FrameIo::kDropped, 0};
  }
  into[kKernelVnetBytes] = into[kKernelVnetBytes + 1] = std::byte{0};
  auto length = static_cast<uint32_t>(bytes - kKernelVnetBytes + kVnetBytes);
  for (const cmsghdr* entry = CMSG_FIRSTHDR(&message); entry != nullptr;
       entry = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(entry))) {
    if (entry->cmsg_level != SOL_PACKET || entry->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata data;
    std::memcpy(&data, CMSG_DATA(entry), sizeof data);
    if ((data.tp_status & TP_STATUS_VLAN_VALID) == 0) continue;
    const bool named = (data.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    length = put_tag_back(into, length, named ? data.tp_vlan_tpid : kEtherTypeVlan, data.tp_vlan_tci);
    if (length == 0) return {FrameIo::kDropped, 0};
  }
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, length - kVnetBytes);
  return {FrameIo::kOk, length};
}

/// Inserts the VLAN tag behind the addresses; 0 if there is no room.
uint32_t PacketNic::put_tag_back(std::span<std::byte> into, uint32_t bytes, uint16_t protocol,
                                 uint16_t tag) noexcept {
  constexpr uint32_t kAt = kVnetBytes + 12;
  if (into.size() < bytes + kVlanTagBytes) {
    counters_.add(PortCounter::kReadTooLong);
    return 0;
  }
  std::memmove(into.data() + kAt + kVlanTagBytes, into.data() + kAt, bytes - kAt);
  store_be(into.data() + kAt, protocol);
  store_be(into.data() + kAt + 2, tag);
  VnetHeader vnet = load_vnet(into.data());
  if ((vnet.flags & kVnetNeedsChecksum) != 0) {
    vnet.checksum_start = static_cast<uint16_t>(vnet.checksum_start + kVlanTagBytes);
  }
  if (vnet.header_bytes != 0) vnet.header_bytes = static_cast<uint16_t>(vnet.header_bytes + kVlanTagBytes);
  store_vnet(into.data(), vnet);
  counters_.add(PortCounter::kVlanTagsInserted);
  return bytes + kVlanTagBytes;
}

FrameIo PacketNic::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  if (!here()) [[unlikely]]
    return write_failed(ENODEV);
  // sendmsg takes pointers to mutable memory and only reads it.
  auto* from = const_cast<std::byte*>(head.data());
  iovec parts[3]{{from, kKernelVnetBytes},
                 {from + kVnetBytes, head.size() - kVnetBytes},
                 {const_cast<std::byte*>(rest.data()), rest.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = rest.empty() ? 2 : 3;
  if (::sendmsg(fd_.get(), &message, MSG_DONTWAIT) >= 0) {
    counters_.add(PortCounter::kFramesWritten);
    counters_.add(PortCounter::kBytesWritten, head.size() + rest.size() - kVnetBytes);
    return FrameIo::kOk;
  }
  return write_failed(errno);
}

Status PacketNic::set_mac(const MacAddress& mac) {
  return Error{"packet " + info_.name + ": the interface keeps its own address; " + to_string(mac) +
               " is served without it"};
}

}  // namespace weft::iou
