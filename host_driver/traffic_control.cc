#include "host_driver/traffic_control.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::host {
namespace {

/// The client of a run requests its report several times a second. A run without such a request for this long
/// has lost its client.
constexpr Duration kTrafficLease = std::chrono::seconds(5);

control::RoundTripTimes times(const RoundTripFigures& from) {
  return {.count = from.count,
          .p50_ns = from.p50_ns,
          .p99_ns = from.p99_ns,
          .p999_ns = from.p999_ns,
          .max_ns = from.max_ns};
}

control::TrafficFigures figures(const TrafficResult& from, bool running) {
  control::TrafficFigures out;
  out.running = running;
  out.phase = to_string(from.phase);
  out.frames_sent = from.frames_sent;
  out.frames_received = from.frames_received;
  out.lost = from.lost;
  out.corrupted = from.corrupted;
  out.duplicated = from.duplicated;
  out.reordered = from.reordered;
  out.late = from.late;
  out.bulk_frames_received = from.bulk_frames_received;
  out.bulk_bytes_received = from.bulk_bytes_received;
  out.bulk_ns = from.bulk_ns;
  out.round_trip = times(from.round_trip);
  for (size_t i = 0; i < out.by_kind.size(); ++i) out.by_kind[i] = times(from.by_kind[i]);
  out.bulk_round_trip = times(from.bulk_round_trip);
  return out;
}

}  // namespace

TrafficSpec traffic_spec(const control::TrafficRun& run) {
  TrafficSpec spec;
  spec.lease = kTrafficLease;
  spec.round_trips = run.round_trips;
  spec.arp = run.arp;
  spec.icmp = run.icmp;
  spec.icmpv6 = run.icmpv6;
  spec.udp = run.udp;
  spec.round_trip_bytes = run.round_trip_bytes;
  spec.bulk_frames = run.bulk ? run.bulk_frames : 0;
  spec.bulk_duration = run.bulk ? std::chrono::milliseconds(run.bulk_duration_ms) : Duration{};
  spec.size_count = static_cast<uint32_t>(std::min<size_t>(run.sizes.size(), kGenSizesMax));
  std::copy_n(run.sizes.begin(), spec.size_count, spec.sizes.begin());
  spec.rate_per_s = run.rate;
  spec.window = run.window;
  if (run.timeout_ms != 0) spec.answer_timeout = std::chrono::milliseconds(run.timeout_ms);
  spec.seed = run.seed;
  for (size_t i = 0; i < 4 && run.target_ipv4 != 0; ++i) {
    spec.target_ipv4[i] = static_cast<uint8_t>(run.target_ipv4 >> (24 - 8 * i));
  }
  for (size_t i = 0; i < 8 && (run.target_ipv6_high | run.target_ipv6_low) != 0; ++i) {
    spec.target_ipv6[i] = static_cast<uint8_t>(run.target_ipv6_high >> (56 - 8 * i));
    spec.target_ipv6[8 + i] = static_cast<uint8_t>(run.target_ipv6_low >> (56 - 8 * i));
  }
  return spec;
}

Status TrafficControl::start(const control::TrafficRun& run) {
  if (generators_.empty()) return Error{"this host has no generator; traffic needs one whose os is \"gen\""};
  if (run.port >= generators_.size())
    return Error{
        fmt::format("this host has no generator {}, its last one is {}", run.port, generators_.size() - 1)};
  GenPort* wanted = generators_[run.port];
  if (!wanted->finished()) return Error{"a run is on already; wait for its end"};
  last_ = wanted;
  return wanted->start(traffic_spec(run));
}

Result<control::TrafficFigures> TrafficControl::stop() {
  if (last_ != nullptr) last_->stop();
  return report();
}

Result<control::TrafficFigures> TrafficControl::report() {
  if (last_ == nullptr) return Error{"no traffic was started since this host began"};
  last_->renew();
  return figures(last_->result(), !last_->finished());
}

}  // namespace weft::host
