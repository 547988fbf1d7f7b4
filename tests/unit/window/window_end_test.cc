// Accesses and records between two ends, over each kind of device.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/support/window_pair.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kBothRights = kTableRead | kTableWrite;

class OverWindows : public ::testing::TestWithParam<WindowKind> {
 protected:
  OverWindows() : pair({.kind = GetParam()}) {
    EXPECT_TRUE(pair.join());
    for (size_t side = 0; side < 2; ++side) {
      const std::span<std::byte> bytes = pair.buffer(side);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(static_cast<uint8_t>(i * 7 + side));
    }
  }
  WindowPair pair;
};
std::string device_name(const ::testing::TestParamInfo<WindowKind>& kind) {
  switch (kind.param) {
    case WindowKind::kMemory:
      return "memory";
    case WindowKind::kProcess:
      return "process";
    case WindowKind::kPieces:
      return "pieces";
    case WindowKind::kFile:
      return "file";
  }
  return "unknown";
}
const auto kDevices =
    ::testing::Values(WindowKind::kMemory, WindowKind::kProcess, WindowKind::kPieces, WindowKind::kFile);
INSTANTIATE_TEST_SUITE_P(Devices, OverWindows, kDevices, device_name);

TEST_P(OverWindows, writes_and_reads_of_every_size_arrive) {
  pair.show(1, 7, kBothRights);
  std::vector<std::byte> local(WindowPair::kBufferBytes);
  for (const uint64_t bytes : {0U, 1U, 7U, 8U, 9U, 64U, 100U, 4095U, 4096U, 4097U, 16'000U}) {
    for (const uint64_t offset : {0U, 1U, 8U, 13U}) {
      std::vector<std::byte> expected(pair.buffer(1).begin(), pair.buffer(1).end());
      for (uint64_t i = 0; i < bytes; ++i) {
        local[i] = std::byte(static_cast<uint8_t>(i * 3 + bytes + offset));
        expected[offset + i] = local[i];
      }
      ASSERT_EQ(pair.access(0, {DmaKind::kWrite, 7, pair.address(1, offset), local.data(), bytes, 5}),
                AccessPost::kPosted);
      AccessDone done;
      ASSERT_TRUE(pair.wait_access(0, done)) << bytes;
      EXPECT_EQ(done.cookie, 5U);
      ASSERT_EQ(done.status, DmaStatus::kGood) << bytes;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), pair.buffer(1).begin())) << bytes;
      std::fill(local.begin(), local.end(), std::byte{0});
      ASSERT_EQ(pair.access(0, {DmaKind::kRead, 7, pair.address(1, offset), local.data(), bytes, 6}),
                AccessPost::kPosted);
      ASSERT_TRUE(pair.wait_access(0, done));
      ASSERT_EQ(done.status, DmaStatus::kGood);
      EXPECT_TRUE(std::equal(local.begin(), local.begin() + static_cast<ptrdiff_t>(bytes),
                             expected.begin() + static_cast<ptrdiff_t>(offset)));
      EXPECT_EQ(local[bytes], std::byte{0}) << "and nothing behind it";
    }
  }
}

