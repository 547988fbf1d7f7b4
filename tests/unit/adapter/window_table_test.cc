// Windows of libibverbs, seen at the protection table: type 1 with promised keys, type 2 with chosen ones.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "adapter/memory/memory_table.h"

namespace weft::adapter {
namespace {

constexpr Access kReadWrite = Access::kRemoteRead | Access::kRemoteWrite;
constexpr Access kFull = Access::kLocalWrite | Access::kWindowBind | kReadWrite;

class Windows : public ::testing::Test {
 protected:
  AccessFault reach(Rkey key, uint64_t offset, uint64_t bytes, const Accessor& who) {
    RemoteGrant grant;
    return table_.checks.check_remote(who, key, region_.addr + offset, bytes, AccessKind::kRemoteWrite,
                                      grant);
  }
  AccessFault reach(Rkey key, uint64_t offset, uint64_t bytes) { return reach(key, offset, bytes, near_); }
  [[nodiscard]] BindRequest range(Rkey key, uint64_t offset, uint64_t bytes) const {
    return {key, region_.lkey, region_.addr + offset, bytes, kReadWrite};
  }
  /// ibv_inc_rkey.
  static Rkey inc(Rkey key) { return Rkey((key.value() & ~0xFFU) | ((key.value() + 1) & 0xFFU)); }

