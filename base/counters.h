// base/counters.h -- one enum and one label table per object, one writer, readable from outside (house style
// 24). Values live in the object until bind() moves them to a stats page that `weft stat` maps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// What `counter_labels(E)` returns, in enum order: a constexpr function beside the counter enum E, in its
/// namespace. The enum's last enumerator is kCount; a missing label does not compile.
template <class E>
using CounterNames = std::array<std::string_view, static_cast<size_t>(E::kCount)>;

/// True if every counter has a label and no two labels are equal.
template <size_t N>
[[nodiscard]] consteval bool names_are_distinct(const std::array<std::string_view, N>& labels) {
  for (size_t i = 0; i < N; ++i) {
    if (labels[i].empty()) return false;
    for (size_t before = 0; before < i; ++before) {
      if (labels[before] == labels[i]) return false;
    }
  }
  return true;
}

/// A single-writer counter or gauge that another process may read at any time.
using CounterCell = std::atomic<uint64_t>;

template <class E>
class CounterSet {
 public:
  static constexpr size_t kSize = static_cast<size_t>(E::kCount);
  static constexpr CounterNames<E> kLabels = counter_labels(E{});
  static_assert(names_are_distinct(kLabels), "every enumerator has a label of its own");

  CounterSet() noexcept { cells_ = own_.data(); }
  CounterSet(const CounterSet&) = delete;
  CounterSet& operator=(const CounterSet&) = delete;

  void add(E counter, uint64_t amount = 1) noexcept {
    CounterCell& cell = *cell_of(counter);
    cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  /// For gauges.
  void set(E counter, uint64_t value) noexcept { cell_of(counter)->store(value, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t get(E counter) const noexcept {
    return cells_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] static constexpr std::string_view label(E counter) noexcept {
    return kLabels[static_cast<size_t>(counter)];
  }
  /// Moves the set to `cells` (kSize of them, which must outlive the set), keeping the values.
  void bind(CounterCell* cells) noexcept {
    for (size_t i = 0; i < kSize; ++i) cells[i].store(cells_[i].load(std::memory_order_relaxed));
    cells_ = cells;
  }

 private:
  CounterCell* cell_of(E counter) noexcept { return &cells_[static_cast<size_t>(counter)]; }

  CounterCell* cells_ = nullptr;  // first member, so that it shares a cache line with the first counters
  std::array<CounterCell, kSize> own_{};
};

}  // namespace weft
