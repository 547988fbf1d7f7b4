#include "hca/random_reserve.h"

namespace weft::hca {

RandomReserve::RandomReserve(RandomSource& source) : source_(source) {
  numbers_.reset(2 * kLow);
  take(draw());
  take(draw());
}

uint64_t RandomReserve::next() noexcept {
  if (low_ != nullptr && numbers_.size() <= kLow) *low_ = true;
  if (numbers_.empty()) {
    const std::lock_guard guard(drawing_);
    return source_.next();
  }
  const uint64_t number = numbers_.front();
  numbers_.pop();
  return number;
}

RandomReserve::Draw RandomReserve::draw() noexcept {
  Draw out;
  const std::lock_guard guard(drawing_);
  for (uint64_t& number : out) number = source_.next();
  return out;
}

void RandomReserve::take(const Draw& drawn) noexcept {
  if (numbers_.capacity() - numbers_.size() < drawn.size()) return;
  for (const uint64_t number : drawn) numbers_.push(number);
}

}  // namespace weft::hca
