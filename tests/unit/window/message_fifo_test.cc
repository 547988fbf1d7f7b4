// The message FIFO over a device with faults, then against a peer that writes any head, tail, length and
// sequence.
#include "fabric/window/message_fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <new>
#include <string>

#include "fabric/window/memory_device.h"
#include "fabric/window/own_window.h"
#include "fabric/window/window_words.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/traced_device.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr OwnWindowConfig kSmallFifo{.slots = 4, .slot_bytes = 64, .table_entries = 1};
constexpr uint8_t kSenderChannel = 9;

/// Side 0 sends into the FIFO of side 1.
class MessageFifo : public ::testing::Test {
 protected:
  explicit MessageFifo(bool mapped = false)
      : window({.window_bytes = {OwnWindow::bytes_for(kSmallFifo), OwnWindow::bytes_for(kSmallFifo)},
                .requests = 8,
                .mapped = mapped},
               random),
        own(window.end(1), kSmallFifo),
        sender(window.end(0), kSenderChannel),
        receiver(own.fifo(), kSmallFifo.slots, kSmallFifo.slot_bytes) {
    EXPECT_TRUE(sender.open(own.anchor()));
  }
  FifoPost send(const std::string& text, uint64_t cookie, uint32_t to = 2) {
    return sender.send(to, 1, std::as_bytes(std::span(text)), cookie);
  }
  void step(Duration by = 10us) {
    clock.advance(by);
    window.end(0).poll(clock.now());
    window.end(1).poll(clock.now());
    notified |= window.end(1).take_notification();
    if (window.end(0).take_notification()) sender.look();
    sender.poll(clock.now());
    std::array<DmaCompletion, 8> done;
    while (const uint32_t count = window.end(0).completions(done)) {
      for (uint32_t i = 0; i < count; ++i) sender.complete(done[i].token, done[i].status, clock.now());
    }
    for (FifoDone one; sender.next_done(one);) ended.push_back(one);
  }
  void run(int steps, Duration by = 10us) {
    for (int i = 0; i < steps; ++i) step(by);
  }
  /// Takes one record as text; empty when there is none.
  std::string take() {
    FifoRecord record;
    if (receiver.take(record) != FifoTake::kRecord) return {};
    context = record.destination;
    const std::string text(reinterpret_cast<const char*>(record.data.data()), record.data.size());
    if (receiver.release()) window.end(1).notify();
    return text;
  }
  std::byte* control(uint64_t at) { return own.fifo().data() + at; }
  std::byte* slot(uint64_t index) {
    return own.fifo().data() + kFifoControlBytes + index * kSmallFifo.slot_bytes;
  }

  SeededRandom random{3};
  ManualClock clock;
  MemoryWindow window;
  OwnWindow own;
  FifoSender sender;
  FifoReceiver receiver;
  std::vector<FifoDone> ended;
  bool notified = false;
  uint32_t context = 0;
};

TEST_F(MessageFifo, a_record_arrives_with_its_contexts_and_is_done) {
  ASSERT_EQ(send("hello", 77, 0xABCDEF), FifoPost::kOk);
  EXPECT_EQ(take(), "") << "nothing before the head says so";
  run(2);
  EXPECT_TRUE(notified);
  EXPECT_EQ(take(), "hello");
  EXPECT_EQ(context, 0xABCDEFU);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].cookie, 77U);
  EXPECT_TRUE(ended[0].good);
  EXPECT_EQ(take(), "");
}

TEST_F(MessageFifo, limits_of_a_record) {
  EXPECT_EQ(sender.data_bytes_max(), 48U);
  EXPECT_EQ(send(std::string(48, 'x'), 1), FifoPost::kOk);
  EXPECT_EQ(send(std::string(49, 'x'), 2), FifoPost::kTooLong);
  EXPECT_EQ(send("", 3), FifoPost::kOk);
  run(2);
  EXPECT_EQ(take(), std::string(48, 'x'));
  FifoRecord record;
  ASSERT_EQ(receiver.take(record), FifoTake::kRecord);
  EXPECT_TRUE(record.data.empty());
  FifoSender closed(window.end(0), 1);
  EXPECT_EQ(closed.send(1, 1, {}, 0), FifoPost::kNotOpen);
}

