#include "adapter/memory/memory_table.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

namespace weft::adapter {
namespace {

constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kWindowBind;

uint64_t address(const void* at) {
  return reinterpret_cast<uintptr_t>(at);
}

class MemoryTableTest : public ::testing::Test {
 protected:
  SeededRandom random_{42};
  MemoryTable table_{64, 0, random_};
  std::array<std::byte, 256> memory_{};
  PdId pd_{1};
};

TEST_F(MemoryTableTest, lkey_and_rkey_differ_and_no_remote_rights_mean_no_rkey) {
  const auto both = table_.regions.reg_mr(pd_, memory_, kAll).value();
  EXPECT_NE(both.lkey.value(), both.rkey.value());
  EXPECT_NE(both.rkey.value(), 0U);
  EXPECT_EQ(both.addr, address(memory_.data()));
  EXPECT_EQ(both.length, memory_.size());
  const auto local = table_.regions.reg_mr(pd_, memory_, Access::kLocalWrite).value();
  EXPECT_EQ(local.rkey.value(), 0U);
}

TEST_F(MemoryTableTest, the_last_key_is_not_enough_for_remote_rights) {
  MemoryTable one{1, 0, random_};
  EXPECT_FALSE(one.regions.reg_mr(pd_, memory_, kAll).ok());
  EXPECT_TRUE(one.regions.reg_mr(pd_, memory_, Access::kLocalWrite).ok());
}

TEST_F(MemoryTableTest, remote_rights_need_the_local_ones) {
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, Access::kRemoteWrite).ok());
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, Access::kRemoteAtomic).ok());
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, Access::kRemoteRead | Access::kNoLocalRead).ok());
  EXPECT_TRUE(table_.regions.reg_mr(pd_, memory_, Access::kRemoteRead).ok());
  EXPECT_FALSE(table_.regions.reg_mr(pd_, {}, kAll).ok()) << "no memory";
}

TEST_F(MemoryTableTest, a_base_address_hides_the_process_address) {
  const uint64_t base = 0x7777'0000'0000'1230;
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll, {.base_addr = base}).value();
  EXPECT_EQ(region.addr, base);
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(pd_, region.rkey, base + 5, 10, AccessKind::kRemoteWrite, grant),
            AccessFault::kNone);
  EXPECT_EQ(grant.at, memory_.data() + 5);
  EXPECT_EQ(table_.checks.check_remote(pd_, region.rkey, address(memory_.data()), 1, AccessKind::kRemoteWrite,
                                       grant),
            AccessFault::kOutOfBounds);
  std::byte* at = nullptr;
  ASSERT_EQ(table_.checks.check_local(pd_, {base + 255, 1, region.lkey}, AccessKind::kLocalRead, at),
            AccessFault::kNone);
  EXPECT_EQ(at, memory_.data() + 255);
}

TEST_F(MemoryTableTest, bounds_do_not_wrap) {
  const uint64_t base = ~uint64_t{0} - 255;
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll, {.base_addr = base}).value();
  RemoteGrant grant;
  const auto remote = [&](uint64_t va, uint64_t length) {
    return table_.checks.check_remote(pd_, region.rkey, va, length, AccessKind::kRemoteWrite, grant);
  };
  EXPECT_EQ(remote(base, 256), AccessFault::kNone);
  EXPECT_EQ(remote(base + 255, 1), AccessFault::kNone);
  EXPECT_EQ(remote(base + 255, 2), AccessFault::kOutOfBounds);
  EXPECT_EQ(remote(base + 1, ~uint64_t{0}), AccessFault::kOutOfBounds);
  EXPECT_EQ(remote(0, 1), AccessFault::kOutOfBounds);
  EXPECT_EQ(remote(base - 1, 1), AccessFault::kOutOfBounds);
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, kAll, {.base_addr = base + 1}).ok())
      << "runs past the end";
}

TEST_F(MemoryTableTest, a_zero_length_access_needs_a_valid_key_too) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  RemoteGrant grant;
  EXPECT_EQ(
      table_.checks.check_remote(pd_, region.rkey, region.addr + 256, 0, AccessKind::kRemoteWrite, grant),
      AccessFault::kNone);
  EXPECT_EQ(table_.checks.check_remote(pd_, Rkey(region.rkey.value() ^ 1), region.addr, 0,
                                       AccessKind::kRemoteWrite, grant),
            AccessFault::kNotValid);
  EXPECT_EQ(table_.checks.check_remote(pd_, Rkey(0), region.addr, 0, AccessKind::kRemoteWrite, grant),
            AccessFault::kNotValid);
}

