// NTB: what one side of a memory window finds at the other, puts there and is refused. The rows of completion
// queues and contexts belong to the service over the window.
#include <gtest/gtest.h>

#include <string>

#include "fabric/window/memory_device.h"
#include "fabric/window/window_end.h"
#include "fabric/window/window_words.h"
#include "tests/support/requirement.h"
#include "tests/support/traced_device.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr OwnWindowConfig kNear{.slots = 4, .slot_bytes = 128, .table_entries = 8};
constexpr OwnWindowConfig kFar{.slots = 8, .slot_bytes = 256, .table_entries = 5};

class OneSpan final : public OwnerMemory {
 public:
  std::vector<std::byte> bytes = std::vector<std::byte>(4096, std::byte{0x11});
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(bytes.data()); }
  bool write(uint64_t at, std::span<const std::byte> from) noexcept override {
    if (at < address() || !lies_inside(at - address(), from.size(), bytes.size())) return false;
    std::copy(from.begin(), from.end(), bytes.begin() + static_cast<ptrdiff_t>(at - address()));
    return true;
  }
  bool read(uint64_t at, std::span<std::byte> to) noexcept override {
    if (at < address() || !lies_inside(at - address(), to.size(), bytes.size())) return false;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at - address()), to.size(), to.begin());
    return true;
  }
};

/// Side 0, traced, looks at side 1.
class Ntb : public ::testing::Test {
 protected:
  Ntb()
      : window({.window_bytes = {OwnWindow::bytes_for(kNear), OwnWindow::bytes_for(kFar)}}, random),
        traced(window.end(0)),
        near(traced, kNear),
        far(window.end(1), kFar) {
    window.set_owner_memory(1, &memory);
  }
  void step(bool far_runs = true) {
    clock.advance(10us);
    near.poll(clock.now());
    if (far_runs) far.poll(clock.now());
  }
  void run(int steps, bool far_runs = true) {
    for (int i = 0; i < steps; ++i) step(far_runs);
  }
  void join() {
    run(20);
    ASSERT_EQ(near.state(), WindowState::kUp);
    ASSERT_EQ(far.state(), WindowState::kUp);
    traced.trace.clear();
  }
  FifoPost send(const std::string& text) {
    const FifoPost post = near.send(2, 1, std::as_bytes(std::span(text)), 0);
    for (FifoDone done; near.next_sent(done);) EXPECT_TRUE(done.good);
    return post;
  }
  std::string take() {
    FifoRecord record;
    if (far.take(record) != FifoTake::kRecord) return {};
    const std::string text(reinterpret_cast<const char*>(record.data.data()), record.data.size());
    far.release();
    return text;
  }
  /// Post, again while the table is being confirmed.
  AccessPost access(const WindowAccess& request) {
    AccessPost post = near.access(request);
    for (int i = 0; i < 50 && post == AccessPost::kWait; ++i) {
      step();
      post = near.access(request);
    }
    near.flush();
    return post;
  }
  [[nodiscard]] uint64_t word_of_far(uint64_t at) { return load_window_word(far.own().fifo().data() + at); }

  SeededRandom random{1};
  ManualClock clock;
  OneSpan memory;
  MemoryWindow window;
  TracedDevice traced;
  WindowEnd near;
  WindowEnd far;
};