TEST_F(MessageFifo, a_full_fifo_is_not_overwritten_and_goes_on) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send("m" + std::to_string(i), i), FifoPost::kOk);
  run(3);
  EXPECT_EQ(send("m4", 4), FifoPost::kFull);
  run(100);
  EXPECT_EQ(send("m4", 4), FifoPost::kFull) << "the receiver is stopped";
  EXPECT_EQ(take(), "m0");
  run(2);
  EXPECT_EQ(send("m4", 4), FifoPost::kOk) << "by notification";
  run(2);
  for (const char* text : {"m1", "m2", "m3", "m4"}) EXPECT_EQ(take(), text);
  EXPECT_EQ(take(), "");
}

/// A sender that is full reads the tail every millisecond, without any notification too.
TEST_F(MessageFifo, a_full_sender_reads_the_tail_by_itself) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send("x", i), FifoPost::kOk);
  run(3);
  ASSERT_EQ(send("y", 4), FifoPost::kFull);
  run(3);
  FifoRecord record;
  ASSERT_EQ(receiver.take(record), FifoTake::kRecord);
  EXPECT_TRUE(receiver.release()) << "the sender may wait";
  const uint64_t before = window.counts(0).requests;
  run(50);
  EXPECT_EQ(window.counts(0).requests, before) << "not in each turn";
  run(60);
  EXPECT_EQ(window.counts(0).requests, before + 1);
  EXPECT_EQ(send("y", 4), FifoPost::kOk);
}

TEST_F(MessageFifo, a_failed_slot_fails_its_record_alone) {
  window.set_faults(0, {.fail_ppm = 1'000'000});
  ASSERT_EQ(send("lost", 1), FifoPost::kOk);
  window.end(0).flush();
  window.set_faults(0, {});
  ASSERT_EQ(send("kept", 2), FifoPost::kOk);
  run(3);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].cookie, 1U);
  EXPECT_FALSE(ended[0].good);
  EXPECT_TRUE(ended[1].good);
  EXPECT_EQ(take(), "kept");
  EXPECT_EQ(receiver.tail(), 2U);
  EXPECT_FALSE(sender.broken());
}

TEST_F(MessageFifo, a_slot_is_written_again_as_often_as_the_limit_says) {
  window.set_faults(0, {.fail_ppm = 1'000'000});
  ASSERT_EQ(send("lost", 1), FifoPost::kOk);
  window.end(0).flush();
  for (uint32_t failed = 1; failed <= kFifoDmaTries; ++failed) {
    std::array<DmaCompletion, 1> done;
    ASSERT_EQ(window.end(0).completions(done), 1U);
    ASSERT_EQ(done[0].status, DmaStatus::kFailed);
    if (failed == kFifoDmaTries) window.set_faults(0, {});
    sender.complete(done[0].token, done[0].status, clock.now());
  }
  EXPECT_FALSE(sender.broken());
  ASSERT_EQ(send("kept", 2), FifoPost::kOk);
  run(3);
  EXPECT_EQ(take(), "kept");
}

/// A receiver that has seen a quarter of its slots filled tells the sender of each place that becomes free.
TEST_F(MessageFifo, one_record_in_four_slots_is_told_of_when_it_was_taken) {
  ASSERT_EQ(send("x", 1), FifoPost::kOk);
  run(3);
  FifoRecord record;
  ASSERT_EQ(receiver.take(record), FifoTake::kRecord);
  EXPECT_TRUE(receiver.release());
}

TEST_F(MessageFifo, dma_that_keeps_failing_breaks_it_and_fails_every_record) {
  window.set_faults(0, {.fail_ppm = 1'000'000});
  ASSERT_EQ(send("a", 1), FifoPost::kOk);
  ASSERT_EQ(send("b", 2), FifoPost::kOk);
  run(20);
  EXPECT_TRUE(sender.broken());
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_FALSE(ended[0].good);
  EXPECT_FALSE(ended[1].good);
  EXPECT_EQ(send("c", 3), FifoPost::kBroken);
}

/// A full sender reads the tail every kFifoTailEvery for as long as its peer stands still.
TEST_F(MessageFifo, reads_of_the_tail_that_fail_now_and_then_break_nothing) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send("x", i), FifoPost::kOk);
  run(3);
  ASSERT_EQ(send("y", 4), FifoPost::kFull);
  for (uint32_t failed = 0; failed <= kFifoDmaTries; ++failed) {
    window.set_faults(0, {.fail_ppm = 1'000'000});
    run(1, kFifoTailEvery);
    window.set_faults(0, {});
    run(2, kFifoTailEvery);
    ASSERT_FALSE(sender.broken()) << failed;
  }
  EXPECT_EQ(take(), "x");
  run(2, kFifoTailEvery);
  EXPECT_EQ(send("y", 4), FifoPost::kOk);
}

