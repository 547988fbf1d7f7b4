// base/fixed_ring.h -- a bounded queue whose memory is allocated once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace weft {

/// Owner: one thread.
template <class T>
class FixedRing {
 public:
  /// Empties the queue and gives it room for `capacity` values.
  void reset(size_t capacity) {
    if constexpr (std::is_copy_assignable_v<T>) {
      values_.assign(capacity, T{});
    } else {
      values_ = std::vector<T>(capacity);
    }
    head_ = count_ = 0;
  }
  void clear() noexcept { head_ = count_ = 0; }
  /// Reserves memory for `most` values, so that widen() up to there allocates none.
  void expect(size_t most) { values_.reserve(most); }
  /// Raises the capacity to `capacity` values; the queued values stay.
  void widen(size_t capacity) {
    std::rotate(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(head_), values_.end());
    values_.resize(capacity);
    head_ = 0;
  }
  [[nodiscard]] size_t size() const noexcept { return count_; }
  [[nodiscard]] size_t capacity() const noexcept { return values_.size(); }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == values_.size(); }
  /// The `index`-th oldest; index < size().
  [[nodiscard]] T& at(size_t index) noexcept {
    const size_t place = head_ + index;
    return values_[place < values_.size() ? place : place - values_.size()];
  }
  [[nodiscard]] const T& at(size_t index) const noexcept {
    const size_t place = head_ + index;
    return values_[place < values_.size() ? place : place - values_.size()];
  }
  [[nodiscard]] T& front() noexcept { return at(0); }
  [[nodiscard]] const T& front() const noexcept { return at(0); }
  [[nodiscard]] T& back() noexcept { return at(count_ - 1); }
  /// False when full.
  bool push(const T& value) noexcept {
    if (full()) return false;
    ++count_;
    back() = value;
    return true;
  }
  /// Appends a value and returns it with the stale content of its slot; null if the queue is full.
  [[nodiscard]] T* extend() noexcept {
    if (full()) return nullptr;
    ++count_;
    return &back();
  }
  void pop() noexcept {
    head_ = head_ + 1 < values_.size() ? head_ + 1 : 0;
    --count_;
  }
  void pop_back() noexcept { --count_; }
  /// Removes every value equal to `value`; the others keep their order.
  void remove(const T& value) noexcept {
    for (size_t left = count_; left > 0; --left) {
      const T first = front();
      pop();
      if (!(first == value)) push(first);
    }
  }

 private:
  std::vector<T> values_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace weft
