// Re-registration, addressing from a base or from zero, and rights that no region has.
#include <gtest/gtest.h>

#include <array>

#include "adapter/memory/memory_table.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

constexpr Access kLocal = Access::kLocalWrite | Access::kWindowBind;
constexpr Access kBoth = kLocal | Access::kRemoteRead | Access::kRemoteWrite;

class Registration : public ::testing::Test {
 protected:
  AccessFault local(const MemoryRegion& region, uint64_t addr, uint32_t bytes, PdId pd = PdId{1},
                    AccessKind kind = AccessKind::kLocalWrite) {
    at_ = nullptr;
    return table_.checks.check_local(pd, {addr, bytes, region.lkey}, kind, at_);
  }
  AccessFault remote(const MemoryRegion& region, uint64_t addr, AccessKind kind = AccessKind::kRemoteWrite,
                     PdId pd = PdId{1}) {
    RemoteGrant grant;
    return table_.checks.check_remote(pd, region.rkey, addr, 1, kind, grant);
  }

  SeededRandom random_{1};
  MemoryTable table_{8, 0, random_};
  PdId pd_{1};
  std::array<std::byte, 64> memory_{};
  std::array<std::byte, 32> other_{};
  std::byte* at_ = nullptr;
};

TEST_F(Registration, TPT_REG_01_the_key_works_when_the_call_returns) {
  test::covers("TPT-REG-01");
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kBoth).value();
  EXPECT_TRUE(table_.query(region.lkey.value())->valid);
  EXPECT_TRUE(table_.query(region.rkey.value())->valid);
  EXPECT_EQ(local(region, region.addr, 64), AccessFault::kNone);
  EXPECT_EQ(at_, memory_.data());
  EXPECT_EQ(remote(region, region.addr), AccessFault::kNone);
}

TEST_F(Registration, a_region_counts_from_its_base_or_from_zero) {
  const uint64_t base = 0xFFFF'0000'0000'0003;
  const MemoryRegion based = table_.regions.reg_mr(pd_, memory_, kBoth, {.base_addr = base}).value();
  EXPECT_EQ(local(based, base + 63, 1), AccessFault::kNone);
  EXPECT_EQ(at_, memory_.data() + 63);
  EXPECT_EQ(remote(based, base + 64), AccessFault::kOutOfBounds);
  for (const MemoryRegion& zero : {table_.regions.reg_mr(pd_, memory_, kBoth | Access::kZeroBased).value(),
                                   table_.regions.reg_mr(pd_, memory_, kBoth, {.base_addr = 0}).value()}) {
    EXPECT_EQ(zero.addr, 0U);
    EXPECT_EQ(local(zero, 5, 59), AccessFault::kNone);
    EXPECT_EQ(at_, memory_.data() + 5);
    EXPECT_EQ(local(zero, 5, 60), AccessFault::kOutOfBounds);
  }
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, kBoth | Access::kZeroBased, {.base_addr = 8}).ok());
}

TEST_F(Registration, rights_that_no_region_has_are_refused) {
  const auto ok = [&](uint32_t bits) {
    const Refusable<MemoryRegion> region = table_.regions.reg_mr(pd_, memory_, static_cast<Access>(bits));
    return region.ok() && table_.regions.dereg_mr(region.value().lkey).ok();
  };
  EXPECT_TRUE(ok(1));
  for (uint32_t bit = 6; bit < 20; ++bit) EXPECT_FALSE(ok(1 | 1U << bit)) << bit;
  for (uint32_t bit = 20; bit < 30; ++bit) EXPECT_TRUE(ok(1 | 1U << bit)) << bit << ": optional, passed over";
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite | Access::kOneShot).ok());
  EXPECT_FALSE(table_.regions.reg_mr(PdId{kMemoryPdsMax}, memory_, Access::kLocalWrite).ok());
  // A window has remote rights only.
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kLocal).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  for (const Access more : {Access::kLocalWrite, Access::kWindowBind, Access::kNoLocalRead})
    EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, region.lkey, region.addr, 8, Access::kRemoteRead | more}),
              AccessFault::kBadFlags);
}

