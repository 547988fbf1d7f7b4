// TPT-ENTRY, TPT-LOCAL-02 and TPT-REMOTE-02 by lettered check, at the protection table. remote_access_test.cc
// makes the same checks end to end.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <tuple>

#include "adapter/memory/memory_table.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

constexpr Access kRegionRights = Access::kLocalWrite | Access::kWindowBind;
constexpr Access kRemoteBoth = Access::kRemoteRead | Access::kRemoteWrite;
constexpr Access kAllRights = kRegionRights | kRemoteBoth;

class TptTable : public ::testing::Test {
 protected:
  AccessFault local(uint64_t addr, uint32_t length, Lkey key, AccessKind kind, PdId pd = PdId{1}) {
    std::byte* at = nullptr;
    return table_.checks.check_local(pd, {addr, length, key}, kind, at);
  }
  AccessFault remote(Rkey key, uint64_t va, uint64_t length, AccessKind kind = AccessKind::kRemoteWrite,
                     PdId pd = PdId{1}) {
    RemoteGrant grant;
    return table_.checks.check_remote(pd, key, va, length, kind, grant);
  }

  SeededRandom random_{1};
  MemoryTable table_{16, 0, random_};
  PdId pd_{1};
  std::array<std::byte, 64> memory_{};
  MemoryRegion region_ = table_.regions.reg_mr(pd_, memory_, kAllRights).value();
};
class TptEntryRow : public TptTable {};
class TptLocal : public TptTable {};
class TptRemote : public TptTable {};

/// Registers twice in a table of one entry, so that the entry is used again, and uses the first key.
AccessFault use_old_key_of_a_reused_entry(RandomSource& random, PdId pd, std::span<std::byte> memory) {
  MemoryTable one_entry(1, 0, random);
  const auto old_region = one_entry.regions.reg_mr(pd, memory, Access::kLocalWrite).value();
  EXPECT_TRUE(one_entry.regions.dereg_mr(old_region.lkey).ok());
  const auto new_region = one_entry.regions.reg_mr(pd, memory, Access::kLocalWrite).value();
  std::byte* at = nullptr;
  EXPECT_EQ(
      one_entry.checks.check_local(pd, {new_region.addr, 1, new_region.lkey}, AccessKind::kLocalRead, at),
      AccessFault::kNone);
  return one_entry.checks.check_local(pd, {old_region.addr, 1, old_region.lkey}, AccessKind::kLocalRead, at);
}

TEST_F(TptEntryRow, TPT_ENTRY_03_an_old_key_fails_once_the_entry_is_redefined) {
  test::covers("TPT-ENTRY-03");
  EXPECT_EQ(use_old_key_of_a_reused_entry(random_, pd_, memory_), AccessFault::kWrongInstance);
}

TEST_F(TptEntryRow, TPT_ENTRY_03_an_old_key_binds_and_ends_nothing) {
  test::covers("TPT-ENTRY-03");
  const Rkey old = table_.windows.alloc_rkey(pd_).value();
  Rkey now = old;
  const BindRequest bind{old, region_.lkey, region_.addr, 8, kRemoteBoth};
  ASSERT_EQ(table_.windows.rebind_window(pd_, bind, now), AccessFault::kNone);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kWrongInstance);
  EXPECT_EQ(table_.windows.unbind_rkey(pd_, old), AccessFault::kWrongInstance);
  EXPECT_EQ(table_.windows.invalidate(pd_, old), AccessFault::kWrongInstance);
  EXPECT_EQ(remote(now, region_.addr, 8), AccessFault::kNone);
}

TEST_F(TptEntryRow, TPT_ENTRY_04_start_and_length_bound_the_region_and_the_pd_has_to_match) {
  test::covers("TPT-ENTRY-04");
  const auto region = table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite).value();
  EXPECT_EQ(local(region.addr + 60, 4, region.lkey, AccessKind::kLocalWrite), AccessFault::kNone);
  EXPECT_EQ(local(region.addr + 60, 5, region.lkey, AccessKind::kLocalWrite), AccessFault::kOutOfBounds);
  EXPECT_EQ(local(region.addr, 4, region.lkey, AccessKind::kLocalWrite, PdId{2}), AccessFault::kWrongPd);
}

