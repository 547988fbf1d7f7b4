#include "adapter/queues/multicast_groups.h"

#include <algorithm>

namespace weft::adapter {

bool MulticastGroups::attach(uint8_t port, Lid lid, const Member& member) {
  const std::span<const Member> there = members(port, lid);
  if (std::find(there.begin(), there.end(), member) != there.end()) return true;
  if (members_ == members_max_) return false;
  groups_[key(port, lid)].push_back(member);
  ++members_;
  return true;
}

bool MulticastGroups::detach(uint8_t port, Lid lid, const Member& member) {
  const auto group = groups_.find(key(port, lid));
  if (group == groups_.end() || std::erase(group->second, member) == 0) return false;
  if (group->second.empty()) groups_.erase(group);
  --members_;
  return true;
}

std::span<const MulticastGroups::Member> MulticastGroups::members(uint8_t port, Lid lid) const noexcept {
  const auto group = groups_.find(key(port, lid));
  if (group == groups_.end()) return {};
  return group->second;
}

bool MulticastGroups::has(const QueuePair& qp) const noexcept {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
    return std::any_of(group.second.begin(), group.second.end(),
                       [&](const Member& member) { return member.qp == &qp; });
  });
}

}  // namespace weft::adapter
