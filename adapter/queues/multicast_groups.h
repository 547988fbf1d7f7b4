// adapter/queues/multicast_groups.h -- which UD QPs of an adapter belong to which multicast groups. A group
// is a port, a LID and a Gid; a datagram to it goes to every member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "messages/multicast.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread. Looking up does not allocate.
class MulticastGroups {
 public:
  struct Member {
    Gid gid{};
    QueuePair* qp = nullptr;
    [[nodiscard]] bool operator==(const Member&) const noexcept = default;
  };

  /// `members_max`: memberships in all.
  explicit MulticastGroups(uint32_t members_max) noexcept : members_max_(members_max) {}

  /// False when there is no room for one more. A member that joins again stays one.
  [[nodiscard]] bool attach(uint8_t port, Lid lid, const Member& member);
  /// False when it is none.
  [[nodiscard]] bool detach(uint8_t port, Lid lid, const Member& member);
  /// Members of all groups with this LID.
  [[nodiscard]] std::span<const Member> members(uint8_t port, Lid lid) const noexcept;
  [[nodiscard]] bool has(const QueuePair& qp) const noexcept;

 private:
  [[nodiscard]] static uint32_t key(uint8_t port, Lid lid) noexcept {
    return uint32_t{port} << 16 | lid.value();
  }

  std::unordered_map<uint32_t, std::vector<Member>> groups_;
  uint32_t members_ = 0;
  uint32_t members_max_;
};

}  // namespace weft::adapter
