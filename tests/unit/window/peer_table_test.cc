// The requester's copy of a peer's table: found, checked, refreshed by generation, used. Then a peer that
// lies in every field, changes them between two reads, or stops in the middle.
#include "fabric/window/peer_table.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/crc32c.h"
#include "fabric/window/memory_device.h"
#include "fabric/window/own_window.h"
#include "fabric/window/window_words.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr OwnWindowConfig kSmallTable{.slots = 4, .slot_bytes = 64, .table_entries = 8};
constexpr uint64_t kAnchorPlace = 64;

/// The owner is side 0, the requester side 1.
class PeerTableTest : public ::testing::Test {
 protected:
  explicit PeerTableTest(bool mapped = false)
      : window({.window_bytes = {OwnWindow::bytes_for(kSmallTable), OwnWindow::bytes_for(kSmallTable)},
                .mapped = mapped},
               random),
        own(window.end(0), kSmallTable),
        table(window.end(1), 7) {}

  void step(Duration by = 10us) {
    clock.advance(by);
    window.end(0).poll(clock.now());
    window.end(1).poll(clock.now());
    if (window.end(1).take_notification() && heeds_notifications) table.look();
    table.poll(clock.now());
    drain();
  }
  void drain() {
    std::array<DmaCompletion, 4> done;
    while (const uint32_t count = window.end(1).completions(done)) {
      for (uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(done[i].token, 7U);
        table.complete(done[i].status, clock.now());
      }
    }
  }
  void run(int steps, Duration by = 10us) {
    for (int i = 0; i < steps; ++i) step(by);
  }
  bool use() {
    table.want_use();
    for (int i = 0; i < 100 && !table.in_use(); ++i) step();
    return table.in_use();
  }
  /// Notifications are heeded when the copy has been used.
  void use_once() {
    ASSERT_TRUE(use());
    table.end_use();
    run(3);
  }
  std::byte* owned(uint64_t offset) { return window.end(0).own_memory().data() + offset; }
  uint64_t table_use() { return load_window_word(owned(own.anchor().fifo_offset + kFifoTableUseAt)); }
  void ready() {
    own.open(false);
    run(5);
    ASSERT_TRUE(table.ready());
  }
  /// As a lying owner: a field of the record, with the right CRC.
  template <class T>
  void forge(uint64_t at, T value) {
    store_be(owned(kAnchorPlace + at), value);
    reseal();
  }
  void reseal() { store_be(owned(kAnchorPlace + 60), crc32c({owned(kAnchorPlace), 60})); }
  void forge_entry(uint32_t place, const WindowEntry& entry) {
    const auto bytes = encode_entry(entry);
    std::memcpy(owned(own.anchor().table_offset + place * kTableEntryBytes), bytes.data(), bytes.size());
  }

  SeededRandom random{1};
  ManualClock clock;
  MemoryWindow window;
  OwnWindow own;
  PeerTable table;
  bool heeds_notifications = true;
};

constexpr WindowEntry kReadable{0x10000, 0x1000, kTableRead, 5};
constexpr WindowEntry kWritable{0x20000, 0x1000, kTableWrite, 3};

TEST_F(PeerTableTest, waits_for_the_scratchpad_then_copies_the_table) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ASSERT_EQ(own.publish(kWritable), PublishResult::kOk);
  run(100);
  EXPECT_FALSE(table.ready());
  EXPECT_FALSE(table.faulty());
  EXPECT_EQ(window.counts(1).requests, 0U) << "nothing is read before the register says where";
  ready();
  EXPECT_EQ(table.anchor(), own.anchor());
  EXPECT_EQ(table.entries(), (std::vector{kWritable, kReadable})) << "by key";
  EXPECT_EQ(window.counts(1).requests, 3U) << "record, table, generation";
}

