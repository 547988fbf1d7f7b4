#include "sim/frames/frame_station.h"

#include <algorithm>
#include <utility>

namespace weft::sim {
namespace {

constexpr uint32_t kFrameBytesMax = 65'536;

}  // namespace

FrameStation::FrameStation(std::string name, const MacAddress& mac, uint32_t mtu_bytes, FlowLedger& ledger,
                           RandomSource& random)
    : ledger_(ledger), random_(random), scratch_(kVnetBytes + kFrameBytesMax) {
  info_.kind = "memory";
  info_.name = std::move(name);
  info_.mac = mac;
  info_.mtu_bytes = mtu_bytes;
  info_.frame_bytes_max = mtu_bytes + kEthernetHeaderBytes + 4;
}

FrameSource* FrameStation::due_source() noexcept {
  if (stopped_) return nullptr;
  for (size_t i = 0; i < sources_.size(); ++i) {
    FrameSource& source = sources_[(turn_ + i) % sources_.size()];
    const bool planned = source.offered < source.frames;
    if (source.next_at > now_ || (!planned && !trickle_) || source.frames == 0) continue;
    turn_ = (turn_ + i + 1) % sources_.size();
    return &source;
  }
  return nullptr;
}

FrameReadResult FrameStation::read_frame(std::span<std::byte> into) noexcept {
  FrameSource* source = due_source();
  if (source == nullptr) return {FrameIo::kEmpty, 0};
  const bool planned = source->offered < source->frames;
  const uint32_t most = planned ? source->bytes_max : trickle_bytes(source->offered, source->bytes_max);
  const auto bytes = static_cast<uint32_t>(source->bytes_min + random_.below(most - source->bytes_min + 1));
  const Duration pause = planned ? source->gap : ledger_.trickle_gap();
  source->next_at =
      now_ + Duration(static_cast<int64_t>(random_.below(2 * static_cast<uint64_t>(pause.count()) + 1)));
  ++source->offered;
  if (into.size() < kVnetBytes + bytes) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  ledger_.send(source->flow, now_, bytes, !source->open, into);
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, bytes);
  return {FrameIo::kOk, kVnetBytes + bytes};
}

FrameIo FrameStation::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (now_ < reader_ready_at_) {
    reader_was_busy_ = true;
    counters_.add(PortCounter::kWriteBusy);
    return FrameIo::kBusy;
  }
  const size_t bytes = head.size() + rest.size();
  if (bytes > scratch_.size() || bytes < kVnetBytes + kEthernetHeaderBytes) {
    ledger_.violation(now_, "the driver wrote a frame of impossible length");
    return FrameIo::kDropped;
  }
  std::copy(rest.begin(), rest.end(), std::copy(head.begin(), head.end(), scratch_.begin()));
  const std::span<const std::byte> frame =
      std::span<const std::byte>(scratch_).subspan(kVnetBytes, bytes - kVnetBytes);
  uint32_t flow = 0;
  uint64_t number = 0;
  const bool ours =
      FlowLedger::peek(frame, flow, number) && std::find(sinks_.begin(), sinks_.end(), flow) != sinks_.end();
  ledger_.arrive(ours ? flow : sinks_.front(), now_, frame);
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, frame.size());
  reader_ready_at_ = now_ + reader_pause_;
  return FrameIo::kOk;
}

int FrameStation::poll(Instant now) noexcept {
  now_ = now;
  const bool again = reader_was_busy_ && now_ >= reader_ready_at_;
  if (again) reader_was_busy_ = false;
  return again ? 1 : 0;
}

Instant FrameStation::deadline() const noexcept {
  Instant due = reader_was_busy_ ? reader_ready_at_ : kNever;
  if (stopped_) return due;
  for (const FrameSource& source : sources_) {
    const bool more = source.frames != 0 && (source.offered < source.frames || trickle_);
    // A due frame that was not fetched waits for the session, not for time.
    if (more && source.next_at > now_) due = std::min(due, source.next_at);
  }
  return due;
}

bool FrameStation::finished() const noexcept {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const FrameSource& s) { return s.offered >= s.frames; });
}

Status FrameStation::set_offloads(Offload wanted) {
  if (!is_subset(wanted, info_.offloads)) return Error{"the station has no offloads"};
  return {};
}

Status FrameStation::set_mac(const MacAddress& mac) {
  info_.mac = mac;
  return {};
}

/// The medium accepts frames up to its own MTU, independent of a host's wish.
Status FrameStation::set_mtu(uint32_t mtu_bytes) {
  if (mtu_bytes > info_.mtu_bytes) return Error{"the station's MTU is smaller"};
  return {};
}

}  // namespace weft::sim
