// Commands: exact limits, resources that are returned, and values that both sides agree on.
#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

class CommandLimits : public CommandsTest {
 protected:
  /// Asks for a connection with one more identifier of a.
  uint32_t ask(uint64_t uid, const rdma_ucm_conn_param& with = Node::param(0x111)) {
    IpAddress address = b.own(4);
    address.port = 5000;
    const uint32_t id = a.create(uid);
    EXPECT_EQ(a.resolve(id, address), 0);
    network.run(50ms);
    EXPECT_EQ(a.route(id), 0);
    EXPECT_EQ(a.connect(id, with), 0);
    network.run(10ms);
    return id;
  }
  void listen(uint32_t backlog) {
    listener = b.create(0xB0);
    ASSERT_EQ(b.bind(listener, {.family = 4, .port = 5000}), 0);
    ASSERT_EQ(b.listen(listener, backlog), 0);
  }
  /// @return the number of rejected requests among all of a's events
  int rejected() {
    int count = 0;
    for (auto event = a.event(); event.event != ~0U; event = a.event())
      count += event.event == number(CmEvent::kRejected) ? 1 : 0;
    return count;
  }
  /// Takes all of b's events. @return how many are requests
  int requests() {
    int count = 0;
    for (auto event = b.event(); event.event != ~0U; event = b.event())
      count += event.event == number(CmEvent::kConnectRequest) ? 1 : 0;
    return count;
  }
};

TEST_F(CommandLimits, a_request_that_was_taken_makes_room_in_the_backlog_for_one_more) {
  listen(2);
  for (uint64_t uid = 1; uid <= 2; ++uid) static_cast<void>(ask(uid));
  ASSERT_EQ(b.event().event, number(CmEvent::kConnectRequest));
  for (uint64_t uid = 3; uid <= 5; ++uid) static_cast<void>(ask(uid));
  EXPECT_EQ(requests(), 2) << "one was taken, so two wait";
  network.run(7s);
  EXPECT_EQ(requests(), 2) << "those that had no room";
}

/// An event of another kind is not a request.
TEST_F(CommandLimits, only_requests_make_room_in_the_backlog) {
  listen(1);
  ASSERT_TRUE(b.endnode.tell(*b.endnode.ids().find(*b.file, listener), CmEvent::kAddressChange));
  ASSERT_EQ(b.event().event, number(CmEvent::kAddressChange));
  static_cast<void>(ask(1));
  static_cast<void>(ask(2));
  EXPECT_EQ(requests(), 1);
}

TEST_F(CommandLimits, retries_are_three_bits) {
  listen(10);
  for (const auto& [asked, granted] :
       {std::pair{6, 6}, std::pair{7, 7}, std::pair{8, 7}, std::pair{255, 7}}) {
    rdma_ucm_conn_param with = Node::param(0x111);
    with.rnr_retry_count = with.retry_count = static_cast<uint8_t>(asked);
    static_cast<void>(ask(1, with));
    const ib_uverbs_qp_attr attr = b.qp_attr(b.event().id, IBV_QPS_RTS);
    EXPECT_EQ(attr.rnr_retry, granted) << asked;
    EXPECT_EQ(attr.retry_cnt, granted) << asked;
  }
}

TEST_F(CommandLimits, the_event_of_a_request_tells_what_the_asker_offers) {
  listen(10);
  for (const uint8_t flag : {uint8_t{0}, uint8_t{1}}) {
    rdma_ucm_conn_param with = Node::param(0x111);
    with.retry_count = 5;
    with.rnr_retry_count = 4;
    with.flow_control = with.srq = flag;
    static_cast<void>(ask(1, with));
    const rdma_ucm_conn_param told = b.event().param.conn;
    EXPECT_EQ(told.qp_num, 0x111U);
    EXPECT_EQ(told.retry_count, 5);
    EXPECT_EQ(told.rnr_retry_count, 4);
    EXPECT_EQ(told.flow_control, flag);
    EXPECT_EQ(told.srq, flag);
    EXPECT_EQ(told.responder_resources, with.initiator_depth);
    EXPECT_EQ(told.initiator_depth, with.responder_resources);
  }
}