TEST_F(MemoryTableTest, outputs_are_written_only_on_success) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  RemoteGrant grant{.at = memory_.data() + 1, .entry = 77};
  EXPECT_NE(table_.checks.check_remote(pd_, region.rkey, 0, 1, AccessKind::kRemoteWrite, grant),
            AccessFault::kNone);
  EXPECT_EQ(grant.entry, 77U);
  std::byte* at = memory_.data() + 9;
  EXPECT_NE(table_.checks.check_local(pd_, {0, 1, region.lkey}, AccessKind::kLocalRead, at),
            AccessFault::kNone);
  EXPECT_EQ(at, memory_.data() + 9);
}

TEST_F(MemoryTableTest, dereg_ends_both_keys_and_is_refused_while_windows_hang_on_it) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  const BindRequest bind{key, region.lkey, region.addr, 16, Access::kRemoteRead};
  ASSERT_EQ(table_.windows.bind_rkey(pd_, bind), AccessFault::kNone);
  EXPECT_FALSE(table_.regions.dereg_mr(region.lkey).ok());
  ASSERT_EQ(table_.windows.unbind_rkey(pd_, key), AccessFault::kNone);
  EXPECT_FALSE(table_.regions.dereg_mr(Lkey(region.rkey.value())).ok()) << "an RKey is no LKey";
  EXPECT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_FALSE(table_.regions.dereg_mr(region.lkey).ok()) << "gone already";
  RemoteGrant grant;
  std::byte* at = nullptr;
  EXPECT_EQ(table_.checks.check_remote(pd_, region.rkey, region.addr, 1, AccessKind::kRemoteRead, grant),
            AccessFault::kNotValid);
  EXPECT_EQ(table_.checks.check_local(pd_, {region.addr, 1, region.lkey}, AccessKind::kLocalRead, at),
            AccessFault::kNotValid);
}

TEST_F(MemoryTableTest, a_full_table_says_so_and_recovers) {
  std::vector<Lkey> keys;
  for (int i = 0; i < 32; ++i) keys.push_back(table_.regions.reg_mr(pd_, memory_, kAll).value().lkey);
  EXPECT_FALSE(table_.regions.reg_mr(pd_, memory_, Access::kNone).ok());
  EXPECT_FALSE(table_.windows.alloc_rkey(pd_).ok());
  EXPECT_TRUE(table_.regions.dereg_mr(keys[0]).ok());
  std::array<Rkey, 3> three;
  EXPECT_FALSE(table_.windows.alloc_rkeys(pd_, three).ok()) << "two are free; all or none";
  EXPECT_TRUE(table_.regions.reg_mr(pd_, memory_, kAll).ok());
}

