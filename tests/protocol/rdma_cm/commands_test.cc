// The commands of /dev/infiniband/rdma_cm as librdmacm issues them, between endnodes in virtual time.
#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/endian.h"
#include "messages/multicast.h"
#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

TEST_F(CommandsTest, a_connection_from_end_to_end) {
  prepare();
  const rdma_ucm_query_route_resp known = a.query(client);
  EXPECT_EQ(known.num_paths, 1U);
  EXPECT_EQ(to_big(uint64_t{known.node_guid}), 0x101U);
  EXPECT_EQ(known.ibdev_index, 3U);
  EXPECT_EQ(known.ib_route[0].dlid, to_big(uint16_t{2}));
  EXPECT_TRUE(from_sockaddr(known.src_addr).same_ip(a.own(4)));
  ASSERT_EQ(a.connect(client, 0x111, "hello"), 0);
  network.run(10ms);

  const rdma_ucm_event_resp request = b.event();
  EXPECT_EQ(request.event, number(CmEvent::kConnectRequest));
  EXPECT_EQ(request.uid, 0xB0U) << "the listener's";
  EXPECT_NE(request.id, listener);
  EXPECT_EQ(request.param.conn.private_data_len, 56);
  EXPECT_EQ(text_of(request), "hello");
  EXPECT_EQ(request.param.conn.qp_num, 0x111U);
  EXPECT_EQ(request.param.conn.responder_resources, 2) << "the asker's initiator depth";
  EXPECT_EQ(request.param.conn.initiator_depth, 4);
  EXPECT_TRUE(from_sockaddr(b.query(request.id).dst_addr).same_ip(a.own(4)));
  EXPECT_EQ(from_sockaddr(b.query(request.id).src_addr).port, 5000);

  ASSERT_EQ(b.accept(request.id, 0xB1, Node::param(0x222, "welcome")), 0);
  network.run(10ms);
  const rdma_ucm_event_resp response = a.event();
  EXPECT_EQ(response.event, number(CmEvent::kConnectResponse)) << "librdmacm makes it ESTABLISHED";
  EXPECT_EQ(response.uid, 0xA0U);
  EXPECT_EQ(response.param.conn.private_data_len, 196);
  EXPECT_EQ(text_of(response), "welcome");
  ASSERT_EQ(a.accept(client, 0, {}), 0);
  network.run(10ms);
  const rdma_ucm_event_resp established = b.event();
  EXPECT_EQ(established.event, number(CmEvent::kEstablished));
  EXPECT_EQ(established.uid, 0xB1U);

  ASSERT_EQ(a.disconnect(client), 0);
  network.run(10ms);
  EXPECT_EQ(b.event().event, number(CmEvent::kDisconnected));
  EXPECT_EQ(a.event().event, ~0U) << "the peer's program has not answered yet";
  ASSERT_EQ(b.disconnect(request.id), 0);
  network.run(10ms);
  EXPECT_EQ(a.event().event, number(CmEvent::kDisconnected));
  network.run(2s);
  EXPECT_EQ(a.event().event, number(CmEvent::kTimewaitExit));
  EXPECT_EQ(a.destroy(client), 5U);
  EXPECT_EQ(b.destroy(request.id), 2U) << "its timewait event was not read";
  EXPECT_EQ(b.destroy(listener), 1U);
  EXPECT_FALSE(Node::readable(*b.file));
  network.run(30s);
  EXPECT_EQ(a.endnode.manager().connections() + b.endnode.manager().connections(), 0U);
}

