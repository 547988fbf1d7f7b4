// How it works: a run goes through the phases of TrafficPhase in order. In each phase may_send() says whether
// the next frame may be sent, build_next() builds it, and an Outstanding slot holds its sequence number until
// the answer. An answer clears its slot; `oldest_` follows the cleared slots. A frame without answer for
// answer_timeout counts as lost.
#include "host_driver/gen_port.h"

#include <algorithm>
#include <cstring>

namespace weft::host {
namespace {

constexpr int64_t kResolveIntervalNs = 200'000'000;
constexpr uint32_t kResolveTriesMax = 25;
/// Most that one turn takes off a lease: while the machine or process stood still, it could not hear its
/// client.
constexpr int64_t kLeaseStepNs = 1'000'000'000;
constexpr std::array<GenKind, 4> kRoundTripKinds{GenKind::kArp, GenKind::kIcmp, GenKind::kIcmpv6,
                                                 GenKind::kUdp};
constexpr std::array<std::string_view, 9> kPhaseNames{
    "idle", "resolving", "round-trips", "bulk", "draining", "finished", "failed", "too-long", "abandoned"};

RoundTripFigures figures(const LatencyHistogram& from) noexcept {
  return {.count = from.count(),
          .p50_ns = from.percentile_ns(500),
          .p99_ns = from.percentile_ns(990),
          .p999_ns = from.percentile_ns(999),
          .max_ns = from.max_ns()};
}

GenStation station_for(const MacAddress& mac) noexcept {
  GenStation station;
  station.mac = mac;
  station.ipv4 = {10, 77, static_cast<uint8_t>(0x80U | mac[4]), mac[5]};
  station.ipv6 = {0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 1, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]};
  return station;
}

Status check_spec(const TrafficSpec& spec) {
  const auto fits = [](uint32_t bytes) { return bytes >= kGenFrameBytesMin && bytes <= kGenFrameBytesMax; };
  const std::string range = std::to_string(kGenFrameBytesMin) + ".." + std::to_string(kGenFrameBytesMax);
  if (!fits(spec.round_trip_bytes)) return Error{"round-trip frame length is not in " + range};
  if (spec.size_count == 0 || spec.size_count > kGenSizesMax) return Error{"give 1 to 8 frame sizes"};
  for (uint32_t i = 0; i < spec.size_count; ++i) {
    if (!fits(spec.sizes[i]))
      return Error{"frame size " + std::to_string(spec.sizes[i]) + " is not in " + range};
  }
  if (spec.window == 0 || spec.window > kGenWindowMax) return Error{"window is not in 1..4096"};
  if (spec.rate_per_s > 1'000'000'000) return Error{"rate is above 1000000000 frames per second"};
  if (spec.answer_timeout <= Duration::zero() || spec.bulk_duration < Duration::zero()) {
    return Error{"durations must be positive"};
  }
  return {};
}

}  // namespace

std::string_view to_string(TrafficPhase phase) noexcept {
  const auto index = static_cast<size_t>(phase);
  return index < kPhaseNames.size() ? kPhaseNames[index] : "unknown";
}

GenPort::GenPort(const MacAddress& mac, const Clock& clock)
    : ModelPort("gen", mac, {.most = kGenFrameBytesMax - kEthernetHeaderBytes - kVlanTagBytes},
                kGenFrameBytesMax),
      clock_(clock),
      self_(station_for(mac)),
      slots_(kGenWindowMax),
      scratch_(kVnetBytes + kGenFrameBytesMax),
      reply_(kGenResolutionBytesMax) {}

Status GenPort::start(const TrafficSpec& spec) {
  if (Status checked = check_spec(spec); !checked) return checked;
  spec_ = spec;
  result_ = {};
  target_ = {};
  target_.ipv4 = spec.target_ipv4;
  target_.ipv6 = spec.target_ipv6;
  run_ = static_cast<uint16_t>((spec.seed * 0x9E3779B97F4A7C15ULL >> 48) + ++runs_);
  kind_index_ = trips_done_ = 0;
  next_sequence_ = oldest_ = highest_received_ = bulk_first_ = bulk_sent_ = 0;
  bulk_started_ns_ = bulk_last_ns_ = next_send_ns_ = 0;
  resolve_tries_ = resolve_open_ = 0;
  stopping_ = false;
  resolve_sent_ns_ = now_ns() - kResolveIntervalNs;
  polled_ns_ = now_ns();
  unrenewed_ns_ = 0;
  const bool need_ipv4 =
      spec.icmp || spec.udp || spec.bulk_frames != 0 || spec.bulk_duration > Duration::zero();
  resolved_ipv4_ = !need_ipv4;
  resolved_ipv6_ = !spec.icmpv6;
  for (LatencyHistogram& trips : trips_) trips.clear();
  all_trips_.clear();
  bulk_trips_.clear();
  phase_ = TrafficPhase::kResolving;
  if (resolved_ipv4_ && resolved_ipv6_) phase_ = TrafficPhase::kRoundTrips;
  advance();
  return {};
}

void GenPort::stop() noexcept {
  if (finished()) return;
  stopping_ = true;
  if (phase_ == TrafficPhase::kResolving) phase_ = TrafficPhase::kFinished;
  advance();
}

TrafficResult GenPort::result() const noexcept {
  TrafficResult out = result_;
  out.phase = phase_;
  out.bulk_ns =
      bulk_last_ns_ > bulk_started_ns_ ? static_cast<uint64_t>(bulk_last_ns_ - bulk_started_ns_) : 0;
  out.round_trip = figures(all_trips_);
  for (size_t i = 0; i < kRoundTripKinds.size(); ++i) out.by_kind[i] = figures(trips_[i]);
  out.bulk_round_trip = figures(bulk_trips_);
  return out;
}

GenKind GenPort::kind_now() const noexcept {
  return kRoundTripKinds[kind_index_ % kRoundTripKinds.size()];
}

bool GenPort::bulk_all_sent(int64_t now) const noexcept {
  const bool timed = spec_.bulk_duration > Duration::zero();
  if (stopping_ || (spec_.bulk_frames == 0 && !timed)) return true;
  if (spec_.bulk_frames != 0 && bulk_sent_ >= spec_.bulk_frames) return true;
  return timed && bulk_started_ns_ != 0 && now - bulk_started_ns_ >= spec_.bulk_duration.count();
}

bool GenPort::may_send(int64_t now) const noexcept {
  switch (phase_) {
    case TrafficPhase::kResolving:
      return now - resolve_sent_ns_ >= kResolveIntervalNs;
    case TrafficPhase::kRoundTrips:
      return oldest_ == next_sequence_ && !stopping_;
    case TrafficPhase::kBulk:
      return next_sequence_ - oldest_ < spec_.window && now >= next_send_ns_ && !bulk_all_sent(now);
    case TrafficPhase::kIdle:
    case TrafficPhase::kDraining:
    case TrafficPhase::kFinished:
    case TrafficPhase::kFailed:
    case TrafficPhase::kTooLong:
    case TrafficPhase::kAbandoned:
      return false;
  }
  return false;
}

/// Moves on to the next phase that has work.
void GenPort::advance() noexcept {
  const std::array<bool, 4> wanted{spec_.arp, spec_.icmp, spec_.icmpv6, spec_.udp};
  if (phase_ == TrafficPhase::kRoundTrips) {
    if (stopping_ && oldest_ == next_sequence_) kind_index_ = static_cast<uint32_t>(wanted.size());
    while (kind_index_ < wanted.size() && (!wanted[kind_index_] || trips_done_ >= spec_.round_trips)) {
      ++kind_index_;
      trips_done_ = 0;
    }
    if (kind_index_ == wanted.size()) {
      phase_ = TrafficPhase::kBulk;
      bulk_first_ = next_sequence_;
    }
  }
  if (phase_ == TrafficPhase::kBulk && bulk_all_sent(now_ns())) phase_ = TrafficPhase::kDraining;
  if (phase_ == TrafficPhase::kDraining && oldest_ == next_sequence_) phase_ = TrafficPhase::kFinished;
}

uint32_t GenPort::build_next(std::span<std::byte> frame, int64_t now) noexcept {
  if (phase_ == TrafficPhase::kResolving) {
    resolve_sent_ns_ = now;
    ++resolve_tries_;
    ++resolve_open_;
    const GenKind kind = resolved_ipv4_ ? GenKind::kNeighbour : GenKind::kArp;
    return build_request(kind, self_, target_, 0, {}, frame);
  }
  const bool bulk = phase_ == TrafficPhase::kBulk;
  const GenKind kind = bulk ? GenKind::kUdp : kind_now();
  const uint32_t bytes = bulk ? spec_.sizes[bulk_sent_ % spec_.size_count] : spec_.round_trip_bytes;
  const GenStamp stamp{.run = run_, .sequence = next_sequence_};
  const uint32_t built = build_request(kind, self_, target_, bytes, stamp, frame);
  if (built == 0) return 0;
  slot(next_sequence_) = {.sequence = next_sequence_, .sent_ns = now, .waiting = true};
  ++next_sequence_;
  ++result_.frames_sent;
  if (bulk) {
    if (bulk_sent_ == 0) bulk_started_ns_ = next_send_ns_ = now;
    ++bulk_sent_;
    if (spec_.rate_per_s != 0) next_send_ns_ += static_cast<int64_t>(1'000'000'000 / spec_.rate_per_s);
    if (spec_.rate_per_s != 0 && now - next_send_ns_ > 10'000'000) next_send_ns_ = now - 10'000'000;
  }
  return built;
}

FrameReadResult GenPort::count_read(uint32_t frame_bytes) noexcept {
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, frame_bytes);
  return {FrameIo::kOk, kVnetBytes + frame_bytes};
}

FrameReadResult GenPort::read_frame(std::span<std::byte> into) noexcept {
  if (into.size() < kVnetBytes + kGenResolutionBytesMax) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  std::memset(into.data(), 0, kVnetBytes);
  const std::span<std::byte> frame = into.subspan(kVnetBytes);
  if (reply_bytes_ != 0) {
    std::memcpy(frame.data(), reply_.data(), reply_bytes_);
    const uint32_t bytes = reply_bytes_;
    reply_bytes_ = 0;
    return count_read(bytes);
  }
  const int64_t now = now_ns();
  if (!may_send(now)) return {FrameIo::kEmpty, 0};
  const uint32_t bytes = build_next(frame, now);
  advance();
  if (bytes == 0) {  // longer than the session carries: the run fails
    counters_.add(PortCounter::kReadTooLong);
    phase_ = TrafficPhase::kTooLong;
    return {FrameIo::kDropped, 0};
  }
  return count_read(bytes);
}

FrameIo GenPort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const size_t bytes = head.size() + rest.size();
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  if (bytes > scratch_.size()) {
    counters_.add(PortCounter::kWriteTooLong);
    return FrameIo::kDropped;
  }
  std::memcpy(scratch_.data(), head.data(), head.size());
  if (!rest.empty()) std::memcpy(scratch_.data() + head.size(), rest.data(), rest.size());
  const std::span<const std::byte> frame = std::span(scratch_).subspan(kVnetBytes, bytes - kVnetBytes);
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, frame.size());
  const GenAnswer answer = check_answer(frame, self_, target_, run_);
  if (answer.verdict != GenVerdict::kNotOurs) {
    take_answer(answer, static_cast<uint32_t>(frame.size()));
    return FrameIo::kOk;
  }
  const uint32_t reply = reply_bytes_ == 0 ? build_resolution_answer(frame, self_, reply_) : 0;
  if (reply != 0) {
    reply_bytes_ = reply;
  } else {
    counters_.add(PortCounter::kNoReceiver);
  }
  return FrameIo::kOk;
}