TEST_F(TptEntryRow, TPT_ENTRY_05_four_types_in_two_bits_and_only_regions_and_windows_are_made) {
  test::covers("TPT-ENTRY-05");
  const auto code = [](EntryType type) { return static_cast<uint32_t>(type); };
  EXPECT_EQ(code(table_.query(region_.lkey.value())->type), 0b00U);
  EXPECT_EQ(code(table_.query(region_.rkey.value())->type), 0b01U);
  EXPECT_EQ(code(EntryType::kIscsiRegion), 0b10U);
  EXPECT_EQ(code(EntryType::kReserved), 0b11U);
  // Every attempt is refused and takes no entry: the table has sixteen entries, the loop makes 60 attempts.
  for (int i = 0; i < 20; ++i) {
    for (const EntryType type : {EntryType::kWindow, EntryType::kIscsiRegion, EntryType::kReserved}) {
      EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, kAllRights, {.type = type}).ok());
    }
  }
  EXPECT_TRUE(table_.regions.reg_mr(pd_, memory_, kAllRights, {.type = EntryType::kRegion}).ok());
}

TEST_F(TptEntryRow, TPT_ENTRY_05_while_valid_is_clear_every_access_is_refused) {
  test::covers("TPT-ENTRY-05");
  constexpr Access kAllRemote = kRemoteBoth | Access::kRemoteAtomic;
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const BindRequest bind{key, region_.lkey, region_.addr, 64, kAllRemote};
  const auto expect_valid = [&](bool valid) {
    EXPECT_EQ(table_.query(key.value())->valid, valid);
    for (const AccessKind kind :
         {AccessKind::kRemoteRead, AccessKind::kRemoteWrite, AccessKind::kRemoteAtomic}) {
      EXPECT_EQ(remote(key, region_.addr, 8, kind), valid ? AccessFault::kNone : AccessFault::kNotValid);
    }
  };
  expect_valid(false);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  expect_valid(true);
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  expect_valid(false);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  ASSERT_EQ(table_.windows.invalidate(pd_, key), AccessFault::kNone);
  expect_valid(false);
  BindRequest one_shot = bind;
  one_shot.access = kAllRemote | Access::kOneShot;
  ASSERT_EQ(table_.windows.bind_rkey(pd_, one_shot), AccessFault::kNone);
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(pd_, key, region_.addr, 8, AccessKind::kRemoteWrite, grant),
            AccessFault::kNone);
  table_.checks.finish_remote(grant);
  expect_valid(false);
  // A region is valid from registration to deregistration.
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kRegionRights).value();
  EXPECT_TRUE(table_.query(region.lkey.value())->valid);
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  for (const AccessKind kind : {AccessKind::kLocalRead, AccessKind::kLocalWrite}) {
    EXPECT_EQ(local(region.addr, 8, region.lkey, kind), AccessFault::kNotValid);
  }
}

/// An entry that was reserved and not yet filled, and one whose registration was invalidated.
TEST_F(TptEntryRow, TPT_ENTRY_05_a_region_whose_valid_bit_is_clear_refuses_every_access) {
  test::covers("TPT-ENTRY-05");
  constexpr uint64_t kBase = 0x7000;
  std::array<std::byte, 64> memory{};
  const MemoryRegion region = table_.regions.reserve_mr(pd_, true).value();
  ASSERT_TRUE(table_.regions.stage(region.lkey, memory).ok());
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const auto expect_valid = [&](bool valid) {
    const AccessFault fault = valid ? AccessFault::kNone : AccessFault::kNotValid;
    EXPECT_EQ(table_.query(region.lkey.value())->valid, valid);
    EXPECT_EQ(table_.query(region.rkey.value())->valid, valid);
    for (const AccessKind kind : {AccessKind::kLocalRead, AccessKind::kLocalWrite})
      EXPECT_EQ(local(kBase, 8, region.lkey, kind), fault);
    for (const AccessKind kind :
         {AccessKind::kRemoteRead, AccessKind::kRemoteWrite, AccessKind::kRemoteAtomic})
      EXPECT_EQ(remote(region.rkey, kBase, 8, kind), fault);
    EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, region.lkey, kBase, 8, kRemoteBoth}), fault);
    EXPECT_EQ(table_.query(key.value())->valid, valid);
  };
  expect_valid(false);
  ASSERT_EQ(table_.regions.fill_reserved(pd_, {region.lkey, kBase, kAllRights | Access::kRemoteAtomic}),
            AccessFault::kNone);
  expect_valid(true);
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  ASSERT_EQ(table_.regions.invalidate_region(pd_, region.lkey), AccessFault::kNone);
  expect_valid(false);
}