TEST_F(PeerTableTest, check_covers_key_start_end_and_right) {
  const WindowEntry top{0xFFFF'FFFF'FFFF'F000, 0x1000, kTableRead | kTableWrite, 9};
  for (const WindowEntry& entry : {kReadable, kWritable, top}) {
    ASSERT_EQ(own.publish(entry), PublishResult::kOk);
  }
  ASSERT_EQ(own.publish({0x30000, 16, kTableRead | kTableThroughOwner, 11}), PublishResult::kOk);
  ready();
  ASSERT_TRUE(use());
  using enum TableCheck;
  EXPECT_EQ(table.check(5, 0x10000, 0x1000, kTableRead), kGranted);
  EXPECT_EQ(table.check(5, 0x10FFF, 1, kTableRead), kGranted);
  EXPECT_EQ(table.check(5, 0x11000, 0, kTableRead), kGranted) << "nothing, at the end";
  EXPECT_EQ(table.check(5, 0x10FFF, 2, kTableRead), kOutOfRange) << "starts inside, ends outside";
  EXPECT_EQ(table.check(5, 0x0FFFF, 2, kTableRead), kOutOfRange) << "starts outside, ends inside";
  EXPECT_EQ(table.check(5, 0x10000, 0x1001, kTableRead), kOutOfRange);
  EXPECT_EQ(table.check(5, 0x10800, UINT64_MAX, kTableRead), kOutOfRange) << "a sum that wraps";
  EXPECT_EQ(table.check(5, 0x20000, 1, kTableRead), kOutOfRange) << "of another key";
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableWrite), kNoRight);
  EXPECT_EQ(table.check(3, 0x20000, 1, kTableRead), kNoRight);
  EXPECT_EQ(table.check(4, 0x10000, 1, kTableRead), kUnknownKey);
  EXPECT_EQ(table.check(0, 0, 0, kTableRead), kUnknownKey) << "a free entry is none";
  EXPECT_EQ(table.check(12, 0, 0, kTableRead), kUnknownKey) << "behind the last";
  EXPECT_EQ(table.check(9, 0xFFFF'FFFF'FFFF'FFFF, 1, kTableWrite), kGranted) << "the last byte of all";
  EXPECT_EQ(table.check(9, 0xFFFF'FFFF'FFFF'FFFF, 2, kTableWrite), kOutOfRange);
  EXPECT_EQ(table.check(9, 0, 0, kTableWrite), kOutOfRange) << "address 0 is not the one behind the last";
  EXPECT_EQ(table.check(11, 0x30000, 8, kTableRead), kThroughOwner);
}

TEST_F(PeerTableTest, a_notification_refreshes_a_copy_that_was_used) {
  ready();
  use_once();
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  run(5);
  EXPECT_EQ(table.entries(), std::vector{kReadable});
  use_once();
  const uint64_t generation = own.withdraw(5);
  EXPECT_EQ(generation, own.generation());
  run(5);
  EXPECT_TRUE(table.entries().empty());
  EXPECT_EQ(own.withdraw(5), 0U) << "there is no such key any more";
}

/// Nothing here needs them, and each takes the time of a turn.
TEST_F(PeerTableTest, notifications_alone_get_no_second_copy) {
  ready();
  const uint64_t before = window.counts(1).requests;
  for (uint32_t key = 100; key < 200; ++key) {
    ASSERT_EQ(own.publish({0x1000, 1, kTableRead, key}), PublishResult::kOk);
    ASSERT_NE(own.withdraw(key), 0U);
    step();
  }
  EXPECT_EQ(window.counts(1).requests, before);
  EXPECT_EQ(table.deadline(), kNever);
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  use_once();
  EXPECT_EQ(table.entries(), std::vector{kReadable});
  ASSERT_NE(own.withdraw(5), 0U);
  run(3);
  EXPECT_TRUE(table.entries().empty()) << "the copy was used, so the next one may be";
}

/// The owner changes the table whenever it has been copied.
TEST_F(PeerTableTest, copies_that_come_to_no_use_follow_each_other_slowly) {
  ready();
  run(20);
  constexpr int kSteps = 100;
  constexpr uint64_t kRequestsOfACopy = 7;  // a use that finds a change takes four, the copy three
  const uint64_t before = window.counts(1).requests;
  uint64_t generation = own.generation();
  forge(8, generation += 2);
  table.want_use();
  for (int i = 0; i < kSteps; ++i) {
    clock.advance(10us);
    window.end(1).poll(clock.now());
    table.poll(clock.now());
    std::array<DmaCompletion, 1> done;
    for (int most = 50; most > 0 && window.end(1).completions(done) != 0; --most) {
      table.complete(done[0].status, clock.now());
      if (table.anchor().generation == generation) forge(8, generation += 2);
    }
    ASSERT_FALSE(table.in_use());
  }
  EXPECT_LE(window.counts(1).requests - before, kRequestsOfACopy * (kSteps * 10us / kTableRetry + 2));
  run(20);
  EXPECT_TRUE(table.in_use());
}

TEST_F(PeerTableTest, a_copy_that_is_used_is_followed_by_the_next_at_once) {
  ready();
  run(20);
  for (uint32_t key = 10; key < 40; ++key) {
    const Instant begin = clock.now();
    ASSERT_EQ(own.publish({0x1000, 1, kTableRead, key}), PublishResult::kOk);
    ASSERT_TRUE(use());
    EXPECT_EQ(table.check(key, 0x1000, 1, kTableRead), TableCheck::kGranted);
    EXPECT_LT(clock.now() - begin, kTableRetry);
    table.end_use();
    run(2);
    ASSERT_NE(own.withdraw(key), 0U);
  }
}

/// Also without any notification: each use looks at the generation first.
TEST_F(PeerTableTest, a_use_never_speaks_of_an_older_table) {
  heeds_notifications = false;
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ready();
  ASSERT_TRUE(use());
  EXPECT_EQ(table_use(), own.generation());
  table.end_use();
  run(3);
  EXPECT_EQ(table_use(), 0U);
  const uint64_t generation = own.withdraw(5);
  EXPECT_TRUE(own.settled(generation));
  ASSERT_TRUE(use());
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableRead), TableCheck::kUnknownKey);
  EXPECT_EQ(table_use(), generation);
}

TEST_F(PeerTableTest, a_withdrawn_entry_is_settled_when_the_dma_under_way_has_ended) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ready();
  ASSERT_TRUE(use());
  table.hold();
  const uint64_t generation = own.withdraw(5);
  EXPECT_FALSE(own.settled(generation));
  run(20);
  EXPECT_FALSE(table.in_use()) << "no further access on the old table";
  EXPECT_FALSE(own.settled(generation)) << "one is under way";
  table.want_use();
  table.release();
  run(20);
  EXPECT_TRUE(own.settled(generation));
  ASSERT_TRUE(table.in_use()) << "on the new table";
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableRead), TableCheck::kUnknownKey);
}