TEST_F(CommandLimits, an_ack_timeout_is_five_bits_and_may_be_0) {
  listen(10);
  const uint32_t id = ask(1);
  EXPECT_EQ(a.qp_attr(id, IBV_QPS_RTS).timeout, 16);
  for (const auto& [wanted, kept] : {std::pair{31, 31}, std::pair{33, 1}, std::pair{0, 0}}) {
    const auto value = static_cast<uint8_t>(wanted);
    rdma_ucm_set_option body{};
    body.optval = Node::at(&value);
    body.id = id;
    body.level = RDMA_OPTION_ID;
    body.optname = RDMA_OPTION_ID_ACK_TIMEOUT;
    body.optlen = sizeof value;
    ASSERT_EQ(a.command(RDMA_USER_CM_CMD_SET_OPTION, body), 0);
    EXPECT_EQ(a.qp_attr(id, IBV_QPS_RTS).timeout, kept);
  }
}

TEST_F(CommandLimits, who_serves_no_reads_lets_nobody_read) {
  listen(10);
  rdma_ucm_conn_param with = Node::param(0x111);
  with.initiator_depth = 0;
  static_cast<void>(ask(1, with));
  EXPECT_EQ(b.qp_attr(b.event().id, IBV_QPS_INIT).qp_access_flags, uint32_t{IBV_ACCESS_REMOTE_WRITE});
  with.initiator_depth = 1;
  static_cast<void>(ask(2, with));
  EXPECT_NE(b.qp_attr(b.event().id, IBV_QPS_INIT).qp_access_flags & IBV_ACCESS_REMOTE_READ, 0U);
}