void GenPort::take_answer(const GenAnswer& answer, uint32_t frame_bytes) noexcept {
  if (finished()) {
    counters_.add(PortCounter::kNoReceiver);
  } else if (answer.verdict == GenVerdict::kCorrupted) {
    ++result_.corrupted;
  } else if (answer.kind == GenKind::kArp || answer.kind == GenKind::kNeighbour) {
    take_resolution(answer);
  } else {
    take_stamped(answer, frame_bytes);
  }
  advance();
}

void GenPort::take_resolution(const GenAnswer& answer) noexcept {
  if (phase_ == TrafficPhase::kResolving) {
    if (resolve_open_ != 0) --resolve_open_;
    target_.mac = answer.answered_by;
    (answer.kind == GenKind::kArp ? resolved_ipv4_ : resolved_ipv6_) = true;
    resolve_tries_ = 0;
    resolve_sent_ns_ = now_ns() - kResolveIntervalNs;
    if (resolved_ipv4_ && resolved_ipv6_) phase_ = TrafficPhase::kRoundTrips;
    return;
  }
  const bool expected = phase_ == TrafficPhase::kRoundTrips && kind_now() == GenKind::kArp &&
                        answer.kind == GenKind::kArp && oldest_ != next_sequence_;
  if (!expected && resolve_open_ != 0) {
    --resolve_open_;
    return;
  }
  if (!expected) {
    ++result_.duplicated;
    return;
  }
  Outstanding& waiting = slot(oldest_);
  waiting.waiting = false;
  highest_received_ = next_sequence_;
  ++result_.frames_received;
  round_trip_done(waiting.sent_ns);
}

