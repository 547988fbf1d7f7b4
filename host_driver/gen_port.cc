// How it works: a run goes through the phases of TrafficPhase in order. may_send() says whether the next frame may leave,
// build_next() makes it, and an Outstanding slot remembers it under its sequence number. An answer clears its slot;
// `oldest_` follows the cleared slots. What stays uncleared for the time-out is counted lost and passed over.
#include "host_driver/gen_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {
namespace {

constexpr int64_t kResolveIntervalNs = 200'000'000;
constexpr uint32_t kResolveTriesMax = 50;
constexpr int64_t kBurstNs = 10'000'000;  // how far a held station may catch up with its rate
constexpr std::array<uint8_t, 4> kEchoIpv4{10, 77, 0, 1};
constexpr std::array<uint8_t, 16> kEchoIpv6{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01};
constexpr std::array<std::string_view, 6> kPhaseNames{"idle",     "resolving", "sending",
                                                      "draining", "finished",  "failed"};

std::array<uint8_t, 4> ipv4_bytes(uint32_t address) noexcept {
  return {static_cast<uint8_t>(address >> 24), static_cast<uint8_t>(address >> 16),
          static_cast<uint8_t>(address >> 8), static_cast<uint8_t>(address)};
}

MacAddress mac_bytes(uint64_t mac) noexcept {
  MacAddress out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(mac >> (40 - 8 * i));
  return out;
}

GenStation station_for(const MacAddress& mac) noexcept {
  GenStation station;
  station.mac = mac;
  station.ipv4 = {10, 77, static_cast<uint8_t>(0x80U | mac[4]), mac[5]};
  station.ipv6 = {0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 1, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]};
  return station;
}