TEST_F(MessageFifo, a_peer_that_dies_fails_what_is_under_way) {
  window.set_faults(0, {.late_ppm = 1'000'000, .late_min = 1ms, .late_max = 1ms});
  ASSERT_EQ(send("a", 1), FifoPost::kOk);
  run(2);
  window.kill(1);
  run(2);
  EXPECT_TRUE(sender.broken());
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(ended[0].good);
}

/// Late, overtaking and failing DMA: each record arrives once, in order, or fails and does not arrive.
TEST_F(MessageFifo, faults_lose_double_and_reorder_nothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom chance(seed);
    MemoryWindow faulty(
        {.window_bytes = {OwnWindow::bytes_for(kSmallFifo), OwnWindow::bytes_for(kSmallFifo)}, .requests = 8},
        chance);
    OwnWindow target(faulty.end(1), kSmallFifo);
    FifoSender from(faulty.end(0), 2);
    FifoReceiver to(target.fifo(), kSmallFifo.slots, kSmallFifo.slot_bytes);
    ASSERT_TRUE(from.open(target.anchor()));
    faulty.set_faults(
        0,
        {.fail_ppm = 20'000, .late_ppm = 600'000, .late_min = 1us, .late_max = 100us, .merge_ppm = 500'000});
    faulty.set_faults(1, {.late_min = 1us, .late_max = 100us, .merge_ppm = 500'000});
    std::deque<uint64_t> arrived;
    std::vector<uint64_t> good;
    uint64_t next = 0;
    ManualClock time;
    for (int turn = 0; turn < 20'000 && !from.broken(); ++turn) {
      time.advance(5us);
      faulty.end(0).poll(time.now());
      faulty.end(1).poll(time.now());
      if (faulty.end(0).take_notification()) from.look();
      const std::string text(random.below(49), static_cast<char>('a' + next % 26));
      if (next < 300 && from.send(2, 1, std::as_bytes(std::span(text)), next) == FifoPost::kOk) {
        ++next;
      }
      from.poll(time.now());
      std::array<DmaCompletion, 8> done;
      while (const uint32_t count = faulty.end(0).completions(done)) {
        for (uint32_t i = 0; i < count; ++i) from.complete(done[i].token, done[i].status, time.now());
      }
      for (FifoDone one; from.next_done(one);) {
        if (one.good) good.push_back(one.cookie);
      }
      FifoRecord record;
      if (chance.below(3) == 0 && to.take(record) == FifoTake::kRecord) {
        const char letter = record.data.empty() ? '-' : static_cast<char>(record.data[0]);
        for (const std::byte byte : record.data) ASSERT_EQ(static_cast<char>(byte), letter);
        arrived.push_back(record.data.empty() ? 99 : static_cast<uint64_t>(letter - 'a'));
        if (to.release()) faulty.end(1).notify();
      }
      ASSERT_FALSE(to.broken()) << "seed " << seed;
    }
    if (from.broken()) continue;  // three failures of one head: allowed, and rare
    ASSERT_EQ(next, 300U) << "seed " << seed;
    ASSERT_EQ(arrived.size(), good.size()) << "seed " << seed;
    for (size_t i = 0; i < good.size(); ++i) {
      ASSERT_TRUE(arrived[i] == 99 || arrived[i] == good[i] % 26) << "seed " << seed << " record " << i;
    }
    EXPECT_GT(faulty.counts(0).failed, 2U);
    EXPECT_LT(good.size(), 300U);
  }
}

// ---- the peer's window memory is mapped here

class MappedFifo : public MessageFifo {
 protected:
  MappedFifo() : MessageFifo(true) {}
};

TEST_F(MappedFifo, records_arrive_without_requests_when_the_sender_is_polled) {
  ASSERT_EQ(send("one", 1, 5), FifoPost::kOk);
  ASSERT_EQ(send("two", 2, 6), FifoPost::kOk);
  EXPECT_EQ(take(), "") << "nothing before the head says so";
  EXPECT_FALSE(sender.idle());
  run(1);
  EXPECT_TRUE(notified || window.end(1).take_notification());
  EXPECT_TRUE(sender.idle());
  EXPECT_EQ(take(), "one");
  EXPECT_EQ(context, 5U);
  EXPECT_EQ(take(), "two");
  EXPECT_EQ(take(), "");
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].cookie, 1U);
  EXPECT_TRUE(ended[1].good);
  EXPECT_EQ(window.counts(0).requests, 0U);
}

TEST_F(MappedFifo, a_full_fifo_is_not_overwritten_and_goes_on) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send("m" + std::to_string(i), i), FifoPost::kOk);
  EXPECT_EQ(send("m4", 4), FifoPost::kFull);
  run(3);
  EXPECT_EQ(send("m4", 4), FifoPost::kFull) << "the receiver is stopped";
  EXPECT_FALSE(sender.idle()) << "a record waits";
  FifoRecord record;
  ASSERT_EQ(receiver.take(record), FifoTake::kRecord);
  EXPECT_TRUE(receiver.release()) << "the sender may wait";
  EXPECT_EQ(sender.tail(), 0U);
  run(1, kFifoTailEvery);
  EXPECT_EQ(sender.tail(), 1U) << "without a notification";
  EXPECT_EQ(send("m4", 4), FifoPost::kOk);
  run(1);
  for (const char* text : {"m1", "m2", "m3", "m4"}) EXPECT_EQ(take(), text);
  EXPECT_EQ(take(), "");
}

