#include "hca/random_stock.h"

namespace weft::hca {

RandomStock::RandomStock(RandomSource& source) : source_(source) {
  numbers_.reset(2 * kLow);
  take(draw());
  take(draw());
}

uint64_t RandomStock::next() noexcept {
  if (low_ != nullptr && numbers_.size() <= kLow) *low_ = true;
  if (numbers_.empty()) {
    const std::lock_guard guard(drawing_);
    return source_.next();
  }
  const uint64_t number = numbers_.front();
  numbers_.pop();
  return number;
}

RandomStock::Draw RandomStock::draw() noexcept {
  Draw out;
  const std::lock_guard guard(drawing_);
  for (uint64_t& number : out) number = source_.next();
  return out;
}

void RandomStock::take(const Draw& drawn) noexcept {
  if (numbers_.capacity() - numbers_.size() < drawn.size()) return;
  for (const uint64_t number : drawn) numbers_.push(number);
}

}  // namespace weft::hca
