// The watch over peers, in virtual time over a network that may lose questions and answers.
#include "rdma_cm/peer_watch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "rdma_cm/process_mark.h"
#include "tests/support/mad_network.h"

namespace weft::rdma_cm {
namespace {

struct WatchNode final : test::MadNode, PeerUser {
  WatchNode(test::MadNetwork& network, Lid lid, uint64_t incarnation)
      : MadNode(network, lid),
        random(incarnation),
        watch({.incarnation = incarnation, .pid = lid.value()}, random, *this, *this) {}
  void on_endnode(Instant now, Lid from, const EndnodeMad& mad) override {
    if (!stopped) watch.receive(now, from, mad);
  }
  void poll(Instant now) override { watch.poll(now); }
  Presence presence(const MadProcess& process) noexcept override {
    asked_about.push_back(process.pid);
    return knows;
  }
  void on_peer(Instant /*now*/, Lid peer, uint64_t incarnation) noexcept override {
    heard.emplace_back(peer, incarnation);
  }
  void on_peer_gone(Instant /*now*/, Lid peer) noexcept override { gone.push_back(peer); }
  uint64_t count(PeerCounter counter) { return watch.counters().get(counter); }

  SeededRandom random;
  PeerWatch watch;
  bool stopped = false;
  Presence knows = Presence::kUnknown;
  std::vector<uint32_t> asked_about;
  std::vector<std::pair<Lid, uint64_t>> heard;
  std::vector<Lid> gone;
};

class PeerWatchTest : public ::testing::Test {
 protected:
  using Heard = std::vector<std::pair<Lid, uint64_t>>;
  test::MadNetwork network;
  WatchNode a{network, Lid(1), 100};
  WatchNode b{network, Lid(2), 200};
};

TEST_F(PeerWatchTest, a_peer_that_answers_is_there) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(10s);
  EXPECT_EQ(a.heard, (Heard{{b.lid(), 200}}));
  EXPECT_TRUE(a.gone.empty());
  EXPECT_TRUE(a.asked_about.empty()) << "the kernel is not asked about one that answers";
  EXPECT_LE(a.count(PeerCounter::kAsked), 21U);
  EXPECT_EQ(b.count(PeerCounter::kAnswered), a.count(PeerCounter::kAsked));
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(1s);
  EXPECT_EQ(a.heard, (Heard{{b.lid(), 200}, {b.lid(), 200}})) << "for the new connection";
  a.watch.end(b.lid());
  EXPECT_NE(a.watch.deadline(), kNever);
  a.watch.end(b.lid());
  EXPECT_EQ(a.watch.deadline(), kNever);
  a.watch.end(b.lid());
}

TEST_F(PeerWatchTest, a_process_that_has_ended_is_found_within_two_questions) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(5s);
  b.stopped = true;
  a.knows = Presence::kEnded;
  network.run(2 * PeerWatch::kAskEvery + 10ms);
  EXPECT_EQ(a.gone, std::vector<Lid>{b.lid()});
  EXPECT_EQ(a.asked_about, std::vector<uint32_t>{2});
  EXPECT_EQ(a.watch.deadline(), kNever);
}

TEST_F(PeerWatchTest, a_process_that_is_stopped_is_waited_for) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(5s);
  b.stopped = true;
  a.knows = Presence::kRuns;
  network.run(30s);
  EXPECT_TRUE(a.gone.empty());
  b.stopped = false;
  network.run(1s);
  a.knows = Presence::kEnded;
  network.run(10s);
  EXPECT_TRUE(a.gone.empty()) << "it answers, whatever is said of it";
}

TEST_F(PeerWatchTest, a_peer_unknown_to_the_kernel_may_be_silent_for_ten_seconds) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(5s);
  b.stopped = true;
  network.run(9s);
  b.stopped = false;
  network.run(1s);
  b.stopped = true;
  network.run(9s);
  EXPECT_TRUE(a.gone.empty());
  network.run(3s);
  EXPECT_EQ(a.gone, std::vector<Lid>{b.lid()});
  EXPECT_EQ(a.count(PeerCounter::kSilent), 1U);
}