/// All sixteen combinations of rights against all four accesses. The region has the local bits, its window
/// the
/// remote bits. A remote bit without its local bit is refused (SAN-LMP-01).
TEST_F(TptEntryRow, TPT_ENTRY_07_four_bits_each_for_its_own_access) {
  test::covers("TPT-ENTRY-07");
  for (uint32_t bits = 0; bits < 16; ++bits) {
    const bool local_read = (bits & 1) != 0;
    const bool local_write = (bits & 2) != 0;
    const bool remote_read = (bits & 4) != 0;
    const bool remote_write = (bits & 8) != 0;
    const Access access = (local_read ? Access::kNone : Access::kNoLocalRead) |
                          (local_write ? Access::kLocalWrite : Access::kNone) |
                          (remote_read ? Access::kRemoteRead : Access::kNone) |
                          (remote_write ? Access::kRemoteWrite : Access::kNone);
    const Refusable<MemoryRegion> made = table_.regions.reg_mr(pd_, memory_, access);
    const bool within = (local_read || !remote_read) && (local_write || !remote_write);
    ASSERT_EQ(made.ok(), within) << bits;
    if (!within) continue;
    const auto expect = [bits](AccessFault got, bool allowed, AccessFault otherwise) {
      EXPECT_EQ(got, allowed ? AccessFault::kNone : otherwise) << bits;
    };
    const MemoryRegion region = made.value();
    expect(local(region.addr, 8, region.lkey, AccessKind::kLocalRead), local_read,
           AccessFault::kRightMissing);
    expect(local(region.addr, 8, region.lkey, AccessKind::kLocalWrite), local_write,
           AccessFault::kRightMissing);
    const bool window = remote_read || remote_write;
    const AccessFault closed = window ? AccessFault::kRightMissing : AccessFault::kNotValid;
    expect(remote(region.rkey, region.addr, 8, AccessKind::kRemoteRead), remote_read, closed);
    expect(remote(region.rkey, region.addr, 8, AccessKind::kRemoteWrite), remote_write, closed);
    const TptEntry own = table_.query(region.lkey.value()).value();
    EXPECT_EQ(std::pair(own.local_read, own.local_write), std::pair(local_read, local_write));
    EXPECT_FALSE(own.remote_read || own.remote_write);
    if (window) {
      const TptEntry given = table_.query(region.rkey.value()).value();
      EXPECT_EQ(std::pair(given.remote_read, given.remote_write), std::pair(remote_read, remote_write));
      EXPECT_FALSE(given.local_read || given.local_write);
    }
    ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  }
}

/// A window has the two remote bits only, and they do not follow the local bits of its region: each of the
/// four accesses is allowed by its own bit of its own entry.
TEST_F(TptEntryRow, TPT_ENTRY_07_the_remote_bits_of_a_window_are_its_own) {
  test::covers("TPT-ENTRY-07");
  for (uint32_t bits = 0; bits < 4; ++bits) {
    const bool reads = (bits & 1) != 0;
    const bool writes = (bits & 2) != 0;
    const Access access =
        (reads ? Access::kRemoteRead : Access::kNone) | (writes ? Access::kRemoteWrite : Access::kNone);
    const Rkey key = table_.windows.alloc_rkey(pd_).value();
    ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 64, access}),
              AccessFault::kNone)
        << bits;
    const auto expect = [bits](AccessFault got, bool allowed) {
      EXPECT_EQ(got == AccessFault::kNone, allowed) << bits;
    };
    expect(remote(key, region_.addr, 8, AccessKind::kRemoteRead), reads);
    expect(remote(key, region_.addr, 8, AccessKind::kRemoteWrite), writes);
    for (const AccessKind kind : {AccessKind::kLocalRead, AccessKind::kLocalWrite}) {
      expect(local(region_.addr, 8, Lkey(key.value()), kind), false);
      expect(local(region_.addr, 8, region_.lkey, kind), true);
    }
    const TptEntry entry = table_.query(key.value()).value();
    EXPECT_EQ(std::tuple(entry.local_read, entry.local_write, entry.remote_read, entry.remote_write),
              std::tuple(false, false, reads, writes));
    ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
    EXPECT_EQ(
        table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 64, access | Access::kLocalWrite}),
        AccessFault::kBadFlags)
        << "no local bit for a window";
    ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok());
  }
}