TEST_F(MappedFifo, slots_are_used_again_over_and_over) {
  uint64_t next = 0;
  for (uint64_t taken = 0; taken < 100;) {
    while (next < 100 && send(std::to_string(next), next) == FifoPost::kOk) ++next;
    run(1);
    for (std::string text = take(); !text.empty(); text = take()) ASSERT_EQ(text, std::to_string(taken++));
  }
  EXPECT_EQ(ended.size(), 100U);
  EXPECT_EQ(receiver.tail(), 100U);
}

/// A fault on demand puts a device before this one, which carries out requests alone.
TEST_F(MappedFifo, goes_on_by_requests_when_another_device_takes_over) {
  TracedDevice other(window.end(0));
  ASSERT_EQ(send("stored", 1), FifoPost::kOk);
  ASSERT_TRUE(sender.use(other));
  ASSERT_EQ(send("moved", 2), FifoPost::kOk);
  run(3);
  EXPECT_EQ(take(), "stored");
  EXPECT_EQ(take(), "moved");
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_TRUE(ended[0].good && ended[1].good);
  EXPECT_FALSE(other.requests().empty());
}

/// A sender that stores into mapped memory writes the second half of a slot's header last. Its receiver looks
/// at the slot alone.
class MarkedFifo : public MappedFifo {
 protected:
  MarkedFifo() { receiver.use_marks(window.end(1).peer_register(kScratchpadMarks)); }
};

TEST_F(MarkedFifo, a_record_is_seen_before_the_head_says_so) {
  EXPECT_EQ(window.end(1).peer_scratchpad(kScratchpadMarks), 1U) << "the sender tells it";
  EXPECT_EQ(take(), "");
  ASSERT_EQ(send("one", 1, 5), FifoPost::kOk);
  ASSERT_EQ(send("two", 2, 6), FifoPost::kOk);
  EXPECT_EQ(load_window_word(control(kFifoHeadAt)), 0U);
  EXPECT_EQ(take(), "one");
  EXPECT_EQ(context, 5U);
  EXPECT_EQ(take(), "two");
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(receiver.waits()) << "the head comes behind";
  EXPECT_FALSE(receiver.broken());
  run(1);
  EXPECT_EQ(load_window_word(control(kFifoHeadAt)), 2U);
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(receiver.waits());
}

TEST_F(MarkedFifo, the_awaited_word_changes_with_the_next_record) {
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(take(), "");
    const AwaitedWord awaited = receiver.awaited();
    ASSERT_EQ(awaited.word->load(), awaited.value);
    ASSERT_EQ(send("x", i), FifoPost::kOk);
    run(1);
    EXPECT_NE(awaited.word->load(), awaited.value) << i;
    ASSERT_EQ(take(), "x");
  }
}

TEST_F(MarkedFifo, a_slot_without_its_mark_holds_no_record) {
  ASSERT_EQ(send("x", 0), FifoPost::kOk);
  run(1);
  ASSERT_EQ(take(), "x");
  auto header = encode_slot({1, 2, 1}, 1);
  std::memcpy(slot(1), header.data(), kSlotMarkAt);
  EXPECT_EQ(take(), "");
  header = encode_slot({1, 2, 1}, 2);  // of another round
  std::memcpy(slot(1), header.data(), header.size());
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(receiver.broken());
}