TEST_F(MemoryTableTest, a_type_1_window_is_replaced_under_a_new_key) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  const Rkey first = table_.windows.alloc_rkey(pd_).value();
  Rkey second, third;
  ASSERT_EQ(
      table_.windows.rebind_window(pd_, {first, region.lkey, region.addr, 8, Access::kRemoteRead}, second),
      AccessFault::kNone);
  ASSERT_EQ(table_.windows.rebind_window(pd_, {second, region.lkey, region.addr + 8, 8, Access::kRemoteRead},
                                         third),
            AccessFault::kNone);
  RemoteGrant grant;
  EXPECT_EQ(table_.checks.check_remote(pd_, second, region.addr, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kWrongInstance);
  EXPECT_EQ(table_.checks.check_remote(pd_, third, region.addr + 8, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  Rkey fourth = third;
  EXPECT_EQ(
      table_.windows.rebind_window(pd_, {third, region.lkey, region.addr, 257, Access::kRemoteRead}, fourth),
      AccessFault::kOutOfBounds);
  EXPECT_EQ(fourth, third) << "a refused bind changes nothing";
  EXPECT_EQ(table_.checks.check_remote(pd_, third, region.addr + 8, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  ASSERT_EQ(table_.windows.rebind_window(pd_, {third, {}, 0, 0, Access::kNone}, fourth), AccessFault::kNone);
  EXPECT_NE(table_.checks.check_remote(pd_, fourth, region.addr + 8, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  EXPECT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
}

TEST_F(MemoryTableTest, a_zero_based_window_counts_from_zero) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table_.windows.bind_rkey(
                pd_, {key, region.lkey, region.addr + 100, 7, Access::kRemoteRead | Access::kZeroBased}),
            AccessFault::kNone);
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(pd_, key, 0, 7, AccessKind::kRemoteRead, grant), AccessFault::kNone);
  EXPECT_EQ(grant.at, memory_.data() + 100);
  EXPECT_EQ(table_.checks.check_remote(pd_, key, 7, 1, AccessKind::kRemoteRead, grant),
            AccessFault::kOutOfBounds);
}

TEST_F(MemoryTableTest, an_invalidated_key_of_a_region_stays_dead_and_the_region_ends_cleanly) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  EXPECT_EQ(table_.windows.invalidate(PdId{2}, region.rkey), AccessFault::kWrongPd);
  ASSERT_EQ(table_.windows.invalidate(pd_, region.rkey), AccessFault::kNone);
  EXPECT_EQ(table_.windows.invalidate(pd_, region.rkey), AccessFault::kNotValid);
  RemoteGrant grant;
  EXPECT_EQ(table_.checks.check_remote(pd_, region.rkey, region.addr, 1, AccessKind::kRemoteRead, grant),
            AccessFault::kNotValid);
  EXPECT_EQ(table_.windows.bind_rkey(pd_, {region.rkey, region.lkey, region.addr, 1, Access::kRemoteRead}),
            AccessFault::kAlreadyBound);
  EXPECT_EQ(table_.windows.unbind_rkey(pd_, region.rkey), AccessFault::kWrongType);
  EXPECT_FALSE(table_.windows.dealloc_rkey(region.rkey).ok());
  EXPECT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_TRUE(table_.pd_unused(pd_));
}

TEST_F(MemoryTableTest, a_late_finish_does_not_hurt_the_next_user_of_the_entry) {
  MemoryTable table(2, 0, random_);
  const auto region = table.regions.reg_mr(pd_, memory_, Access::kWindowBind).value();
  const Access once = Access::kRemoteRead | Access::kOneShot;
  const Rkey old_key = table.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table.windows.bind_rkey(pd_, {old_key, region.lkey, region.addr, 8, once}), AccessFault::kNone);
  RemoteGrant grant;
  ASSERT_EQ(table.checks.check_remote(pd_, old_key, region.addr, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
  ASSERT_TRUE(table.windows.dealloc_rkey(old_key).ok());
  const Rkey new_key = table.windows.alloc_rkey(pd_).value();
  ASSERT_EQ(table.windows.bind_rkey(pd_, {new_key, region.lkey, region.addr, 8, once}), AccessFault::kNone);
  table.checks.finish_remote(grant);
  EXPECT_EQ(table.checks.check_remote(pd_, new_key, region.addr, 8, AccessKind::kRemoteRead, grant),
            AccessFault::kNone);
}

TEST_F(MemoryTableTest, a_one_shot_key_that_has_served_is_bound_again_and_leaves_its_region) {
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(table_.windows.bind_rkey(
                  pd_, {key, region.lkey, region.addr, 8, Access::kRemoteWrite | Access::kOneShot}),
              AccessFault::kNone);
    RemoteGrant grant;
    ASSERT_EQ(table_.checks.check_remote(pd_, key, region.addr, 8, AccessKind::kRemoteWrite, grant),
              AccessFault::kNone);
    table_.checks.finish_remote(grant);
    EXPECT_FALSE(table_.query(key.value())->valid);
  }
  EXPECT_EQ(table_.query(region.lkey.value())->bound_windows, 1U);
  ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok());
  EXPECT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
}

TEST_F(MemoryTableTest, pd_unused_sees_regions_windows_and_unbound_keys) {
  EXPECT_TRUE(table_.pd_unused(pd_));
  const auto region = table_.regions.reg_mr(pd_, memory_, kAll).value();
  EXPECT_FALSE(table_.pd_unused(pd_));
  EXPECT_TRUE(table_.pd_unused(PdId{9}));
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  const Rkey key = table_.windows.alloc_rkey(pd_).value();
  EXPECT_FALSE(table_.pd_unused(pd_));
  ASSERT_TRUE(table_.windows.dealloc_rkey(key).ok());
  EXPECT_TRUE(table_.pd_unused(pd_));
}

TEST(AccessFaultNames, every_fault_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < static_cast<size_t>(AccessFault::kCount); ++i) {
    EXPECT_TRUE(names.insert(to_string(static_cast<AccessFault>(i))).second);
  }
  EXPECT_EQ(to_string(AccessFault::kCount), "unknown");
}