TEST_F(Registration, a_region_is_registered_anew_over_other_memory) {
  const MemoryRegion old = table_.regions.reg_mr(pd_, memory_, kBoth).value();
  const uint64_t revision = table_.computer().revision();
  const MemoryRegion now = table_.regions.rereg_mr(old.lkey, {.memory = other_}).value();
  EXPECT_GT(table_.computer().revision(), revision) << "what was granted has ended";
  EXPECT_EQ(now.length, 32U);
  EXPECT_EQ(local(now, now.addr + 31, 1), AccessFault::kNone);
  EXPECT_EQ(at_, other_.data() + 31);
  EXPECT_EQ(remote(now, now.addr + 31), AccessFault::kNone);
  EXPECT_EQ(remote(now, now.addr + 32), AccessFault::kOutOfBounds);
  EXPECT_EQ(local(old, now.addr, 1), AccessFault::kWrongInstance);
  EXPECT_EQ(remote(old, now.addr), AccessFault::kWrongInstance);
  const MemoryRegion based =
      table_.regions.rereg_mr(now.lkey, {.memory = memory_, .options = {.base_addr = 16}}).value();
  EXPECT_EQ(local(based, 16, 64), AccessFault::kNone);
  EXPECT_EQ(at_, memory_.data());
}

TEST_F(Registration, a_region_gets_another_pd_and_other_rights) {
  const MemoryRegion first = table_.regions.reg_mr(pd_, memory_, kBoth).value();
  const MemoryRegion moved = table_.regions.rereg_mr(first.lkey, {.pd = PdId{2}}).value();
  EXPECT_EQ(local(moved, moved.addr, 1), AccessFault::kWrongPd);
  EXPECT_EQ(local(moved, moved.addr, 1, PdId{2}), AccessFault::kNone);
  EXPECT_EQ(remote(moved, moved.addr), AccessFault::kWrongPd);
  EXPECT_EQ(remote(moved, moved.addr, AccessKind::kRemoteRead, PdId{2}), AccessFault::kNone);
  EXPECT_TRUE(table_.pd_unused(pd_));
  const MemoryRegion closed = table_.regions.rereg_mr(moved.lkey, {.access = Access::kNone}).value();
  EXPECT_EQ(closed.rkey, Rkey()) << "no remote right, no key";
  EXPECT_EQ(local(closed, closed.addr, 1, PdId{2}), AccessFault::kRightMissing);
  EXPECT_EQ(local(closed, closed.addr, 1, PdId{2}, AccessKind::kLocalRead), AccessFault::kNone);
  const MemoryRegion opened = table_.regions.rereg_mr(closed.lkey, {.access = Access::kRemoteRead}).value();
  EXPECT_EQ(remote(opened, opened.addr, AccessKind::kRemoteRead, PdId{2}), AccessFault::kNone);
  ASSERT_TRUE(table_.regions.dereg_mr(opened.lkey).ok());
  EXPECT_TRUE(table_.pd_unused(PdId{2}));
}

TEST_F(Registration, one_key_opens_to_peers_what_the_rights_are_now) {
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kLocal, {.one_key = true}).value();
  ASSERT_EQ(region.rkey.value(), region.lkey.value());
  EXPECT_EQ(remote(region, region.addr), AccessFault::kRightMissing) << "closed as long as no right is given";
  RemoteGrant grant;
  EXPECT_EQ(table_.checks.check_remote(pd_, region.rkey, region.addr, 0, AccessKind::kRemoteWrite, grant),
            AccessFault::kRightMissing)
      << "also to an access of no bytes";
  const uint64_t revision = table_.computer().revision();
  const MemoryRegion opened = table_.regions.rereg_mr(region.lkey, {.access = kBoth}).value();
  EXPECT_EQ(opened.rkey, region.rkey);
  EXPECT_EQ(opened.lkey, region.lkey);
  EXPECT_EQ(remote(region, region.addr), AccessFault::kNone);
  EXPECT_GT(table_.computer().revision(), revision) << "what was granted has ended";
  const MemoryRegion closed = table_.regions.rereg_mr(region.lkey, {.access = kLocal}).value();
  EXPECT_EQ(closed.rkey, region.rkey);
  EXPECT_EQ(remote(region, region.addr), AccessFault::kRightMissing);
  // Other memory and another domain are nothing that a key was given out for.
  const MemoryRegion moved =
      table_.regions.rereg_mr(region.lkey, {.memory = other_, .access = kBoth}).value();
  EXPECT_NE(moved.rkey, region.rkey);
  EXPECT_EQ(remote(region, moved.addr), AccessFault::kWrongInstance);
  EXPECT_EQ(remote(moved, moved.addr), AccessFault::kNone);
  const MemoryRegion elsewhere = table_.regions.rereg_mr(moved.lkey, {.pd = PdId{2}}).value();
  EXPECT_NE(elsewhere.rkey, moved.rkey);
  ASSERT_TRUE(table_.regions.dereg_mr(elsewhere.lkey).ok());
  EXPECT_FALSE(table_.query(elsewhere.rkey.value()).has_value());
}