TEST_F(Ntb, NTB_ADV_01_the_record_leads_to_fifo_and_table) {
  covers("NTB-ADV-01");
  join();
  // From the register alone: the record, and by it both regions, in the sizes that were configured.
  const uint64_t at = window.end(0).peer_scratchpad(kScratchpadAnchor);
  std::array<std::byte, kAnchorBytes> record;
  std::copy_n(window.end(1).own_memory().data() + at, record.size(), record.begin());
  WindowAnchor found;
  const size_t bytes = window.end(1).own_memory().size();
  ASSERT_EQ(decode_anchor(record, at, bytes, found), AnchorFault::kNone);
  EXPECT_EQ(found.slots(), kFar.slots);
  EXPECT_EQ(found.slot_bytes, kFar.slot_bytes);
  EXPECT_EQ(found.entries(), kFar.table_entries);
  EXPECT_EQ(window.end(1).own_memory().data() + found.fifo_offset, far.own().fifo().data());
  EXPECT_EQ(near.peer().anchor(), found);
  // Regions that overlap or lie outside are refused.
  for (const uint64_t offset : {found.table_offset, uint64_t{64}, uint64_t{bytes}}) {
    WindowAnchor wrong = found;
    wrong.fifo_offset = offset;
    EXPECT_NE(decode_anchor(encode_anchor(wrong), at, bytes, wrong), AnchorFault::kNone) << offset;
    wrong = found;
    wrong.table_offset = offset == found.table_offset ? found.fifo_offset : offset;
    EXPECT_NE(decode_anchor(encode_anchor(wrong), at, bytes, wrong), AnchorFault::kNone) << offset;
  }
}

TEST_F(Ntb, NTB_ADV_02_the_register_says_where_and_one_dma_fetches_the_record) {
  covers("NTB-ADV-02");
  run(5, false);
  EXPECT_TRUE(traced.requests().empty()) << "a register of 0: not ready";
  run(20);
  ASSERT_EQ(near.state(), WindowState::kUp);
  const auto first = std::find_if(traced.trace.begin(), traced.trace.end(),
                                  [](const TracedDma& one) { return one.what == TracedDma::What::kRequest; });
  ASSERT_NE(first, traced.trace.begin());
  EXPECT_EQ((first - 1)->what, TracedDma::What::kRegister);
  EXPECT_EQ((first - 1)->index, kScratchpadAnchor);
  EXPECT_EQ(first->request.kind, DmaKind::kRead);
  EXPECT_EQ(first->request.space, DmaSpace::kWindow);
  EXPECT_EQ(first->request.remote, window.end(0).peer_scratchpad(kScratchpadAnchor));
  EXPECT_EQ(first->request.bytes, 64U);
}

TEST_F(Ntb, NTB_ADV_03_a_copy_of_the_table_is_kept_here) {
  covers("NTB-ADV-03");
  const WindowEntry readable{0x1122'3344'5566'7788, 0x99AA, kTableRead, 0xBBCCDDEE};
  const WindowEntry writable{0x1000, 0x2000, kTableRead | kTableWrite, 3};
  ASSERT_EQ(far.own().publish(readable), PublishResult::kOk);
  ASSERT_EQ(far.own().publish(writable), PublishResult::kOk);
  join();
  EXPECT_EQ(near.peer().entries(), (std::vector{writable, readable}));
  // The original, byte by byte.
  const std::byte* const table = window.end(1).own_memory().data() + far.own().anchor().table_offset;
  EXPECT_EQ(load_be<uint64_t>(table), readable.start);
  EXPECT_EQ(load_be<uint64_t>(table + 8), readable.length);
  EXPECT_EQ(load_be<uint32_t>(table + 16), 1U);
  EXPECT_EQ(load_be<uint32_t>(table + 20), readable.key);
  EXPECT_EQ(load_be<uint32_t>(table + 24 + 16), 3U);
  // A check asks the copy: no entry is fetched for it.
  ASSERT_EQ(access({DmaKind::kRead, 99, 0, nullptr, 0, 0}), AccessPost::kRefused);
  for (const DmaRequest& request : traced.requests()) EXPECT_LE(request.bytes, 8U);
}

TEST_F(Ntb, NTB_SEND_01_the_message_stands_in_the_slot_that_the_head_names) {
  covers("NTB-SEND-01");
  join();
  for (uint64_t i = 0; i < 3; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_EQ(send(text), FifoPost::kOk);
    near.flush();
    const std::byte* const slot = far.own().fifo().data() + 64 + i * kFar.slot_bytes;
    EXPECT_EQ(load_be<uint32_t>(slot), text.size());
    EXPECT_EQ(load_be<uint32_t>(slot + 4), 2U);
    EXPECT_EQ(load_be<uint32_t>(slot + 8), 1U);
    EXPECT_EQ(load_be<uint32_t>(slot + 12), i);
    EXPECT_EQ(std::memcmp(slot + 16, text.data(), text.size()), 0);
  }
  const DmaRequest first = traced.requests().at(0);
  EXPECT_EQ(first.kind, DmaKind::kWrite);
  EXPECT_EQ(first.space, DmaSpace::kWindow);
  EXPECT_EQ(first.remote, near.peer().anchor().fifo_offset + 64) << "by the device";
}

TEST_F(Ntb, NTB_SEND_02_both_head_pointers_are_equal_afterwards) {
  covers("NTB-SEND-02");
  join();
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_EQ(send("x"), FifoPost::kOk);
    EXPECT_LT(word_of_far(kFifoHeadAt), i);
    near.flush();
    EXPECT_EQ(word_of_far(kFifoHeadAt), i);
    const DmaRequest last = traced.requests().back();
    EXPECT_EQ(last.kind, DmaKind::kWrite) << "by DMA";
    EXPECT_EQ(last.remote, near.peer().anchor().fifo_offset + kFifoHeadAt);
    EXPECT_EQ(take(), "x");
  }
}

