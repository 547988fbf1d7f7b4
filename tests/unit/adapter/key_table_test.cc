#include "adapter/memory/key_table.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <vector>

namespace weft::adapter {
namespace {

TEST(KeyPermutation, backward_undoes_forward_over_samples_and_edges) {
  SeededRandom random(7);
  const KeyPermutation permutation(random);
  for (uint32_t plain : {0U, 1U, kPermutedMask - 1, kPermutedMask}) {
    EXPECT_EQ(permutation.backward(permutation.forward(plain)), plain);
  }
  for (int i = 0; i < 100'000; ++i) {
    const auto plain = static_cast<uint32_t>(random.below(kPermutedMask + 1));
    const uint32_t permuted = permutation.forward(plain);
    ASSERT_LE(permuted, kPermutedMask);
    ASSERT_EQ(permutation.backward(permuted), plain);
  }
}

TEST(KeyPermutation, one_input_bit_changes_about_half_of_the_output_bits) {
  SeededRandom random(8);
  const KeyPermutation permutation(random);
  constexpr int kSamples = 4096;
  uint64_t changed = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto plain = static_cast<uint32_t>(random.below(kPermutedMask + 1));
    const uint32_t flipped = plain ^ (1U << random.below(kPermutedBits));
    const uint32_t difference = permutation.forward(plain) ^ permutation.forward(flipped);
    ASSERT_NE(difference, 0U);
    changed += static_cast<uint64_t>(std::popcount(difference));
  }
  const double mean = static_cast<double>(changed) / kSamples;
  EXPECT_GT(mean, 13.5);
  EXPECT_LT(mean, 14.5);
}

TEST(KeyPermutation, two_adapters_have_nothing_in_common) {
  SeededRandom random(9);
  const KeyPermutation first(random);
  const KeyPermutation second(random);
  int same = 0;
  for (uint32_t plain = 0; plain < 10'000; ++plain)
    same += first.forward(plain) == second.forward(plain) ? 1 : 0;
  EXPECT_LE(same, 2);
}

TEST(KeyTable, keys_carry_the_adapter_number_and_are_found_again) {
  SeededRandom random(1);
  KeyTable table(100, 0xB, random);
  for (int i = 0; i < 100; ++i) {
    const auto index = table.take();
    ASSERT_TRUE(index);
    const uint32_t key = table.key_of(*index);
    EXPECT_EQ(key >> 28, 0xBU);
    const auto parts = table.find(key);
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->index, *index);
    EXPECT_EQ(parts->instance, table.instance_of(*index));
  }
  EXPECT_FALSE(table.take()) << "all hundred are in use";
}

TEST(KeyTable, a_key_of_another_adapter_is_not_found) {
  SeededRandom random(2);
  KeyTable table(kKeysMax, 3, random);
  const uint32_t key = table.key_of(*table.take());
  EXPECT_TRUE(table.find(key));
  EXPECT_FALSE(table.find(key ^ 0x1000'0000U));
}

TEST(KeyTable, indices_are_reused_first_in_first_out) {
  SeededRandom random(3);
  KeyTable table(4, 0, random);
  for (uint32_t expected = 0; expected < 4; ++expected) EXPECT_EQ(table.take(), expected);
  table.give_back(2);
  table.give_back(0);
  table.give_back(3);
  EXPECT_EQ(table.take(), 2U);
  table.give_back(1);
  EXPECT_EQ(table.take(), 0U);
  EXPECT_EQ(table.take(), 3U);
  EXPECT_EQ(table.take(), 1U);
  EXPECT_FALSE(table.take());
}

TEST(KeyTable, instances_step_by_one_and_old_keys_are_seen_as_old) {
  SeededRandom random(4);
  KeyTable table(1, 1, random);
  ASSERT_EQ(table.take(), 0U);
  uint8_t last = table.instance_of(0);
  table.give_back(0);
  std::set<uint32_t> keys;
  for (int i = 0; i < 256; ++i) {
    ASSERT_EQ(table.take(), 0U);
    EXPECT_EQ(table.instance_of(0), static_cast<uint8_t>(last + 1));
    last = table.instance_of(0);
    const uint32_t key = table.key_of(0);
    EXPECT_TRUE(keys.insert(key).second) << "no key twice within 256 definitions";
    table.renew(0);
    EXPECT_NE(table.find(key)->instance, table.instance_of(0));
    table.give_back(0);
    last = table.instance_of(0);
    if (i == 126) break;  // two steps per turn: 254 of the 256 instances
  }
}

TEST(KeyTable, key_zero_is_never_given_out) {
  // One of the 2^28 pairs gives 0. A full-size table that goes through all 256 instances of every index meets
  // it.
  SeededRandom random(5);
  KeyTable table(kKeysMax, 0, random);
  while (table.free_count() != 0) static_cast<void>(table.take());
  const auto zero = table.find(0);
  ASSERT_TRUE(zero) << "a full-size table has the index";
  int renewals = 0;
  for (int step = 0; step < 512; ++step) {
    table.renew(zero->index);
    ASSERT_NE(table.key_of(zero->index), 0U);
    ASSERT_NE(table.instance_of(zero->index), zero->instance);
    ++renewals;
  }
  EXPECT_EQ(renewals, 512);
}

TEST(KeyTable, first_instances_are_random) {
  SeededRandom random(6);
  KeyTable table(1024, 0, random);
  std::set<uint8_t> seen;
  for (uint32_t i = 0; i < 1024; ++i) seen.insert(table.instance_of(*table.take()));
  EXPECT_GT(seen.size(), 200U);
}

TEST(KeyTable, keys_are_not_sequential_nor_is_their_difference) {
  SeededRandom random(10);
  KeyTable table(65'536, 0, random);
  constexpr int kKeys = 4096;
  std::set<uint32_t> differences;
  std::array<int, 16> top_buckets{};
  uint32_t previous = 0;
  int neighbours = 0;
  for (int i = 0; i < kKeys; ++i) {
    const uint32_t key = table.key_of(*table.take());
    const uint32_t difference = key - previous;
    differences.insert(difference);
    neighbours += difference + 256 < 512 ? 1 : 0;
    ++top_buckets[key >> 24];
    previous = key;
  }
  EXPECT_GT(differences.size(), static_cast<size_t>(kKeys - 8))
      << "a common difference would let a peer guess";
  EXPECT_LE(neighbours, 2);
  for (int count : top_buckets) {  // chi-square would say the same; 256 expected, 6 sigma = 93
    EXPECT_GT(count, 256 - 93);
    EXPECT_LT(count, 256 + 93);
  }
}

TEST(KeyTable, a_block_has_a_key_for_each_instance_and_no_other_key_is_in_it) {
  SeededRandom random(4);
  KeyTable table(1U << 16, 0, random);
  constexpr uint32_t kBlocks = 1024;
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    indices.push_back(table.take().value());
    ASSERT_TRUE(table.take_block(indices.back()));
  }
  for (const uint32_t index : {indices.front(), indices[77], indices.back()}) {
    const uint32_t first = table.key_of(index) & ~0xFFU;
    EXPECT_NE(first, 0U);
    for (uint32_t low = 0; low <= 0xFF; ++low) {
      const auto parts = table.find_chosen(first | low);
      ASSERT_TRUE(parts);
      ASSERT_EQ(parts->index, index);
      ASSERT_EQ(parts->instance, low);
    }
    table.choose({index, 9});
    EXPECT_EQ(table.key_of(index), first | 9);
  }
  // Permuted keys pass the blocks over: one in a thousand would be in one.
  const uint32_t ordinary = table.take().value();
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_FALSE(table.find_chosen(table.key_of(ordinary)));
    ASSERT_FALSE(table.find_chosen(table.promise(ordinary)));
    table.renew(ordinary);
  }
  const uint32_t key = table.key_of(indices[77]);
  table.give_back(indices[77]);
  EXPECT_FALSE(table.find_chosen(key));
}

TEST(KeyTable, a_block_is_taken_only_where_no_present_or_promised_key_is) {
  SeededRandom random(6);
  KeyTable table(1U << 14, 0, random);
  // Keys so many that one block in nine has one.
  std::vector<bool> live(1U << 20);
  for (uint32_t i = 0; i < 1U << 12; ++i) {
    const uint32_t index = table.take().value();
    live[table.key_of(index) >> 8] = true;
    for (int n = 0; n < 31; ++n) live[table.promise(index) >> 8] = true;
  }
  for (int i = 0; i < 100; ++i) {
    const uint32_t index = table.take().value();
    ASSERT_TRUE(table.take_block(index));
    ASSERT_FALSE(live[table.key_of(index) >> 8]);
  }
}

TEST(KeyTable, promised_keys_are_taken_in_turn_and_never_come_later) {
  SeededRandom random(3);
  KeyTable table(4, 7, random);
  const uint32_t index = table.take().value();
  const uint32_t present = table.key_of(index);
  std::vector<uint32_t> keys;
  for (int i = 0; i < 3; ++i) keys.push_back(table.promise(index));
  EXPECT_EQ(table.key_of(index), present) << "promised is not given";
  for (const uint32_t key : keys) EXPECT_TRUE(table.promised(*table.find(key)));
  table.adopt(*table.find(keys[1]));
  EXPECT_EQ(table.key_of(index), keys[1]);
  EXPECT_FALSE(table.promised(*table.find(keys[0]))) << "passed over";
  EXPECT_TRUE(table.promised(*table.find(keys[2])));
  for (int i = 0; i < 200; ++i) {
    table.renew(index);
    for (const uint32_t key : keys) ASSERT_NE(table.key_of(index), key);
  }
}

TEST(KeyTable, promises_end_where_they_began_and_may_be_taken_back) {
  SeededRandom random(5);
  KeyTable table(4, 7, random);
  const uint32_t index = table.take().value();
  const KeyParts present = table.find(table.key_of(index)).value();
  uint32_t last = 0;
  for (int i = 0; i < 255; ++i) {
    last = table.promise(index);
    ASSERT_NE(last, 0U) << i;
  }
  EXPECT_EQ(table.promise(index), 0U) << "the present key is none to come";
  EXPECT_TRUE(table.promised(*table.find(last)));
  table.withdraw_behind(present);
  EXPECT_FALSE(table.promised(*table.find(last)));
  EXPECT_TRUE(table.promised(present));
  EXPECT_NE(table.promise(index), 0U);
}

TEST(KeyTable, random_guesses_hit_about_as_often_as_there_are_live_keys) {
  SeededRandom random(11);
  KeyTable table(kKeysMax, 0, random);
  for (uint32_t i = 0; i < kKeysMax; ++i) static_cast<void>(table.take());
  int hits = 0;
  constexpr int kGuesses = 100'000;
  for (int i = 0; i < kGuesses; ++i) {
    const auto parts = table.find(static_cast<uint32_t>(random.below(kPermutedMask + 1)));
    ASSERT_TRUE(parts);
    hits += parts->instance == table.instance_of(parts->index) ? 1 : 0;
  }
  EXPECT_NEAR(hits, kGuesses / 256, 120) << "one live instance of 256 (decisions section 4)";
}

}  // namespace
}  // namespace weft::adapter