TEST_F(PeerTableTest, a_peer_that_dies_inside_a_use_is_settled) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ready();
  ASSERT_TRUE(use());
  table.hold();
  const uint64_t generation = own.withdraw(5);
  EXPECT_FALSE(own.settled(generation));
  clock.advance(1h);
  EXPECT_FALSE(own.settled(generation)) << "a stopped peer may go on at any time";
  window.kill(1);
  EXPECT_TRUE(own.settled(generation));
}

TEST_F(PeerTableTest, an_owner_that_dies_makes_it_faulty) {
  ready();
  window.kill(0);
  table.want_use();
  table.look();
  run(3);
  EXPECT_FALSE(table.in_use());
}

/// The peer's window memory is mapped here.
class MappedPeerTable : public PeerTableTest {
 protected:
  MappedPeerTable() : PeerTableTest(true) {}
};

TEST_F(MappedPeerTable, a_use_is_announced_and_confirmed_without_requests) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  EXPECT_FALSE(table.begin_use()) << "there is no copy yet";
  ready();
  const uint64_t before = window.counts(1).requests;
  ASSERT_TRUE(table.begin_use());
  EXPECT_TRUE(table.in_use());
  EXPECT_EQ(table_use(), own.generation());
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableRead), TableCheck::kGranted);
  table.hold();
  run(3);
  EXPECT_EQ(table_use(), own.generation()) << "DMA is under way";
  table.release();
  run(1);
  EXPECT_EQ(table_use(), 0U);
  EXPECT_TRUE(table.idle());
  EXPECT_EQ(window.counts(1).requests, before);
}

