// How it works: a frame contains its flow, its number, its length and a CRC over everything; the filler is a
// function of flow and number. The number of an arriving frame must be larger than all earlier numbers of its
// flow, which checks order and duplicates at once. A frame that never arrives needs an excuse: a crash or
// session reset after it was sent, or no open session when it was offered.
#include "sim/frames/flow_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"

namespace weft::sim {
namespace {

constexpr uint32_t kMagic = 0x57534c46;
constexpr uint16_t kEtherType = 0x88B5;  // local experimental
constexpr size_t kMagicAt = kEthernetHeaderBytes;
constexpr size_t kFlowAt = kMagicAt + 4;
constexpr size_t kNumberAt = kFlowAt + 4;
constexpr size_t kLengthAt = kNumberAt + 8;
constexpr size_t kFillerAt = kLengthAt + 4;
constexpr size_t kCrcBytes = 4;
static_assert(kFillerAt + kCrcBytes <= kLedgerFrameBytesMin);

void fill(std::span<std::byte> out, uint64_t seed) noexcept {
  for (size_t i = 0; i < out.size(); i += 8) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t word = seed ^ seed >> 29;
    std::memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
  }
}

}  // namespace

uint32_t FlowLedger::add_flow(const FlowEnds& ends) {
  flows_.push_back(Flow{.ends = ends, .entries = {}, .late = {}});
  return static_cast<uint32_t>(flows_.size() - 1);
}

void FlowLedger::set_addresses(uint32_t flow, const MacAddress& source,
                               const MacAddress& destination) noexcept {
  flows_[flow].ends.source = source;
  flows_[flow].ends.destination = destination;
}

uint64_t FlowLedger::send(uint32_t flow_id, Instant now, uint32_t bytes, bool doomed,
                          std::span<std::byte> into) {
  WEFT_CHECK(bytes >= kLedgerFrameBytesMin && into.size() >= kVnetBytes + bytes, "ledger frame does not fit");
  Flow& flow = flows_[flow_id];
  const uint64_t number = flow.entries.size();
  std::fill_n(into.begin(), kVnetBytes, std::byte{0});
  std::byte* frame = into.data() + kVnetBytes;
  std::memcpy(frame, flow.ends.destination.data(), 6);
  std::memcpy(frame + 6, flow.ends.source.data(), 6);
  store_be<uint16_t>(frame + 12, kEtherType);
  store_be<uint32_t>(frame + kMagicAt, kMagic);
  store_be<uint32_t>(frame + kFlowAt, flow_id);
  store_be<uint64_t>(frame + kNumberAt, number);
  store_be<uint32_t>(frame + kLengthAt, bytes);
  fill({frame + kFillerAt, bytes - kFillerAt - kCrcBytes}, number << 16 ^ flow_id);
  store_be<uint32_t>(frame + bytes - kCrcBytes, crc32c({frame, bytes - kCrcBytes}));
  flow.entries.push_back({now, bytes, false, doomed});
  if (doomed) ++flow.excused;
  trace_.event(now, TraceKind::kFrameSent, flow_id, number, bytes);
  return number;
}

bool FlowLedger::peek(std::span<const std::byte> frame, uint32_t& flow, uint64_t& number) noexcept {
  if (frame.size() < kLedgerFrameBytesMin || load_be<uint32_t>(frame.data() + kMagicAt) != kMagic)
    return false;
  flow = load_be<uint32_t>(frame.data() + kFlowAt);
  number = load_be<uint64_t>(frame.data() + kNumberAt);
  return true;
}

void FlowLedger::arrive(uint32_t expected_flow, Instant now, std::span<const std::byte> frame) {
  if (saboteur_ == nullptr) return take(expected_flow, now, frame);
  take_tampered(expected_flow, now, frame);
}

void FlowLedger::take_tampered(uint32_t expected_flow, Instant now, std::span<const std::byte> frame) {
  std::vector<std::byte> copy(frame.begin(), frame.end());
  switch (saboteur_->on_frame(expected_flow, now)) {
    case FrameFate::kLost:
      return;
    case FrameFate::kAfterNext:
      if (flows_[expected_flow].late.empty()) return flows_[expected_flow].late.swap(copy);
      break;
    case FrameFate::kTwice:
      take(expected_flow, now, copy);
      break;
    case FrameFate::kShortened:
      copy.pop_back();
      break;
    case FrameFate::kDamaged:
      copy[kFillerAt] ^= std::byte{1};
      break;
    case FrameFate::kArrives:
      break;
  }
  take(expected_flow, now, copy);
  if (flows_[expected_flow].late.empty()) return;
  take(expected_flow, now, flows_[expected_flow].late);
  flows_[expected_flow].late.clear();
}

