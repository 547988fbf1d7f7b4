// base/pending_list.h -- news about objects, kept in the objects themselves: however many there are, no
// memory is taken and nothing is lost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

/// The news of an object that its reader has not taken yet: each kind once, in the order it happened. An
/// object that may have news owns one PendingNews and removes it from its list before it ends.
struct PendingNews {
  static constexpr size_t kKindsMax = 9;
  PendingNews* next = nullptr;  // in the list; `count` tells whether it stands there
  PendingNews* before = nullptr;
  std::array<uint8_t, kKindsMax> kinds{};
  uint8_t count = 0;
};

/// Objects with news, in the order of their oldest news. Owner: one thread at a time. Never moved while
/// something stands in it.
class PendingList {
 public:
  PendingList() = default;
  PendingList(const PendingList&) = delete;
  PendingList& operator=(const PendingList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// The object whose turn it is; the list is not empty.
  [[nodiscard]] PendingNews& front() const noexcept { return *first_; }

  /// False when the object has news of this kind already: both are one then, and its newest. An object has at
  /// most PendingNews::kKindsMax kinds.
  bool add(PendingNews& of, uint8_t kind) noexcept {
    auto* const end = of.kinds.begin() + of.count;
    auto* const same = std::find(of.kinds.begin(), end, kind);
    if (same != end) {
      std::rotate(same, same + 1, end);
      return false;
    }
    of.kinds[of.count] = kind;
    if (of.count++ == 0) link(of);
    return true;
  }
  /// Takes the oldest kind of front(); an object with more goes to the end, for others have waited too.
  uint8_t take_first() noexcept {
    PendingNews& of = *first_;
    const uint8_t kind = of.kinds[0];
    std::copy(of.kinds.begin() + 1, of.kinds.begin() + of.count, of.kinds.begin());
    unlink(of);
    if (--of.count != 0) link(of);
    return kind;
  }
  /// The object ends, or its news do. @return how many there were
  uint32_t drop(PendingNews& of) noexcept {
    const uint32_t dropped = of.count;
    if (dropped != 0) unlink(of);
    of.count = 0;
    return dropped;
  }

 private:
  void link(PendingNews& of) noexcept {
    of.next = nullptr;
    of.before = last_;
    (last_ != nullptr ? last_->next : first_) = &of;
    last_ = &of;
  }
  void unlink(PendingNews& of) noexcept {
    (of.before != nullptr ? of.before->next : first_) = of.next;
    (of.next != nullptr ? of.next->before : last_) = of.before;
  }

  PendingNews* first_ = nullptr;
  PendingNews* last_ = nullptr;
};

}  // namespace weft
