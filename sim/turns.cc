#include "sim/turns.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace weft::sim {

void Turns::add(std::unique_ptr<SimNode> node) {
  WEFT_CHECK(nodes_.size() < kNodesMax, "room for every node");
  nodes_.push_back({.node = std::move(node)});
}

void Turns::freeze(uint32_t node, bool frozen) noexcept {
  nodes_[node].frozen = frozen;
  nodes_[node].awake = true;
}

int Turns::take(Instant now) noexcept {
  std::array<uint32_t, kNodesMax> order;
  std::iota(order.begin(), order.begin() + nodes(), 0U);
  polled_ = worked_ = 0;
  int work = 0;
  for (uint32_t left = nodes(); left > 0; --left) {
    std::swap(order[left - 1], order[random_.below(left)]);
    const uint32_t id = order[left - 1];
    const Entry& entry = nodes_[id];
    if (!entry.node->alive()) continue;
    if (!entry.awake && entry.due > now && !entry.node->disturbed()) continue;
    if (entry.frozen) {
      ++missed_;
      continue;
    }
    work += random_.chance_ppm(skip_ppm_) ? 1 : poll(id, now);
  }
  return work;
}

int Turns::poll(uint32_t id, Instant now) noexcept {
  Entry& entry = nodes_[id];
  const int done = entry.node->poll(now);
  polled_ |= 1U << id;
  entry.due = entry.node->deadline();
  entry.awake = done != 0;
  const bool late = done == 0 && entry.due <= now;
  entry.late_in_a_row = late ? entry.late_in_a_row + 1 : 0;
  if (done != 0) {
    worked_ |= 1U << id;
    ++entry.busy;
  }
  if (late) ++entry.late;
  return done;
}

uint32_t Turns::late_in_a_row() const noexcept {
  uint32_t most = 0;
  for (const Entry& entry : nodes_) most = std::max(most, entry.late_in_a_row);
  return most;
}

Instant Turns::next_deadline() const noexcept {
  Instant due = kNever;
  for (const Entry& entry : nodes_) {
    if (!entry.frozen && entry.node->alive()) due = std::min(due, entry.due);
  }
  return due;
}

}  // namespace weft::sim