Status check_spec(const TrafficSpec& spec) {
  if (spec.kind >= TrafficKind::kCount) return Error{"traffic: unknown kind"};
  if (spec.frames == 0 && spec.duration_ms == 0)
    return Error{"traffic: give a number of frames or a duration"};
  const uint32_t least = spec.kind == TrafficKind::kIcmp6 ? kGenFrameBytesMinIpv6 : kGenFrameBytesMin;
  if (spec.kind != TrafficKind::kArp &&
      (spec.frame_bytes_min < least || spec.frame_bytes_max > kGenFrameBytesMax ||
       spec.frame_bytes_min > spec.frame_bytes_max)) {
    return Error{"traffic: frame sizes are not within " + std::to_string(least) + ".." +
                 std::to_string(kGenFrameBytesMax) + ", smallest first"};
  }
  if (spec.window > kGenWindowMax) return Error{"traffic: window is above " + std::to_string(kGenWindowMax)};
  if (spec.kind == TrafficKind::kArp && spec.window != 1) {
    return Error{"traffic: ARP answers carry no number; use a window of 1"};
  }
  if (spec.rate > 1'000'000'000) return Error{"traffic: rate is above 1000000000 frames per second"};
  if (spec.duration_ms > 86'400'000'000 || spec.timeout_ms > 3'600'000)
    return Error{"traffic: time is too long"};
  return {};
}

}  // namespace

std::string_view to_string(TrafficPhase phase) noexcept {
  const auto index = static_cast<size_t>(phase);
  return index < kPhaseNames.size() ? kPhaseNames[index] : "unknown";
}

GenPort::GenPort(const MacAddress& mac, const Clock& clock)
    : clock_(clock),
      self_(station_for(mac)),
      slots_(kGenWindowMax),
      scratch_(kVnetBytes + kGenFrameBytesMax),
      reply_(kGenResolutionBytesMax) {
  info_.kind = "gen";
  info_.mac = mac;
  info_.mtu_bytes = kGenFrameBytesMax - kEthernetHeaderBytes - kVlanTagBytes;
  info_.frame_bytes_max = kGenFrameBytesMax;
}

Status GenPort::start(const TrafficSpec& spec) {
  if (running()) return Error{"traffic: a run is on; stop it first"};
  if (Status checked = check_spec(spec); !checked) return checked;
  spec_ = spec;
  if (spec_.timeout_ms == 0) spec_.timeout_ms = 1000;
  report_ = {};
  self_ = station_for(info_.mac);
  if (spec.own_ipv4 != 0) self_.ipv4 = ipv4_bytes(spec.own_ipv4);
  target_ = {.mac = mac_bytes(spec.peer_mac),
             .ipv4 = spec.peer_ipv4 != 0 ? ipv4_bytes(spec.peer_ipv4) : kEchoIpv4,
             .ipv6 = kEchoIpv6};
  ++run_;
  next_sequence_ = oldest_ = highest_received_ = 0;
  started_ns_ = last_ns_ = next_send_ns_ = 0;
  resolve_tries_ = 0;
  offered_ = false;
  resolve_sent_ns_ = now_ns() - kResolveIntervalNs;
  std::fill(slots_.begin(), slots_.end(), Outstanding{});
  trips_.clear();
  const bool known = spec.peer_mac != 0 || spec.kind == TrafficKind::kArp;
  phase_ = known ? TrafficPhase::kSending : TrafficPhase::kResolving;
  return {};
}

void GenPort::stop() noexcept {
  if (running()) phase_ = TrafficPhase::kFinished;
}

TrafficReport GenPort::report() const noexcept {
  TrafficReport out = report_;
  out.running = running();
  out.elapsed_ns = last_ns_ > started_ns_ ? static_cast<uint64_t>(last_ns_ - started_ns_) : 0;
  out.rtt_min_ns = trips_.min_ns();
  out.rtt_p50_ns = trips_.percentile_ns(500);
  out.rtt_p90_ns = trips_.percentile_ns(900);
  out.rtt_p99_ns = trips_.percentile_ns(990);
  out.rtt_p999_ns = trips_.percentile_ns(999);
  out.rtt_max_ns = trips_.max_ns();
  return out;
}

GenKind GenPort::kind() const noexcept {
  switch (spec_.kind) {
    case TrafficKind::kUdp:
      return GenKind::kUdp;
    case TrafficKind::kIcmp:
      return GenKind::kIcmp;
    case TrafficKind::kIcmp6:
      return GenKind::kIcmpv6;
    case TrafficKind::kArp:
      return GenKind::kArp;
    case TrafficKind::kCount:
      break;
  }
  return GenKind::kCount;
}

bool GenPort::all_sent(int64_t now) const noexcept {
  if (spec_.frames != 0 && next_sequence_ >= spec_.frames) return true;
  return spec_.duration_ms != 0 && started_ns_ != 0 &&
         now - started_ns_ >= static_cast<int64_t>(spec_.duration_ms) * 1'000'000;
}

bool GenPort::may_send(int64_t now) const noexcept {
  if (phase_ == TrafficPhase::kResolving) return now - resolve_sent_ns_ >= kResolveIntervalNs;
  if (phase_ != TrafficPhase::kSending || now < next_send_ns_ || all_sent(now)) return false;
  return spec_.window == 0 || next_sequence_ - oldest_ < spec_.window;
}

void GenPort::advance() noexcept {
  if (phase_ == TrafficPhase::kSending && all_sent(now_ns())) phase_ = TrafficPhase::kDraining;
  if (phase_ == TrafficPhase::kDraining && (spec_.window == 0 || oldest_ == next_sequence_)) {
    phase_ = TrafficPhase::kFinished;
  }
}

uint32_t GenPort::build_next(std::span<std::byte> frame, int64_t now) noexcept {
  if (phase_ == TrafficPhase::kResolving) {
    resolve_sent_ns_ = now;
    ++resolve_tries_;
    const GenKind ask = spec_.kind == TrafficKind::kIcmp6 ? GenKind::kNeighbour : GenKind::kArp;
    return build_request(ask, self_, target_, 0, {}, frame);
  }
  const uint32_t spread = spec_.frame_bytes_max - spec_.frame_bytes_min + 1;
  const uint32_t bytes = spec_.frame_bytes_min + static_cast<uint32_t>(next_sequence_ % spread);
  const GenStamp stamp{.run = run_, .sequence = next_sequence_};
  const uint32_t built = build_request(kind(), self_, target_, bytes, stamp, frame);
  if (built != 0) note_sent(built, now);
  return built;
}

void GenPort::note_sent(uint32_t bytes, int64_t now) noexcept {
  if (next_sequence_ == 0) started_ns_ = next_send_ns_ = now;
  slot(next_sequence_) = {.sequence = next_sequence_,
                          .sent_ns = now,
                          .bytes = bytes,
                          .waiting = spec_.window != 0,
                          .given_up = false};
  ++next_sequence_;
  ++report_.frames_sent;
  report_.bytes_sent += bytes;
  if (spec_.window == 0) last_ns_ = now;
  if (spec_.rate == 0) return;
  next_send_ns_ = std::max(next_send_ns_ + static_cast<int64_t>(1'000'000'000 / spec_.rate), now - kBurstNs);
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
    return count_read(std::exchange(reply_bytes_, 0));
  }
  const int64_t now = now_ns();
  if (!may_send(now)) return {FrameIo::kEmpty, 0};
  offered_ = false;
  const uint32_t bytes = build_next(frame, now);
  advance();
  if (bytes == 0) {  // longer than the session carries: the run cannot be made
    counters_.add(PortCounter::kReadTooLong);
    phase_ = TrafficPhase::kFailed;
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
  if (running()) {
    const GenAnswer answer = check_answer(frame, self_, target_, run_, spec_.verify);
    if (answer.verdict != GenVerdict::kNotOurs) {
      take_answer(answer);
      advance();
      return FrameIo::kOk;
    }
  }
  const uint32_t reply = reply_bytes_ == 0 ? build_resolution_answer(frame, self_, reply_) : 0;
  if (reply != 0) {
    reply_bytes_ = reply;
  } else {
    counters_.add(PortCounter::kNoReceiver);
  }
  return FrameIo::kOk;
}

void GenPort::take_answer(const GenAnswer& answer) noexcept {
  if (answer.verdict == GenVerdict::kCorrupted) {
    ++report_.corrupted;
  } else if (answer.kind == GenKind::kArp || answer.kind == GenKind::kNeighbour) {
    take_resolution(answer);
  } else {
    answered(answer.stamp.sequence);
  }
}

void GenPort::take_resolution(const GenAnswer& answer) noexcept {
  if (phase_ == TrafficPhase::kResolving) {
    target_.mac = answer.answered_by;
    phase_ = TrafficPhase::kSending;
  } else if (spec_.kind == TrafficKind::kArp && answer.kind == GenKind::kArp) {
    answered(oldest_ != next_sequence_ ? oldest_ : next_sequence_ - 1);  // a second answer is a repetition
  }
}

void GenPort::answered(uint64_t sequence) noexcept {
  Outstanding& waiting = slot(sequence);
  if (sequence >= next_sequence_) {  // a stamp that checks out but was never sent
    ++report_.corrupted;
    return;
  }
  if (waiting.sequence != sequence || !waiting.waiting) {
    // One that had been given up was lost in name only, but too late to count; anything else is a repetition.
    if (waiting.sequence != sequence || !std::exchange(waiting.given_up, false)) ++report_.duplicated;
    return;
  }
  const int64_t now = now_ns();
  waiting.waiting = false;
  ++report_.frames_received;
  report_.bytes_received += waiting.bytes;
  if (sequence < highest_received_) ++report_.reordered;
  highest_received_ = std::max(highest_received_, sequence + 1);
  last_ns_ = now;
  trips_.add(static_cast<uint64_t>(std::max<int64_t>(now - waiting.sent_ns, 0)));
  while (oldest_ != next_sequence_ && !slot(oldest_).waiting) ++oldest_;
}

void GenPort::give_up_overdue(int64_t now) noexcept {
  for (; oldest_ != next_sequence_; ++oldest_) {
    Outstanding& waiting = slot(oldest_);
    if (!waiting.waiting) continue;
    if (now - waiting.sent_ns < int64_t{spec_.timeout_ms} * 1'000'000) break;
    waiting.waiting = false;
    waiting.given_up = true;
    ++report_.lost;
  }
}

int GenPort::poll(Instant) noexcept {
  if (!running()) return 0;
  const int64_t now = now_ns();
  if (phase_ == TrafficPhase::kResolving) {
    const bool overdue = resolve_tries_ >= kResolveTriesMax && now - resolve_sent_ns_ >= kResolveIntervalNs;
    if (overdue) phase_ = TrafficPhase::kFailed;
    return 0;
  }
  give_up_overdue(now);
  advance();
  const bool due = may_send(now);
  if (due && offered_) ++report_.blocked;
  offered_ = due;
  return 0;
}

Instant GenPort::deadline() const noexcept {
  if (reply_bytes_ != 0) return Instant::min();
  if (!running()) return kNever;
  const int64_t now = now_ns();
  if (may_send(now)) return Instant::min();
  if (phase_ == TrafficPhase::kResolving) return Instant(Duration(resolve_sent_ns_ + kResolveIntervalNs));
  int64_t next = Instant::max().time_since_epoch().count();
  if (phase_ == TrafficPhase::kSending) {
    if (next_send_ns_ > now) next = next_send_ns_;
    if (spec_.duration_ms != 0 && started_ns_ != 0) {
      next = std::min(next, started_ns_ + static_cast<int64_t>(spec_.duration_ms) * 1'000'000);
    }
  }
  if (oldest_ != next_sequence_ && spec_.window != 0) {
    next = std::min(next, slots_[oldest_ % kGenWindowMax].sent_ns + int64_t{spec_.timeout_ms} * 1'000'000);
  }
  return Instant(Duration(next));
}

Status GenPort::set_offloads(Offload wanted) {
  if (wanted != Offload::kNone) return Error{"gen: has no offloads"};
  return {};
}

Status GenPort::set_mac(const MacAddress& mac) {
  if (!is_station(mac)) return Error{"gen: " + to_string(mac) + " cannot be a station's address"};
  info_.mac = mac;
  self_.mac = mac;
  return {};
}

Status GenPort::set_mtu(uint32_t mtu_bytes) {
  if (mtu_bytes < 68 || mtu_bytes > kGenFrameBytesMax - kEthernetHeaderBytes) {
    return Error{"gen: MTU " + std::to_string(mtu_bytes) + " is not in 68..9004"};
  }
  info_.mtu_bytes = mtu_bytes;
  return {};
}

}  // namespace weft