/// RDMA_USER_CM_CMD_WRITE_CM_EVENT of newer kernels; librdmacm reports a resolved name to itself by it.
TEST_F(CommandsTest, a_program_queues_an_event_of_its_own) {
  struct Body {
    uint32_t id;
    uint32_t reserved;
    uint32_t event;
    uint32_t status;
    uint64_t argument;
  };
  constexpr uint32_t kWriteCmEvent = 24;
  const uint32_t id = a.create(0xA5);
  EXPECT_EQ(a.command(kWriteCmEvent, Body{id, 0, number(CmEvent::kUser), 7, 77}), 0);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.uid, 0xA5U);
  EXPECT_EQ(event.event, number(CmEvent::kUser));
  EXPECT_EQ(event.status, 7U);
  uint64_t argument = 0;
  std::memcpy(&argument, &event.param, sizeof argument);
  EXPECT_EQ(argument, 77U);
  EXPECT_EQ(a.command(kWriteCmEvent, Body{id, 0, number(CmEvent::kEstablished), 0, 0}), EINVAL)
      << "not what the connection manager alone knows";
  EXPECT_EQ(a.command(kWriteCmEvent, Body{id + 1, 0, number(CmEvent::kUser), 0, 0}), ENOENT);
  EXPECT_EQ(a.destroy(id), 1U);
  EXPECT_EQ(a.command(23, uint64_t{a.create(1)}), EOPNOTSUPP) << "there are no records of services";
}

TEST_F(CommandsTest, what_a_qp_is_set_to) {
  prepare();
  ib_uverbs_qp_attr attr = a.qp_attr(client, IBV_QPS_INIT);
  EXPECT_EQ(attr.qp_attr_mask, 0x39U);
  EXPECT_EQ(attr.qp_access_flags, 0U) << "before the connection";
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  server = b.event().id;
  attr = b.qp_attr(server, IBV_QPS_INIT);
  EXPECT_EQ(attr.qp_attr_mask, 0x39U);
  EXPECT_EQ(attr.qp_access_flags,
            uint32_t{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC});
  const ib_uverbs_qp_attr to_a = b.qp_attr(server, IBV_QPS_RTR);
  EXPECT_EQ(to_a.qp_attr_mask, 0x129181U);
  EXPECT_EQ(to_a.dest_qp_num, 0x111U);
  EXPECT_EQ(to_a.ah_attr.dlid, 1U);
  EXPECT_EQ(to_a.path_mtu, uint32_t{IBV_MTU_4096});
  EXPECT_EQ(to_a.max_dest_rd_atomic, 2) << "as many as the asker starts";
  attr = b.qp_attr(server, IBV_QPS_RTS);
  EXPECT_EQ(attr.qp_attr_mask, 0x12E01U);
  EXPECT_EQ(attr.retry_cnt, 7);
  EXPECT_EQ(attr.rnr_retry, 6);
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222)), 0);
  network.run(10ms);
  static_cast<void>(a.event());
  const ib_uverbs_qp_attr to_b = a.qp_attr(client, IBV_QPS_RTR);
  EXPECT_EQ(to_b.dest_qp_num, 0x222U);
  EXPECT_EQ(to_b.rq_psn, attr.sq_psn);
  EXPECT_EQ(to_a.rq_psn, a.qp_attr(client, IBV_QPS_RTS).sq_psn);
  EXPECT_EQ(to_b.max_dest_rd_atomic, 2) << "the smaller of what one offers and the other wants";
}

TEST_F(CommandsTest, a_qp_whose_peer_starts_no_reads_allows_none) {
  prepare();
  rdma_ucm_conn_param writes_only = Node::param(0x111);
  writes_only.initiator_depth = 0;
  ASSERT_EQ(a.connect(client, writes_only), 0);
  network.run(10ms);
  server = b.event().id;
  EXPECT_EQ(b.qp_attr(server, IBV_QPS_INIT).qp_access_flags, uint32_t{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(b.qp_attr(server, IBV_QPS_RTR).max_dest_rd_atomic, 0);
}

/// A UC QP has no attributes of reads, acknowledgements and repetitions: ibv_modify_qp() refuses them.
TEST_F(CommandsTest, what_a_uc_qp_is_set_to) {
  listener = b.create(0xB0, RDMA_PS_IB, IBV_QPT_UC);
  ASSERT_EQ(b.bind(listener, {.family = 4, .port = 4800}), 0);
  ASSERT_EQ(b.listen(listener), 0);
  client = a.create(0xA0, RDMA_PS_IB, IBV_QPT_UC);
  ASSERT_EQ(a.resolve(client, make_ipv4(0x0A000002, 4800)), 0);
  network.run(10ms);
  ASSERT_EQ(a.route(client), 0);
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  server = b.event().id;
  EXPECT_EQ(b.qp_attr(server, IBV_QPS_RTR).qp_attr_mask, 0x101181U);
  EXPECT_EQ(b.qp_attr(server, IBV_QPS_RTS).qp_attr_mask, 0x10001U);
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222)), 0);
  network.run(10ms);
  EXPECT_EQ(a.qp_attr(client, IBV_QPS_RTR).qp_attr_mask, 0x101181U);
}

