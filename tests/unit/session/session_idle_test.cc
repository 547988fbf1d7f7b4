// What an idle session costs: how often each side has to be woken, counted in virtual time, with nobody
// polled but at its own deadline or when something has arrived.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words

class SessionIdle : public testing::TestWithParam<TransferMode> {};

/// Deadlines of one process: its adapter and its session.
Instant deadline(SessionPair& pair, int side) {
  const Instant session = side == 0 ? pair.host().deadline() : pair.acceptor().deadline();
  return std::min(pair.adapter(side).deadline(), session);
}

/// One process until it would sleep: a deadline that is nearer than the time for which it looks for traffic
/// before it sleeps is no further wake-up. True when it had a reason to wake.
bool run_until_asleep(SessionPair& pair, int side) {
  bool woke = false;
  for (;;) {
    const Instant now = pair.clock.now();
    const bool due = deadline(pair, side) <= now;
    int work = pair.adapter(side).poll(now);
    work += side == 0 ? pair.host().poll(now) : pair.acceptor().poll(now);
    if (work == 0 && !due && deadline(pair, side) > now + 60us) return woke;
    woke = woke || due || work != 0;
    pair.clock.advance(10us);
  }
}

/// One exchange of a keepalive and its reply every half second. Every way over the wire takes a millisecond,
/// so nothing is seen by luck: the asker wakes to ask and to hear, the asked to answer and to see its answer
/// acknowledged.
TEST_P(SessionIdle, wakes_each_side_four_times_a_second) {
  constexpr int kSeconds = 10;
  SessionPair pair(SessionPairOptions().mode(GetParam()));
  EXPECT_EQ(pair.stream(0, 0, 20, 500), numbers(0, 20));
  pair.run_by_deadlines(3s);  // what was to be said about the frames has been said
  std::array<int, 2> wakes{};
  for (const Instant end = pair.clock.now() + std::chrono::seconds(kSeconds); pair.clock.now() < end;) {
    bool quiet = true;
    for (const int side : {0, 1}) {
      const bool woke = run_until_asleep(pair, side);
      wakes[static_cast<size_t>(side)] += woke ? 1 : 0;
      quiet = quiet && !woke;
      if (woke) pair.clock.advance(1ms);
    }
    if (quiet) pair.clock.set(std::max(pair.clock.now(), std::min(deadline(pair, 0), deadline(pair, 1))));
  }
  EXPECT_LE(wakes[0], 4 * kSeconds + 2) << "host";
  EXPECT_LE(wakes[1], 4 * kSeconds + 2) << "unit";
  EXPECT_GE(wakes[0], 2 * kSeconds) << "the count itself counts";
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
  EXPECT_EQ(pair.unit().incarnation(), 1U);
}

INSTANTIATE_TEST_SUITE_P(modes, SessionIdle,
                         testing::Values(TransferMode::kRdma, TransferMode::kSendReceive,
                                         TransferMode::kSendDataOnly));

}  // namespace
}  // namespace weft::session
