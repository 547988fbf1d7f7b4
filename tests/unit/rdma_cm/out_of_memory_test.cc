// A shortage of memory is an answer, never the end of the program: each allocation of a scenario fails once,
// in a run of its own.
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <utility>

#include "tests/protocol/rdma_cm/commands_fixture.h"
#include "tests/support/allocation_counter.h"

namespace weft::rdma_cm {
namespace {

/// How many allocations succeed before one fails; negative: all do.
long g_until_failure = -1;

void fail_when_due(uint64_t /*bytes*/) {
  if (g_until_failure >= 0 && g_until_failure-- == 0) throw std::bad_alloc();
}

/// While one lives, allocations count, or do not.
class Armed {
 public:
  explicit Armed(long& left) : left_(left) { std::swap(g_until_failure, left_); }
  ~Armed() { std::swap(g_until_failure, left_); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;

 private:
  long& left_;
};

/// An endnode whose own allocations may fail, while those of the test around it do not.
struct ShortNode final : Node {
  ShortNode(test::MadNetwork& network, Lid lid, long& left) : Node(network, lid), left_(left) {}

  bool send(Lid to, const MadBytes& mad) noexcept override {
    Armed off(off_);
    return Node::send(to, mad);
  }
  bool flood(const MadBytes& mad) noexcept override {
    Armed off(off_);
    return Node::flood(mad);
  }
  void fail_qp(uint32_t qpn) noexcept override {
    Armed off(off_);
    Node::fail_qp(qpn);
  }
  Presence presence(const MadProcess& process) noexcept override {
    Armed off(off_);
    return Node::presence(process);
  }
  /// A command that was refused for want of memory has changed nothing: given again it succeeds.
  int execute(CmFile& at, std::span<const std::byte> bytes) override {
    int error = 0;
    {
      Armed on(left_);
      error = Node::execute(at, bytes);
    }
    if (error != ENOMEM) return error;
    ++refused;
    return Node::execute(at, bytes);
  }
  void receive(Instant now, Lid from, const MadBytes& mad) override {
    if (!hears_short) return Node::receive(now, from, mad);
    Armed on(left_);
    endnode.receive(now, from, mad);
  }
  void poll(Instant now) override {
    if (!hears_short) return Node::poll(now);
    Armed on(left_);
    endnode.poll(now);
  }

  int refused = 0;
  bool hears_short = false;  // what comes from the fabric may find no memory either

 private:
  long& left_;
  long off_ = -1;
};

/// Two programs that do what their events call for, up to the end of their connection.
class Scenario {
 public:
  Scenario(long until_failure, bool hears_short) : left(until_failure) {
    for (ShortNode* node : {&a, &b}) node->hears_short = hears_short;
  }

  void run() {
    IpAddress address = b.own(4);
    address.port = 5000;
    listener = b.create(0xB0);
    ASSERT_EQ(b.bind(listener, address), 0);
    ASSERT_EQ(b.listen(listener), 0);
    client = a.create(0xA0);
    ASSERT_EQ(a.resolve(client, address), 0);
    for (int i = 0; i < 20; ++i) {
      network.run(50ms);
      go_on(a);
      go_on(b);
    }
    if (connected != 0) static_cast<void>(a.disconnect(client));
    network.run(50ms);
    join_and_move();
  }
  void end() {
    for (ShortNode* node : {&a, &b}) {
      node->hears_short = false;
      node->endnode.destroy_all(network.clock.now());
      EXPECT_EQ(node->endnode.ids().size(), 0U);
      EXPECT_FALSE(Node::readable(*node->file));
    }
    network.run(15s);
    for (ShortNode* node : {&a, &b}) {
      EXPECT_EQ(node->endnode.manager().connections(), 0U);
      EXPECT_EQ(node->endnode.deadline(), kNever);
    }
  }

  test::MadNetwork network;
  long left;
  ShortNode a{network, Lid(1), left};
  ShortNode b{network, Lid(2), left};
  uint32_t listener = 0;
  uint32_t client = 0;
  int connected = 0;
  bool moved = false;

