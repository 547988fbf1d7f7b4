#include "adapter/queues/raw_protocols.h"

#include <algorithm>

namespace weft::adapter {

bool RawProtocols::add(const Key& key, QueuePair& qp) {
  const auto there = protocols_.find(key);
  if (there != protocols_.end()) return there->second == &qp;
  if (protocols_.size() >= most_) return false;
  protocols_.emplace(key, &qp);
  return true;
}

bool RawProtocols::remove(const Key& key, const QueuePair& qp) {
  const auto there = protocols_.find(key);
  if (there == protocols_.end() || there->second != &qp) return false;
  protocols_.erase(there);
  return true;
}

QueuePair* RawProtocols::find(const Key& key) const noexcept {
  const auto there = protocols_.find(key);
  return there == protocols_.end() ? nullptr : there->second;
}

bool RawProtocols::has(const QueuePair& qp) const noexcept {
  return std::any_of(protocols_.begin(), protocols_.end(),
                     [&](const auto& protocol) { return protocol.second == &qp; });
}

}  // namespace weft::adapter
