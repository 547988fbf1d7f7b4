// SAN-RMP: remote protection by RKeys at the protection table. remote_access_test.cc checks the same rows end
// to end, with cells and completions.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "adapter/memory/memory_table.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

constexpr Access kBindable = Access::kLocalWrite | Access::kWindowBind;
constexpr Access kReadWrite = Access::kRemoteRead | Access::kRemoteWrite;

class SanRmp : public ::testing::Test {
 protected:
  AccessFault read_at(Rkey key, uint64_t va, uint64_t length = 1) {
    RemoteGrant grant;
    return table_.checks.check_remote(pd_, key, va, length, AccessKind::kRemoteRead, grant);
  }

  SeededRandom random_{1};
  MemoryTable table_{64, 0, random_};
  PdId pd_{1};
  std::array<std::byte, 128> memory_{};
  MemoryRegion region_ = table_.regions.reg_mr(pd_, memory_, kBindable).value();
};

TEST_F(SanRmp, SAN_RMP_01_four_verbs_allocate_bind_unbind_deallocate) {
  test::covers("SAN-RMP-01");
  std::array<Rkey, 8> eight;
  const Rkey one = table_.windows.alloc_rkey(pd_).value();
  ASSERT_TRUE(table_.windows.alloc_rkeys(pd_, eight).ok());
  std::set<Rkey> distinct(eight.begin(), eight.end());
  distinct.insert(one);
  EXPECT_EQ(distinct.size(), 9U);
  for (Rkey key : distinct) {
    EXPECT_FALSE(table_.query(key.value())->valid);
    EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNotValid) << "unbound";
  }
  const BindRequest bind{one, region_.lkey, region_.addr, 16, kReadWrite};
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  EXPECT_EQ(read_at(one, region_.addr), AccessFault::kNone);
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, one), AccessFault::kNone);
  ASSERT_TRUE(table_.windows.dealloc_rkey(one).ok());
  EXPECT_EQ(read_at(one, region_.addr), AccessFault::kNotValid);
  EXPECT_NE(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone) << "a retired key cannot be bound";
  EXPECT_FALSE(table_.windows.dealloc_rkey(one).ok());
}

TEST_F(SanRmp, SAN_RMP_02_any_range_exact_to_the_byte) {
  test::covers("SAN-RMP-02");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const uint64_t odd = (region_.addr + 30) | 1;
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, odd, 7, kReadWrite}), AccessFault::kNone);
  for (uint64_t first = odd - 2; first <= odd + 8; ++first) {
    for (uint64_t length = 1; length <= 10; ++length) {
      const bool inside = first >= odd && first + length <= odd + 7;
      EXPECT_EQ(read_at(key, first, length), inside ? AccessFault::kNone : AccessFault::kOutOfBounds)
          << first - odd << " length " << length;
    }
  }
  // The whole region is a valid range too.
  const Rkey whole = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {whole, region_.lkey, region_.addr, 128, kReadWrite}),
            AccessFault::kNone);
  EXPECT_EQ(read_at(whole, region_.addr, 128), AccessFault::kNone);
}

TEST_F(SanRmp, SAN_RMP_04_bind_succeeds_if_authorised_else_invalid_parameter) {
  test::covers("SAN-RMP-04");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const auto bind = [&](PdId pd, Lkey region, uint64_t addr, uint64_t length, Access access) {
    return table_.windows.bind_rkey(pd, {key, region, addr, length, access});
  };
  const uint64_t end = region_.addr + 128;
  EXPECT_EQ(bind(pd_, region_.lkey, end - 8, 9, kReadWrite), AccessFault::kOutOfBounds);
  EXPECT_EQ(bind(pd_, region_.lkey, region_.addr - 1, 8, kReadWrite), AccessFault::kOutOfBounds);
  EXPECT_EQ(bind(pd_, region_.lkey, region_.addr, 0, kReadWrite), AccessFault::kOutOfBounds);
  EXPECT_EQ(bind(pd_, region_.lkey, region_.addr, ~uint64_t{0}, kReadWrite), AccessFault::kOutOfBounds);
  EXPECT_EQ(bind(pd_, Lkey(region_.lkey.value() ^ 1), region_.addr, 8, kReadWrite), AccessFault::kNotValid);
  EXPECT_EQ(bind(PdId{2}, region_.lkey, region_.addr, 8, kReadWrite), AccessFault::kWrongPd);
  const auto foreign = table_.regions.reg_mr(PdId{2}, memory_, kBindable).value();
  EXPECT_EQ(bind(pd_, foreign.lkey, foreign.addr, 8, kReadWrite), AccessFault::kWrongPd);
  const auto read_only = table_.regions.reg_mr(pd_, memory_, Access::kWindowBind).value();
  EXPECT_EQ(bind(pd_, read_only.lkey, read_only.addr, 8, Access::kRemoteWrite), AccessFault::kRightMissing);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNotValid) << "nothing of this has bound it";
  EXPECT_EQ(bind(pd_, read_only.lkey, read_only.addr, 8, Access::kRemoteRead), AccessFault::kNone);
}

