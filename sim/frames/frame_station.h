// sim/frames/frame_station.h -- the in-memory counterpart of a TAP or a NIC: offers frames of its flows when
// they are due, and passes arriving frames to the ledger. Outlives the driver half that uses it, like a
// persistent TAP.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/net/frame_port.h"
#include "base/rng.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"

namespace weft::sim {

/// Traffic of one flow that starts at this station.
struct FrameSource {
  uint32_t flow = 0;
  uint32_t frames = 0;  // number of planned frames
  uint32_t bytes_min = 60;
  uint32_t bytes_max = 1514;
  Duration gap{};
  // State.
  uint32_t offered = 0;
  Instant next_at{};
  bool open = false;  // the flow's session takes frames; otherwise frames may be lost
};

/// Owner: the netdev scenario.
class FrameStation final : public FramePort {
 public:
  FrameStation(std::string name, const MacAddress& mac, uint32_t mtu_bytes, FlowLedger& ledger,
               RandomSource& random);

  void add_source(const FrameSource& source) { sources_.push_back(source); }
  void add_sink(uint32_t flow) { sinks_.push_back(flow); }
  /// A slow reader takes one frame per `pause`.
  void set_reader_pause(Duration pause) noexcept { reader_pause_ = pause; }
  [[nodiscard]] std::vector<FrameSource>& sources() noexcept { return sources_; }
  void trickle() noexcept { trickle_ = true; }
  void stop() noexcept { stopped_ = true; }
  [[nodiscard]] bool finished() const noexcept;

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  [[nodiscard]] Instant deadline() const noexcept override;
  void set_carrier(bool up) noexcept override { carrier_ = up; }
  [[nodiscard]] bool carrier() const noexcept override { return true; }
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  Status set_mtu(uint32_t mtu_bytes) override;
  Status set_promiscuous(bool /*on*/) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

  /// Sets the time for calls before the first poll of a driver half.
  void set_now(Instant now) noexcept { now_ = now; }

 private:
  [[nodiscard]] FrameSource* due_source() noexcept;

  FramePortInfo info_;
  FlowLedger& ledger_;
  RandomSource& random_;
  std::vector<FrameSource> sources_;
  std::vector<uint32_t> sinks_;
  std::vector<std::byte> scratch_;
  Instant now_{};
  Instant reader_ready_at_{};
  Duration reader_pause_{};
  bool reader_was_busy_ = false;
  bool carrier_ = false;
  bool trickle_ = false;
  bool stopped_ = false;
  size_t turn_ = 0;  // index of the source that is asked first
  CounterSet<PortCounter> counters_;
};

}  // namespace weft::sim