TEST_F(TptEntryRow, TPT_ENTRY_08_no_window_without_window_binding) {
  test::covers("TPT-ENTRY-08");
  const auto closed = table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  EXPECT_FALSE(table_.query(closed.lkey.value())->window_binding);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, closed.lkey, closed.addr, 8, kRemoteBoth}),
            AccessFault::kNoWindowBind);
  EXPECT_TRUE(table_.query(region_.lkey.value())->window_binding);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 8, kRemoteBoth}),
            AccessFault::kNone);
}

TEST_F(TptEntryRow, TPT_ENTRY_09_one_touch_is_offered_on_windows_and_says_whether_it_was_used) {
  test::covers("TPT-ENTRY-09");
  const auto touch = [&](Rkey key) {
    RemoteGrant grant;
    ASSERT_EQ(table_.checks.check_remote(pd_, key, region_.addr, 8, AccessKind::kRemoteWrite, grant),
              AccessFault::kNone);
    EXPECT_FALSE(table_.query(key.value())->touched) << "let in is not executed";
    table_.checks.finish_remote(grant);
  };
  const Rkey once = table_.windows.alloc_rkey(pd_).value();
  const Rkey often = table_.windows.alloc_rkey(pd_).value();
  const BindRequest bind{once, region_.lkey, region_.addr, 8, kRemoteBoth | Access::kOneShot};
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {often, region_.lkey, region_.addr, 8, kRemoteBoth}),
            AccessFault::kNone);
  EXPECT_TRUE(table_.query(once.value())->one_touch_enabled);
  EXPECT_FALSE(table_.query(often.value())->one_touch_enabled);
  for (const Rkey key : {once, often, often}) touch(key);
  EXPECT_TRUE(table_.query(once.value())->one_touch_enabled);
  EXPECT_TRUE(table_.query(once.value())->touched);
  EXPECT_FALSE(table_.query(often.value())->touched) << "it means nothing where one-touch is not enabled";
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone) << "bound anew";
  EXPECT_FALSE(table_.query(once.value())->touched);
  // A registration with one-shot gives it to the window alone.
  const MemoryRegion region = table_.regions.reg_mr(pd_, memory_, kAllRights | Access::kOneShot).value();
  EXPECT_FALSE(table_.query(region.lkey.value())->one_touch_enabled);
  EXPECT_TRUE(table_.query(region.rkey.value())->one_touch_enabled);
  touch(region.rkey);
  EXPECT_TRUE(table_.query(region.rkey.value())->touched);
  EXPECT_FALSE(table_.query(region.lkey.value())->touched);
}

TEST_F(TptEntryRow, TPT_WQE_01_operations_name_a_part_of_a_region_or_of_a_window_bound_to_one) {
  test::covers("TPT-WQE-01");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr + 16, 32, kRemoteBoth}),
            AccessFault::kNone);
  EXPECT_EQ(local(region_.addr + 3, 5, region_.lkey, AccessKind::kLocalRead), AccessFault::kNone);
  EXPECT_EQ(remote(key, region_.addr + 20, 5), AccessFault::kNone);
  // A bind to an unregistered region, to a region that has ended or to another window is refused.
  const Rkey second = table_.windows.alloc_rkey(pd_).value();
  const auto ended = table_.regions.reg_mr(pd_, memory_, kRegionRights).value();
  ASSERT_TRUE(table_.regions.dereg_mr(ended.lkey).ok());
  const auto bind_to = [&](uint32_t tag) {
    return table_.windows.bind_rkey(pd_, {second, Lkey(tag), region_.addr + 16, 8, kRemoteBoth});
  };
  EXPECT_EQ(bind_to(0x12345), AccessFault::kNotValid);
  EXPECT_EQ(bind_to(ended.lkey.value()), AccessFault::kNotValid);
  EXPECT_EQ(bind_to(key.value()), AccessFault::kWrongType);
  EXPECT_FALSE(table_.query(second.value())->valid);
}