TEST_F(SanRmp, SAN_LMP_01_remote_protection_never_grants_more_than_local) {
  test::covers("SAN-LMP-01");
  struct Rights {
    Access access;
    bool reads;
    bool writes;
  };
  const std::array<Rights, 4> local{{{Access::kNoLocalRead, false, false},
                                     {Access::kNone, true, false},
                                     {Access::kNoLocalRead | Access::kLocalWrite, false, true},
                                     {Access::kLocalWrite, true, true}}};
  const std::array<Rights, 4> remote{{{Access::kNone, false, false},
                                      {Access::kRemoteRead, true, false},
                                      {Access::kRemoteWrite, false, true},
                                      {kReadWrite, true, true}}};
  for (const Rights& own : local) {
    const auto region = table_.regions.reg_mr(pd_, memory_, own.access | Access::kWindowBind).value();
    for (const Rights& given : remote) {
      const Rkey key = table_.windows.alloc_rkey(pd_).value();
      const bool within = (own.reads || !given.reads) && (own.writes || !given.writes);
      const AccessFault expected = within ? AccessFault::kNone : AccessFault::kRightMissing;
      EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, region.lkey, region.addr, 8, given.access}), expected);
      // Registration with remote rights follows the same rule.
      if (given.access != Access::kNone) {
        EXPECT_EQ(table_.regions.reg_mr(pd_, memory_, own.access | given.access).ok(), within);
      }
      // The key then grants what it was given, each kind of access by itself.
      RemoteGrant grant;
      for (const auto& [kind, right] : {std::pair{AccessKind::kRemoteRead, given.reads},
                                        std::pair{AccessKind::kRemoteWrite, given.writes}}) {
        const AccessFault got = table_.checks.check_remote(pd_, key, region.addr, 8, kind, grant);
        EXPECT_EQ(got == AccessFault::kNone, within && right);
      }
      ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok());
    }
  }
  // A consumer cannot bind a window to the memory of another protection domain.
  const auto foreign = table_.regions.reg_mr(PdId{2}, memory_, kBindable).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, foreign.lkey, foreign.addr, 8, Access::kRemoteRead}),
            AccessFault::kWrongPd);
}

TEST_F(SanRmp, SAN_RMP_06_unbind_is_bind_with_null_address_and_length) {
  test::covers("SAN-RMP-06");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 8, kReadWrite}),
            AccessFault::kNone);
  EXPECT_EQ(table_.windows.bind_rkey(PdId{2}, {key, region_.lkey, 0, 0, Access::kNone}),
            AccessFault::kWrongPd);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNone) << "an unauthorised caller changes nothing";
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, 0, 0, Access::kNone}), AccessFault::kNone);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNotValid);
}

TEST_F(SanRmp, SAN_RMP_07_a_key_is_reusable_but_protects_one_range_at_a_time) {
  test::covers("SAN-RMP-07");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const BindRequest first{key, region_.lkey, region_.addr, 8, kReadWrite};
  const BindRequest second{key, region_.lkey, region_.addr + 64, 8, kReadWrite};
  ASSERT_EQ(table_.windows.bind_rkey(pd_, first), AccessFault::kNone);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, second), AccessFault::kAlreadyBound);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, first), AccessFault::kAlreadyBound);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNone) << "the first range stands";
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, second), AccessFault::kNone);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kOutOfBounds);
  EXPECT_EQ(read_at(key, region_.addr + 64), AccessFault::kNone);
}

TEST_F(SanRmp, SAN_RMP_10_another_pair_of_key_and_range_is_refused) {
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const Rkey other = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 8, kReadWrite}),
            AccessFault::kNone);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {other, region_.lkey, region_.addr + 64, 8, kReadWrite}),
            AccessFault::kNone);
  EXPECT_EQ(read_at(key, region_.addr, 8), AccessFault::kNone);
  EXPECT_EQ(read_at(Rkey(~key.value()), region_.addr, 8), AccessFault::kNotValid) << "wrong key";
  EXPECT_EQ(read_at(other, region_.addr, 8), AccessFault::kOutOfBounds) << "a good key of another range";
  EXPECT_EQ(read_at(key, region_.addr + 64, 8), AccessFault::kOutOfBounds) << "wrong range";
  EXPECT_EQ(read_at(key, region_.addr, 9), AccessFault::kOutOfBounds) << "one byte too far";
}

TEST_F(SanRmp, SAN_RMP_12_a_one_shot_key_serves_one_operation) {
  test::covers("SAN-RMP-12");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const BindRequest bind{key, region_.lkey, region_.addr, 64, kReadWrite | Access::kOneShot};
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  RemoteGrant grant;
  // One operation may consist of several packets, each of which is checked; the key ends with the operation.
  for (uint64_t packet = 0; packet < 4; ++packet) {
    ASSERT_EQ(
        table_.checks.check_remote(pd_, key, region_.addr + 16 * packet, 16, AccessKind::kRemoteWrite, grant),
        AccessFault::kNone);
  }
  table_.checks.finish_remote(grant);
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNotValid);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone) << "and may be bound anew";
  EXPECT_EQ(read_at(key, region_.addr), AccessFault::kNone);
  // Keys without the one-shot right stay valid.
  const Rkey lasting = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {lasting, region_.lkey, region_.addr, 64, kReadWrite}),
            AccessFault::kNone);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(table_.checks.check_remote(pd_, lasting, region_.addr, 1, AccessKind::kRemoteRead, grant),
              AccessFault::kNone);
    table_.checks.finish_remote(grant);
  }
}

}  // namespace
}  // namespace weft::adapter
