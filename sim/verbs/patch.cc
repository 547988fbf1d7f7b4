#include "sim/verbs/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::sim::verbs {
namespace {

/// Number of orders that are tried before a word counts as correct. If the answers differ, nearly every step
/// is forced.
constexpr uint32_t kStepsMax = 20'000;

}  // namespace

uint64_t Patch::open_write(FlowPlace place, Tick now, uint64_t at, std::span<const std::byte> data,
                           bool fenced) {
  writes_.push_back({++names_, place, now, kOpen, at, {data.begin(), data.end()}, false, fenced});
  ++open_;
  return names_;
}

void Patch::close_write(uint64_t name, Tick now, bool certain) {
  for (Write& write : writes_) {
    if (write.name != name) continue;
    write.certain = write.certain || certain;
    if (write.end != kOpen) continue;
    write.end = now;
    --open_;
  }
}

/// True if the reader must see this write or a later one.
bool Patch::settled(const Write& write, const View& view) noexcept {
  const bool own = view.is_read && write.place.flow == view.place.flow;
  return (write.certain && write.end < view.begin) || (own && write.place.index < view.place.index);
}

/// The writes that may have produced this byte. `base` is set if it may also have the value from before all
/// of them.
std::vector<const Patch::Write*> Patch::lawful_at(uint64_t byte, const View& view, bool& base) const {
  std::vector<const Write*> lawful;
  base = true;
  for (const Write& write : writes_) {
    if (!write.covers(byte)) continue;
    if (settled(write, view)) base = false;
    const bool later = view.is_read && write.place.flow == view.place.flow && write.fenced &&
                       write.place.index > view.place.index;
    const bool replaced = std::any_of(writes_.begin(), writes_.end(), [&](const Write& other) {
      if (&other == &write || !other.covers(byte) || !settled(other, view)) return false;
      const bool same_flow = other.place.flow == write.place.flow && other.place.index > write.place.index;
      return same_flow || other.begin > write.end;
    });
    if (!later && !replaced) lawful.push_back(&write);
  }
  return lawful;
}

std::string Patch::compare(const View& view, uint64_t at, std::span<const std::byte> seen) const {
  std::vector<uint64_t> edges{at, at + seen.size()};
  for (const Write& write : writes_) {
    for (const uint64_t edge : {write.at, write.at + write.data.size()})
      if (edge > at && edge < at + seen.size()) edges.push_back(edge);
  }
  std::sort(edges.begin(), edges.end());
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const uint64_t from = edges[i];
    const uint64_t bytes = edges[i + 1] - from;
    if (bytes == 0) continue;
    const std::byte* is = seen.data() + (from - at);
    bool base = false;
    const std::vector<const Write*> lawful = lawful_at(from, view, base);
    if (base && std::memcmp(is, base_.data() + from, bytes) == 0) continue;
    for (uint64_t k = 0; k < bytes; ++k) {
      const bool right = (base && is[k] == base_[from + k]) ||
                         std::any_of(lawful.begin(), lawful.end(), [&](const Write* write) {
                           return is[k] == write->data[from + k - write->at];
                         });
      if (right) continue;
      std::string text =
          fmt::format("byte {} is {:02x}; lawful were{}", from + k, static_cast<unsigned>(is[k]),
                      base ? fmt::format(" {:02x} as before", static_cast<unsigned>(base_[from + k])) : "");
      for (const Write* write : lawful) {
        text +=
            fmt::format(" {:02x} by flow {:x}.{}", static_cast<unsigned>(write->data[from + k - write->at]),
                        write->place.flow, write->place.index);
      }
      return text;
    }
  }
  return {};
}

std::string Patch::close_read(FlowPlace place, Tick begin, Tick /*now*/, uint64_t at,
                              std::span<const std::byte> brought) {
  --open_;
  return compare({place, begin, true}, at, brought);
}

std::string Patch::check(Tick now) {
  std::string wrong = compare({{}, now, false}, 0, memory_);
  if (wrong.empty() && quiet()) forget();
  return wrong;
}

void Patch::forget() {
  std::copy(memory_.begin(), memory_.end(), base_.begin());
  writes_.clear();
}

uint64_t Word::open(const Operation& operation) {
  operations_.push_back(operation);
  operations_.back().name = ++names_;
  ++open_;
  return names_;
}

void Word::close(uint64_t name, Tick now, const uint64_t* found) {
  for (Operation& operation : operations_) {
    if (operation.name != name) continue;
    if (found != nullptr) {
      operation.certain = true;
      operation.found = *found;
    }
    if (operation.end != kOpen) continue;
    operation.end = now;
    --open_;
  }
}

/// Tries all orders of the operations `left` on a word with value `value`.
bool Word::order_exists(uint64_t value, std::vector<const Operation*>& left, uint32_t& steps) const {
  if (++steps > kStepsMax) return true;
  const bool only_doubtful = std::none_of(left.begin(), left.end(), [](auto* one) { return one->certain; });
  if (only_doubtful && value == *memory_) return true;
  for (size_t i = 0; i < left.size(); ++i) {
    const Operation& next = *left[i];
    if (next.certain && next.found != value) continue;
    const bool too_early = std::any_of(left.begin(), left.end(), [&](const Operation* other) {
      if (other == &next || !other->certain) return false;
      const bool same_flow = other->place.flow == next.place.flow && other->place.index < next.place.index;
      return same_flow || other->end < next.begin;
    });
    if (too_early) continue;
    const uint64_t after = !next.is_swap           ? value + next.operand
                           : value == next.compare ? next.operand
                                                   : value;
    left.erase(left.begin() + static_cast<ptrdiff_t>(i));
    const bool found = order_exists(after, left, steps);
    left.insert(left.begin() + static_cast<ptrdiff_t>(i), &next);
    if (found) return true;
  }
  return false;
}

std::string Word::check() {
  if (!quiet()) return {};
  std::vector<const Operation*> left;
  for (const Operation& operation : operations_) left.push_back(&operation);
  uint32_t steps = 0;
  if (!order_exists(base_, left, steps)) {
    std::string text =
        fmt::format("word was {:x} and is {:x}, which no order of its operations gives:", base_, *memory_);
    for (const Operation& one : operations_) {
      text += fmt::format(" [{} flow {}.{} {:x}->{:x} found {:x}{}]", one.is_swap ? "swap" : "add",
                          one.place.flow, one.place.index, one.compare, one.operand, one.found,
                          one.certain ? "" : "?");
    }
    return text;
  }
  base_ = *memory_;
  operations_.clear();
  return {};
}

}  // namespace weft::sim::verbs