TEST_F(MappedPeerTable, a_use_never_speaks_of_an_older_table) {
  heeds_notifications = false;
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ready();
  const uint64_t generation = own.withdraw(5);
  EXPECT_FALSE(table.begin_use());
  EXPECT_FALSE(table.in_use());
  EXPECT_FALSE(own.settled(generation)) << "the old use is announced, until poll() leaves it";
  ASSERT_TRUE(use());
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableRead), TableCheck::kUnknownKey);
  EXPECT_EQ(table_use(), generation);
}

TEST_F(MappedPeerTable, a_withdrawn_entry_is_settled_when_the_dma_under_way_has_ended) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  ready();
  ASSERT_TRUE(table.begin_use());
  table.hold();
  const uint64_t generation = own.withdraw(5);
  run(20);
  EXPECT_FALSE(table.in_use());
  EXPECT_FALSE(table.begin_use()) << "no further access on the old table";
  EXPECT_FALSE(own.settled(generation)) << "one is under way";
  table.release();
  run(20);
  EXPECT_TRUE(own.settled(generation));
  ASSERT_TRUE(table.begin_use()) << "on the new table";
  EXPECT_EQ(table.check(5, 0x10000, 1, kTableRead), TableCheck::kUnknownKey);
}

TEST_F(PeerTableTest, publishing_is_refused_for_doubles_full_tables_and_bad_entries) {
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  EXPECT_EQ(own.publish({0x50000, 1, kTableRead, 5}), PublishResult::kDoubleKey);
  EXPECT_EQ(own.publish({}), PublishResult::kBadEntry);
  EXPECT_EQ(own.publish({1, 0, kTableRead, 6}), PublishResult::kBadEntry);
  EXPECT_EQ(own.publish({UINT64_MAX, 2, kTableRead, 6}), PublishResult::kBadEntry);
  EXPECT_EQ(own.publish({1, 1, 0, 6}), PublishResult::kBadEntry);
  for (uint32_t key = 10; key < 17; ++key) {
    ASSERT_EQ(own.publish({0x1000 * key, 1, kTableRead, key}), PublishResult::kOk);
  }
  EXPECT_EQ(own.publish({1, 1, kTableRead, 6}), PublishResult::kFull);
  EXPECT_NE(own.withdraw(12), 0U);
  EXPECT_EQ(own.publish({1, 1, kTableRead, 6}), PublishResult::kOk);
  EXPECT_EQ(own.published(), 8U);
  EXPECT_TRUE(own.allows(1, 1, kTableRead));
  EXPECT_FALSE(own.allows(1, 1, kTableWrite));
  EXPECT_FALSE(own.allows(1, 2, kTableRead));
  EXPECT_FALSE(own.allows(0xC000, 1, kTableRead)) << "withdrawn";
}

// ---- hostile owners

TEST_F(PeerTableTest, an_anchor_outside_the_window_memory_is_refused_unread) {
  for (const uint64_t at : {uint64_t{1}, uint64_t{60}, window.end(0).own_memory().size() - 56, UINT64_MAX,
                            UINT64_MAX - 7, uint64_t{1} << 63}) {
    PeerTable fresh(window.end(1), 7);
    window.end(0).set_scratchpad(kScratchpadAnchor, at);
    fresh.poll(clock.now());
    EXPECT_TRUE(fresh.faulty()) << at;
    EXPECT_EQ(fresh.fault().anchor, AnchorFault::kPlace);
  }
  EXPECT_EQ(window.counts(1).requests, 0U);
}

TEST_F(PeerTableTest, a_wrong_record_is_given_time_then_refused) {
  forge(4, uint16_t{2});
  own.open(false);
  run(50, 1ms);
  EXPECT_FALSE(table.faulty()) << "its owner may be writing it";
  run(60, 1ms);
  EXPECT_TRUE(table.faulty());
  EXPECT_EQ(table.fault().anchor, AnchorFault::kVersion);
  EXPECT_FALSE(table.ready());
}

