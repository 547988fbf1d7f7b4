// What programs learn of peers that end, of their own device and of other programs on their host.
#include <array>
#include <cerrno>
#include <set>

#include "tests/protocol/rdma_cm/commands_fixture.h"
#include "tests/support/temp_dir.h"

namespace weft::rdma_cm {
namespace {

TEST_F(CommandsTest, the_death_of_a_peer_is_the_end_of_its_connections) {
  establish();
  network.run(2s);
  EXPECT_EQ(a.event().event, ~0U) << "both are there";
  network.nodes.erase(2);
  a.knows_of[2] = Presence::kEnded;
  network.run(1100ms);
  rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kDisconnected));
  EXPECT_EQ(event.status, 0U);
  EXPECT_EQ(a.failed_qps, std::vector<uint32_t>{0x111}) << "what is posted there completes";
  ASSERT_EQ(a.disconnect(client), 0) << "as programs do then";
  network.run(2s);
  EXPECT_EQ(a.event().event, number(CmEvent::kTimewaitExit));
  EXPECT_EQ(a.endnode.watch().deadline(), kNever);
  EXPECT_EQ(a.endnode.watch().counters().get(PeerCounter::kEnded), 1U);
  a.destroy(client);
  EXPECT_EQ(a.endnode.manager().connections(), 0U);
}

TEST_F(CommandsTest, a_peer_of_another_host_is_waited_for) {
  establish();
  network.run(2s);
  network.nodes.erase(2);
  network.run(5s);
  EXPECT_EQ(a.event().event, ~0U) << "its switch may come back";
  network.run(6s);
  EXPECT_EQ(a.event().event, number(CmEvent::kDisconnected));
}

TEST_F(CommandsTest, the_device_changes_its_address_or_fails) {
  establish();
  static_cast<void>(a.create(0xA9));
  a.endnode.on_device(CmEvent::kAddressChange);
  rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kAddressChange));
  EXPECT_EQ(event.uid, 0xA0U);
  EXPECT_EQ(a.event().event, ~0U) << "an identifier without a device has no address to lose";
  b.endnode.on_device(CmEvent::kDeviceRemoval);
  std::set<uint64_t> told;
  for (event = b.event(); event.event != ~0U; event = b.event()) {
    EXPECT_EQ(event.event, number(CmEvent::kDeviceRemoval));
    told.insert(event.uid);
  }
  EXPECT_EQ(told, (std::set<uint64_t>{0xB0, 0xB1}));
}

/// Numbers are consecutive, so a program can guess that of a request. The event that waits refers to it.
TEST_F(CommandsTest, the_identifier_of_a_request_is_known_once_its_event_is_taken) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111, "hello"), 0);
  network.run(10ms);
  const uint32_t guessed = listener + 1;
  CmFile* other = b.endnode.open();
  ASSERT_NE(other, nullptr);
  rdma_ucm_destroy_id_resp gone{};
  rdma_ucm_destroy_id destroy{};
  destroy.response = Node::at(&gone);
  destroy.id = guessed;
  EXPECT_EQ(b.migrate(guessed, *other), ENOENT);
  EXPECT_EQ(b.accept(guessed, 0xB1, Node::param(0x222)), ENOENT);
  EXPECT_EQ(b.command(RDMA_USER_CM_CMD_DESTROY_ID, destroy), ENOENT);
  ASSERT_EQ(b.migrate(listener, *other), 0) << "the request goes along";
  EXPECT_EQ(b.command_at(*other, RDMA_USER_CM_CMD_DESTROY_ID, destroy), ENOENT);
  const rdma_ucm_event_resp request = b.event_at(*other);
  ASSERT_EQ(request.event, number(CmEvent::kConnectRequest));
  ASSERT_EQ(request.id, guessed);
  EXPECT_EQ(b.command_at(*other, RDMA_USER_CM_CMD_DESTROY_ID, destroy), 0) << "now it is the program's";

  const uint32_t waits = a.create(0xA1);
  IpAddress address = b.own(4);
  address.port = 5000;
  ASSERT_EQ(a.resolve(waits, address), 0);
  network.run(10ms);
  ASSERT_EQ(a.route(waits), 0);
  ASSERT_EQ(a.connect(waits, 0x112), 0);
  network.run(10ms);
  destroy.id = listener;
  EXPECT_EQ(b.command_at(*other, RDMA_USER_CM_CMD_DESTROY_ID, destroy), 0) << "with the request that waits";
  EXPECT_EQ(b.endnode.ids().size(), 0U);
}