TEST_F(PeerWatchTest, a_silent_peer_is_asked_as_often_as_the_limit_says) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(5100ms);
  b.stopped = true;
  const uint64_t before = a.count(PeerCounter::kAsked);
  network.run(20s);
  EXPECT_EQ(a.gone, std::vector<Lid>{b.lid()});
  EXPECT_EQ(a.count(PeerCounter::kAsked) - before, PeerWatch::kUnansweredMax);
}

TEST_F(PeerWatchTest, another_process_has_the_lid) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(5s);
  WatchNode other(network, Lid(2), 300);
  network.run(1s);
  EXPECT_EQ(a.heard, (Heard{{b.lid(), 200}, {b.lid(), 300}}));
  EXPECT_EQ(a.count(PeerCounter::kReplaced), 1U);
  network.nodes.erase(2);
}

TEST_F(PeerWatchTest, unrequested_answers_are_ignored) {
  ASSERT_TRUE(a.watch.begin(b.lid()));
  network.run(1s);
  a.watch.receive(network.clock.now(), b.lid(),
                  {.transaction = 1, .body = IsThere{.process = {.incarnation = 999}}});
  a.watch.receive(network.clock.now(), Lid(9), {.body = IsThere()});
  EXPECT_EQ(a.count(PeerCounter::kUnexpected), 2U);
  EXPECT_EQ(a.heard.size(), 1U);
}

/// Answers the question as often as it likes, each time with another number of its process.
struct Talker final : test::MadNode {
  using MadNode::MadNode;
  void on_endnode(Instant /*now*/, Lid from, const EndnodeMad& mad) override {
    for (uint32_t i = 0; i < 100; ++i) {
      const MadProcess process{.incarnation = 300, .started = i, .pid = i};
      static_cast<void>(
          send(from, encode_endnode({.transaction = mad.transaction, .body = IsThere{.process = process}})));
    }
  }
  void poll(Instant /*now*/) override {}
};

TEST_F(PeerWatchTest, only_another_incarnation_is_another_process) {
  const Talker talker(network, Lid(3));
  ASSERT_TRUE(a.watch.begin(talker.lid()));
  network.run(5s);
  EXPECT_EQ(a.heard, (Heard{{talker.lid(), 300}}));
  EXPECT_EQ(a.count(PeerCounter::kReplaced), 0U);
}

TEST_F(PeerWatchTest, many_peers_are_asked_less_often) {
  for (uint16_t lid = 100; lid < 100 + 4 * PeerWatch::kPeersAtFullPace; ++lid)
    ASSERT_TRUE(a.watch.begin(Lid(lid)));
  network.run(1s);
  const uint64_t asked = a.count(PeerCounter::kAsked);
  network.run(5s);
  EXPECT_LE(a.count(PeerCounter::kAsked) - asked, 5 * 2 * PeerWatch::kPeersAtFullPace);
  EXPECT_GE(a.count(PeerCounter::kAsked) - asked, 5 * PeerWatch::kPeersAtFullPace);
}

TEST_F(PeerWatchTest, losses_end_nothing) {
  network.loss_ppm = 300'000;
  network.double_ppm = 300'000;
  network.disorder = 20ms;
  ASSERT_TRUE(a.watch.begin(b.lid()));
  ASSERT_TRUE(b.watch.begin(a.lid()));
  network.run(60s);
  EXPECT_TRUE(a.gone.empty() && b.gone.empty());
}

TEST(ProcessMark, this_process_runs_and_others_have_ended) {
  const MadProcess self = this_process(7);
  ASSERT_NE(self.space, 0U);
  EXPECT_EQ(presence_of(self, self), Presence::kRuns);
  MadProcess other = self;
  other.started -= 1;
  EXPECT_EQ(presence_of(other, self), Presence::kEnded) << "its number was given again";
  other = self;
  other.pid = 0x7FFF'FFFF;
  EXPECT_EQ(presence_of(other, self), Presence::kEnded);
  other.space += 1;
  EXPECT_EQ(presence_of(other, self), Presence::kUnknown) << "of another host";
}

}  // namespace
}  // namespace weft::rdma_cm