void GenPort::round_trip_done(int64_t sent_ns) noexcept {
  const auto took = static_cast<uint64_t>(std::max<int64_t>(now_ns() - sent_ns, 0));
  trips_[kind_index_].add(took);
  all_trips_.add(took);
  ++trips_done_;
  ++oldest_;
}

void GenPort::take_stamped(const GenAnswer& answer, uint32_t frame_bytes) noexcept {
  const uint64_t sequence = answer.stamp.sequence;
  if (sequence >= next_sequence_) {  // a stamp that checks out but was never sent
    ++result_.corrupted;
    return;
  }
  Outstanding& waiting = slot(sequence);
  if (waiting.sequence != sequence || !waiting.waiting) {
    // A frame before `oldest_` was answered or given up; only the slot of one given up keeps its number.
    const bool given_up = waiting.sequence == sequence && waiting.sent_ns < 0;
    ++(given_up ? result_.late : result_.duplicated);
    if (given_up) waiting.sent_ns = 0;
    return;
  }
  waiting.waiting = false;
  ++result_.frames_received;
  if (sequence < highest_received_) ++result_.reordered;
  highest_received_ = std::max(highest_received_, sequence + 1);
  if (phase_ == TrafficPhase::kRoundTrips) {
    round_trip_done(waiting.sent_ns);
    return;
  }
  const int64_t now = now_ns();
  bulk_trips_.add(static_cast<uint64_t>(std::max<int64_t>(now - waiting.sent_ns, 0)));
  bulk_last_ns_ = now;
  ++result_.bulk_frames_received;
  result_.bulk_bytes_received += frame_bytes;
  while (oldest_ != next_sequence_ && !slot(oldest_).waiting) ++oldest_;
}