TEST_P(OverWindows, lists_of_accesses_end_each_with_its_cookie) {
  pair.show(1, 7, kBothRights);
  std::vector<std::byte> local(256, std::byte{0x5A});
  for (uint64_t i = 0; i < 32; ++i) {
    ASSERT_EQ(pair.end(0).access({DmaKind::kWrite, 7, pair.address(1, 64 * i), local.data() + 8 * i, 8, i}),
              AccessPost::kPosted)
        << i;
  }
  pair.end(0).flush();
  uint64_t seen = 0;
  for (int i = 0; i < 32; ++i) {
    AccessDone done;
    ASSERT_TRUE(pair.wait_access(0, done));
    EXPECT_EQ(done.status, DmaStatus::kGood);
    seen |= uint64_t{1} << done.cookie;
  }
  EXPECT_EQ(seen, 0xFFFF'FFFFU);
  EXPECT_EQ(pair.buffer(1)[31 * 64], std::byte{0x5A});
  EXPECT_EQ(pair.end(0).accesses_under_way(), 0U);
}

TEST_P(OverWindows, a_full_device_says_so_and_goes_on) {
  pair.show(1, 7, kBothRights);
  std::byte local{};
  uint32_t posted = 0;
  while (pair.end(0).access({DmaKind::kWrite, 7, pair.address(1), &local, 1, posted}) ==
         AccessPost::kPosted) {
    ++posted;
    ASSERT_LE(posted, pair.config.requests);
  }
  EXPECT_EQ(pair.end(0).access({DmaKind::kWrite, 7, pair.address(1), &local, 1, 0}), AccessPost::kFull);
  pair.end(0).flush();
  AccessDone done;
  for (uint32_t i = 0; i < posted; ++i) ASSERT_TRUE(pair.wait_access(0, done));
  EXPECT_EQ(pair.access(0, {DmaKind::kWrite, 7, pair.address(1), &local, 1, 0}), AccessPost::kPosted);
}

/// Otherwise there would be no room for the ends of further accesses.
TEST_P(OverWindows, an_access_keeps_its_place_until_its_end_was_taken) {
  pair.show(1, 7, kBothRights);
  std::byte local{};
  const auto post = [&](uint64_t cookie) {
    return pair.end(0).access({DmaKind::kWrite, 7, pair.address(1), &local, 1, cookie});
  };
  uint32_t posted = 0;
  while (posted <= pair.config.requests && post(posted) == AccessPost::kPosted) ++posted;
  pair.end(0).flush();
  for (int i = 0; i < 100; ++i) pair.step();
  EXPECT_EQ(post(0), AccessPost::kFull) << "all have ended, and none was taken";
  std::vector<bool> seen(posted);
  for (uint32_t i = 0; i < posted; ++i) {
    AccessDone done;
    ASSERT_TRUE(pair.wait_access(0, done));
    seen.at(done.cookie) = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(posted, true)) << "each once";
  EXPECT_EQ(post(0), AccessPost::kPosted);
}

TEST_P(OverWindows, refused_accesses_move_nothing) {
  pair.show(1, 7, kTableRead, 0, 1000);
  pair.show(1, 8, kTableRead | kTableThroughOwner, 2000, 1000);
  const std::vector<std::byte> before(pair.buffer(1).begin(), pair.buffer(1).end());
  std::vector<std::byte> local(1001);
  const auto refused = [&](const WindowAccess& access) {
    EXPECT_EQ(pair.access(0, access), AccessPost::kRefused);
    return pair.end(0).refusal();
  };
  EXPECT_EQ(refused({DmaKind::kWrite, 7, pair.address(1), local.data(), 8, 1}), TableCheck::kNoRight);
  EXPECT_EQ(refused({DmaKind::kRead, 7, pair.address(1), local.data(), 1001, 1}), TableCheck::kOutOfRange);
  EXPECT_EQ(refused({DmaKind::kRead, 9, pair.address(1), local.data(), 8, 1}), TableCheck::kUnknownKey);
  EXPECT_EQ(pair.access(0, {DmaKind::kRead, 8, pair.address(1, 2000), local.data(), 8, 1}),
            AccessPost::kThroughOwner);
  AccessDone done;
  EXPECT_FALSE(pair.wait_access(0, done, 20));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), pair.buffer(1).begin()));
}

TEST_P(OverWindows, an_ended_entry_is_refused_and_settles_at_once_when_unused) {
  pair.show(1, 7, kBothRights);
  std::byte local{};
  ASSERT_EQ(pair.access(0, {DmaKind::kWrite, 7, pair.address(1), &local, 1, 1}), AccessPost::kPosted);
  AccessDone done;
  ASSERT_TRUE(pair.wait_access(0, done));
  // From now on only the owner runs: a requester that computes holds nothing up.
  const uint64_t generation = pair.end(1).own().withdraw(7);
  EXPECT_TRUE(pair.end(1).own().settled(generation));
  EXPECT_EQ(pair.access(0, {DmaKind::kWrite, 7, pair.address(1), &local, 1, 1}), AccessPost::kRefused);
  EXPECT_EQ(pair.end(0).refusal(), TableCheck::kUnknownKey);
}