TEST_F(CommandsTest, a_rejection_has_a_reason_and_data) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  ASSERT_EQ(b.reject(b.event().id, "not today"), 0);
  network.run(10ms);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kRejected));
  EXPECT_EQ(event.status, 28U);
  EXPECT_EQ(event.param.conn.private_data_len, 148);
  EXPECT_EQ(text_of(event), "not today");
}

TEST_F(CommandsTest, a_port_without_a_listener_rejects) {
  client = a.create(0xA0);
  IpAddress address = b.own(4);
  address.port = 5001;
  ASSERT_EQ(a.resolve(client, address), 0);
  network.run(400ms);
  ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved)) << "the address is there";
  ASSERT_EQ(a.route(client), 0);
  static_cast<void>(a.event());
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(100ms);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kRejected));
  EXPECT_EQ(event.status, 8U);
}

TEST_F(CommandsTest, an_unknown_address_and_a_silent_peer_time_out) {
  client = a.create(0xA0);
  ASSERT_EQ(a.resolve(client, make_ipv4(0x0A0000FE, 5000)), 0);
  network.run(3s);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kAddressError));
  EXPECT_EQ(static_cast<int32_t>(event.status), -ETIMEDOUT);
  a.destroy(client);
  prepare();
  network.nodes.erase(2);
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10s);
  const rdma_ucm_event_resp late = a.event();
  EXPECT_EQ(late.event, number(CmEvent::kUnreachable));
  EXPECT_EQ(static_cast<int32_t>(late.status), -ETIMEDOUT);
}

TEST_F(CommandsTest, addresses_of_the_host_lead_to_the_endnode_that_listens) {
  listener = b.create(0xB0);
  ASSERT_EQ(b.bind(listener, {.family = 4, .port = 7174}), 0);
  EXPECT_EQ(b.query(listener).node_guid, 0U) << "the wildcard is on no device yet";
  ASSERT_EQ(b.listen(listener), 0);
  for (const uint32_t ip : {0x7F000001U, 0xC0A80001U}) {
    client = a.create(0xA0);
    ASSERT_EQ(a.resolve(client, make_ipv4(ip, 7174)), 0);
    network.run(100ms);
    ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved));
    ASSERT_EQ(a.route(client), 0);
    static_cast<void>(a.event());
    EXPECT_EQ(a.query(client).ib_route[0].dlid, to_big(uint16_t{2}));
    ASSERT_EQ(a.connect(client, 0x111), 0);
    network.run(10ms);
    const rdma_ucm_event_resp event = b.event();
    EXPECT_EQ(event.event, number(CmEvent::kConnectRequest));
    EXPECT_NE(b.query(event.id).node_guid, 0U);
  }
  b.host = kHost + 1;  // there 127.0.0.1 belongs to another host
  client = a.create(0xA0);
  ASSERT_EQ(a.resolve(client, make_ipv4(0x7F000001, 7174)), 0);
  network.run(400ms);
  EXPECT_EQ(a.query(client).ib_route[0].dlid, to_big(uint16_t{1}));
}

TEST_F(CommandsTest, ports_are_held_by_one) {
  const uint32_t first = a.create(1);
  const uint32_t second = a.create(2);
  const IpAddress any{.family = 4, .port = 4000};
  ASSERT_EQ(a.bind(first, any), 0);
  EXPECT_EQ(a.bind(second, any), EADDRNOTAVAIL);
  EXPECT_EQ(a.bind(second, make_ipv4(0x0A000001, 4000)), EADDRNOTAVAIL);
  EXPECT_EQ(a.bind(second, make_ipv4(0x08080808, 4001)), EADDRNOTAVAIL);
  EXPECT_EQ(a.bind(second, {.family = 6, .port = 4000}), EADDRNOTAVAIL) << "which has both families";
  EXPECT_EQ(a.bind(second, {.family = 6, .port = 4002}), 0);
  EXPECT_EQ(a.bind(a.create(3, RDMA_PS_UDP), any), 0) << "port spaces have ports of their own";
  EXPECT_EQ(a.bind(first, any), EINVAL) << "bound already";
  a.destroy(first);
  EXPECT_EQ(a.bind(a.create(4), any), 0);
  std::set<uint16_t> ports;
  for (uint64_t i = 0; i < 20; ++i) {
    const uint32_t id = a.create(10 + i);
    ASSERT_EQ(a.bind(id, {.family = 4}), 0);
    ports.insert(from_sockaddr(a.query(id).src_addr).port);
  }
  EXPECT_EQ(ports.size(), 20U);
  EXPECT_FALSE(ports.contains(0));
}

