// Members of multicast groups without an adapter: order, places that serve again, groups that share a line.
#include "adapter/queues/multicast_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kMembers = 4;

/// Only addresses of QPs are compared here.
QueuePair* qp(uintptr_t number) {
  return reinterpret_cast<QueuePair*>(number * 64);  // NOLINT(performance-no-int-to-ptr)
}

class Groups : public ::testing::Test {
 protected:
  static MulticastGroups::Member member(uintptr_t number, uint8_t gid = 0) {
    MulticastGroups::Member out{.qp = qp(number)};
    out.gid[15] = std::byte{gid};
    return out;
  }
  std::vector<QueuePair*> members(uint8_t port, Lid lid) {
    std::vector<QueuePair*> out;
    groups_.for_each(port, lid, [&](const MulticastGroups::Member& one) { out.push_back(one.qp); });
    return out;
  }
  using Qps = std::vector<QueuePair*>;

  MulticastGroups groups_{kMembers};
  Lid lid_{0xC001};
};

TEST_F(Groups, the_place_of_a_member_that_left_serves_the_next_one) {
  for (uintptr_t i = 1; i <= kMembers; ++i) ASSERT_TRUE(groups_.attach(1, lid_, member(i)));
  for (uintptr_t life = 0; life < 3; ++life) {
    EXPECT_FALSE(groups_.attach(1, lid_, member(100)));
    for (uintptr_t i = 1; i <= kMembers; ++i) {
      ASSERT_TRUE(groups_.detach(1, lid_, member(10 * life + i)));
      EXPECT_FALSE(groups_.has(*qp(10 * life + i)));
    }
    EXPECT_FALSE(groups_.any(1, lid_));
    for (uintptr_t i = 1; i <= kMembers; ++i)
      ASSERT_TRUE(groups_.attach(1, lid_, member(10 * (life + 1) + i)));
    EXPECT_EQ(members(1, lid_).size(), kMembers);
  }
}

/// First, in the middle and last of those that joined.
TEST_F(Groups, a_member_that_leaves_leaves_the_others_in_their_order) {
  for (const uintptr_t leaving : {1U, 2U, 3U}) {
    for (uintptr_t i = 1; i <= 3; ++i) ASSERT_TRUE(groups_.attach(1, lid_, member(i)));
    ASSERT_TRUE(groups_.attach(1, lid_, member(2))) << "joining again changes nothing";
    ASSERT_TRUE(groups_.detach(1, lid_, member(leaving)));
    EXPECT_FALSE(groups_.detach(1, lid_, member(leaving)));
    Qps left{qp(1), qp(2), qp(3)};
    std::erase(left, qp(leaving));
    EXPECT_EQ(members(1, lid_), left);
    for (const QueuePair* one : left) EXPECT_TRUE(groups_.has(*one));
    for (uintptr_t i = 1; i <= 3; ++i) static_cast<void>(groups_.detach(1, lid_, member(i)));
  }
}

/// With four members there are four lines: these groups stand in one.
TEST_F(Groups, port_lid_and_gid_tell_groups_apart) {
  const Lid other(static_cast<uint16_t>(lid_.value() + 4));
  ASSERT_TRUE(groups_.attach(1, lid_, member(1)));
  ASSERT_TRUE(groups_.attach(1, other, member(2)));
  ASSERT_TRUE(groups_.attach(2, lid_, member(3)));
  ASSERT_TRUE(groups_.attach(1, lid_, member(1, 7))) << "another group with this LID";
  EXPECT_EQ(members(1, lid_), (Qps{qp(1), qp(1)}));
  EXPECT_EQ(members(1, other), (Qps{qp(2)}));
  EXPECT_EQ(members(2, lid_), (Qps{qp(3)}));
  EXPECT_FALSE(groups_.detach(2, other, member(2)));
  EXPECT_FALSE(groups_.detach(1, other, member(1)));
  ASSERT_TRUE(groups_.detach(1, lid_, member(1)));
  EXPECT_EQ(members(1, lid_), (Qps{qp(1)}));
  EXPECT_TRUE(groups_.has(*qp(1)));
}

}  // namespace
}  // namespace weft::test