TEST_P(OverWindows, records_go_both_ways_beside_accesses) {
  pair.show(1, 7, kBothRights);
  uint64_t sent = 0;
  uint64_t answered = 0;
  uint64_t accesses = 0;
  std::byte local{};
  for (int turn = 0; turn < 5000 && answered < 300; ++turn) {
    const std::string text = std::to_string(sent);
    if (sent < 300 && pair.end(0).send(2, 1, std::as_bytes(std::span(text)), sent) == FifoPost::kOk) ++sent;
    if (pair.end(0).access({DmaKind::kWrite, 7, pair.address(1), &local, 1, 1}) == AccessPost::kPosted)
      ++accesses;
    pair.end(0).flush();
    pair.step();
    for (size_t side = 0; side < 2; ++side) {
      for (FifoDone done; pair.end(side).next_sent(done);) ASSERT_TRUE(done.good);
      for (AccessDone done; pair.end(side).next_access(done);) ASSERT_EQ(done.status, DmaStatus::kGood);
    }
    FifoRecord record;
    if (pair.end(1).take(record) == FifoTake::kRecord &&
        pair.end(1).send(1, 2, record.data, 0) == FifoPost::kOk) {
      pair.end(1).release();
    }
    if (pair.end(0).take(record) == FifoTake::kRecord) {
      const std::string got(reinterpret_cast<const char*>(record.data.data()), record.data.size());
      ASSERT_EQ(got, std::to_string(answered));
      ++answered;
      pair.end(0).release();
    }
  }
  EXPECT_EQ(answered, 300U);
  EXPECT_GT(accesses, 100U);
}

TEST_P(OverWindows, an_end_that_closes_is_gone_for_the_other) {
  pair.show(1, 7, kBothRights);
  pair.run(5);
  pair.ends[1].reset();
  if (GetParam() == WindowKind::kMemory) {
    pair.window->kill(1);
  } else {
    pair.kept[1].reset();
  }
  pair.run(10, 10ms);
  EXPECT_EQ(pair.end(0).state(), WindowState::kGone);
  // Between processes a closed socket is no proof, and the process of the other end is this one.
  const bool same_process = GetParam() == WindowKind::kProcess || GetParam() == WindowKind::kPieces;
  EXPECT_EQ(pair.devices[0]->peer_ended(), !same_process);
  std::byte local{};
  EXPECT_EQ(pair.end(0).access({DmaKind::kWrite, 7, 0, &local, 1, 1}), AccessPost::kDown);
  EXPECT_TRUE(pair.end(0).own().settled(UINT64_MAX));
}

/// A hostile table names memory that is not there: a failed access, and the window stays.
TEST_P(OverWindows, a_table_that_shows_memory_that_is_not_there_fails_the_access) {
  // The others go through the owner's test memory, which is this process.
  if (GetParam() != WindowKind::kProcess && GetParam() != WindowKind::kFile) return;
  ASSERT_EQ(pair.end(1).own().publish({0x10, 0x1000, kBothRights, 7}), PublishResult::kOk);
  std::array<std::byte, 16> local{};
  const AccessPost post = pair.access(0, {DmaKind::kWrite, 7, 0x10, local.data(), 16, 1});
  if (GetParam() == WindowKind::kFile) {
    EXPECT_EQ(post, AccessPost::kThroughOwner) << "outside the file";
    return;
  }
  ASSERT_EQ(post, AccessPost::kPosted);
  AccessDone done;
  ASSERT_TRUE(pair.wait_access(0, done));
  EXPECT_EQ(done.status, DmaStatus::kNoMemory);
  EXPECT_EQ(pair.end(0).state(), WindowState::kUp);
}

TEST_P(OverWindows, a_sleeper_hears_of_records) {
  pair.run(20);
  ASSERT_TRUE(pair.end(1).prepare_sleep());
  pair.end(1).finish_sleep();
  ASSERT_EQ(pair.end(0).send(2, 1, {}, 1), FifoPost::kOk);
  pair.end(0).flush();
  EXPECT_FALSE(pair.end(1).prepare_sleep()) << "there is something";
  pair.end(1).finish_sleep();
  FifoRecord record;
  EXPECT_EQ(pair.end(1).take(record), FifoTake::kRecord);
}

