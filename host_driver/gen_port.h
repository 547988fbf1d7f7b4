// host_driver/gen_port.h -- `--os gen:`: a traffic station in the place of an operating system. A run sends requests of
// one kind -- ARP, ICMP, ICMPv6 or UDP echo -- to a LAN object, with a window of unanswered ones, and checks every byte
// of every answer. A window of 1 measures round trips, a larger one load.
//
// A run: start(spec) -> frames go and come through read_frame()/write_frame() -> report() at any time. Answers are
// matched by sequence number, so a lost, repeated or reordered frame is told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/frame_port.h"
#include "base/latency_histogram.h"
#include "host_driver/gen_frames.h"
#include "messages/management.h"

namespace weft {

inline constexpr uint32_t kGenFrameBytesMax = 9018;
inline constexpr uint32_t kGenWindowMax = 4096;

enum class TrafficPhase : uint8_t {
  kIdle,       // no run yet
  kResolving,  // asks for the peer's address
  kSending,
  kDraining,  // all sent; waits for answers
  kFinished,
  kFailed,  // the peer's address could not be found, or the session carries no such frame
};
[[nodiscard]] std::string_view to_string(TrafficPhase phase) noexcept;

/// Owner: the host's thread. `clock` outlives the port; times come from it, so that a round trip is not measured in
/// turns of the loop.
class GenPort final : public FramePort {
 public:
  GenPort(const MacAddress& mac, const Clock& clock);

  /// Fails, changing nothing, while a run is on or when a value of `spec` is out of range.
  Status start(const TrafficSpec& spec);
  void stop() noexcept;
  [[nodiscard]] TrafficReport report() const noexcept;
  [[nodiscard]] TrafficPhase phase() const noexcept { return phase_; }
  [[nodiscard]] bool running() const noexcept {
    return phase_ == TrafficPhase::kResolving || phase_ == TrafficPhase::kSending ||
           phase_ == TrafficPhase::kDraining;
  }

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] Instant deadline() const noexcept override;
  void set_carrier(bool) noexcept override {}
  [[nodiscard]] bool carrier() const noexcept override { return true; }
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  Status set_mtu(uint32_t mtu_bytes) override;
  Status set_promiscuous(bool) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 private:
  struct Outstanding {
    uint64_t sequence = 0;
    int64_t sent_ns = 0;
    uint32_t bytes = 0;
    bool waiting = false;
    bool given_up = false;
  };
  [[nodiscard]] int64_t now_ns() const noexcept { return clock_.now().time_since_epoch().count(); }
  [[nodiscard]] GenKind kind() const noexcept;
  [[nodiscard]] bool may_send(int64_t now) const noexcept;
  [[nodiscard]] bool all_sent(int64_t now) const noexcept;
  [[nodiscard]] uint32_t build_next(std::span<std::byte> frame, int64_t now) noexcept;
  void note_sent(uint32_t bytes, int64_t now) noexcept;
  [[nodiscard]] FrameReadResult count_read(uint32_t frame_bytes) noexcept;
  void take_answer(const GenAnswer& answer) noexcept;
  void take_resolution(const GenAnswer& answer) noexcept;
  void answered(uint64_t sequence) noexcept;
  void give_up_overdue(int64_t now) noexcept;
  void advance() noexcept;
  [[nodiscard]] Outstanding& slot(uint64_t sequence) noexcept { return slots_[sequence % kGenWindowMax]; }

  const Clock& clock_;
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;
  GenStation self_;
  GenStation target_;
  TrafficSpec spec_;
  TrafficReport report_;
  TrafficPhase phase_ = TrafficPhase::kIdle;
  uint16_t run_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t oldest_ = 0;            // all before it are answered or given up
  uint64_t highest_received_ = 0;  // plus one
  int64_t started_ns_ = 0;         // first frame
  int64_t last_ns_ = 0;            // last good answer; without answers last frame
  int64_t next_send_ns_ = 0;
  int64_t resolve_sent_ns_ = 0;
  uint32_t resolve_tries_ = 0;
  bool offered_ = false;  // a frame was due at the last poll()
  std::vector<Outstanding> slots_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> reply_;  // resolution answer waiting to be read
  uint32_t reply_bytes_ = 0;
  LatencyHistogram trips_;
};

}  // namespace weft
