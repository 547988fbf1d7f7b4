// base/net/frame_port.h -- where Ethernet frames enter and leave a driver half: TAP, packet socket, slirp,
// generator, test twin. One implementation per kind; the driver cores see only this.
//
// A frame on a port is `[virtio-net header, kVnetBytes] [Ethernet frame]`. A port that has no offloads reads
// and writes an all-zero header.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/result.h"

namespace weft {

/// virtio_net_hdr_mrg_rxbuf, as TUNSETVNETHDRSZ 12 and PACKET_VNET_HDR_SZ use it.
inline constexpr uint32_t kVnetBytes = 12;
inline constexpr uint32_t kEthernetHeaderBytes = 14;

using MacAddress = std::array<uint8_t, 6>;

/// Offloads as bits: work that one side may leave to the other.
enum class Offload : uint32_t {
  kNone = 0,
  kChecksum = 1U << 0,  // checksum not yet filled in (VIRTIO_NET_HDR_F_NEEDS_CSUM)
  kTso4 = 1U << 1,      // TCP segmentation, IPv4
  kTso6 = 1U << 2,      // TCP segmentation, IPv6
  kTsoEcn = 1U << 3,
  kUso4 = 1U << 4,  // UDP segmentation
  kUso6 = 1U << 5,
};
[[nodiscard]] constexpr Offload operator|(Offload a, Offload b) noexcept {
  return static_cast<Offload>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
[[nodiscard]] constexpr Offload operator&(Offload a, Offload b) noexcept {
  return static_cast<Offload>(static_cast<uint32_t>(a) & static_cast<uint32_t>(b));
}

/// True when every bit of `part` is in `whole`.
[[nodiscard]] constexpr bool is_subset(Offload part, Offload whole) noexcept {
  return (part & whole) == part;
}
[[nodiscard]] constexpr bool has(Offload set, Offload bit) noexcept {
  return (set & bit) != Offload::kNone;
}
/// Every offload that the fabric carries.
inline constexpr Offload kOffloadsAll =
    Offload::kChecksum | Offload::kTso4 | Offload::kTso6 | Offload::kTsoEcn | Offload::kUso4 | Offload::kUso6;

/// What every port counts. Read is towards the driver, written is towards the OS or the LAN.
enum class PortCounter : uint8_t {
  kFramesRead,
  kBytesRead,
  kFramesWritten,
  kBytesWritten,
  kReadTooLong,    // a frame did not fit into the memory offered
  kReadMalformed,  // shorter than an Ethernet header, or an impossible length
  kReadErrors,     // the system refused a read
  kWriteTooLong,
  kWriteMalformed,    // shorter than an Ethernet header, or a vnet header that contradicts the frame
  kWriteBusy,         // the other side took no frame; it was offered again later
  kWriteErrors,       // the system refused a write; the frame is lost
  kNoReceiver,        // no peer behind the port, or none that answers this frame; the frame is lost
  kVlanTagsInserted,  // tags that the kernel delivered beside the frame and that were put back into it
  kForeignUser,       // a process of another user connected to our socket and was refused
  kCarrierChanges,
  kInterfaceGone,         // the interface was deleted, renamed or moved while we used it
  kInterfaceBack,         // an interface of that name exists again, and the port attached to it
  kSocketDrops,           // the kernel dropped frames to be read: our socket had no room for them
  kInterfaceReadDrops,    // the interface dropped frames on their way to us
  kInterfaceReadErrors,   // the interface received damaged frames
  kInterfaceWriteDrops,   // the interface dropped frames on their way from us, or from others who use it
  kInterfaceWriteErrors,  // the interface failed to send frames
  kCount,
};

[[nodiscard]] constexpr CounterNames<PortCounter> counter_labels(PortCounter /*of*/) noexcept {
  return {"frames_read",           "bytes_read",
          "frames_written",        "bytes_written",
          "read_too_long",         "read_malformed",
          "read_errors",           "write_too_long",
          "write_malformed",       "write_busy",
          "write_errors",          "no_receiver",
          "vlan_tags_inserted",    "foreign_user",
          "carrier_changes",       "interface_gone",
          "interface_back",        "socket_drops",
          "interface_read_drops",  "interface_read_errors",
          "interface_write_drops", "interface_write_errors"};
}

struct FramePortInfo {
  std::string kind;              // "tap", "packet", "slirp", "pcap", "echo", "gen", "unix", "memory"
  std::string name;              // interface, path or empty
  MacAddress mac{};              // the port's own address; zero when it has none
  uint32_t mtu_bytes = 1500;     // payload of an Ethernet frame without GSO, without the 14-byte header
  uint32_t frame_bytes_max = 0;  // largest frame read or written, without vnet header
  Offload offloads = Offload::kNone;
  bool promiscuous = false;  // switched on at the interface: its OS wants all frames
  bool all_multicast = false;
  bool gone = false;  // there is no interface of that name now; the port waits for it
};

enum class FrameIo : uint8_t {
  kOk,       // a frame was moved
  kEmpty,    // nothing to read
  kBusy,     // cannot take a frame now; try again later, nothing was consumed
  kDropped,  // the port refused this frame for good (too long, malformed); counted by the port
  kDown,     // the port is gone or its interface is down
};

struct FrameReadResult {
  FrameIo io;
  uint32_t bytes;  // kOk: vnet header plus frame, otherwise 0
};

/// Owner: the thread that polls the driver half. All calls below set-up are noexcept and never block.
class FramePort {
 public:
  virtual ~FramePort() = default;
  [[nodiscard]] virtual const FramePortInfo& info() const noexcept = 0;

  /// Reads one frame straight into `into` (registered memory). A frame that does not fit is kDropped.
  [[nodiscard]] virtual FrameReadResult read_frame(std::span<std::byte> into) noexcept = 0;

  /// Writes one frame given in two parts: `head` is the driver's private, validated copy of the first bytes
  /// (vnet header, MAC and VLAN headers at least), `rest` is what follows, in place in the pool element
  /// (decisions 2.16, section 4: a hostile initiator may rewrite the element at any time).
  [[nodiscard]] virtual FrameIo write_frame(std::span<const std::byte> head,
                                            std::span<const std::byte> rest) noexcept = 0;

  /// Work that is not tied to a frame: timers of slirp, generator pacing. Returns work done.
  virtual int poll(Instant now) noexcept = 0;
  /// Adds the descriptors whose readiness should wake the loop.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// When poll() wants to run next though no descriptor is ready; kNever when it does not.
  [[nodiscard]] virtual Instant deadline() const noexcept { return kNever; }

  /// Link state towards the OS or the LAN object. No effect where the port has none.
  virtual void set_carrier(bool up) noexcept = 0;
  /// True while the medium behind the port is up.
  [[nodiscard]] virtual bool carrier() const noexcept = 0;
  /// Restricts what the reader of this port may hand us unfinished (TUNSETOFFLOAD). Fails if not a subset of
  /// info().
  virtual Status set_offloads(Offload wanted) = 0;
  virtual Status set_mac(const MacAddress& mac) = 0;
  virtual Status set_mtu(uint32_t mtu_bytes) = 0;
  virtual Status set_promiscuous(bool on) = 0;
  /// What the port has counted; publish it to a stats page before the first frame.
  [[nodiscard]] virtual CounterSet<PortCounter>& counters() noexcept = 0;
};

}  // namespace weft