/// Over devices with a descriptor the wake-up comes through it.
TEST_P(OverWindows, a_sleeper_is_woken) {
  if (GetParam() != WindowKind::kProcess && GetParam() != WindowKind::kPieces) return;
  pair.run(20);
  ASSERT_TRUE(pair.end(1).prepare_sleep());
  std::vector<pollfd> fds;
  pair.end(1).wait_fds(fds);
  ASSERT_EQ(::poll(fds.data(), fds.size(), 0), 0);
  ASSERT_EQ(pair.end(0).send(2, 1, {}, 1), FifoPost::kOk);
  pair.end(0).flush();
  EXPECT_GT(::poll(fds.data(), fds.size(), 1000), 0);
  pair.end(1).finish_sleep();
}

/// An access must not overtake a failed one of its QP, which goes again. A good end that is not taken yet
/// holds up nothing.
TEST(FailedAccess, holds_up_later_ones_of_its_queue_pair_alone) {
  fabric::WindowFaults faults;
  WindowPair pair;
  ASSERT_TRUE(pair.join());
  pair.show(1, 7, kBothRights);
  ASSERT_TRUE(pair.end(0).strike(faults));
  std::array<std::byte, 8> local{};
  const auto post = [&](uint64_t qp) {
    return pair.access(0, {DmaKind::kWrite, 7, pair.address(1), local.data(), local.size(), qp << 32});
  };
  ASSERT_EQ(post(3), AccessPost::kPosted);
  pair.run(20);
  EXPECT_EQ(post(3), AccessPost::kPosted) << "behind a good one";
  pair.run(20);
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFailDma, .limit = 1}, pair.clock.now()).ok());
  ASSERT_EQ(post(3), AccessPost::kPosted);
  pair.run(20);
  EXPECT_EQ(post(3), AccessPost::kAfterFailed);
  EXPECT_EQ(post(4), AccessPost::kPosted);
  AccessDone done;
  for (const DmaStatus status : {DmaStatus::kGood, DmaStatus::kGood, DmaStatus::kFailed}) {
    ASSERT_TRUE(pair.wait_access(0, done));
    EXPECT_EQ(done.status, status);
  }
  EXPECT_EQ(post(3), AccessPost::kPosted) << "the service knows of it";
}

