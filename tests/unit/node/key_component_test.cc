// The program component of a computer with several NICs, over lists of keys without an adapter.
#include "node/key_component.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "tests/support/allocation_counter.h"

namespace weft::test {
using namespace adapter;
using node::KeyComponent;
using node::KeyCounter;
namespace {

class ListsOnly final : public NicKeys {
 public:
  explicit ListsOnly(KeyComponent& component) {
    for (const uint8_t nic : {uint8_t{1}, uint8_t{2}, uint8_t{3}}) {
      numbers_.push_back(nic);
      tables.emplace(nic, std::make_unique<MemoryTable>(64, nic, random_));
      tables[nic]->report_ends_to(&component);
    }
    asked.reserve(16);
    invalid.reserve(16);
    component.serve(*this);
  }
  [[nodiscard]] std::span<const uint8_t> nics() const noexcept override { return numbers_; }
  [[nodiscard]] std::optional<KeyList> list(uint8_t nic) noexcept override {
    asked.push_back(nic);
    if (!tables.contains(nic)) return std::nullopt;
    return KeyList(*tables[nic]);
  }
  void hand_over(uint8_t nic, const KeyEntry& key) noexcept override { EXPECT_TRUE(tables[nic]->adopt(key)); }
  void declare_invalid(uint8_t nic, uint32_t key) noexcept override { invalid.push_back({nic, key}); }
  void withdraw(uint8_t nic, uint32_t key) noexcept override { EXPECT_TRUE(tables[nic]->disown(key)); }
  [[nodiscard]] AccessFault invalidate(const Accessor& who, Rkey key) noexcept override {
    return tables[nic_of_key(key.value())]->windows.invalidate_for_peer(who, key);
  }
  void use_up(uint32_t key) noexcept override { tables[nic_of_key(key)]->use_up(key); }

  std::map<uint8_t, std::unique_ptr<MemoryTable>> tables;
  std::vector<uint8_t> asked;
  std::vector<KeyReport> invalid;

 private:
  SeededRandom random_{1};
  std::vector<uint8_t> numbers_;
};

class KeyComponentTest : public ::testing::Test {
 protected:
  /// A key of NIC 1 bound to all of the memory.
  Rkey bound(Access rights = Access::kRemoteWrite) {
    MemoryTable& table = *nics.tables[1];
    const MemoryRegion region =
        table.regions.reg_mr(pd, memory, Access::kLocalWrite | Access::kWindowBind).value();
    const Rkey key = table.windows.alloc_rkey(pd).value();
    EXPECT_EQ(table.windows.bind_rkey(pd, {.window = key,
                                           .region = region.lkey,
                                           .addr = region.addr,
                                           .length = region.length,
                                           .access = rights}),
              AccessFault::kNone);
    return key;
  }
  [[nodiscard]] uint64_t count(KeyCounter counter) const { return component.counters().get(counter); }
  [[nodiscard]] AccessFault check(uint8_t nic, Rkey key, RemoteGrant& grant) {
    return nics.tables[nic]->checks.check_remote(pd, key, reinterpret_cast<uintptr_t>(memory.data()), 8,
                                                 AccessKind::kRemoteWrite, grant);
  }

