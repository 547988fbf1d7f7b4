// base/pending_list.h -- pending events, stored in the objects they concern, so that queueing allocates no
// memory and never fails.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

/// The pending events of one object: at most one of each kind, in the order they happened. The object owns
/// its PendingNews and removes it from the list before it ends.
struct PendingNews {
  static constexpr size_t kKindsMax = 9;
  PendingNews* next = nullptr;  // in the list; the object is in the list if `count` is not 0
  PendingNews* before = nullptr;
  std::array<uint8_t, kKindsMax> kinds{};
  uint8_t count = 0;
};

/// Objects with pending events, in the order of their oldest one. Owner: one thread at a time. Must not be
/// moved unless empty.
class PendingList {
 public:
  PendingList() = default;
  PendingList(const PendingList&) = delete;
  PendingList& operator=(const PendingList&) = delete;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// The object with the oldest event; the list must not be empty.
  [[nodiscard]] PendingNews& front() const noexcept { return *first_; }

  /// Queues an event. False if one of this kind is pending already: the two become one, which moves to the
  /// end of the object's events. An object has at most PendingNews::kKindsMax kinds.
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
  /// Takes the oldest event of front(). If the object has more, it goes to the end of the list, so that no
  /// object starves the others.
  uint8_t take_first() noexcept {
    PendingNews& of = *first_;
    const uint8_t kind = of.kinds[0];
    std::copy(of.kinds.begin() + 1, of.kinds.begin() + of.count, of.kinds.begin());
    unlink(of);
    if (--of.count != 0) link(of);
    return kind;
  }
  /// Discards the events of an object. @return their number
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