 private:
  void go_on(ShortNode& node) {
    for (auto event = node.event(); event.event != ~0U; event = node.event()) {
      if (event.event == number(CmEvent::kAddressResolved)) static_cast<void>(node.route(event.id));
      if (event.event == number(CmEvent::kRouteResolved)) static_cast<void>(node.connect(event.id, 0x111));
      if (event.event == number(CmEvent::kConnectRequest))
        static_cast<void>(node.accept(event.id, 0xB1, Node::param(0x222)));
      if (event.event == number(CmEvent::kConnectResponse))
        connected += node.accept(event.id, 0, {}) == 0 ? 1 : 0;
    }
  }
  void join_and_move() {
    const IpAddress group = make_ipv4(0xEF010203);
    const uint32_t member = a.create(0xA1, RDMA_PS_UDP);
    ASSERT_EQ(a.resolve(member, group), 0);
    uint32_t handle = 0;
    ASSERT_EQ(a.join(member, group, handle), 0);
    CmFile* other = a.endnode.open();
    ASSERT_EQ(a.migrate(member, *other), 0);
    EXPECT_EQ(a.event_at(*other).event, number(CmEvent::kAddressResolved));
    EXPECT_EQ(a.event_at(*other).event, number(CmEvent::kMulticastJoin));
    moved = true;
  }
};

class OutOfMemory : public ::testing::Test {
 protected:
  void SetUp() override { test::watch_allocations(fail_when_due); }
  void TearDown() override { test::watch_allocations(nullptr); }
};

TEST_F(OutOfMemory, each_command_is_refused_and_changes_nothing) {
  int refused = 0;
  for (long n = 0;; ++n) {
    SCOPED_TRACE(n);
    Scenario scenario(n, false);
    scenario.run();
    EXPECT_EQ(scenario.connected, 1);
    EXPECT_TRUE(scenario.moved);
    const bool none_failed = scenario.left >= 0;
    refused += scenario.a.refused + scenario.b.refused;
    scenario.end();
    if (none_failed || HasFailure()) break;
  }
  EXPECT_GT(refused, 8);
}

TEST_F(OutOfMemory, what_comes_from_the_fabric_is_refused_or_lost) {
  uint64_t lost = 0;
  for (long n = 0;; ++n) {
    SCOPED_TRACE(n);
    Scenario scenario(n, true);
    scenario.run();
    const bool none_failed = scenario.left >= 0;
    for (ShortNode* node : {&scenario.a, &scenario.b}) {
      const auto& counters = node->endnode.manager().counters();
      lost += counters.get(CmCounter::kEventsLost) + counters.get(CmCounter::kFull);
    }
    if (const CmId* id = scenario.b.endnode.ids().find(*scenario.b.file, scenario.listener)) {
      EXPECT_EQ(id->backlog, 10U) << "a request that could not be announced has no place";
    }
    scenario.end();
    EXPECT_TRUE(!none_failed || scenario.connected == 1);
    if (none_failed || HasFailure()) break;
  }
  EXPECT_GT(lost, 2U);
}

/// A list of what is left, made anew for each identifier, would be n * n.
TEST_F(OutOfMemory, closing_a_channel_takes_no_memory_however_many_identifiers_it_has) {
  test::MadNetwork network;
  Node a{network, Lid(1)};
  constexpr uint64_t kMany = 20'000;
  for (uint64_t uid = 1; uid <= kMany; ++uid) {
    const uint32_t id = a.create(uid);
    CmId* known = a.endnode.ids().find(*a.file, id);
    ASSERT_NE(known, nullptr);
    ASSERT_TRUE(a.endnode.tell(*known, CmEvent::kUser));
  }
  ASSERT_EQ(a.endnode.ids().size(), kMany);
  const uint64_t before = test::allocations();
  a.endnode.close(network.clock.now(), *a.file);
  EXPECT_EQ(test::allocations(), before);
  EXPECT_EQ(a.endnode.ids().size(), 0U);
}

}  // namespace
}  // namespace weft::rdma_cm
