// host_driver/gen_port.h -- `--os gen:`: a traffic generator in place of an operating system. It resolves the
// LAN object's address, makes ARP, ICMP, ICMPv6 and UDP round trips one at a time, then a bulk run over UDP
// echo with a window, and checks every byte of every answer.
//
// A run: start(spec), then frames pass through read_frame() and write_frame(); result() may be called at any
// time; finished() is true when all answers have arrived or were given up. Answers are matched by sequence
// number, which distinguishes lost, repeated and reordered frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/latency_histogram.h"
#include "base/net/model_port.h"
#include "host_driver/gen_frames.h"

namespace weft::host {

inline constexpr uint32_t kGenFrameBytesMax = 9018;
inline constexpr uint32_t kGenSizesMax = 8;
inline constexpr uint32_t kGenWindowMax = 4096;

/// What to send.
struct TrafficSpec {
  uint32_t round_trips = 100;  // of each kind below, one outstanding
  bool arp = true, icmp = true, icmpv6 = true, udp = true;
  uint32_t round_trip_bytes = 98;                  // frame length, kGenFrameBytesMin..kGenFrameBytesMax
  uint64_t bulk_frames = 10000;                    // 0: as many as bulk_duration allows
  Duration bulk_duration{};                        // 0: until bulk_frames are sent
  std::array<uint32_t, kGenSizesMax> sizes{1514};  // frame lengths of the bulk run, in turn
  uint32_t size_count = 1;
  uint64_t rate_per_s = 0;                            // bulk frames per second; 0: as fast as the window lets
  uint32_t window = 64;                               // bulk frames without answer, 1..kGenWindowMax
  Duration answer_timeout = std::chrono::seconds(2);  // then a frame counts as lost
  uint64_t seed = 1;                                  // of pattern and run number
  Duration lease{};                                   // the run ends if renew() is not called for this long;
                                                      // 0: no lease
  std::array<uint8_t, 4> target_ipv4{10, 77, 0, 1};
  std::array<uint8_t, 16> target_ipv6{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01};
};

/// The last four end a run: kFailed when no peer answered, kTooLong at a frame that the session cannot carry,
/// kAbandoned when the lease ran out.
enum class TrafficPhase : uint8_t {
  kIdle,
  kResolving,
  kRoundTrips,
  kBulk,
  kDraining,
  kFinished,
  kFailed,
  kTooLong,
  kAbandoned
};
[[nodiscard]] std::string_view to_string(TrafficPhase phase) noexcept;

struct RoundTripFigures {
  uint64_t count = 0, p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};

/// The figures of a run. Frames are bulk frames and round trips together unless the name says otherwise.
struct TrafficResult {
  TrafficPhase phase = TrafficPhase::kIdle;
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;  // good answers
  uint64_t lost = 0;             // no good answer in time
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;  // good, but after a later one
  uint64_t late = 0;       // arrived after they had been given up
  uint64_t bulk_frames_received = 0;
  uint64_t bulk_bytes_received = 0;  // frame bytes of good bulk answers
  uint64_t bulk_ns = 0;              // first bulk frame sent to last good answer
  RoundTripFigures round_trip;       // all kinds, one outstanding
  RoundTripFigures by_kind[4];       // ARP, ICMP, ICMPv6, UDP
  RoundTripFigures bulk_round_trip;  // under load
  [[nodiscard]] double bulk_gbps() const noexcept {
    return bulk_ns == 0 ? 0.0 : static_cast<double>(bulk_bytes_received) * 8.0 / static_cast<double>(bulk_ns);
  }
};

/// Owner: the host's thread. `clock` outlives the port; time stamps come from it, so that a round trip is not
/// measured in turns of the loop.
class GenPort final : public ModelPort {
 public:
  GenPort(const MacAddress& mac, const Clock& clock);

  /// Starts a run and ends the current one. Fails, changing nothing, if a value of `spec` is out of range.
  Status start(const TrafficSpec& spec);
  /// Stops sending; the run is finished() when all outstanding answers have arrived or were given up.
  void stop() noexcept;
  /// Renews the lease: the client of the run still exists.
  void renew() noexcept { unrenewed_ns_ = 0; }
  [[nodiscard]] TrafficResult result() const noexcept;
  [[nodiscard]] bool finished() const noexcept {
    return phase_ == TrafficPhase::kIdle || phase_ >= TrafficPhase::kFinished;
  }

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  void set_carrier(bool up) noexcept override { carrier_ = up; }
  Status set_mac(const MacAddress& mac) override;

 private:
  struct Outstanding {
    uint64_t sequence = 0;
    int64_t sent_ns = 0;
    bool waiting = false;
  };
  [[nodiscard]] int64_t now_ns() const noexcept { return clock_.now().time_since_epoch().count(); }
  [[nodiscard]] bool may_send(int64_t now) const noexcept;
  [[nodiscard]] uint32_t build_next(std::span<std::byte> frame, int64_t now) noexcept;
  [[nodiscard]] FrameReadResult count_read(uint32_t frame_bytes) noexcept;
  void take_answer(const GenAnswer& answer, uint32_t frame_bytes) noexcept;
  void take_stamped(const GenAnswer& answer, uint32_t frame_bytes) noexcept;
  void take_resolution(const GenAnswer& answer) noexcept;
  void round_trip_done(int64_t sent_ns) noexcept;
  void give_up_overdue(int64_t now) noexcept;
  [[nodiscard]] bool lease_ran_out(int64_t now) noexcept;
  void resolve_or_fail(int64_t now) noexcept;
  void advance() noexcept;
  [[nodiscard]] bool bulk_all_sent(int64_t now) const noexcept;
  [[nodiscard]] Outstanding& slot(uint64_t sequence) noexcept { return slots_[sequence % kGenWindowMax]; }
  [[nodiscard]] GenKind kind_now() const noexcept;

  const Clock& clock_;
  GenStation self_;
  GenStation target_;
  TrafficSpec spec_;
  TrafficResult result_;
  TrafficPhase phase_ = TrafficPhase::kIdle;
  uint16_t run_ = 0;  // stamped on every frame
  uint64_t runs_ = 0;
  uint32_t kind_index_ = 0;  // in kRoundTrips
  uint32_t trips_done_ = 0;  // of this kind
  uint64_t next_sequence_ = 0;
  uint64_t oldest_ = 0;            // all before it are answered or given up
  uint64_t highest_received_ = 0;  // plus one
  uint64_t bulk_first_ = 0;        // first sequence of the bulk run
  uint64_t bulk_sent_ = 0;
  int64_t bulk_started_ns_ = 0;
  int64_t bulk_last_ns_ = 0;
  int64_t next_send_ns_ = 0;
  int64_t resolve_sent_ns_ = 0;
  int64_t polled_ns_ = 0;
  int64_t unrenewed_ns_ = 0;  // after the last renew(), without the time in which this process stood still
  uint32_t resolve_tries_ = 0;
  uint32_t resolve_open_ = 0;  // requests sent minus answers received; while it is above 0, a second answer
                               // is no repetition
  bool resolved_ipv4_ = false, resolved_ipv6_ = false;
  bool stopping_ = false;  // stop() was called: nothing new leaves
  bool carrier_ = false;
  std::vector<Outstanding> slots_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> reply_;  // resolution answer waiting to be read
  uint32_t reply_bytes_ = 0;
  LatencyHistogram trips_[4];
  LatencyHistogram all_trips_;
  LatencyHistogram bulk_trips_;
};

}  // namespace weft::host