TEST_F(CommandLimits, an_identifier_with_an_address_may_begin_to_share_it_and_not_stop) {
  const uint32_t id = a.create(1);
  ASSERT_EQ(a.bind(id, {.family = 4, .port = 4000}), 0);
  EXPECT_EQ(a.set_option(id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(a.set_option(id, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
  ASSERT_EQ(a.listen(id), 0);
  EXPECT_EQ(a.set_option(id, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
}

TEST_F(CommandLimits, an_address_that_was_not_found_can_be_asked_for_again) {
  listen(10);
  client = a.create(0xA0);
  ASSERT_EQ(a.resolve(client, make_ipv4(0x0A0000FE, 5000)), 0);
  network.run(3s);
  ASSERT_EQ(a.event().event, number(CmEvent::kAddressError));
  IpAddress address = b.own(4);
  address.port = 5000;
  ASSERT_EQ(a.resolve(client, address), 0);
  network.run(100ms);
  EXPECT_EQ(a.event().event, number(CmEvent::kAddressResolved));
}

TEST_F(CommandLimits, the_port_that_was_chosen_is_told_and_given_back) {
  listen(10);
  IpAddress address = b.own(4);
  address.port = 5000;
  client = a.create(0xA0);
  ASSERT_EQ(a.resolve(client, address), 0);
  const IpAddress chosen = from_sockaddr(a.query(client).src_addr);
  EXPECT_NE(chosen.port, 0);
  EXPECT_TRUE(a.endnode.ids().is_bound(RDMA_PS_TCP, chosen));
  a.destroy(client);
  EXPECT_FALSE(a.endnode.ids().is_bound(RDMA_PS_TCP, chosen));
}

TEST_F(CommandLimits, a_group_is_joined_with_the_flags_that_there_are) {
  client = a.create(0xA0, RDMA_PS_UDP);
  const IpAddress group = make_ipv4(0xEF010203);
  ASSERT_EQ(a.resolve(client, group), 0);
  rdma_ucm_create_id_resp made{};
  rdma_ucm_join_mcast body{};
  body.response = Node::at(&made);
  const sockaddr_in6 to = to_sockaddr(group);
  std::memcpy(&body.addr, &to, sizeof to);
  body.id = client;
  for (const uint16_t flags : {RDMA_MC_JOIN_FLAG_FULLMEMBER, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER}) {
    body.join_flags = flags;
    EXPECT_EQ(a.command(RDMA_USER_CM_CMD_JOIN_MCAST, body), 0);
  }
  body.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
  EXPECT_EQ(a.command(RDMA_USER_CM_CMD_JOIN_MCAST, body), EINVAL);
}

/// Each side may start as many reads as it wants, but at most as many as the other side serves.
TEST_F(CommandLimits, the_read_depth_is_the_smaller_of_one_sides_wish_and_the_others_resources) {
  listen(10);
  for (const int served : {1, 2, 3}) {
    const uint32_t id = ask(1);  // wants to start 2, serves 4
    rdma_ucm_conn_param reply = Node::param(0x222);
    reply.responder_resources = static_cast<uint8_t>(served);
    reply.initiator_depth = 9;
    const uint32_t request = b.event().id;
    ASSERT_EQ(b.accept(request, 0xB1, reply), 0);
    network.run(10ms);
    EXPECT_EQ(a.qp_attr(id, IBV_QPS_RTS).max_rd_atomic, std::min(served, 2));
    EXPECT_EQ(a.qp_attr(id, IBV_QPS_RTR).max_dest_rd_atomic, 4);
    EXPECT_EQ(b.qp_attr(request, IBV_QPS_RTS).max_rd_atomic, 9) << "as the answering program says";
    EXPECT_EQ(b.qp_attr(request, IBV_QPS_RTR).max_dest_rd_atomic, served);
  }
}

TEST_F(CommandLimits, the_mtu_of_a_path_is_the_smaller_of_both_ends) {
  listen(10);
  for (const auto& [asks, answers] : {std::pair{5, 5}, std::pair{5, 3}, std::pair{2, 3}}) {
    a.mtu = static_cast<uint8_t>(asks);
    b.mtu = static_cast<uint8_t>(answers);
    static_cast<void>(ask(1));
    EXPECT_EQ(b.qp_attr(b.event().id, IBV_QPS_RTR).path_mtu, static_cast<uint32_t>(std::min(asks, answers)));
  }
}

TEST_F(CommandLimits, source_and_destination_are_of_one_family) {
  const IpAddress v4 = make_ipv4(0x0A000001);
  IpAddress v6 = b.own(6);
  v6.port = 5000;
  EXPECT_EQ(a.resolve(a.create(1), v6, v4), EINVAL);
  EXPECT_EQ(a.resolve(a.create(2), make_ipv4(0x0A000002, 5000), a.own(6)), EINVAL);
  EXPECT_EQ(a.resolve(a.create(3), {}), EINVAL) << "no destination";
  EXPECT_EQ(a.resolve(a.create(4), v6, a.own(6)), 0);
  EXPECT_EQ(a.resolve(a.create(5), v6), 0) << "any source";
}

TEST_F(CommandLimits, a_waiting_request_moves_with_its_listener) {
  listen(10);
  client = ask(0xA0);
  CmFile* other = b.endnode.open();
  ASSERT_EQ(b.migrate(listener, *other), 0);
  b.endnode.close(network.clock.now(), *b.file);
  const rdma_ucm_event_resp request = b.event_at(*other);
  ASSERT_EQ(request.event, number(CmEvent::kConnectRequest));
  b.file = other;
  EXPECT_EQ(b.accept(request.id, 0xB1, Node::param(0x222)), 0);
  network.run(10ms);
  EXPECT_EQ(rejected(), 0);
}

TEST_F(CommandLimits, moving_an_identifier_to_its_own_channel_keeps_each_event_once) {
  listen(10);
  client = ask(0xA0);
  ASSERT_EQ(b.migrate(listener, *b.file), 0);
  ASSERT_TRUE(Node::readable(*b.file));
  EXPECT_EQ(b.event().event, number(CmEvent::kConnectRequest));
  EXPECT_FALSE(Node::readable(*b.file));
  EXPECT_EQ(b.event().event, ~0U);
}

TEST_F(CommandLimits, a_group_is_resolved_once) {
  client = a.create(0xA0, RDMA_PS_UDP);
  const IpAddress group = make_ipv4(0xEF010203);
  EXPECT_EQ(a.route(client), EINVAL);
  ASSERT_EQ(a.resolve(client, group), 0);
  EXPECT_EQ(a.resolve(client, group), EINVAL);
  EXPECT_EQ(a.route(client), 0);
  EXPECT_EQ(a.route(client), EINVAL);
}

TEST_F(CommandLimits, a_group_that_was_left_reports_nothing_more) {
  client = a.create(0xA0, RDMA_PS_UDP);
  const IpAddress group = make_ipv4(0xEF010203);
  ASSERT_EQ(a.resolve(client, group), 0);
  static_cast<void>(a.event());
  uint32_t handle = 0;
  ASSERT_EQ(a.join(client, group, handle), 0);
  ASSERT_EQ(a.leave(handle), 0);
  EXPECT_FALSE(Node::readable(*a.file));
  EXPECT_EQ(a.event().event, ~0U);
  uint32_t again = 0;
  ASSERT_EQ(a.join(client, group, again), 0) << "a second life";
  EXPECT_EQ(a.event().id, again);
}

TEST_F(CommandLimits, a_listener_of_its_own_family_only_is_not_there_for_the_other) {
  for (const int only : {0, 1}) {
    listener = b.create(0xB0);
    ASSERT_EQ(b.set_option(listener, RDMA_OPTION_ID_AFONLY, only), 0);
    ASSERT_EQ(b.bind(listener, {.family = 6, .port = 5000}), 0);
    ASSERT_EQ(b.listen(listener), 0);
    IpAddress address = b.own(4);
    address.port = 5000;
    client = a.create(0xA0);
    ASSERT_EQ(a.resolve(client, address), 0);
    network.run(400ms);
    ASSERT_EQ(a.route(client), 0);
    ASSERT_EQ(a.connect(client, 0x111), 0);
    network.run(10ms);
    EXPECT_EQ(rejected(), only);
    b.destroy(listener);
    a.destroy(client);
    network.run(10ms);
    static_cast<void>(rejected());
  }
}

/// What each of them costs is in bench/budget.toml (CmIdOf20000).
TEST_F(CommandLimits, twenty_thousand_identifiers_of_a_channel_end_with_it_and_can_be_made_again) {
  constexpr uint32_t kIds = 20'000;
  for (int life = 0; life < 2; ++life) {
    CmFile* const usual = std::exchange(a.file, a.endnode.open());
    ASSERT_NE(a.file, nullptr);
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < kIds; ++i) ids.push_back(a.create(0xA0 + i));
    ASSERT_EQ(a.endnode.ids().size(), kIds);
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "each has a number of its own";
    IpAddress address = a.own(4);
    address.port = 5000;
    ASSERT_EQ(a.bind(ids.front(), address), 0);
    ASSERT_EQ(a.listen(ids.front()), 0);
    for (const uint32_t id : ids) {
      CmId* const found = a.endnode.ids().find(*a.file, id);
      ASSERT_NE(found, nullptr);
      ASSERT_TRUE(a.endnode.tell(*found, CmEvent::kAddressChange)) << "an event of each waits";
    }
    a.endnode.close(network.clock.now(), *std::exchange(a.file, usual));
    EXPECT_EQ(a.endnode.ids().size(), 0U);
    EXPECT_EQ(a.event().event, ~0U);
  }
}

}  // namespace
}  // namespace weft::rdma_cm