TEST_F(TptEntryRow, TPT_REG_09_a_region_with_bound_windows_stays) {
  test::covers("TPT-REG-09");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 8, kRemoteBoth}),
            AccessFault::kNone);
  EXPECT_FALSE(table_.regions.dereg_mr(region_.lkey).ok());
  EXPECT_EQ(remote(key, region_.addr, 8), AccessFault::kNone) << "nothing has changed";
  EXPECT_EQ(local(region_.addr, 8, region_.lkey, AccessKind::kLocalWrite), AccessFault::kNone);
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  EXPECT_TRUE(table_.regions.dereg_mr(region_.lkey).ok());
  EXPECT_EQ(local(region_.addr, 8, region_.lkey, AccessKind::kLocalWrite), AccessFault::kNotValid);
}

TEST_F(TptLocal, TPT_LOCAL_02a_invalid_entry) {
  test::covers("TPT-LOCAL-02a");
  EXPECT_EQ(local(region_.addr, 1, Lkey(region_.lkey.value() ^ 0x100), AccessKind::kLocalRead),
            AccessFault::kNotValid);
  ASSERT_TRUE(table_.regions.dereg_mr(region_.lkey).ok());
  EXPECT_EQ(local(region_.addr, 1, region_.lkey, AccessKind::kLocalRead), AccessFault::kNotValid);
}

TEST_F(TptLocal, TPT_LOCAL_02b_a_window_cannot_be_used_for_local_access) {
  test::covers("TPT-LOCAL-02b");
  EXPECT_EQ(local(region_.addr, 1, Lkey(region_.rkey.value()), AccessKind::kLocalRead),
            AccessFault::kWrongType);
}

TEST_F(TptLocal, TPT_LOCAL_02c_another_protection_domain) {
  test::covers("TPT-LOCAL-02c");
  EXPECT_EQ(local(region_.addr, 1, region_.lkey, AccessKind::kLocalRead, PdId{2}), AccessFault::kWrongPd);
}

TEST_F(TptLocal, TPT_LOCAL_02d_an_old_instance) {
  test::covers("TPT-LOCAL-02d");
  EXPECT_EQ(use_old_key_of_a_reused_entry(random_, pd_, memory_), AccessFault::kWrongInstance);
}

TEST_F(TptLocal, TPT_LOCAL_02e_outside_the_region) {
  test::covers("TPT-LOCAL-02e");
  EXPECT_EQ(local(region_.addr, 64, region_.lkey, AccessKind::kLocalRead), AccessFault::kNone);
  EXPECT_EQ(local(region_.addr, 65, region_.lkey, AccessKind::kLocalRead), AccessFault::kOutOfBounds);
  EXPECT_EQ(local(region_.addr - 1, 1, region_.lkey, AccessKind::kLocalRead), AccessFault::kOutOfBounds);
  EXPECT_EQ(local(region_.addr + 64, 1, region_.lkey, AccessKind::kLocalRead), AccessFault::kOutOfBounds);
}

TEST_F(TptLocal, TPT_LOCAL_02f_the_right_is_missing) {
  test::covers("TPT-LOCAL-02f");
  const auto read_only = table_.regions.reg_mr(pd_, memory_, Access::kNone).value();
  EXPECT_EQ(local(read_only.addr, 1, read_only.lkey, AccessKind::kLocalRead), AccessFault::kNone);
  EXPECT_EQ(local(read_only.addr, 1, read_only.lkey, AccessKind::kLocalWrite), AccessFault::kRightMissing);
  const auto write_only =
      table_.regions.reg_mr(pd_, memory_, Access::kNoLocalRead | Access::kLocalWrite).value();
  EXPECT_EQ(local(write_only.addr, 1, write_only.lkey, AccessKind::kLocalRead), AccessFault::kRightMissing);
  EXPECT_EQ(local(write_only.addr, 1, write_only.lkey, AccessKind::kLocalWrite), AccessFault::kNone);
}

TEST_F(TptLocal, TPT_LOCAL_02g_binding_needs_consent_and_one_touch_is_set) {
  test::covers("TPT-LOCAL-02g");
  const auto closed = table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {key, closed.lkey, closed.addr, 8, kRemoteBoth}),
            AccessFault::kNoWindowBind);
  EXPECT_FALSE(table_.query(key.value())->valid);
  ASSERT_EQ(
      table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr, 8, kRemoteBoth | Access::kOneShot}),
      AccessFault::kNone);
  EXPECT_TRUE(table_.query(key.value())->one_touch_enabled);
}