/// As with the kernel: the peer's connection manager repeats the request until there is room.
TEST_F(CommandsTest, a_request_beyond_the_backlog_waits_at_its_sender) {
  listener = b.create(0xB0);
  ASSERT_EQ(b.bind(listener, {.family = 4, .port = 5000}), 0);
  ASSERT_EQ(b.listen(listener, 1), 0);
  IpAddress address = b.own(4);
  address.port = 5000;
  for (uint64_t uid = 1; uid <= 2; ++uid) {
    const uint32_t id = a.create(uid);
    ASSERT_EQ(a.resolve(id, address), 0);
    network.run(50ms);
    ASSERT_EQ(a.route(id), 0);
    ASSERT_EQ(a.connect(id, 0x111), 0);
    network.run(10ms);
  }
  EXPECT_GE(b.endnode.manager().counters().get(CmCounter::kFull), 1U);
  EXPECT_EQ(b.event().event, number(CmEvent::kConnectRequest));
  EXPECT_EQ(b.event().event, ~0U);
  network.run(1s);
  EXPECT_EQ(b.event().event, number(CmEvent::kConnectRequest)) << "the second request, again";
  for (auto event = a.event(); event.event != ~0U; event = a.event())
    EXPECT_NE(event.event, number(CmEvent::kRejected));
}

TEST_F(CommandsTest, a_listener_that_ends_rejects_what_waits) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  EXPECT_TRUE(Node::readable(*b.file));
  EXPECT_EQ(b.destroy(listener), 0U) << "the program has not read the request";
  EXPECT_FALSE(Node::readable(*b.file));
  EXPECT_EQ(b.endnode.ids().size(), 0U);
  network.run(10ms);
  EXPECT_EQ(a.event().event, number(CmEvent::kRejected));
}

TEST_F(CommandsTest, before_it_is_accepted_a_request_tells_nothing) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  server = b.event().id;
  a.destroy(client);
  network.run(100ms);
  EXPECT_EQ(b.event().event, ~0U);
  EXPECT_EQ(b.accept(server, 0xB1, Node::param(1)), EINVAL) << "the peer has given up";
}

TEST_F(CommandsTest, events_move_with_their_identifier) {
  establish();
  ASSERT_EQ(a.disconnect(client), 0);
  network.run(10ms);
  CmFile* other = b.endnode.open();
  rdma_ucm_migrate_resp moved{};
  rdma_ucm_migrate_id body{};
  body.response = Node::at(&moved);
  body.id = server;
  body.fd = static_cast<uint32_t>(b.file->descriptor->fd());
  ASSERT_EQ(b.command_at(*other, RDMA_USER_CM_CMD_MIGRATE_ID, body), 0);
  EXPECT_EQ(moved.events_reported, 1U);
  EXPECT_FALSE(Node::readable(*b.file));
  EXPECT_EQ(b.event_at(*other).event, number(CmEvent::kDisconnected));
  EXPECT_EQ(b.disconnect(server), ENOENT) << "it belongs to the other channel now";
  body.fd = 1;
  EXPECT_EQ(b.command_at(*other, RDMA_USER_CM_CMD_MIGRATE_ID, body), ENOENT);
}

TEST_F(CommandsTest, closing_a_channel_ends_its_connections) {
  establish();
  a.endnode.close(network.clock.now(), *a.file);
  network.run(10ms);
  EXPECT_EQ(b.event().event, number(CmEvent::kDisconnected));
  EXPECT_EQ(a.endnode.ids().size(), 0U);
}

