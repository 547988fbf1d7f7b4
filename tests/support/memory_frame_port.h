// tests/support/memory_frame_port.h -- FramePort without a kernel: a test puts frames in and takes frames
// out, and can make the port busy, slow, dropping or down. Virtual time only.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/net/ethernet.h"
#include "base/net/frame_port.h"

namespace weft::test {

/// Frames here are what stands on the port: vnet header and Ethernet frame.
class MemoryFramePort final : public FramePort {
 public:
  using Bytes = std::vector<std::byte>;

  explicit MemoryFramePort(const MacAddress& mac, Offload offloads = Offload::kNone,
                           uint32_t mtu_bytes = 9000, uint32_t frame_bytes_max = 9018) {
    info_ = {.kind = "memory",
             .name = "",
             .mac = mac,
             .mtu_bytes = mtu_bytes,
             .frame_bytes_max = frame_bytes_max,
             .offloads = offloads};
  }

  // ---- the test's side
  /// A frame that the driver will read next; the vnet header is put in front.
  void inject(std::span<const std::byte> frame) {
    Bytes bytes(kVnetBytes);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    to_read.push_back(std::move(bytes));
  }
  /// As inject(), vnet header included in `bytes`.
  void inject_raw(std::span<const std::byte> bytes) { to_read.emplace_back(bytes.begin(), bytes.end()); }
  /// As `ip link set promisc on` and `allmulticast on`.
  void switch_filters(bool promiscuous_on, bool all_multicast_on) {
    info_.promiscuous = promiscuous_on;
    info_.all_multicast = all_multicast_on;
  }

  /// As `ip link set mtu`, which knows no limit of ours.
  void show_mtu(uint32_t mtu_bytes) { info_.mtu_bytes = mtu_bytes; }

  std::deque<Bytes> to_read;                    // not yet read by the driver
  std::vector<Bytes> written;                   // what the driver wrote, vnet header included
  std::vector<uint32_t> head_bytes;             // length of the private head of each written frame
  std::vector<std::span<std::byte>> read_into;  // where the driver wanted each frame
  bool busy = false;                            // write_frame() answers kBusy
  bool drop = false;                            // write_frame() answers kDropped
  bool down = false;                            // both directions answer kDown
  uint64_t writes_allowed = std::numeric_limits<uint64_t>::max();  // slow reader behind the port: then kBusy
  bool carrier_up = true;                                          // of the medium
  bool carrier_set = false;                                        // last set_carrier()
  uint32_t carrier_sets = 0;
  Offload offloads_set = Offload::kNone;
  bool promiscuous = false;
  bool refuse_settings = false;        // set_*() fail
  std::function<void()> before_write;  // runs when a frame is about to be taken

  // ---- the driver's side
  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override {
    if (down) return {FrameIo::kDown, 0};
    if (to_read.empty()) return {FrameIo::kEmpty, 0};
    const Bytes frame = std::move(to_read.front());
    to_read.pop_front();
    if (frame.size() > into.size()) {
      counters_.add(PortCounter::kReadTooLong);
      return {FrameIo::kDropped, 0};
    }
    std::memcpy(into.data(), frame.data(), frame.size());
    read_into.push_back(into);
    counters_.add(PortCounter::kFramesRead);
    counters_.add(PortCounter::kBytesRead, frame.size() - kVnetBytes);
    return {FrameIo::kOk, static_cast<uint32_t>(frame.size())};
  }
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override {
    if (down) return FrameIo::kDown;
    if (busy || writes_allowed == 0) {
      counters_.add(PortCounter::kWriteBusy);
      return FrameIo::kBusy;
    }
    if (drop) return FrameIo::kDropped;
    if (before_write) before_write();
    if (writes_allowed != std::numeric_limits<uint64_t>::max()) --writes_allowed;
    Bytes frame(head.begin(), head.end());
    frame.insert(frame.end(), rest.begin(), rest.end());
    written.push_back(std::move(frame));
    head_bytes.push_back(static_cast<uint32_t>(head.size()));
    counters_.add(PortCounter::kFramesWritten);
    counters_.add(PortCounter::kBytesWritten, written.back().size() - kVnetBytes);
    return FrameIo::kOk;
  }
  int poll(Instant) noexcept override { return 0; }
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] Instant deadline() const noexcept override {
    return to_read.empty() ? kNever : Instant::min();
  }
  void set_carrier(bool up) noexcept override {
    carrier_set = up;
    ++carrier_sets;
  }
  [[nodiscard]] bool carrier() const noexcept override { return carrier_up && !down; }
  Status set_offloads(Offload wanted) override {
    if (refuse_settings || !is_subset(wanted, info_.offloads)) return Error{"memory: offloads refused"};
    offloads_set = wanted;
    return {};
  }
  Status set_mac(const MacAddress& mac) override {
    if (refuse_settings || !is_station(mac)) return Error{"memory: address refused"};
    info_.mac = mac;
    return {};
  }
  Status set_mtu(uint32_t mtu_bytes) override {
    if (refuse_settings || mtu_bytes < 68 || mtu_bytes > 9000) return Error{"memory: MTU refused"};
    info_.mtu_bytes = mtu_bytes;
    return {};
  }
  Status set_promiscuous(bool on) override {
    if (refuse_settings) return Error{"memory: promiscuous mode refused"};
    promiscuous = on;
    return {};
  }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 private:
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;
};

}  // namespace weft::test