/// What a peer has begun goes on, as far as the rights allow: its bytes are still those of the key.
TEST_F(Registration, a_grant_by_one_key_outlives_a_change_of_rights_alone) {
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kBoth, {.one_key = true}).value();
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(pd_, region.rkey, region.addr, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  for (const Access rights : {kBoth, kLocal, kBoth}) {
    ASSERT_TRUE(table_.regions.rereg_mr(region.lkey, {.access = rights}).ok());
    EXPECT_TRUE(table_.checks.still_bound(grant));
  }
  ASSERT_TRUE(table_.regions.rereg_mr(region.lkey, {.memory = memory_, .access = kBoth}).ok());
  EXPECT_FALSE(table_.checks.still_bound(grant)) << "also if it is the same memory: the key is another";
}

TEST_F(Registration, one_key_is_one_entry_and_no_window) {
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kBoth, {.one_key = true}).value();
  EXPECT_EQ(local(region, region.addr, 64), AccessFault::kNone);
  EXPECT_EQ(at_, memory_.data());
  EXPECT_EQ(remote(region, region.addr), AccessFault::kNone);
  EXPECT_EQ(remote(region, region.addr, AccessKind::kRemoteRead, PdId{2}), AccessFault::kWrongPd);
  // It is no window that work requests could end, nor one that could be bound.
  EXPECT_EQ(table_.windows.invalidate(pd_, region.rkey), AccessFault::kWrongType);
  EXPECT_EQ(table_.windows.unbind_rkey(pd_, region.rkey), AccessFault::kWrongType);
  EXPECT_FALSE(table_.windows.dealloc_rkey(region.rkey).ok());
  EXPECT_EQ(remote(region, region.addr), AccessFault::kNone);
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(pd_, region.rkey, region.addr, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  EXPECT_TRUE(table_.checks.still_bound(grant));
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_FALSE(table_.checks.still_bound(grant));
  EXPECT_EQ(remote(region, region.addr), AccessFault::kNotValid);
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, kBoth | Access::kOneShot, {.one_key = true}).ok())
      << "one operation of a peer would end the owner's use";
}

TEST_F(Registration, a_table_holds_as_many_regions_with_one_key_as_keys) {
  MemoryTable table(8, 0, random_);
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(table.regions.reg_mr(pd_, memory_, kBoth, {.one_key = true}).ok()) << i;
  EXPECT_FALSE(table.regions.reg_mr(pd_, memory_, kBoth, {.one_key = true}).ok());
}

TEST_F(Registration, a_refused_re_registration_changes_nothing) {
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kLocal).value();
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.access = Access::kRemoteWrite}).ok());
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.access = static_cast<Access>(1U << 9)}).ok());
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.memory = std::span<std::byte>{}}).ok());
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.pd = PdId{kMemoryPdsMax}}).ok());
  EXPECT_FALSE(
      table_.regions.rereg_mr(region.lkey, {.memory = other_, .options = {.base_addr = ~uint64_t{0} - 3}})
          .ok());
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region.lkey, region.addr, 8, Access::kRemoteRead}),
            AccessFault::kNone);
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.memory = other_}).ok()) << "a window is bound to it";
  // The table is full: remote rights would need one more key.
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(table_.windows.alloc_rkey(pd_).ok());
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.access = kBoth}).ok());
  EXPECT_EQ(local(region, region.addr, 64), AccessFault::kNone) << "the old key, memory and rights";
  EXPECT_EQ(at_, memory_.data());
  EXPECT_FALSE(table_.regions.rereg_mr(Lkey(key.value()), {.access = kBoth}).ok()) << "a window is no region";
  EXPECT_FALSE(table_.regions.rereg_mr(Lkey(1), {.access = kBoth}).ok());
}

}  // namespace
}  // namespace weft::adapter
