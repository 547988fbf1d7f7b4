// adapter/queues/multicast_groups.h -- maps multicast groups to the UD QPs that are members. A group is a
// port, a LID and a Gid. A datagram for it goes to every member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/multicast.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread. All memory is allocated at construction; a page is touched when members need
/// it.
class MulticastGroups {
 public:
  struct Member {
    Gid gid{};
    QueuePair* qp = nullptr;
    [[nodiscard]] bool operator==(const Member&) const noexcept = default;
  };

  /// `members_max`: most memberships of all QPs together.
  explicit MulticastGroups(uint32_t members_max);

  /// False when there is no room. A member that joins again stays one member.
  [[nodiscard]] bool attach(uint8_t port, Lid lid, const Member& member) noexcept;
  /// False when `member` is not a member.
  [[nodiscard]] bool detach(uint8_t port, Lid lid, const Member& member) noexcept;
  /// Ends all memberships of a QP.
  void leave(const QueuePair& qp) noexcept;
  /// Calls `each` with the members of all groups with this LID, in the order in which they joined.
  template <class Each>
  void for_each(uint8_t port, Lid lid, Each each) const noexcept {
    const uint32_t wanted = key(port, lid);
    for (uint32_t at = lines_[line_of(wanted)]; at != kNone; at = places_[at].next) {
      if (places_[at].key == wanted) each(places_[at].member);
    }
  }
  /// True when a QP is member of a group with this LID.
  [[nodiscard]] bool any(uint8_t port, Lid lid) const noexcept;
  [[nodiscard]] bool has(const QueuePair& qp) const noexcept;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    uint32_t key = 0;
    uint32_t next = kNone;  // next in its line, or in the list of free places
    Member member{};        // no QP while the place is free
  };
  [[nodiscard]] static uint32_t key(uint8_t port, Lid lid) noexcept {
    return uint32_t{port} << 16 | lid.value();
  }
  [[nodiscard]] size_t line_of(uint32_t key) const noexcept {
    return (key ^ (key >> 16)) & (lines_.size() - 1);
  }
  /// The link that names the member's place, or the end of the line where it would be added.
  [[nodiscard]] uint32_t& link_to(uint32_t key, const Member& member) noexcept;

  std::vector<Place> places_;
  std::vector<uint32_t> lines_;  // first place of each line; their number is a power of two
  uint32_t free_ = kNone;
  uint32_t members_max_;
};

}  // namespace weft::adapter