/// Each time that it is wrong begins anew.
TEST_F(PeerTableTest, a_record_that_was_mended_is_given_time_again) {
  ready();
  for (uint64_t life = 1; life <= 3; ++life) {
    use_once();
    forge(8, own.generation() + 2 * life);
    forge(4, uint16_t{2});
    table.look();
    run(60, 1ms);
    ASSERT_FALSE(table.faulty()) << life;
    EXPECT_NE(table.anchor().generation, own.generation() + 2 * life);
    forge(4, uint16_t{1});
    run(5, 1ms);
    ASSERT_TRUE(table.ready()) << life;
    EXPECT_EQ(table.anchor().generation, own.generation() + 2 * life);
    run(100, 1ms);
  }
}

TEST_F(PeerTableTest, a_torn_record_is_read_again) {
  store_be(owned(kAnchorPlace + 60), uint32_t{1});
  own.open(false);
  run(10, 1ms);
  EXPECT_FALSE(table.ready());
  reseal();
  run(5, 1ms);
  EXPECT_TRUE(table.ready());
}

TEST_F(PeerTableTest, every_byte_of_the_record_set_to_every_value_is_refused_or_harmless) {
  own.open(false);
  const std::vector<std::byte> before(owned(0), owned(0) + 512);
  for (uint64_t at = 0; at < 60; ++at) {
    for (const uint8_t value : std::array<uint8_t, 8>{0x00, 0x01, 0x07, 0x40, 0x7F, 0x80, 0xFE, 0xFF}) {
      std::memcpy(owned(0), before.data(), before.size());
      *owned(kAnchorPlace + at) = std::byte{value};
      reseal();
      PeerTable fresh(window.end(1), 7);
      for (int i = 0; i < 200 && !fresh.faulty() && !fresh.ready(); ++i) {
        clock.advance(1ms);
        fresh.poll(clock.now());
        std::array<DmaCompletion, 1> done;
        while (window.end(1).completions(done) != 0) fresh.complete(done[0].status, clock.now());
      }
      if (!fresh.ready()) continue;
      const WindowAnchor& got = fresh.anchor();
      const uint64_t bytes = window.end(0).own_memory().size();
      EXPECT_TRUE(lies_inside(got.fifo_offset, got.fifo_bytes, bytes));
      EXPECT_TRUE(lies_inside(got.table_offset, got.table_bytes, bytes));
      EXPECT_LE(got.fifo_offset + kFifoControlBytes + got.slots() * got.slot_bytes, bytes);
    }
  }
}

TEST_F(PeerTableTest, a_table_with_one_bad_entry_is_refused_whole) {
  const std::vector<std::pair<WindowEntry, TableFault>> bad{
      {{1, 0, kTableRead, 1}, TableFault::kLength},
      {{UINT64_MAX, 2, kTableRead, 1}, TableFault::kWraps},
      {{1, 1, 16, 1}, TableFault::kRights},
      {{1, 1, 0, 1}, TableFault::kRights},
      {{1, 1, kTableRead, 5}, TableFault::kDoubleKey},
  };
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  own.open(false);
  for (const auto& [entry, fault] : bad) {
    forge_entry(7, entry);
    PeerTable fresh(window.end(1), 7);
    for (int i = 0; i < 300 && !fresh.faulty(); ++i) {
      clock.advance(1ms);
      fresh.poll(clock.now());
      std::array<DmaCompletion, 1> done;
      while (window.end(1).completions(done) != 0) fresh.complete(done[0].status, clock.now());
    }
    EXPECT_TRUE(fresh.faulty());
    EXPECT_EQ(fresh.fault().table, fault);
    EXPECT_TRUE(fresh.entries().empty());
  }
}

/// Changed between the reads: a record that moves FIFO or table while entries of the old one are used.
TEST_F(PeerTableTest, a_record_that_moves_is_a_fault) {
  ready();
  use_once();
  forge(8, own.generation() + 2);
  forge(40, uint64_t{24 * 4});
  table.look();
  run(5);
  EXPECT_TRUE(table.faulty());
  EXPECT_TRUE(table.fault().moved);
}