  SeededRandom random_{5};
  MemoryTable table_{64, 3, random_};
  const PdId pd_{1};
  const Accessor near_{pd_, Qpn(5)};
  const Accessor beside_{pd_, Qpn(6)};
  std::array<std::byte, 256> memory_{};
  MemoryRegion region_ = table_.regions.reg_mr(pd_, memory_, kFull).value();
};

TEST_F(Windows, of_type_1_have_the_next_promised_key_with_each_bind) {
  const Rkey first = table_.windows.alloc_window(pd_, WindowKind::kType1).value();
  EXPECT_EQ(reach(first, 0, 0), AccessFault::kNotValid);
  EXPECT_EQ(table_.windows.bind_window(near_, range(first, 0, 8)), AccessFault::kWrongInstance)
      << "not promised";
  const Rkey second = table_.windows.promise_key(first);
  EXPECT_NE(second, first);
  ASSERT_EQ(table_.windows.bind_window(near_, range(second, 0, 8)), AccessFault::kNone);
  EXPECT_EQ(reach(second, 0, 8), AccessFault::kNone);
  EXPECT_EQ(reach(second, 0, 8, beside_), AccessFault::kNone) << "every QP of the domain";
  EXPECT_EQ(reach(second, 0, 8, PdId(2)), AccessFault::kWrongPd);
  EXPECT_EQ(reach(first, 0, 8), AccessFault::kWrongInstance);
  // One that fails leaves what was bound, and its key is never used.
  const Rkey third = table_.windows.promise_key(second);
  EXPECT_EQ(table_.windows.bind_window(near_, range(third, 0, 257)), AccessFault::kOutOfBounds);
  EXPECT_EQ(table_.windows.bind_window({PdId(2), Qpn(5)}, range(third, 0, 8)), AccessFault::kWrongPd);
  EXPECT_EQ(reach(second, 0, 8), AccessFault::kNone);
  const Rkey fourth = table_.windows.promise_key(third);
  ASSERT_EQ(table_.windows.bind_window(near_, range(fourth, 100, 8)), AccessFault::kNone) << "it replaces";
  EXPECT_EQ(reach(fourth, 100, 8), AccessFault::kNone);
  EXPECT_EQ(reach(fourth, 0, 8), AccessFault::kOutOfBounds);
  for (const Rkey old : {first, second, third}) EXPECT_NE(reach(old, 100, 8), AccessFault::kNone);
  EXPECT_EQ(table_.windows.bind_window(near_, range(third, 0, 8)), AccessFault::kWrongInstance)
      << "overtaken";
  // Length zero unties it.
  const Rkey fifth = table_.windows.promise_key(fourth);
  const uint64_t before = table_.computer().revision();
  ASSERT_EQ(table_.windows.bind_window(near_, {.window = fifth}), AccessFault::kNone);
  EXPECT_NE(table_.computer().revision(), before);
  for (const Rkey key : {fourth, fifth}) EXPECT_NE(reach(key, 100, 8), AccessFault::kNone);
  EXPECT_TRUE(table_.regions.dereg_mr(region_.lkey).ok()) << "no window hangs on it";
}

TEST_F(Windows, of_type_1_end_by_any_key_they_may_have_and_no_promised_key_comes_alive_later) {
  MemoryTable one(1, 0, random_);
  const Rkey first = one.windows.alloc_window(pd_, WindowKind::kType1).value();
  std::vector<Rkey> promised{first};
  for (int i = 0; i < 40; ++i) promised.push_back(one.windows.promise_key(promised.back()));
  EXPECT_EQ(one.windows.promise_key(Rkey(first.value() ^ 1)), Rkey()) << "no such window";
  ASSERT_TRUE(one.windows.dealloc_rkey(promised.back()).ok());
  EXPECT_FALSE(one.windows.dealloc_rkey(promised.back()).ok());
  for (int i = 0; i < 100; ++i) {
    const Rkey later = one.windows.alloc_rkey(pd_).value();
    for (const Rkey old : promised) ASSERT_NE(later, old);
    ASSERT_TRUE(one.windows.dealloc_rkey(later).ok());
  }
}

TEST_F(Windows, of_type_2_have_the_key_that_the_consumer_chooses) {
  const Rkey first = table_.windows.alloc_window(pd_, WindowKind::kType2).value();
  EXPECT_EQ(first.value() >> 28, 3U) << "the adapter's number";
  EXPECT_EQ(reach(first, 0, 0), AccessFault::kNotValid);
  EXPECT_EQ(table_.windows.promise_key(first), Rkey()) << "for type 1 only";
  const Rkey key = inc(inc(first));
  ASSERT_EQ(table_.windows.bind_window(near_, range(key, 16, 8)), AccessFault::kNone);
  EXPECT_EQ(reach(key, 16, 8), AccessFault::kNone);
  EXPECT_EQ(table_.query(key.value())->instance, static_cast<uint8_t>(key.value()));
  for (uint32_t low = 0; low <= 0xFF; ++low) {
    const Rkey other((key.value() & ~0xFFU) | low);
    if (other == key) continue;
    ASSERT_EQ(reach(other, 16, 8), AccessFault::kWrongInstance) << low;
  }
  // Bound to the QP that asked, and to no other of the domain.
  EXPECT_EQ(reach(key, 16, 8, beside_), AccessFault::kWrongQp);
  EXPECT_EQ(reach(key, 16, 8, pd_), AccessFault::kWrongQp);
  EXPECT_EQ(reach(key, 16, 8, Accessor(PdId(2), Qpn(5))), AccessFault::kWrongPd);
  EXPECT_EQ(table_.windows.bind_window(near_, range(inc(key), 0, 8)), AccessFault::kAlreadyBound);
  EXPECT_EQ(table_.windows.bind_window(beside_, range(inc(key), 0, 8)), AccessFault::kAlreadyBound);
  EXPECT_EQ(table_.windows.invalidate(beside_, key), AccessFault::kWrongQp);
  EXPECT_EQ(table_.windows.invalidate({PdId(2), Qpn(5)}, key), AccessFault::kWrongPd);
  EXPECT_EQ(table_.windows.invalidate(near_, inc(key)), AccessFault::kWrongInstance);
  EXPECT_FALSE(table_.regions.dereg_mr(region_.lkey).ok()) << "a window is bound to it";
  EXPECT_EQ(reach(key, 16, 8), AccessFault::kNone);
  const uint64_t before = table_.computer().revision();
  ASSERT_EQ(table_.windows.invalidate(near_, key), AccessFault::kNone);
  EXPECT_NE(table_.computer().revision(), before);
  EXPECT_EQ(reach(key, 16, 8), AccessFault::kNotValid);
  EXPECT_EQ(table_.windows.invalidate(near_, key), AccessFault::kNotValid);
  // Now another QP may bind it, also under the key it had.
  ASSERT_EQ(table_.windows.bind_window(beside_, range(key, 32, 8)), AccessFault::kNone);
  EXPECT_EQ(reach(key, 32, 8, beside_), AccessFault::kNone);
  EXPECT_EQ(reach(key, 32, 8), AccessFault::kWrongQp);
  EXPECT_EQ(table_.windows.bind_window(near_, {.window = inc(key)}), AccessFault::kWrongQp) << "length zero";
  ASSERT_EQ(table_.windows.bind_window(beside_, {.window = inc(key)}), AccessFault::kNone) << "unties it";
  EXPECT_EQ(reach(key, 32, 8, beside_), AccessFault::kNotValid);
  ASSERT_TRUE(table_.windows.dealloc_rkey(first).ok()) << "by any key of its own";
  EXPECT_EQ(table_.windows.bind_window(near_, range(key, 0, 8)), AccessFault::kNotValid);
  EXPECT_TRUE(table_.regions.dereg_mr(region_.lkey).ok());
}

/// It hangs on the region of its last bind until it is bound anew, and then on that of the new one alone.
TEST_F(Windows, of_type_2_that_have_served_once_are_bound_again) {
  Rkey key = table_.windows.alloc_window(pd_, WindowKind::kType2).value();
  for (int life = 0; life < 3; ++life) {
    key = inc(key);
    BindRequest once = range(key, 16, 8);
    once.access = once.access | Access::kOneShot;
    ASSERT_EQ(table_.windows.bind_window(near_, once), AccessFault::kNone);
    EXPECT_EQ(table_.query(region_.lkey.value())->bound_windows, 1U);
    RemoteGrant grant;
    ASSERT_EQ(table_.checks.check_remote(near_, key, region_.addr + 16, 8, AccessKind::kRemoteWrite, grant),
              AccessFault::kNone);
    table_.checks.finish_remote(grant);
    EXPECT_EQ(reach(key, 16, 8), AccessFault::kNotValid);
  }
  ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok());
  EXPECT_TRUE(table_.regions.dereg_mr(region_.lkey).ok());
}

TEST_F(Windows, each_check_of_a_bind_refuses_and_changes_nothing) {
  const MemoryRegion closed = table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite).value();
  const MemoryRegion foreign = table_.regions.reg_mr(PdId(2), memory_, kFull).value();
  const MemoryRegion read_only = table_.regions.reg_mr(pd_, memory_, Access::kWindowBind).value();
  for (const WindowKind kind : {WindowKind::kType1, WindowKind::kType2}) {
    const Rkey window = table_.windows.alloc_window(pd_, kind).value();
    Rkey key = window;
    const auto bind = [&](Lkey region, uint64_t addr, uint64_t length, Access access, const Accessor& who) {
      key = kind == WindowKind::kType1 ? table_.windows.promise_key(key) : inc(key);
      return table_.windows.bind_window(who, {key, region, addr, length, access});
    };
    const uint64_t at = region_.addr;
    EXPECT_EQ(bind(closed.lkey, at, 8, kReadWrite, near_), AccessFault::kNoWindowBind);
    EXPECT_EQ(bind(foreign.lkey, at, 8, kReadWrite, near_), AccessFault::kWrongPd);
    EXPECT_EQ(bind(region_.lkey, at, 8, kReadWrite, PdId(2)), AccessFault::kWrongPd) << "the window's";
    EXPECT_EQ(bind(Lkey(region_.rkey.value()), at, 8, kReadWrite, near_), AccessFault::kWrongType);
    EXPECT_EQ(bind(read_only.lkey, at, 8, Access::kRemoteWrite, near_), AccessFault::kRightMissing);
    EXPECT_EQ(bind(region_.lkey, at, 257, kReadWrite, near_), AccessFault::kOutOfBounds);
    EXPECT_EQ(bind(region_.lkey, at - 1, 8, kReadWrite, near_), AccessFault::kOutOfBounds);
    EXPECT_EQ(bind(region_.lkey, at, 8, Access::kLocalWrite, near_), AccessFault::kBadFlags);
    EXPECT_FALSE(table_.query(window.value())->valid) << "its first key is still the present one";
    ASSERT_EQ(bind(region_.lkey, at, 8, kReadWrite | Access::kZeroBased, near_), AccessFault::kNone);
    RemoteGrant grant;
    EXPECT_EQ(table_.checks.check_remote(near_, key, 0, 8, AccessKind::kRemoteWrite, grant),
              AccessFault::kNone);
    EXPECT_EQ(grant.at, memory_.data());
    // The verbs of SAN-RMP are for keys of their own.
    Rkey out;
    EXPECT_EQ(table_.windows.bind_rkey(pd_, range(key, 0, 8)), AccessFault::kWrongType);
    EXPECT_EQ(table_.windows.rebind_window(pd_, range(key, 0, 8), out), AccessFault::kWrongType);
    const AccessFault ended = table_.windows.invalidate(beside_, key);
    EXPECT_EQ(ended, kind == WindowKind::kType1 ? AccessFault::kWrongType : AccessFault::kWrongQp);
    ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok()) << "bound or not";
    EXPECT_NE(table_.checks.check_remote(near_, key, 0, 8, AccessKind::kRemoteWrite, grant),
              AccessFault::kNone);
  }
}

TEST_F(Windows, use_up_keys_like_everything_else) {
  MemoryTable small(3, 0, random_);
  for (const WindowKind kind : {WindowKind::kType2, WindowKind::kType1, WindowKind::kKey})
    ASSERT_TRUE(small.windows.alloc_window(pd_, kind).ok());
  for (const WindowKind kind : {WindowKind::kType2, WindowKind::kType1, WindowKind::kKey})
    EXPECT_FALSE(small.windows.alloc_window(pd_, kind).ok());
  EXPECT_FALSE(table_.windows.alloc_window(PdId(kMemoryPdsMax), WindowKind::kType2).ok());
}

}  // namespace
}  // namespace weft::adapter