TEST_F(CommandsTest, ports_are_held_by_one_endnode_of_a_host) {
  const test::TempDir dir;
  for (Node* node : {&a, &b}) node->ports = HostPorts(dir.path() + "/ports");
  const IpAddress any{.family = 4, .port = 4000};
  const IpAddress loop = make_ipv4(0x7F000001, 4000);
  const uint32_t first = a.create(1);
  const uint32_t second = b.create(2);
  ASSERT_EQ(a.bind(first, loop), 0);
  EXPECT_EQ(b.bind(second, loop), EADDRINUSE);
  EXPECT_EQ(b.bind(second, any), EADDRNOTAVAIL) << "which would be that one, too";
  EXPECT_EQ(from_sockaddr(b.query(second).src_addr).family, 0) << "it has no address then";
  EXPECT_EQ(b.bind(second, make_ipv4(0xC0A80001, 4000)), 0) << "another address";
  EXPECT_EQ(b.bind(b.create(3), {.family = 6, .port = 4005}), 0);
  EXPECT_EQ(b.bind(b.create(4, RDMA_PS_UDP), loop), 0);
  a.destroy(first);
  const uint32_t third = b.create(5);
  EXPECT_EQ(b.bind(third, loop), 0) << "free again";
  b.destroy(third);
  b.destroy(second);

  rdma_ucm_set_option reuse{};
  const int one = 1;
  reuse.optval = Node::at(&one);
  reuse.optname = RDMA_OPTION_ID_REUSEADDR;
  reuse.level = RDMA_OPTION_ID;
  reuse.optlen = sizeof one;
  for (Node* node : {&a, &b}) {
    reuse.id = node->create(6);
    ASSERT_EQ(node->command(RDMA_USER_CM_CMD_SET_OPTION, reuse), 0);
    EXPECT_EQ(node->bind(reuse.id, any), 0) << "those that share it";
  }
  EXPECT_EQ(a.bind(a.create(7), any), EADDRNOTAVAIL);
  const IpAddress other{.family = 4, .port = 4100};
  std::array<uint32_t, 2> sharers{};
  for (uint32_t& id : sharers) {
    reuse.id = id = b.create(10);
    ASSERT_EQ(b.command(RDMA_USER_CM_CMD_SET_OPTION, reuse), 0);
    ASSERT_EQ(b.bind(id, other), 0);
  }
  for (const uint32_t id : sharers) {
    EXPECT_EQ(a.bind(a.create(11), other), EADDRNOTAVAIL) << "until the last of them has gone";
    b.destroy(id);
  }
  EXPECT_EQ(a.bind(a.create(12), other), 0);
  const uint32_t free_port = a.create(8);
  ASSERT_EQ(a.bind(free_port, {.family = 4}), 0);
  const IpAddress chosen = from_sockaddr(a.query(free_port).src_addr);
  ASSERT_EQ(a.listen(free_port), 0);
  EXPECT_EQ(b.bind(b.create(9), chosen), EADDRNOTAVAIL) << "held on the host from listen() on";
}

TEST_F(CommandsTest, a_listener_on_this_host_is_waited_for) {
  const test::TempDir dir;
  for (Node* node : {&a, &b}) node->ports = HostPorts(dir.path() + "/ports");
  const uint32_t holder = b.create(1);
  ASSERT_EQ(b.bind(holder, {.family = 4, .port = 4000}), 0);
  ASSERT_EQ(b.listen(holder), 0);
  network.nodes.erase(b.lid().value());  // the listener has not joined again yet
  IpAddress own = a.own(4);
  own.port = 4000;
  const IpAddress loop = make_ipv4(0x7F000001, 4000);
  ASSERT_EQ(a.resolve(a.create(2), own), 0);
  ASSERT_EQ(a.resolve(a.create(3), loop), 0);
  const uint32_t late = a.create(4);
  ASSERT_EQ(a.resolve(late, make_ipv4(0xC0A80001, 4000)), 0);
  ASSERT_EQ(a.resolve(a.create(5), make_ipv4(0x7F000001, 4001)), 0);
  network.run(400ms);
  std::set<uint64_t> known;
  for (auto event = a.event(); event.event != ~0U; event = a.event()) known.insert(event.uid);
  EXPECT_EQ(known, (std::set<uint64_t>{2, 5})) << "an own address, and a port without a holder";
  network.nodes[b.lid().value()] = &b;
  network.run(100ms);
  for (auto event = a.event(); event.event != ~0U; event = a.event()) {
    EXPECT_EQ(event.event, number(CmEvent::kAddressResolved));
    known.insert(event.uid);
  }
  EXPECT_EQ(known, (std::set<uint64_t>{2, 3, 4, 5}));
  ASSERT_EQ(a.route(late), 0);
  ASSERT_EQ(a.connect(late, 0x111, "hello"), 0);
  network.run(10ms);
  EXPECT_EQ(b.event().event, number(CmEvent::kConnectRequest));
}

TEST_F(CommandsTest, options_have_their_time) {
  const int one = 1;
  const auto set = [&](uint32_t id, int option, size_t bytes) {
    rdma_ucm_set_option body{};
    body.optval = Node::at(&one);
    body.id = id;
    body.level = RDMA_OPTION_ID;
    body.optname = static_cast<uint32_t>(option);
    body.optlen = static_cast<uint32_t>(bytes);
    return a.command(RDMA_USER_CM_CMD_SET_OPTION, body);
  };
  const uint32_t id = a.create(1);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL) << "an int";
  EXPECT_EQ(set(id, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_AFONLY, 4), 0);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
  EXPECT_EQ(set(id, 77, 4), ENOSYS);
  ASSERT_EQ(a.bind(id, {.family = 4, .port = 4000}), 0);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_REUSEADDR, 4), 0);
  ASSERT_EQ(a.listen(id), 0);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_REUSEADDR, 4), EINVAL);
  EXPECT_EQ(set(id, RDMA_OPTION_ID_AFONLY, 4), EINVAL);
  EXPECT_EQ(set(a.create(2, RDMA_PS_UDP), RDMA_OPTION_ID_ACK_TIMEOUT, 1), EINVAL) << "datagrams have none";
}

}  // namespace
}  // namespace weft::rdma_cm