/// Faults of every kind, and entries that come and go: what was granted arrives whole or fails; an entry that
/// has settled is never written.
TEST(WindowFaults, memory_of_an_ended_entry_is_never_written) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WindowPair pair({.mapped = seed % 2 == 0}, seed);
    for (size_t side = 0; side < 2; ++side) {
      pair.window->set_faults(side, {.fail_ppm = 30'000,
                                     .late_ppm = 700'000,
                                     .late_min = 1us,
                                     .late_max = 200us,
                                     .merge_ppm = 300'000});
    }
    ASSERT_TRUE(pair.join(20'000)) << "seed " << seed;
    std::array<std::byte, 512> ones;
    ones.fill(std::byte{1});
    uint64_t ended = 0;      // generation without the entry
    bool is_private = true;  // the buffer is the owner's alone
    int written = 0;
    for (int turn = 0; turn < 5000; ++turn) {
      pair.step();
      ASSERT_EQ(pair.end(0).state(), WindowState::kUp) << "seed " << seed << ": " << pair.end(0).why();
      static_cast<void>(pair.end(0).access(
          {DmaKind::kWrite, 7, pair.address(1), ones.data(), 1 + pair.random.below(512), 1}));
      if (pair.random.below(4) == 0) pair.end(0).flush();
      for (AccessDone done; pair.end(0).next_access(done);)
        written += done.status == DmaStatus::kGood ? 1 : 0;
      OwnWindow& own = pair.end(1).own();
      if (own.published() != 0 && pair.random.below(150) == 0) {
        ended = own.withdraw(7);
      } else if (ended != 0 && own.settled(ended)) {
        ended = 0;
        is_private = true;
        std::fill(pair.buffer(1).begin(), pair.buffer(1).end(), std::byte{0});
      } else if (is_private && pair.random.below(20) == 0) {
        for (const std::byte byte : pair.buffer(1)) ASSERT_EQ(byte, std::byte{0}) << "seed " << seed;
        is_private = false;
        pair.show(1, 7, kTableWrite);
      }
      if (is_private) {
        ASSERT_EQ(pair.buffer(1)[0], std::byte{0}) << "seed " << seed << " turn " << turn;
      }
    }
    EXPECT_GT(written, 40) << "seed " << seed;
  }
}

/// Two threads over real devices: the owner takes its memory back as soon as the entry has settled, however
/// the requester's accesses fall. Run under the thread sanitizer too.
class WindowThreads : public ::testing::TestWithParam<WindowKind> {};
INSTANTIATE_TEST_SUITE_P(Devices, WindowThreads,
                         ::testing::Values(WindowKind::kProcess, WindowKind::kPieces, WindowKind::kFile),
                         device_name);

TEST_P(WindowThreads, settled_memory_is_the_owners_alone) {
  WindowPair pair({.kind = GetParam()});
  ASSERT_TRUE(pair.join());
  const uint64_t at = pair.address(1);
  pair.buffer(0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> written{0};
  std::thread requester([&] {
    const MonotonicClock clock;
    std::array<std::byte, 64> ones;
    ones.fill(std::byte{1});
    while (!stop) {
      pair.end(0).poll(clock.now());
      static_cast<void>(pair.end(0).access({DmaKind::kWrite, 7, at, ones.data(), ones.size(), 1}));
      pair.end(0).flush();
      for (AccessDone done; pair.end(0).next_access(done);) {
        if (done.status == DmaStatus::kGood) written.fetch_add(1);
      }
    }
  });
  const MonotonicClock clock;
  const Instant limit = clock.now() + 30s;
  const auto poll_until = [&](auto done) {
    while (!done() && clock.now() < limit) pair.end(1).poll(clock.now());
  };
  std::byte* const first = pair.buffer(1).data();
  for (int round = 0; round < 200 && clock.now() < limit; ++round) {
    EXPECT_EQ(pair.end(1).own().publish({at, 64, kTableWrite, 7}), PublishResult::kOk);
    const uint64_t before = written.load();
    poll_until([&] { return written.load() > before + 1; });
    const uint64_t generation = pair.end(1).own().withdraw(7);
    poll_until([&] { return pair.end(1).own().settled(generation); });
    std::memset(first, 0, 64);
    for (int look = 0; look < 20; ++look) {
      pair.end(1).poll(clock.now());
      EXPECT_TRUE(std::all_of(first, first + 64, [](std::byte byte) { return byte == std::byte{0}; }))
          << "round " << round;
    }
  }
  stop = true;
  requester.join();
  EXPECT_LT(clock.now(), limit) << "each withdrawal settles";
  EXPECT_GT(written.load(), 200U);
}

/// Each copy of a table takes time in proportion to its entries.
TEST(WindowTables, of_a_peer_that_are_larger_than_those_of_programs_are_refused) {
  for (const uint32_t theirs : {4096U, 4097U}) {
    const OwnWindowConfig own{.slots = 4, .slot_bytes = 64, .table_entries = 4};
    OwnWindowConfig other = own;
    other.table_entries = theirs;
    SeededRandom random{1};
    MemoryWindow window({.window_bytes = {OwnWindow::bytes_for(own), OwnWindow::bytes_for(other)}}, random);
    WindowEnd near(window.end(0), own);
    WindowEnd far(window.end(1), other);
    Instant now{};
    for (int turn = 0; turn < 150; ++turn, now += 1ms) {
      near.poll(now);
      far.poll(now);
    }
    EXPECT_EQ(near.state(), theirs > 4096 ? WindowState::kFaulty : WindowState::kUp);
    EXPECT_EQ(far.state(), WindowState::kUp);
  }
}

}  // namespace
}  // namespace weft::test
