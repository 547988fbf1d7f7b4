// When the receiver of a message FIFO tells its tail.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "fabric/window/memory_device.h"
#include "fabric/window/message_fifo.h"
#include "fabric/window/own_window.h"
#include "fabric/window/window_words.h"

namespace weft::test {
using namespace fabric;
namespace {

/// A FIFO whose receiver stores its tail for two records at a time.
class LazyTail : public ::testing::Test {
 protected:
  static constexpr OwnWindowConfig kFifo{.slots = 16, .slot_bytes = 64, .table_entries = 1};
  LazyTail() {
    EXPECT_TRUE(sender.open(own.anchor()));
    receiver.use_marks(window.end(1).peer_register(kScratchpadMarks));
  }
  [[nodiscard]] FifoPost send() {
    sender.poll(Instant::min());
    FifoDone failed;
    EXPECT_FALSE(sender.next_failed(failed));
    return sender.send(2, 1, {}, 1);
  }
  bool take() {
    FifoRecord record;
    return receiver.take(record) == FifoTake::kRecord && (rung |= receiver.release(), true);
  }
  [[nodiscard]] uint64_t tail() { return load_window_word(own.fifo().data() + kFifoTailAt); }

  SeededRandom random{1};
  MemoryWindow window{{.window_bytes = {OwnWindow::bytes_for(kFifo), OwnWindow::bytes_for(kFifo)},
                       .requests = 8,
                       .mapped = true},
                      random};
  OwnWindow own{window.end(1), kFifo};
  FifoSender sender{window.end(0), 9};
  FifoReceiver receiver{own.fifo(), kFifo.slots, kFifo.slot_bytes};
  bool rung = false;
};

TEST_F(LazyTail, the_tail_follows_some_records_or_when_no_further_one_is_there) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(), FifoPost::kOk);
  ASSERT_TRUE(take());
  EXPECT_EQ(tail(), 0U);
  EXPECT_FALSE(receiver.settle());
  EXPECT_EQ(tail(), 0U) << "a record is there";
  ASSERT_TRUE(take());
  EXPECT_EQ(tail(), 2U);
  ASSERT_TRUE(take());
  EXPECT_EQ(tail(), 2U);
  EXPECT_FALSE(receiver.settle());
  EXPECT_EQ(tail(), 3U);
  EXPECT_FALSE(rung);
}

TEST_F(LazyTail, a_sender_that_found_the_fifo_full_is_notified) {
  while (send() == FifoPost::kOk) {
  }
  ASSERT_TRUE(take());
  EXPECT_EQ(send(), FifoPost::kFull) << "the tail is not told yet";
  ASSERT_TRUE(take());
  EXPECT_TRUE(rung);
  EXPECT_EQ(send(), FifoPost::kOk);
  EXPECT_EQ(send(), FifoPost::kOk);
  EXPECT_EQ(send(), FifoPost::kFull);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(take());
  EXPECT_FALSE(take());
  EXPECT_EQ(tail(), 18U);
}

}  // namespace
}  // namespace weft::test