TEST_F(CommandsTest, the_end_of_a_process_is_the_end_of_its_connections) {
  establish();
  a.endnode.destroy_all(network.clock.now());
  network.run(10ms);
  EXPECT_EQ(b.event().event, number(CmEvent::kDisconnected));
  EXPECT_EQ(a.endnode.ids().size(), 0U);
  EXPECT_NE(a.endnode.file_of(a.file->descriptor->fd()), nullptr) << "the program may still close it";
}

TEST_F(CommandsTest, data_may_come_before_the_last_word) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  server = b.event().id;
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222)), 0);
  ASSERT_EQ(b.command(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{.id = server, .event = IBV_EVENT_COMM_EST}),
            0);
  EXPECT_EQ(b.event().event, number(CmEvent::kEstablished));
  network.run(10ms);
  ASSERT_EQ(a.accept(client, 0, {}), 0);
  network.run(100ms);
  EXPECT_EQ(b.event().event, ~0U) << "established once";
}

/// The codes are those of the kernel's ib_cm_notify().
TEST_F(CommandsTest, what_a_program_reports_must_fit_the_connection) {
  const auto notify = [&](uint32_t id, ibv_event_type event) {
    return a.command(RDMA_USER_CM_CMD_NOTIFY,
                     rdma_ucm_notify{.id = id, .event = static_cast<uint32_t>(event)});
  };
  prepare();
  EXPECT_EQ(notify(client, IBV_EVENT_COMM_EST), EINVAL) << "no connection";
  ASSERT_EQ(a.connect(client, 0x111), 0);
  EXPECT_EQ(notify(client, IBV_EVENT_COMM_EST), EINVAL) << "not accepted yet";
  EXPECT_EQ(notify(client, IBV_EVENT_PATH_MIG), EINVAL);
  network.run(10ms);
  server = b.event().id;
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222)), 0);
  network.run(10ms);
  ASSERT_EQ(a.accept(client, 0, {}), 0);
  EXPECT_EQ(notify(client, IBV_EVENT_COMM_EST), EISCONN);
  EXPECT_EQ(notify(client, IBV_EVENT_PATH_MIG), 0);
  EXPECT_EQ(notify(client, IBV_EVENT_SQ_DRAINED), EINVAL) << "none of its events";
}

/// The accepting program rejects after all, before the last word of the other side comes.
TEST_F(CommandsTest, a_rejection_may_come_after_the_connection_was_established) {
  prepare();
  ASSERT_EQ(a.connect(client, 0x111), 0);
  network.run(10ms);
  server = b.event().id;
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222)), 0);
  network.run(10ms);
  network.lose_next = {CmAttribute::kRtu};
  ASSERT_EQ(a.accept(client, 0, {}), 0);
  ASSERT_EQ(b.reject(server, "no"), 0);
  network.run(10s);
  ASSERT_EQ(a.event().event, number(CmEvent::kConnectResponse));
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kRejected));
  EXPECT_EQ(event.status, uint32_t{kRejectConsumer});
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(event.param.conn.private_data), 2), "no");
  EXPECT_EQ(a.event().event, ~0U) << "no TIMEWAIT_EXIT without DISCONNECTED";
  EXPECT_EQ(b.event().event, ~0U);
}

TEST_F(CommandsTest, an_identifier_of_one_family_resolves_no_address_of_the_other) {
  client = a.create(0xA0);
  ASSERT_EQ(a.bind(client, {.family = 4, .port = 4000}), 0);
  EXPECT_EQ(a.resolve(client, b.own(6)), EINVAL);
  EXPECT_EQ(a.resolve(client, b.own(4)), 0);
}

