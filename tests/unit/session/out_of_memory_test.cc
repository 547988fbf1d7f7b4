// A shortage of memory refuses an opening or a further pool; it ends neither the process nor what is open.
// Each allocation of a session's life fails once, in a run of its own.
#include <gtest/gtest.h>

#include <new>
#include <utility>

#include "base/log.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

/// How many allocations succeed before the failure; negative: all do.
long g_until_failure = -1;
bool g_for_long = false;  // every later one fails too

void fail_when_due(uint64_t /*bytes*/) {
  if (g_until_failure > 0) {
    --g_until_failure;
  } else if (g_until_failure == 0) {
    if (!g_for_long) g_until_failure = -1;
    throw std::bad_alloc();
  }
}

/// Both sides of a session without driver halves. Memory is short in the turns of host and acceptor only: the
/// wire of the test takes memory for every cell.
class Life {
 public:
  explicit Life(const SessionPairOptions& options) : pair_(options) {
    pair_.host().set_events(nullptr);
    pair_.acceptor().set_events(nullptr);
    pair_.host().poll(pair_.clock.now());
    pair_.host().open();
  }

  /// Runs until `done`, at most 5 s.
  template <class Done>
  bool run_until(Done done) {
    for (int turn = 0; turn < 25'000; ++turn) {
      for (int side = 0; side < 2; ++side) pair_.adapter(side).poll(pair_.clock.now());
      std::swap(left, g_until_failure);
      pair_.host().poll(pair_.clock.now());
      pair_.acceptor().poll(pair_.clock.now());
      std::swap(left, g_until_failure);
      pair_.clock.advance(200us);
      if (done()) return true;
    }
    return false;
  }
  bool open() {
    return run_until([&] {
      return pair_.host().state() == SessionState::kOpen && !pair_.acceptor().sessions().empty() &&
             pair_.unit().state() == SessionState::kOpen;
    });
  }
  /// All of the unit's elements are in use, so its host asks for more whenever it wants to send.
  bool grow() {
    const uint64_t before = pair_.unit().conservation().own_elements;
    for (uint32_t i = 0; i < kFrames; ++i) EXPECT_TRUE(pair_.send(0, i, 1000));
    const bool grown = run_until([&] {
      (void)pair_.host().claim_frame(1000);
      pair_.host().abandon_frame();
      return pair_.unit().conservation().own_elements > before;
    });
    EXPECT_EQ(pair_.receive(1), numbers(0, kFrames));
    return grown;
  }
  bool close() {
    pair_.host().close();
    return run_until(
        [&] { return pair_.host().state() == SessionState::kIdle && pair_.acceptor().all_idle(); });
  }

  [[nodiscard]] SessionPair& pair() { return pair_; }
  long left = -1;  // as g_until_failure, for the turns

 private:
  static constexpr uint32_t kFrames = 32 + 8;  // an element each

  SessionPair pair_;
};

SessionPairOptions not_yet_open(TransferMode mode) {
  SessionPairOptions options;
  options.open = false;
  return options.mode(mode);
}

class SessionOutOfMemory : public testing::TestWithParam<TransferMode> {
 protected:
  SessionOutOfMemory() {
    log_setup("test", LogLevel::kError);
    watch_allocations(fail_when_due);
  }
  ~SessionOutOfMemory() override { watch_allocations(nullptr); }
};

TEST_P(SessionOutOfMemory, any_single_failure_is_an_answer) {
  uint64_t host_was_short = 0;
  uint64_t unit_was_short = 0;
  uint64_t pools_refused = 0;
  for (long until_failure = 0, left = -1; left < 0; ++until_failure) {
    Life life(not_yet_open(GetParam()));
    life.left = until_failure;
    ASSERT_TRUE(life.open()) << until_failure;
    ASSERT_TRUE(GetParam() != TransferMode::kRdma || life.grow()) << until_failure;
    pools_refused += life.pair().unit().counters().get(C::kPoolGetsRefused);
    ASSERT_TRUE(life.close()) << until_failure;
    host_was_short += life.pair().host().counters().get(C::kLostNoMemory);
    unit_was_short += life.pair().acceptor().counters().get(AcceptorCounter::kRefusedMemory);
    left = life.left;
  }
  EXPECT_GT(host_was_short, 20U);
  EXPECT_GT(unit_was_short, 20U);
  EXPECT_EQ(pools_refused != 0, GetParam() == TransferMode::kRdma);
}

/// The opening is tried until there is memory again.
TEST_P(SessionOutOfMemory, a_session_opens_when_memory_is_back) {
  g_for_long = true;
  for (long until_failure = 0; until_failure < 20; ++until_failure) {
    Life life(not_yet_open(GetParam()));
    life.left = until_failure;
    const Instant back = life.pair().clock.now() + 300ms;
    EXPECT_TRUE(life.run_until([&] { return life.pair().clock.now() >= back; }));
    EXPECT_NE(life.pair().host().state(), SessionState::kOpen);
    EXPECT_EQ(life.pair().host().refusal(), SessionRefusal::kNoMemory);
    life.left = -1;
    EXPECT_TRUE(life.open());
  }
  g_for_long = false;
}

INSTANTIATE_TEST_SUITE_P(All, SessionOutOfMemory,
                         testing::Values(TransferMode::kRdma, TransferMode::kSendReceive,
                                         TransferMode::kSendDataOnly));

}  // namespace
}  // namespace weft::session
