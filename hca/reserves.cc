#include "hca/reserves.h"

#include <mutex>
#include <new>

namespace weft::hca {
namespace {

constexpr uint32_t kRandomKind = 1U << 31;  // a bit beside those of adapter::SupplyKind

}  // namespace

uint32_t Reserves::lacks() const noexcept {
  return adapter_.lacks() | (random_.low() ? kRandomKind : 0U);
}

Reserves::Fetched Reserves::fetch(uint32_t kinds) {
  Fetched out{.supplies = adapter::Supplies(kinds), .drawn = {}};
  if ((kinds & kRandomKind) != 0) out.drawn = random_.draw();
  return out;
}

void Reserves::take(Fetched& fetched) noexcept {
  adapter_.supply(fetched.supplies);
  if (fetched.drawn) random_.take(*fetched.drawn);
}

void Reserves::fill(DeviceLock& lock, std::optional<Fetched>& left) {
  for (uint32_t kinds = lacks(); kinds != 0; kinds = lacks()) {
    lock.unlock();
    left = fetch(kinds);
    lock.lock();
    take(*left);
  }
}

void Reserves::refill(DeviceLock& lock) noexcept {
  std::optional<Fetched> left;  // freed after the lock is released
  try {
    lock.lock();
    fill(lock, left);
    lock.unlock();
  } catch (const std::bad_alloc&) {
    const std::lock_guard again(lock);
    adapter_.go_without();  // tables that lack memory ask again later
  }
}

}  // namespace weft::hca