TEST_F(MarkedFifo, slots_are_used_again_over_and_over) {
  uint64_t next = 0;
  for (uint64_t taken = 0; taken < 100;) {
    while (next < 100 && send(std::to_string(next), next) == FifoPost::kOk) ++next;
    for (std::string text = take(); !text.empty(); text = take()) ASSERT_EQ(text, std::to_string(taken++));
    run(1);
  }
  EXPECT_EQ(ended.size(), 100U);
}

TEST_F(MarkedFifo, the_head_leads_again_when_another_device_takes_over) {
  TracedDevice other(window.end(0));
  ASSERT_EQ(send("stored", 1), FifoPost::kOk);
  EXPECT_EQ(take(), "stored") << "its head has not been written";
  ASSERT_TRUE(sender.use(other));
  EXPECT_EQ(window.end(1).peer_scratchpad(kScratchpadMarks), 0U);
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(receiver.broken());
  const auto header = encode_slot({0, 2, 1}, 1);
  std::memcpy(slot(1), header.data(), header.size());
  EXPECT_EQ(take(), "") << "the device moves the bytes of a slot in any order";
  std::memset(slot(1), 0, header.size());
  ASSERT_EQ(send("moved", 2), FifoPost::kOk);
  run(3);
  EXPECT_EQ(take(), "moved");
}

uint64_t g_refused_bytes = 0;
void refuse_copies(uint64_t bytes) {
  if (bytes >= g_refused_bytes) throw std::bad_alloc();
}

TEST_F(MappedFifo, has_no_copy_of_its_slots_until_another_device_needs_one) {
  constexpr uint64_t kCopyBytes = kSmallFifo.slots * kSmallFifo.slot_bytes;
  TracedDevice other(window.end(0));
  FifoSender fresh(window.end(0), kSenderChannel);
  const uint64_t before = allocated_bytes();
  ASSERT_TRUE(fresh.open(own.anchor()));
  EXPECT_LT(allocated_bytes() - before, kCopyBytes);
  g_refused_bytes = kCopyBytes;
  watch_allocations(refuse_copies);
  EXPECT_FALSE(fresh.use(other));
  watch_allocations(nullptr);
  ASSERT_EQ(fresh.send(2, 1, {}, 1), FifoPost::kOk) << "it goes on as before";
  EXPECT_TRUE(other.requests().empty());
  ASSERT_TRUE(fresh.use(other));
  EXPECT_GE(allocated_bytes() - before, kCopyBytes);
}

TEST_F(MappedFifo, a_tail_that_cannot_be_breaks_the_sender) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send("x", i), FifoPost::kOk);
  run(1);
  store_window_word(control(kFifoTailAt), 5);
  EXPECT_EQ(send("x", 4), FifoPost::kBroken);
  EXPECT_TRUE(sender.broken());
}

// ---- hostile peers

TEST_F(MessageFifo, a_head_that_cannot_be_breaks_the_receiver) {
  const auto record_in_slot = encode_slot({0, 1, 1}, 0);
  std::memcpy(slot(0), record_in_slot.data(), record_in_slot.size());
  for (const uint64_t head : {uint64_t{5}, uint64_t{1} << 32, UINT64_MAX, uint64_t{1} << 63}) {
    FifoReceiver fresh(own.fifo(), kSmallFifo.slots, kSmallFifo.slot_bytes);
    store_window_word(control(kFifoHeadAt), head);
    FifoRecord record;
    EXPECT_EQ(fresh.take(record), FifoTake::kBroken) << head;
    EXPECT_TRUE(fresh.waits()) << "so that its owner sees it";
  }
}

TEST_F(MessageFifo, a_head_that_goes_back_breaks_the_receiver) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(send("x", i), FifoPost::kOk);
  run(2);
  EXPECT_EQ(take(), "x");
  store_window_word(control(kFifoHeadAt), 0);
  EXPECT_EQ(take(), "x") << "seen before";
  EXPECT_EQ(take(), "x");
  FifoRecord record;
  EXPECT_EQ(receiver.take(record), FifoTake::kBroken);
}

