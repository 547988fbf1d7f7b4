// One adapter's table with as many entries as keys can name: nothing comes before it is used, and nothing
// gets dearer with what is there.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "adapter/memory/key_table.h"
#include "adapter/memory/memory_table.h"
#include "tests/support/allocation_counter.h"

namespace weft::adapter {
namespace {

constexpr uint32_t kMillion = 1'000'000;
constexpr PdId kPd{1};

AccessFault read_at(const MemoryTable& table, const MemoryRegion& region, uint64_t offset) {
  std::byte* at = nullptr;
  return table.checks.check_local(kPd, {region.addr + offset, 1, region.lkey}, AccessKind::kLocalRead, at);
}

TEST(MemoryScale, a_million_regions_each_with_its_own_range) {
  SeededRandom random(1);
  MemoryTable table(kKeysMax, 0, random);
  std::vector<std::byte> memory(kMillion);
  std::vector<MemoryRegion> regions;
  regions.reserve(kMillion);
  for (uint32_t i = 0; i < kMillion; ++i) {
    const Refusable<MemoryRegion> region =
        table.regions.reg_mr(kPd, std::span(memory).subspan(i, 1), Access::kLocalWrite);
    if (!region.ok()) break;
    regions.push_back(region.value());
  }
  ASSERT_EQ(regions.size(), kMillion);
  EXPECT_FALSE(table.pd_unused(kPd));
  for (uint32_t i = 0; i < kMillion; i += 997) {
    ASSERT_EQ(read_at(table, regions[i], 0), AccessFault::kNone) << i;
    ASSERT_EQ(read_at(table, regions[i], 1), AccessFault::kOutOfBounds) << i;
    ASSERT_EQ(table.query(regions[i].lkey.value())->start, regions[i].addr) << i;
  }
  uint32_t refused = 0;
  for (const MemoryRegion& region : regions) refused += table.regions.dereg_mr(region.lkey).ok() ? 0U : 1U;
  EXPECT_EQ(refused, 0U);
  EXPECT_TRUE(table.pd_unused(kPd));
  EXPECT_EQ(read_at(table, regions[0], 0), AccessFault::kNotValid);
}

/// Memory comes in chunks, and a chunk is one allocation.
TEST(MemoryScale, a_table_for_a_million_keys_takes_memory_as_it_is_used) {
  SeededRandom random(2);
  std::array<std::byte, 64> memory{};
  const uint64_t before = test::allocations();
  MemoryTable table(kKeysMax, 0, random);
  EXPECT_LE(test::allocations() - before, 4U);
  // What one region at a time needs, registered again and again, stays with a handful of chunks.
  const uint64_t made = test::allocations();
  for (int i = 0; i < 100'000; ++i) {
    const MemoryRegion region = table.regions.reg_mr(kPd, memory, Access::kLocalWrite).value();
    ASSERT_TRUE(table.regions.dereg_mr(region.lkey).ok());
  }
  EXPECT_LE(test::allocations() - made, 16U);
}

TEST(MemoryScale, indices_rest_before_they_are_used_again) {
  SeededRandom random(3);
  KeyTable keys(kKeysMax, 0, random);
  for (uint32_t i = 0; i < kKeyIndicesResting; ++i) {
    ASSERT_EQ(keys.take(), i) << "fresh ones first";
    keys.give_back(i);
  }
  for (uint32_t i = 0; i < kKeyIndicesResting; ++i) {
    ASSERT_EQ(keys.take(), i) << "then the one that has rested longest";
    keys.give_back(i);
  }
}

}  // namespace
}  // namespace weft::adapter