TEST_F(Ntb, NTB_SEND_03_a_stopped_receiver_stops_the_sender_at_capacity) {
  covers("NTB-SEND-03");
  join();
  uint32_t sent = 0;
  for (int i = 0; i < 50; ++i) {
    if (send(std::to_string(sent)) == FifoPost::kOk) ++sent;
    run(30, false);
  }
  EXPECT_EQ(sent, kFar.slots) << "no slot is overwritten";
  for (uint32_t next = 0; next < 100;) {
    const std::string text = take();
    if (!text.empty()) {
      ASSERT_EQ(text, std::to_string(next++));
    }
    if (sent < 100 && send(std::to_string(sent)) == FifoPost::kOk) ++sent;
    step();
    ASSERT_LT(clock.now(), Instant(10s)) << "nothing is lost after the receiver goes on";
  }
}

TEST_F(Ntb, NTB_SEND_05_the_notification_follows_the_completion_of_the_data) {
  covers("NTB-SEND-05");
  join();
  window.set_faults(0, {.late_ppm = 1'000'000, .late_min = 30us, .late_max = 60us});
  ASSERT_EQ(send("late"), FifoPost::kOk);
  near.flush();
  FifoDone done;
  for (int i = 0; i < 50 && !near.next_sent(done); ++i) {
    const auto rings = std::count_if(traced.trace.begin(), traced.trace.end(), [](const TracedDma& one) {
      return one.what == TracedDma::What::kNotify;
    });
    EXPECT_EQ(rings, 0) << "before the data have arrived";
    step();
  }
  EXPECT_TRUE(done.good);
  std::vector<TracedDma::What> order;
  for (const TracedDma& one : traced.trace) {
    if (one.what != TracedDma::What::kRegister) order.push_back(one.what);
  }
  using enum TracedDma::What;
  EXPECT_EQ(order, (std::vector{kRequest, kCompletion, kRequest, kCompletion, kNotify}))
      << "data, head, notification";
}

TEST_F(Ntb, NTB_RECV_03_the_sender_sees_the_tail_and_the_fifo_wraps) {
  covers("NTB-RECV-03");
  join();
  uint32_t sent = 0;
  for (uint32_t next = 0; next < 3 * kFar.slots + 1;) {
    if (send(std::to_string(sent)) == FifoPost::kOk) ++sent;
    step();
    const std::string text = take();
    if (text.empty()) continue;
    ASSERT_EQ(text, std::to_string(next++));
    EXPECT_EQ(word_of_far(kFifoTailAt), next) << "stored where the sender reads it";
  }
  EXPECT_GT(sent, 3 * kFar.slots) << "slots were given back, or the sender would have stopped";
  const std::vector<DmaRequest> requests = traced.requests();
  EXPECT_TRUE(std::any_of(requests.begin(), requests.end(), [&](const DmaRequest& request) {
    return request.kind == DmaKind::kRead && request.remote == near.peer().anchor().fifo_offset + kFifoTailAt;
  }));
}

