#include "sim/turns.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace weft::sim {

void Turns::add(std::unique_ptr<Seat> seat) {
  WEFT_CHECK(seats_.size() < kSeatsMax, "a seat for every node");
  seats_.push_back({.seat = std::move(seat)});
}

void Turns::freeze(uint32_t seat, bool frozen) noexcept {
  seats_[seat].frozen = frozen;
  seats_[seat].awake = true;
}

int Turns::take(Instant now) noexcept {
  std::array<uint32_t, kSeatsMax> order;
  std::iota(order.begin(), order.begin() + seats(), 0U);
  polled_ = worked_ = 0;
  int work = 0;
  for (uint32_t left = seats(); left > 0; --left) {
    std::swap(order[left - 1], order[random_.below(left)]);
    const uint32_t id = order[left - 1];
    const Taker& taker = seats_[id];
    if (taker.frozen || !taker.seat->alive()) continue;
    if (!taker.awake && taker.due > now && !taker.seat->disturbed()) continue;
    work += random_.chance_ppm(skip_ppm_) ? 1 : poll(id, now);
  }
  return work;
}

int Turns::poll(uint32_t id, Instant now) noexcept {
  Taker& taker = seats_[id];
  const int done = taker.seat->poll(now);
  polled_ |= 1U << id;
  taker.due = taker.seat->deadline();
  taker.awake = done != 0;
  const bool late = done == 0 && taker.due <= now;
  taker.late_in_a_row = late ? taker.late_in_a_row + 1 : 0;
  if (done != 0) {
    worked_ |= 1U << id;
    ++taker.busy;
  }
  if (late) ++taker.late;
  return done;
}

uint32_t Turns::late_in_a_row() const noexcept {
  uint32_t most = 0;
  for (const Taker& taker : seats_) most = std::max(most, taker.late_in_a_row);
  return most;
}

Instant Turns::next_deadline() const noexcept {
  Instant due = kNever;
  for (const Taker& taker : seats_) {
    if (!taker.frozen && taker.seat->alive()) due = std::min(due, taker.due);
  }
  return due;
}

}  // namespace weft::sim