void GenPort::give_up_overdue(int64_t now) noexcept {
  while (oldest_ != next_sequence_) {
    Outstanding& waiting = slot(oldest_);
    if (waiting.waiting) {
      if (now - waiting.sent_ns < spec_.answer_timeout.count()) break;
      waiting.waiting = false;
      waiting.sent_ns = -1;
      ++result_.lost;
      if (phase_ == TrafficPhase::kRoundTrips) ++trips_done_;
    }
    ++oldest_;
  }
}

void GenPort::resolve_or_fail(int64_t now) noexcept {
  if (resolve_tries_ >= kResolveTriesMax && now - resolve_sent_ns_ >= kResolveIntervalNs) {
    phase_ = TrafficPhase::kFailed;
  }
}

bool GenPort::lease_ran_out(int64_t now) noexcept {
  unrenewed_ns_ += std::min(now - polled_ns_, kLeaseStepNs);
  polled_ns_ = now;
  return spec_.lease != Duration::zero() && unrenewed_ns_ >= spec_.lease.count();
}

int GenPort::poll(Instant) noexcept {
  if (finished()) return 0;
  const int64_t now = now_ns();
  if (lease_ran_out(now)) {
    phase_ = TrafficPhase::kAbandoned;
    return 0;
  }
  if (phase_ == TrafficPhase::kResolving) {
    resolve_or_fail(now);
    return 0;
  }
  give_up_overdue(now);
  advance();
  return 0;
}

Instant GenPort::deadline() const noexcept {
  if (reply_bytes_ != 0) return Instant::min();
  if (finished()) return kNever;
  const int64_t now = now_ns();
  if (may_send(now)) return Instant::min();
  int64_t next = Instant::max().time_since_epoch().count();
  if (phase_ == TrafficPhase::kResolving) next = resolve_sent_ns_ + kResolveIntervalNs;
  if (phase_ == TrafficPhase::kBulk && next_send_ns_ > now) next = next_send_ns_;
  if (oldest_ != next_sequence_) {
    next = std::min(next, slots_[oldest_ % kGenWindowMax].sent_ns + spec_.answer_timeout.count());
  }
  if (phase_ == TrafficPhase::kBulk && spec_.bulk_duration > Duration::zero() && bulk_started_ns_ != 0) {
    next = std::min(next, bulk_started_ns_ + spec_.bulk_duration.count());
  }
  if (spec_.lease != Duration::zero()) next = std::min(next, now + kLeaseStepNs);
  return Instant(Duration(next));
}

Status GenPort::set_mac(const MacAddress& mac) {
  if (Status set = ModelPort::set_mac(mac); !set) return set;
  self_ = station_for(mac);
  return {};
}

}  // namespace weft::host
