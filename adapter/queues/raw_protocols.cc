#include "adapter/queues/raw_protocols.h"

#include <algorithm>

namespace weft::adapter {

ptrdiff_t RawProtocols::place_of(const Key& key) const noexcept {
  return std::lower_bound(entries_.begin(), entries_.end(), key,
                          [](const Entry& entry, const Key& wanted) { return entry.key < wanted; }) -
         entries_.begin();
}

bool RawProtocols::has_at(ptrdiff_t place, const Key& key) const noexcept {
  return place != std::ssize(entries_) && !(key < entries_[static_cast<size_t>(place)].key);
}

Reason RawProtocols::add(const Key& key, QueuePair& qp) noexcept {
  const ptrdiff_t place = place_of(key);
  if (has_at(place, key))
    return entries_[static_cast<size_t>(place)].qp == &qp ? Reason::kOk : Reason::kTaken;
  if (entries_.size() >= most_) return Reason::kTableFull;
  entries_.insert(entries_.begin() + place, {key, &qp});
  return Reason::kOk;
}

bool RawProtocols::remove(const Key& key, const QueuePair& qp) noexcept {
  const ptrdiff_t place = place_of(key);
  if (!has_at(place, key) || entries_[static_cast<size_t>(place)].qp != &qp) return false;
  entries_.erase(entries_.begin() + place);
  return true;
}

void RawProtocols::leave(const QueuePair& qp) noexcept {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.qp == &qp; });
}

QueuePair* RawProtocols::find(const Key& key) const noexcept {
  const ptrdiff_t place = place_of(key);
  return has_at(place, key) ? entries_[static_cast<size_t>(place)].qp : nullptr;
}

bool RawProtocols::has(const QueuePair& qp) const noexcept {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.qp == &qp; });
}

}  // namespace weft::adapter