TEST_F(MessageFifo, a_length_or_sequence_that_cannot_be_breaks_the_receiver) {
  const std::vector<std::pair<FifoSlot, uint64_t>> wrong{{{49, 2, 1}, 0},
                                                         {{UINT32_MAX, 2, 1}, 0},
                                                         {{0x8000'0000, 2, 1}, 0},
                                                         {{5, 2, 1}, 1},
                                                         {{5, 2, 1}, UINT32_MAX}};
  store_window_word(control(kFifoHeadAt), 1);
  for (const auto& [header, position] : wrong) {
    const auto bytes = encode_slot(header, position);
    std::memcpy(slot(0), bytes.data(), bytes.size());
    FifoReceiver fresh(own.fifo(), kSmallFifo.slots, kSmallFifo.slot_bytes);
    FifoRecord record;
    EXPECT_EQ(fresh.take(record), FifoTake::kBroken) << header.length << " " << position;
  }
}

/// A peer may write them as fast as they are skipped.
TEST_F(MessageFifo, void_slots_do_not_keep_the_receiver_from_others) {
  for (uint64_t position = 0; position < 4; ++position) {
    const auto nothing = encode_slot({0, 0, 0}, position);
    std::memcpy(slot(position), nothing.data(), nothing.size());
  }
  store_window_word(control(kFifoHeadAt), 4);
  FifoRecord record;
  EXPECT_EQ(receiver.take(record), FifoTake::kEmpty);
  EXPECT_TRUE(receiver.waits()) << "half of them were skipped";
  EXPECT_EQ(receiver.take(record), FifoTake::kEmpty);
  EXPECT_FALSE(receiver.waits());
  static_cast<void>(receiver.release());
}

TEST_F(MessageFifo, a_record_is_made_in_its_slot) {
  for (uint64_t i = 0; i < 4; ++i) {
    const std::span<std::byte> room = sender.slot();
    ASSERT_EQ(room.size(), sender.data_bytes_max());
    room[0] = std::byte{'a'};
    room[1] = static_cast<std::byte>('0' + i);
    sender.post(2, 1, 2, i);
  }
  EXPECT_EQ(sender.slot().data(), nullptr) << "the FIFO is full";
  run(3);
  for (const char* text : {"a0", "a1", "a2", "a3"}) EXPECT_EQ(take(), text);
}

/// The header that was checked is a private copy: the peer changes the slot afterwards.
TEST_F(MessageFifo, a_slot_changed_after_it_was_read_keeps_its_length_and_contexts) {
  ASSERT_EQ(send("right", 1), FifoPost::kOk);
  run(2);
  FifoRecord record;
  ASSERT_EQ(receiver.take(record), FifoTake::kRecord);
  std::memset(slot(0), 0xFF, kSmallFifo.slot_bytes);
  FifoRecord again;
  ASSERT_EQ(receiver.take(again), FifoTake::kRecord) << "the same, until it is released";
  EXPECT_EQ(again.destination, record.destination);
  EXPECT_EQ(again.data.size(), 5U);
}

TEST_F(MessageFifo, a_tail_that_cannot_be_breaks_the_sender) {
  for (const uint64_t tail : {uint64_t{5}, UINT64_MAX, uint64_t{1} << 40}) {
    SeededRandom chance(1);
    MemoryWindow fresh({.window_bytes = {OwnWindow::bytes_for(kSmallFifo), OwnWindow::bytes_for(kSmallFifo)}},
                       chance);
    OwnWindow target(fresh.end(1), kSmallFifo);
    FifoSender from(fresh.end(0), 2);
    ASSERT_TRUE(from.open(target.anchor()));
    const auto turn = [&] {
      from.poll(clock.now());
      std::array<DmaCompletion, 8> done;
      while (const uint32_t count = fresh.end(0).completions(done)) {
        for (uint32_t i = 0; i < count; ++i) from.complete(done[i].token, done[i].status, clock.now());
      }
      for (FifoDone one; from.next_done(one);) {
      }
    };
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(from.send(2, 1, {}, 0), FifoPost::kOk);
      turn();
    }
    store_window_word(target.fifo().data() + kFifoTailAt, tail);
    EXPECT_EQ(from.send(2, 1, {}, 0), FifoPost::kFull);
    turn();
    EXPECT_TRUE(from.broken()) << tail;
  }
}

TEST_F(MessageFifo, slots_are_used_again_over_and_over) {
  uint64_t next = 0;
  for (uint64_t taken = 0; taken < 100;) {
    while (next < 100 && send(std::to_string(next), next) == FifoPost::kOk) ++next;
    run(2);
    for (std::string text = take(); !text.empty(); text = take()) ASSERT_EQ(text, std::to_string(taken++));
    run(2);
  }
  EXPECT_EQ(ended.size(), 100U);
  EXPECT_EQ(sender.head(), 100U);
  EXPECT_EQ(receiver.tail(), 100U);
}

}  // namespace
}  // namespace weft::test
