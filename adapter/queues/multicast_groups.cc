#include "adapter/queues/multicast_groups.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft::adapter {
namespace {

constexpr uint32_t kLinesMax = 1024;

}  // namespace

MulticastGroups::MulticastGroups(uint32_t members_max)
    : lines_(std::bit_ceil(std::clamp(members_max, 1U, kLinesMax)), kNone), members_max_(members_max) {
  places_.reserve(members_max);
}

uint32_t& MulticastGroups::link_to(uint32_t key, const Member& member) noexcept {
  uint32_t* link = &lines_[line_of(key)];
  while (*link != kNone && (places_[*link].key != key || !(places_[*link].member == member)))
    link = &places_[*link].next;
  return *link;
}

bool MulticastGroups::attach(uint8_t port, Lid lid, const Member& member) noexcept {
  uint32_t& link = link_to(key(port, lid), member);
  if (link != kNone) return true;
  const Place place{.key = key(port, lid), .member = member};
  if (free_ != kNone) {
    link = std::exchange(free_, places_[free_].next);
    places_[link] = place;
  } else if (places_.size() < members_max_) {
    link = static_cast<uint32_t>(places_.size());
    places_.push_back(place);
  } else {
    return false;
  }
  return true;
}

bool MulticastGroups::detach(uint8_t port, Lid lid, const Member& member) noexcept {
  uint32_t& link = link_to(key(port, lid), member);
  if (link == kNone) return false;
  const uint32_t place = std::exchange(link, places_[link].next);
  places_[place] = {.next = std::exchange(free_, place)};
  return true;
}

void MulticastGroups::leave(const QueuePair& qp) noexcept {
  for (const Place& place : places_) {
    if (place.member.qp != &qp) continue;
    const Member member = place.member;  // detach() overwrites the place
    static_cast<void>(detach(static_cast<uint8_t>(place.key >> 16), Lid(place.key & 0xFFFF), member));
  }
}

bool MulticastGroups::any(uint8_t port, Lid lid) const noexcept {
  bool found = false;
  for_each(port, lid, [&](const Member&) { found = true; });
  return found;
}

bool MulticastGroups::has(const QueuePair& qp) const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return place.member.qp == &qp; });
}

}  // namespace weft::adapter
