#include "tools/commands/traffic_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "control/control_client.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTrafficTimeout = 3s;
constexpr int kMissedAnswersMax = 10;
/// A run without one answered frame for this long, or for three answer timeouts if that is longer, is ended:
/// a session to a frozen unit stays open for longer.
constexpr Duration kNoAnswerMax = 10s;
constexpr std::array<const char*, control::kTrafficKinds> kKindNames{"arp", "icmp", "icmpv6", "udp"};

double us(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1'000.0;
}

std::string times_json(const control::RoundTripTimes& t) {
  return fmt::format("{{\"count\":{},\"p50\":{:.2f},\"p99\":{:.2f},\"p999\":{:.2f},\"max\":{:.2f}}}", t.count,
                     us(t.p50_ns), us(t.p99_ns), us(t.p999_ns), us(t.max_ns));
}

}  // namespace

Result<control::TrafficFigures> run_traffic(
    const std::string& control_path, const control::TrafficRun& run,
    const std::function<bool(const control::TrafficFigures&)>& progress) {
  control::ControlClient client;
  control::ControlRequest request;
  request.action = control::ControlAction::kTrafficStart;
  request.traffic = run;
  if (Result<control::ControlReply> started = client.ask(control_path, request, kTrafficTimeout);
      !started.ok())
    return started.error();
  int missed = 0;
  bool stopping = false;
  const Duration patience = std::max<Duration>(kNoAnswerMax, 3 * std::chrono::milliseconds(run.timeout_ms));
  uint64_t answered = 0;
  Instant last_answer = MonotonicClock().now();
  for (;;) {
    std::this_thread::sleep_for(50ms);
    request.action = control::ControlAction::kTrafficReport;
    Result<control::ControlReply> reply = client.ask(control_path, request, kTrafficTimeout);
    if (!reply.ok()) {
      if (++missed >= kMissedAnswersMax) return reply.error();
      continue;
    }
    missed = 0;
    const control::TrafficFigures& figures = reply.value().traffic;
    if (!figures.running) return figures;
    const Instant now = MonotonicClock().now();
    if (figures.frames_received != answered) last_answer = now;
    answered = figures.frames_received;
    if (now - last_answer >= patience) {
      request.action = control::ControlAction::kTrafficStop;
      static_cast<void>(client.ask(control_path, request, kTrafficTimeout));
      return Error{fmt::format(
          "no frame has come back for {} s, after {} of {}; weft stat says what blocks, and weft status "
          "whether unit and session are up",
          std::chrono::duration_cast<std::chrono::seconds>(patience).count(), answered, figures.frames_sent)};
    }
    if (stopping || !progress || progress(figures)) continue;
    stopping = true;  // frames under way still count
    request.action = control::ControlAction::kTrafficStop;
    if (reply = client.ask(control_path, request, kTrafficTimeout); !reply.ok()) return reply.error();
  }
}

bool all_came_back(const control::TrafficFigures& f) noexcept {
  return f.phase == "finished" && f.frames_sent > 0 && f.frames_received == f.frames_sent && f.lost == 0 &&
         f.corrupted == 0 && f.duplicated == 0 && f.reordered == 0 && f.late == 0;
}

double gbps_of(const control::TrafficFigures& f) noexcept {
  return f.bulk_ns == 0 ? 0.0
                        : static_cast<double>(f.bulk_bytes_received) * 8.0 / static_cast<double>(f.bulk_ns);
}

std::string traffic_json_fields(const control::TrafficFigures& f) {
  std::string kinds;
  for (size_t i = 0; i < control::kTrafficKinds; ++i)
    kinds += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", kKindNames[i], times_json(f.by_kind[i]));
  return fmt::format(
      "\"frames_sent\":{},\"frames_received\":{},\"lost\":{},\"corrupted\":{},\"duplicated\":{},"
      "\"reordered\":{},"
      "\"late\":{},\"rtt_us\":{},\"rtt_us_by_kind\":{{{}}},\"rtt_us_under_load\":{},\"bytes\":{},\"gbps\":{:."
      "3f}",
      f.frames_sent, f.frames_received, f.lost, f.corrupted, f.duplicated, f.reordered, f.late,
      times_json(f.round_trip), kinds, times_json(f.bulk_round_trip), f.bulk_bytes_received, gbps_of(f));
}

std::string traffic_table(const control::TrafficFigures& f) {
  std::string text =
      fmt::format("  frames sent {}, came back {}, lost {}, corrupted {}, duplicated {}, reordered {}\n",
                  f.frames_sent, f.frames_received, f.lost, f.corrupted, f.duplicated, f.reordered);
  text += fmt::format("  {:<14} {:>9} {:>10} {:>10} {:>10} {:>10}\n", "round trip, us", "count", "median",
                      "p99", "p99.9", "max");
  const auto row = [&text](const char* name, const control::RoundTripTimes& t) {
    if (t.count == 0) return;
    text += fmt::format("  {:<14} {:>9} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, t.count,
                        us(t.p50_ns), us(t.p99_ns), us(t.p999_ns), us(t.max_ns));
  };
  for (size_t i = 0; i < control::kTrafficKinds; ++i) row(kKindNames[i], f.by_kind[i]);
  row("under load", f.bulk_round_trip);
  if (f.bulk_ns != 0)
    text += fmt::format("  bulk: {} frames, {:.1f} MB verified, {:.2f} Gb/s each way, {:.0f} frames/s\n",
                        f.bulk_frames_received, static_cast<double>(f.bulk_bytes_received) / 1e6, gbps_of(f),
                        static_cast<double>(f.bulk_frames_received) * 1e9 / static_cast<double>(f.bulk_ns));
  text.pop_back();
  return text;
}

}  // namespace weft::tools