TEST_F(Ntb, NTB_MPT_01_the_check_covers_the_whole_access_and_the_right) {
  covers("NTB-MPT-01");
  ASSERT_EQ(far.own().publish({memory.address() + 100, 1000, kTableRead, 7}), PublishResult::kOk);
  ASSERT_EQ(far.own().publish({memory.address() + 2000, 1000, kTableWrite, 8}), PublishResult::kOk);
  join();
  std::array<std::byte, 2000> local{};
  const auto read = [&](uint64_t offset, uint64_t bytes) {
    return access({DmaKind::kRead, 7, memory.address() + offset, local.data(), bytes, 1});
  };
  EXPECT_EQ(read(100, 1000), AccessPost::kPosted);
  EXPECT_EQ(read(1092, 8), AccessPost::kPosted);
  EXPECT_EQ(read(1092, 9), AccessPost::kRefused) << "starts inside, ends outside";
  EXPECT_EQ(read(99, 8), AccessPost::kRefused) << "starts outside";
  EXPECT_EQ(read(1100, 1), AccessPost::kRefused);
  EXPECT_EQ(read(500, UINT64_MAX), AccessPost::kRefused);
  const std::vector<std::byte> before = memory.bytes;
  EXPECT_EQ(access({DmaKind::kWrite, 7, memory.address() + 100, local.data(), 8, 1}), AccessPost::kRefused);
  EXPECT_EQ(near.refusal(), TableCheck::kNoRight);
  EXPECT_EQ(access({DmaKind::kRead, 8, memory.address() + 2000, local.data(), 8, 1}), AccessPost::kRefused);
  EXPECT_EQ(memory.bytes, before);
  EXPECT_EQ(access({DmaKind::kWrite, 8, memory.address() + 2000, local.data(), 8, 1}), AccessPost::kPosted);
  for (const DmaRequest& request : traced.requests()) {
    if (request.space != DmaSpace::kMemory) continue;
    EXPECT_TRUE(lies_inside(request.remote - memory.address(), request.bytes, 4096));
  }
}

TEST_F(Ntb, NTB_MPT_02_a_withdrawn_entry_is_refused_after_the_refresh) {
  covers("NTB-MPT-02");
  ASSERT_EQ(far.own().publish({memory.address(), 4096, kTableRead | kTableWrite, 7}), PublishResult::kOk);
  join();
  std::array<std::byte, 8> local{};
  const WindowAccess write{DmaKind::kWrite, 7, memory.address(), local.data(), local.size(), 1};
  ASSERT_EQ(access(write), AccessPost::kPosted);
  const uint64_t generation = far.own().generation();
  EXPECT_GT(far.own().withdraw(7), generation) << "the generation in the record changes";
  memory.bytes.assign(4096, std::byte{0x22});
  run(5);
  EXPECT_TRUE(near.peer().entries().empty()) << "refreshed by the notification";
  EXPECT_EQ(access(write), AccessPost::kRefused);
  EXPECT_EQ(near.refusal(), TableCheck::kUnknownKey);
  EXPECT_EQ(memory.bytes[0], std::byte{0x22});
  ASSERT_EQ(far.own().publish({memory.address(), 4096, kTableWrite, 9}), PublishResult::kOk);
  EXPECT_EQ(access({DmaKind::kWrite, 9, memory.address(), local.data(), local.size(), 1}),
            AccessPost::kPosted)
      << "and a new one is found";
}

}  // namespace
}  // namespace weft::test