/// The generation changes after the table was copied: that copy is never used.
TEST_F(PeerTableTest, a_copy_that_was_overtaken_is_made_again) {
  window.set_faults(1, {.late_ppm = 1'000'000, .late_min = 5us, .late_max = 5us});
  ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
  own.open(false);
  for (int i = 0; i < 4; ++i) {
    run(1, 5us);
    EXPECT_EQ(own.publish({0x1000, 1, kTableRead, 20U + static_cast<uint32_t>(i)}), PublishResult::kOk);
    EXPECT_TRUE(!table.ready() || table.anchor().generation == own.generation());
  }
  run(500);
  ASSERT_TRUE(table.ready());
  EXPECT_EQ(table.entries().size(), 5U);
  EXPECT_EQ(table.anchor().generation, own.generation());
}

TEST_F(PeerTableTest, a_generation_that_never_settles_lets_nothing_through) {
  ready();
  for (int i = 0; i < 1000; ++i) {
    store_window_word(owned(kAnchorPlace + kAnchorGenerationAt), 1000U + 2 * static_cast<uint64_t>(i));
    table.want_use();
    table.look();
    const uint64_t before = window.counts(1).requests;
    step();
    EXPECT_FALSE(table.in_use());
    EXPECT_LE(window.counts(1).requests - before, 8U) << "a bounded turn";
  }
  store_window_word(owned(kAnchorPlace + kAnchorGenerationAt), 4001U);
  reseal();
  run(100);
  EXPECT_FALSE(table.in_use()) << "odd: being changed";
}

TEST_F(PeerTableTest, dma_that_fails_ten_times_gives_the_window_up) {
  own.open(false);
  window.set_faults(1, {.fail_ppm = 1'000'000});
  run(9, 100us);
  EXPECT_FALSE(table.faulty());
  run(2, 100us);
  EXPECT_TRUE(table.faulty());
  EXPECT_EQ(table.fault().dma, DmaStatus::kFailed);
}

TEST_F(PeerTableTest, dma_that_succeeds_gives_the_tries_back) {
  own.open(false);
  for (uint32_t life = 1; life <= 3; ++life) {
    if (life > 1) use_once();
    window.set_faults(1, {.fail_ppm = 1'000'000});
    ASSERT_EQ(own.publish({0x1000, 1, kTableRead, life}), PublishResult::kOk);
    run(8, 100us);
    ASSERT_FALSE(table.faulty()) << life;
    window.set_faults(1, {});
    run(10, 100us);
    ASSERT_EQ(table.entries().size(), life);
  }
}

TEST_F(PeerTableTest, random_faults_never_grant_what_is_withdrawn) {
  window.set_faults(
      1, {.fail_ppm = 100'000, .late_ppm = 700'000, .late_min = 1us, .late_max = 80us, .merge_ppm = 500'000});
  window.set_faults(0, {.late_min = 1us, .late_max = 500us, .merge_ppm = 500'000});
  own.open(false);
  bool shown = false;
  int granted = 0;
  uint64_t waits_for = 0;
  int held = 0;
  for (int i = 0; i < 20'000; ++i) {
    step();
    ASSERT_FALSE(table.faulty());
    if (random.chance_ppm(20'000)) {
      if (shown) {
        waits_for = own.withdraw(5);
      } else if (own.settled(waits_for)) {
        ASSERT_EQ(own.publish(kReadable), PublishResult::kOk);
        waits_for = 0;
      }
      shown = own.allows(0x10000, 1, kTableRead);
    }
    table.want_use();
    if (table.in_use() && held == 0 && table.check(5, 0x10000, 1, kTableRead) == TableCheck::kGranted) {
      table.hold();
      held = 1 + static_cast<int>(random.below(5));
      ++granted;
    } else if (held > 0 && --held == 0) {
      table.release();
    }
    if (waits_for != 0 && own.settled(waits_for)) {
      ASSERT_EQ(held, 0) << "settled while an access is under way, turn " << i;
    }
  }
  EXPECT_GT(granted, 200);
}

}  // namespace
}  // namespace weft::test