  PdId pd{1};
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  KeyComponent component;
  ListsOnly nics{component};
};

TEST_F(KeyComponentTest, answers_in_poll_from_the_list_of_the_nic_in_the_key) {
  const Rkey key = bound();
  component.report({2, key.value()});
  EXPECT_TRUE(component.has_work());
  EXPECT_TRUE(nics.asked.empty());
  EXPECT_EQ(component.poll(), 1);
  EXPECT_EQ(nics.asked, std::vector<uint8_t>{1});
  RemoteGrant grant;
  EXPECT_EQ(check(2, key, grant), AccessFault::kNone);
  EXPECT_EQ(grant.at, memory.data());
  EXPECT_EQ(check(3, key, grant), AccessFault::kNotValid);
  EXPECT_EQ(component.holders(key.value()), 1U);
  EXPECT_FALSE(component.has_work());
}

TEST_F(KeyComponentTest, a_key_of_nobody_is_invalid) {
  component.report({2, 0x1000'0007});  // NIC 1 has no such key
  component.report({2, 0x5000'0007});  // there is no NIC 5
  component.report({2, 0x2000'0007});  // its own number: it has looked already
  EXPECT_EQ(component.poll(), 3);
  EXPECT_EQ(nics.invalid.size(), 3U);
  EXPECT_EQ(count(KeyCounter::kInvalid), 3U);
  EXPECT_EQ(count(KeyCounter::kLists), 1U);
}

TEST_F(KeyComponentTest, a_question_without_memory_has_no_answer_and_may_be_asked_again) {
  const Rkey key = bound();
  component.report({2, key.value()});
  component.report({2, 0x5000'0007});
  static bool asked_for_memory = false;
  watch_allocations([](uint64_t) {
    if (std::exchange(asked_for_memory, true)) return;
    throw std::bad_alloc();
  });
  const int answers = component.poll();
  watch_allocations(nullptr);
  EXPECT_TRUE(asked_for_memory);
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(count(KeyCounter::kNoMemory), 1U);
  EXPECT_EQ(count(KeyCounter::kHandedOver), 0U);
  EXPECT_EQ(count(KeyCounter::kInvalid), 1U) << "the next question has its answer";
  EXPECT_EQ(component.holders(key.value()), 0U);
  component.report({2, key.value()});
  component.poll();
  EXPECT_EQ(count(KeyCounter::kHandedOver), 1U);
  EXPECT_EQ(component.holders(key.value()), 1U);
}

TEST_F(KeyComponentTest, the_end_of_a_key_takes_it_from_every_nic) {
  const Rkey key = bound();
  component.report({2, key.value()});
  component.report({3, key.value()});
  component.poll();
  EXPECT_EQ(component.holders(key.value()), 2U);
  EXPECT_EQ(nics.tables[1]->windows.unbind_rkey(pd, key), AccessFault::kNone);
  EXPECT_EQ(component.holders(key.value()), 0U);
  for (const uint8_t nic : {uint8_t{2}, uint8_t{3}}) EXPECT_EQ(nics.tables[nic]->adopted_count(), 0U);
  EXPECT_EQ(count(KeyCounter::kEnds), 1U);
}

TEST_F(KeyComponentTest, an_invalidation_at_another_nic_runs_at_the_maker_with_its_checks) {
  const Rkey key = bound();
  component.report({2, key.value()});
  component.poll();
  EXPECT_EQ(component.invalidate(2, PdId(2), key), AccessFault::kWrongPd);
  EXPECT_EQ(nics.tables[2]->adopted_count(), 1U);
  EXPECT_EQ(component.invalidate(2, pd, key), AccessFault::kNone);
  EXPECT_EQ(nics.tables[2]->adopted_count(), 0U);
  EXPECT_FALSE(nics.tables[1]->query(key.value())->valid);
  EXPECT_EQ(component.invalidate(2, pd, key), AccessFault::kNotValid);
  EXPECT_EQ(count(KeyCounter::kInvalidated), 1U) << "a refused one does not count";
}

TEST_F(KeyComponentTest, a_one_shot_key_that_served_at_another_nic_has_served) {
  const Rkey key = bound(Access::kRemoteWrite | Access::kOneShot);
  component.report({2, key.value()});
  component.report({3, key.value()});
  component.poll();
  RemoteGrant grant;
  ASSERT_EQ(check(2, key, grant), AccessFault::kNone);
  EXPECT_TRUE(grant.one_shot);
  nics.tables[2]->checks.finish_remote(grant);
  for (const uint8_t nic : {uint8_t{1}, uint8_t{2}, uint8_t{3}})
    EXPECT_EQ(check(nic, key, grant), AccessFault::kNotValid) << int{nic};
  EXPECT_TRUE(nics.tables[1]->query(key.value())->touched);
}

TEST_F(KeyComponentTest, a_key_that_was_never_handed_over_ends_silently) {
  const Rkey key = bound();
  EXPECT_EQ(nics.tables[1]->windows.unbind_rkey(pd, key), AccessFault::kNone);
  EXPECT_EQ(count(KeyCounter::kEnds), 0U);
}

TEST_F(KeyComponentTest, a_handed_over_key_cannot_be_changed_where_it_is_a_guest) {
  const Rkey key = bound();
  component.report({2, key.value()});
  component.poll();
  MemoryTable& guest = *nics.tables[2];
  EXPECT_EQ(guest.windows.unbind_rkey(pd, key), AccessFault::kNotValid);
  EXPECT_EQ(guest.windows.invalidate(pd, key), AccessFault::kNotValid);
  EXPECT_FALSE(guest.windows.dealloc_rkey(key).ok());
  EXPECT_FALSE(guest.regions.dereg_mr(Lkey(key.value())).ok());
  EXPECT_FALSE(guest.own_range(pd, key).has_value());
  RemoteGrant grant;
  EXPECT_EQ(check(2, key, grant), AccessFault::kNone);
}

}  // namespace
}  // namespace weft::test