/// The naive model: maps from key to what it stands for; every answer is computed the slow and obvious way.
struct Model {
  struct Region {
    PdId pd;
    uint64_t start, length;
    bool read, write, bind;
  };
  struct Window {
    PdId pd;
    uint32_t region = 0;  // LKey; 0 = not bound
    uint64_t start = 0, length = 0;
    bool read = false, write = false, implicit = false, dead = false;
  };
  std::map<uint32_t, Region> regions;
  std::map<uint32_t, Window> windows;

  [[nodiscard]] bool has_windows(uint32_t lkey) const {
    for (const auto& [key, window] : windows) {
      if (window.region == lkey && !window.implicit) return true;
    }
    return false;
  }
  [[nodiscard]] bool remote_ok(PdId pd, uint32_t key, uint64_t va, uint64_t bytes, bool write) const {
    const auto it = windows.find(key);
    if (it == windows.end() || it->second.region == 0 || it->second.dead || it->second.pd != pd) return false;
    const Window& w = it->second;
    return va >= w.start && va + bytes <= w.start + w.length && (write ? w.write : w.read);
  }
};

class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed), table_(48, static_cast<uint8_t>(seed % 16), random_) {}

  void step() {
    switch (random_.below(8)) {
      case 0:
        reg();
        break;
      case 1:
        dereg();
        break;
      case 2:
        alloc();
        break;
      case 3:
        dealloc();
        break;
      case 4:
        bind();
        break;
      case 5:
        unbind();
        break;
      default:
        probe();
    }
  }

 private:
  PdId any_pd() { return PdId(static_cast<uint32_t>(1 + random_.below(2))); }
  uint32_t any_key() {
    if (all_keys_.empty() || random_.below(16) == 0) return static_cast<uint32_t>(random_.next());
    return all_keys_[random_.below(all_keys_.size())];
  }
  void remember(uint32_t key) {
    all_keys_.push_back(key);
    if (all_keys_.size() > 96) all_keys_.erase(all_keys_.begin());
    // A key may come back after 256 definitions of its index; this run is too short for that to stay
    // unnoticed.
    ASSERT_FALSE(model_.regions.count(key) != 0 || model_.windows.count(key) != 0);
  }
  void reg() {
    const uint64_t first = random_.below(memory_.size());
    const uint64_t length = 1 + random_.below(memory_.size() - first);
    const bool read = random_.below(2) != 0, write = random_.below(2) != 0, bind = random_.below(4) != 0;
    Access access = Access::kLocalWrite;
    if (read) access = access | Access::kRemoteRead;
    if (write) access = access | Access::kRemoteWrite;
    if (bind) access = access | Access::kWindowBind;
    const PdId pd = any_pd();
    const auto got = table_.regions.reg_mr(pd, std::span(memory_).subspan(first, length), access);
    const size_t needed = read || write ? 2 : 1;
    ASSERT_EQ(got.ok(), model_.regions.size() + model_.windows.size() + needed <= 48);
    if (!got.ok()) return;
    remember(got.value().lkey.value());
    model_.regions[got.value().lkey.value()] = {pd, got.value().addr, length, true, true, bind};
    if (needed == 1) return;
    remember(got.value().rkey.value());
    model_.windows[got.value().rkey.value()] = {
        pd, got.value().lkey.value(), got.value().addr, length, read, write, true, false};
  }
  void dereg() {
    const uint32_t key = any_key();
    const bool expected = model_.regions.count(key) != 0 && !model_.has_windows(key);
    ASSERT_EQ(table_.regions.dereg_mr(Lkey(key)).ok(), expected);
    if (!expected) return;
    model_.regions.erase(key);
    std::erase_if(model_.windows,
                  [&](const auto& item) { return item.second.implicit && item.second.region == key; });
  }
  void alloc() {
    const PdId pd = any_pd();
    const auto got = table_.windows.alloc_rkey(pd);
    ASSERT_EQ(got.ok(), model_.regions.size() + model_.windows.size() < 48);
    if (!got.ok()) return;
    remember(got.value().value());
    model_.windows[got.value().value()] = {.pd = pd};
  }
  void dealloc() {
    const uint32_t key = any_key();
    const auto it = model_.windows.find(key);
    const bool expected = it != model_.windows.end() && !it->second.implicit;
    ASSERT_EQ(table_.windows.dealloc_rkey(Rkey(key)).ok(), expected);
    if (expected) model_.windows.erase(it);
  }
  void bind() {
    const uint32_t key = any_key(), lkey = any_key();
    const PdId pd = any_pd();
    const uint64_t addr = address(memory_.data()) + random_.below(memory_.size());
    const uint64_t length = 1 + random_.below(40);
    const bool write = random_.below(2) != 0;
    const auto window = model_.windows.find(key);
    const auto region = model_.regions.find(lkey);
    bool expected = window != model_.windows.end() && region != model_.regions.end();
    if (expected) {
      const Model::Region& r = region->second;
      expected = window->second.pd == pd && window->second.region == 0 && r.pd == pd && r.bind &&
                 addr >= r.start && addr + length <= r.start + r.length;
    }
    const Access access = write ? Access::kRemoteWrite : Access::kRemoteRead;
    ASSERT_EQ(
        table_.windows.bind_rkey(pd, {Rkey(key), Lkey(lkey), addr, length, access}) == AccessFault::kNone,
        expected);
    if (expected) window->second = {pd, lkey, addr, length, !write, write, false, false};
  }
  void unbind() {
    const uint32_t key = any_key();
    const PdId pd = any_pd();
    const auto it = model_.windows.find(key);
    const bool present = it != model_.windows.end() && it->second.pd == pd;
    if (random_.below(2) != 0) {
      const bool expected = present && !it->second.implicit;
      ASSERT_EQ(table_.windows.unbind_rkey(pd, Rkey(key)) == AccessFault::kNone, expected);
      if (expected) it->second = {.pd = pd};
    } else {
      const bool expected = present && it->second.region != 0 && !it->second.dead;
      ASSERT_EQ(table_.windows.invalidate(pd, Rkey(key)) == AccessFault::kNone, expected);
      if (expected && it->second.implicit) it->second.dead = true;
      if (expected && !it->second.implicit) it->second = {.pd = pd};
    }
  }
  void probe() {
    const uint32_t key = any_key();
    const PdId pd = any_pd();
    const uint64_t offset = random_.below(memory_.size() + 8);
    const uint64_t va = address(memory_.data()) + offset - 4;
    const uint64_t bytes = random_.below(40);
    const bool write = random_.below(2) != 0;
    RemoteGrant grant;
    const bool remote = table_.checks.check_remote(pd, Rkey(key), va, bytes,
                                                   write ? AccessKind::kRemoteWrite : AccessKind::kRemoteRead,
                                                   grant) == AccessFault::kNone;
    ASSERT_EQ(remote, model_.remote_ok(pd, key, va, bytes, write));
    if (remote) {
      ASSERT_EQ(address(grant.at), va);
    }
    const auto region = model_.regions.find(key);
    const bool expected = region != model_.regions.end() && region->second.pd == pd &&
                          va >= region->second.start &&
                          va + bytes <= region->second.start + region->second.length;
    std::byte* at = nullptr;
    const Sge sge{va, static_cast<uint32_t>(bytes), Lkey(key)};
    const AccessKind kind = write ? AccessKind::kLocalWrite : AccessKind::kLocalRead;
    ASSERT_EQ(table_.checks.check_local(pd, sge, kind, at) == AccessFault::kNone, expected);
    if (expected) {
      ASSERT_EQ(address(at), va);
    }
  }

  SeededRandom random_;
  MemoryTable table_;
  std::array<std::byte, 128> memory_{};
  Model model_;
  std::vector<uint32_t> all_keys_;
};

TEST(MemoryTableModel, random_operations_agree_with_a_naive_model) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    ModelRun run(seed);
    for (int i = 0; i < 3000; ++i) {
      run.step();
      if (::testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "seed " << seed << " step " << i;
        return;
      }
    }
  }
}

}  // namespace
}  // namespace weft::adapter