void FlowLedger::take(uint32_t expected_flow, Instant now, std::span<const std::byte> frame) {
  uint32_t flow_id = 0;
  uint64_t number = 0;
  if (!peek(frame, flow_id, number) || flow_id >= flows_.size()) {
    return violation(now, fmt::format("a frame of {} bytes is not one that was sent", frame.size()));
  }
  trace_.event(now, TraceKind::kFrameArrived, flow_id, number, frame.size());
  const std::string what =
      fmt::format("frame {} of flow {} ({})", number, flow_id, flows_[flow_id].ends.name);
  if (flow_id != expected_flow) return violation(now, what + " came out at the wrong port");
  Flow& flow = flows_[flow_id];
  if (number >= flow.entries.size()) return violation(now, what + " was never sent");
  Entry& entry = flow.entries[number];
  if (frame.size() != entry.bytes || load_be<uint32_t>(frame.data() + kLengthAt) != entry.bytes) {
    return violation(now, fmt::format("{} has {} bytes instead of {}", what, frame.size(), entry.bytes));
  }
  if (load_be<uint32_t>(frame.data() + frame.size() - kCrcBytes) !=
      crc32c(frame.first(frame.size() - kCrcBytes))) {
    return violation(now, what + " is damaged");
  }
  if (entry.arrived && flow.ends.loose) return;
  if (entry.arrived) return violation(now, what + " arrived twice");
  if (number < flow.next_expected && !flow.ends.loose) {
    return violation(now, fmt::format("{} arrived after number {}", what, flow.next_expected - 1));
  }
  flow.next_expected = std::max(flow.next_expected, number + 1);
  entry.arrived = true;
  ++flow.arrived;
  if (entry.excused) {
    entry.excused = false;
    --flow.excused;
  }
}

void FlowLedger::excuse(uint32_t flow_id, Instant /*now*/) noexcept {
  Flow& flow = flows_[flow_id];
  for (uint64_t i = flow.excused_up_to; i < flow.entries.size(); ++i) excuse_frame(flow_id, i);
  flow.excused_up_to = flow.entries.size();
}

void FlowLedger::excuse_frame(uint32_t flow_id, uint64_t number) noexcept {
  Flow& flow = flows_[flow_id];
  Entry& entry = flow.entries[number];
  if (entry.arrived || entry.excused) return;
  entry.excused = true;
  ++flow.excused;
}

void FlowLedger::settle(Instant now) {
  for (uint32_t id = 0; id < flows_.size(); ++id) {
    const Flow& flow = flows_[id];
    uint64_t missing = 0;
    uint64_t first = 0;
    for (uint64_t i = flow.entries.size(); i-- > 0;) {
      if (flow.entries[i].arrived || flow.entries[i].excused) continue;
      ++missing;
      first = i;
    }
    if (missing == 0) continue;
    violation(
        now,
        fmt::format("flow {} ({}): {} of {} frames lost without a reason, first number {} sent at {:.6f}", id,
                    flow.ends.name, missing, flow.entries.size(), first,
                    std::chrono::duration<double>(flow.entries[first].sent_at.time_since_epoch()).count()));
  }
}

bool FlowLedger::passed_since(uint32_t flow_id, Instant since) const noexcept {
  const Flow& flow = flows_[flow_id];
  for (size_t i = flow.entries.size(); i-- > 0 && flow.entries[i].sent_at > since;) {
    if (flow.entries[i].arrived) return true;
  }
  return false;
}

uint64_t FlowLedger::outstanding(uint32_t flow_id) const noexcept {
  const Flow& flow = flows_[flow_id];
  return flow.entries.size() - flow.arrived - flow.excused;
}

FlowTotals FlowLedger::totals(uint32_t flow_id) const noexcept {
  const Flow& flow = flows_[flow_id];
  return {flow.entries.size(), flow.arrived, flow.excused};
}

void FlowLedger::violation(Instant now, std::string text) {
  trace_.text(now, TraceKind::kViolation, text);
  violations_.push_back(
      fmt::format("{:.6f} s: {}", std::chrono::duration<double>(now.time_since_epoch()).count(), text));
}

}  // namespace weft::sim