TEST_F(CommandsTest, datagram_services) {
  prepare(RDMA_PS_UDP);
  const ib_uverbs_qp_attr attr = a.qp_attr(client, IBV_QPS_INIT);
  EXPECT_EQ(attr.qp_attr_mask, 0x71U);
  EXPECT_EQ(attr.qkey, 0x01234567U);
  ASSERT_EQ(a.connect(client, 0, "who"), 0);
  network.run(10ms);
  const rdma_ucm_event_resp request = b.event();
  ASSERT_EQ(request.event, number(CmEvent::kConnectRequest));
  EXPECT_EQ(request.param.ud.private_data_len, 180);
  ASSERT_EQ(b.accept(request.id, 0xB1, Node::param(0x333, "me")), 0);
  network.run(10ms);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kEstablished));
  EXPECT_EQ(event.param.ud.private_data_len, 136);
  EXPECT_EQ(event.param.ud.qp_num, 0x333U);
  EXPECT_EQ(event.param.ud.qkey, 0x01234567U);
  EXPECT_EQ(event.param.ud.ah_attr.dlid, 2U);
  a.destroy(client);
  b.destroy(listener);
  prepare(RDMA_PS_UDP);
  ASSERT_EQ(a.connect(client, 0), 0);
  network.run(10ms);
  ASSERT_EQ(b.reject(b.event().id, ""), 0);
  network.run(10ms);
  const rdma_ucm_event_resp refused = a.event();
  EXPECT_EQ(refused.event, number(CmEvent::kUnreachable));
  EXPECT_EQ(refused.status, 2U);
}

TEST_F(CommandsTest, multicast) {
  client = a.create(0xA0, RDMA_PS_UDP);
  const IpAddress group = make_ipv4(0xEF010203);
  rdma_ucm_create_id_resp made{};
  rdma_ucm_join_ip_mcast body{};
  body.response = Node::at(&made);
  body.uid = 0xCC;
  body.addr = to_sockaddr(group);
  body.id = client;
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, body), EINVAL) << "on no device";
  ASSERT_EQ(a.resolve(client, group), 0);
  ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved));
  ASSERT_EQ(a.command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, body), 0);
  const rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kMulticastJoin));
  EXPECT_EQ(event.uid, 0xCCU);
  EXPECT_EQ(event.id, made.id);
  EXPECT_EQ(event.param.ud.qp_num, 0xFFFFFFU);
  EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(event.param.ud.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(event.param.ud.ah_attr.port_num, 1);
  EXPECT_TRUE(is_multicast(Lid(event.param.ud.ah_attr.dlid)));
  const std::array<uint8_t, 16> gid{0xFF, 0x12, 0x40, 0x01, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0x0F, 1, 2, 3};
  EXPECT_TRUE(std::equal(gid.begin(), gid.end(), event.param.ud.ah_attr.grh.dgid));
  rdma_ucm_destroy_id_resp gone{};
  rdma_ucm_destroy_id leave{};
  leave.response = Node::at(&gone);
  leave.id = made.id;
  ASSERT_EQ(a.command(RDMA_USER_CM_CMD_LEAVE_MCAST, leave), 0);
  EXPECT_EQ(gone.events_reported, 1U);
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_LEAVE_MCAST, leave), ENOENT);
  EXPECT_EQ(a.destroy(client), 2U);
}

TEST_F(CommandsTest, what_is_malformed_is_refused) {
  EXPECT_EQ(a.command(99, rdma_ucm_listen{}), EINVAL);
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_LISTEN, uint32_t{0}), EINVAL) << "too short";
  EXPECT_EQ(a.listen(12345), ENOENT);
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_GET_OPTION, uint64_t{0}), ENOSYS);
  rdma_ucm_create_id body{};
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_CREATE_ID, body, 0), ENOSPC);
  body.ps = 1;
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_CREATE_ID, body), EINVAL);
  client = a.create(1);
  rdma_ucm_bind ib{};
  ib.id = client;
  ib.addr_size = 48;
  ib.addr.ss_family = 27;
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_BIND, ib), EAFNOSUPPORT) << "no AF_IB: librdmacm then asks by IP";
  EXPECT_EQ(a.resolve(client, b.own(4), a.own(6)), EINVAL) << "an address of another family";
  EXPECT_EQ(a.connect(client, 1), EINVAL) << "no route yet";
  EXPECT_EQ(a.route(client), EINVAL);
  EXPECT_EQ(a.disconnect(client), EINVAL);
  EXPECT_EQ(b.listen(client), ENOENT) << "another process's";
  EXPECT_GT(a.commands.counters().get(CommandCounter::kRefused), 5U);
  for (uint32_t i = 0; i < 25; ++i) EXPECT_STRNE(command_name(i), "?");
  EXPECT_STREQ(command_name(25), "?");
}

}  // namespace
}  // namespace weft::rdma_cm