TEST_F(TptRemote, TPT_REMOTE_02a_invalid_entry) {
  test::covers("TPT-REMOTE-02a");
  EXPECT_EQ(remote(region_.rkey, region_.addr, 8), AccessFault::kNone);
  EXPECT_EQ(remote(Rkey(region_.rkey.value() ^ 0x100), region_.addr, 8), AccessFault::kNotValid);
  const Rkey unbound = table_.windows.alloc_rkey(pd_).value();
  EXPECT_EQ(remote(unbound, region_.addr, 8), AccessFault::kNotValid);
  ASSERT_EQ(table_.windows.invalidate(pd_, region_.rkey), AccessFault::kNone);
  EXPECT_EQ(remote(region_.rkey, region_.addr, 8), AccessFault::kNotValid);
}

TEST_F(TptRemote, TPT_REMOTE_02b_a_region_cannot_be_reached_remotely) {
  test::covers("TPT-REMOTE-02b");
  EXPECT_EQ(remote(Rkey(region_.lkey.value()), region_.addr, 8), AccessFault::kWrongType);
}

TEST_F(TptRemote, TPT_REMOTE_02c_another_protection_domain) {
  test::covers("TPT-REMOTE-02c");
  EXPECT_EQ(remote(region_.rkey, region_.addr, 8, AccessKind::kRemoteWrite, PdId{2}), AccessFault::kWrongPd);
}

TEST_F(TptRemote, TPT_REMOTE_02d_an_old_instance) {
  test::covers("TPT-REMOTE-02d");
  const Rkey first = table_.windows.alloc_rkey(pd_).value();
  Rkey now = first;
  ASSERT_EQ(table_.windows.rebind_window(pd_, {first, region_.lkey, region_.addr, 8, kRemoteBoth}, now),
            AccessFault::kNone);
  EXPECT_EQ(remote(now, region_.addr, 8), AccessFault::kNone);
  EXPECT_EQ(remote(first, region_.addr, 8), AccessFault::kWrongInstance);
}

TEST_F(TptRemote, TPT_REMOTE_02e_outside_the_window) {
  test::covers("TPT-REMOTE-02e");
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {key, region_.lkey, region_.addr + 8, 16, kRemoteBoth}),
            AccessFault::kNone);
  EXPECT_EQ(remote(key, region_.addr + 8, 16), AccessFault::kNone);
  EXPECT_EQ(remote(key, region_.addr + 8, 17), AccessFault::kOutOfBounds)
      << "inside the region, outside the window";
  EXPECT_EQ(remote(key, region_.addr + 7, 1), AccessFault::kOutOfBounds);
  EXPECT_EQ(remote(key, region_.addr + 9, ~uint64_t{0}), AccessFault::kOutOfBounds) << "a length that wraps";
}

TEST_F(TptRemote, TPT_REMOTE_02f_the_right_is_missing) {
  test::covers("TPT-REMOTE-02f");
  const Rkey reads = table_.windows.alloc_rkey(pd_).value();
  const Rkey writes = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {reads, region_.lkey, region_.addr, 8, Access::kRemoteRead}),
            AccessFault::kNone);
  ASSERT_EQ(table_.windows.bind_rkey(pd_, {writes, region_.lkey, region_.addr, 8, Access::kRemoteWrite}),
            AccessFault::kNone);
  EXPECT_EQ(remote(reads, region_.addr, 8, AccessKind::kRemoteRead), AccessFault::kNone);
  EXPECT_EQ(remote(reads, region_.addr, 8, AccessKind::kRemoteWrite), AccessFault::kRightMissing);
  EXPECT_EQ(remote(writes, region_.addr, 8, AccessKind::kRemoteRead), AccessFault::kRightMissing);
  EXPECT_EQ(remote(writes, region_.addr, 8, AccessKind::kRemoteAtomic), AccessFault::kRightMissing);
  EXPECT_EQ(remote(writes, region_.addr, 8, AccessKind::kRemoteWrite), AccessFault::kNone);
}

}  // namespace
}  // namespace weft::adapter
