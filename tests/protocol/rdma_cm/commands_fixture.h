// tests/protocol/rdma_cm/commands_fixture.h -- two endnodes in virtual time with one program each, which
// issues
// librdmacm's commands.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "rdma_cm/commands.h"
#include "rdma_cm/host_ports.h"
#include "tests/support/mad_network.h"

namespace weft::rdma_cm {

inline constexpr uint64_t kHost = 77;

/// An endnode with one program.
struct Node : test::MadNode, NodeView {
  Node(test::MadNetwork& network, Lid lid)
      : MadNode(network, lid),
        clock(network.clock),
        random(lid.value()),
        endnode(random, *this, *this),
        commands(endnode) {
    file = endnode.open();
  }
  NodeIdentity identity() noexcept override {
    return {.guid = Guid(0x100U + lid().value()),
            .device_index = 3,
            .lid = lid(),
            .gid = {},
            .mtu = mtu,
            .host = host,
            .process = {.incarnation = incarnation + lid().value(), .pid = lid().value()}};
  }
  void fail_qp(uint32_t qpn) noexcept override { failed_qps.push_back(qpn); }
  void explain(const CmFailure& failure) noexcept override { explained.push_back(failure); }
  int hold_port(uint16_t port_space, const IpAddress& address, bool shared) noexcept override {
    return ports.take(port_space, address, shared);
  }
  void release_port(uint16_t port_space, const IpAddress& address) noexcept override {
    ports.give_back(port_space, address);
  }
  bool port_taken(uint16_t port_space, const IpAddress& address) noexcept override {
    return ports.taken(port_space, address);
  }
  Presence presence(const MadProcess& process) noexcept override { return knows_of[process.pid]; }
  bool owns(const IpAddress& address) noexcept override {
    return address.same_ip(own(address.family)) || address.same_ip(make_ipv4(0xC0A80001));  // 192.168.0.1
  }
  IpAddress own(uint8_t family) noexcept override {
    if (family == 4) return make_ipv4(0x0A000000U + lid().value());
    IpAddress out{.family = 6};
    out.ip[0] = std::byte{0xFD};
    out.ip[15] = std::byte{static_cast<uint8_t>(lid().value())};
    return out;
  }
  void receive(Instant now, Lid from, const MadBytes& mad) override { endnode.receive(now, from, mad); }
  void poll(Instant now) override { endnode.poll(now); }

  template <class Body>
  int command(uint32_t number, const Body& body, size_t room = 1024) {
    return command_at(*file, number, body, room);
  }
  template <class Body>
  int command_at(CmFile& at, uint32_t number, const Body& body, size_t room = 1024) {
    std::vector<std::byte> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof body);
    const rdma_ucm_cmd_hdr header{.cmd = number, .in = sizeof body, .out = static_cast<uint16_t>(room)};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(&bytes[sizeof header], &body, sizeof body);
    return execute(at, bytes);
  }
  virtual int execute(CmFile& at, std::span<const std::byte> bytes) {
    return commands.execute(clock.now(), at, bytes);
  }
  static uint64_t at(const void* where) { return reinterpret_cast<uintptr_t>(where); }

  /// @param qp_type  of RDMA_PS_IB; the other port spaces have one each
  uint32_t create(uint64_t uid, uint16_t port_space = RDMA_PS_TCP, uint8_t qp_type = 0) {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_create_id body{};
    body.uid = uid;
    body.response = at(&made);
    body.ps = port_space;
    body.qp_type = qp_type;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_CREATE_ID, body), 0);
    return made.id;
  }
  uint32_t destroy(uint32_t id) {
    rdma_ucm_destroy_id_resp gone{};
    rdma_ucm_destroy_id body{};
    body.response = at(&gone);
    body.id = id;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_DESTROY_ID, body), 0);
    return gone.events_reported;
  }
  int bind(uint32_t id, const IpAddress& address) {
    rdma_ucm_bind_ip body{};
    body.addr = to_sockaddr(address);
    body.id = id;
    return command(RDMA_USER_CM_CMD_BIND_IP, body);
  }
  int listen(uint32_t id, uint32_t backlog = 10) {
    return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
  }
  int resolve(uint32_t id, const IpAddress& to, const IpAddress& from = {}) {
    rdma_ucm_resolve_ip body{};
    body.src_addr = to_sockaddr(from);
    body.dst_addr = to_sockaddr(to);
    body.id = id;
    body.timeout_ms = 2000;
    return command(RDMA_USER_CM_CMD_RESOLVE_IP, body);
  }
  int route(uint32_t id) {
    return command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 2000});
  }
  rdma_ucm_query_route_resp query(uint32_t id) {
    rdma_ucm_query_route_resp out{};
    rdma_ucm_query body{};
    body.response = at(&out);
    body.id = id;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_QUERY_ROUTE, body), 0);
    return out;
  }
  static rdma_ucm_conn_param param(uint32_t qpn, const std::string& text = {}) {
    rdma_ucm_conn_param out{};
    out.qp_num = qpn;
    out.responder_resources = 4;
    out.initiator_depth = 2;
    out.retry_count = 7;
    out.rnr_retry_count = 6;
    out.valid = 1;
    out.private_data_len = static_cast<uint8_t>(text.size());
    std::memcpy(out.private_data, text.data(), text.size());
    return out;
  }
  int connect(uint32_t id, uint32_t qpn, const std::string& text = {}) {
    return connect(id, param(qpn, text));
  }
  int connect(uint32_t id, const rdma_ucm_conn_param& with) {
    rdma_ucm_connect body{};
    body.conn_param = with;
    body.id = id;
    return command(RDMA_USER_CM_CMD_CONNECT, body);
  }
  int accept(uint32_t id, uint64_t uid, const rdma_ucm_conn_param& with) {
    rdma_ucm_accept body{};
    body.uid = uid;
    body.conn_param = with;
    body.id = id;
    return command(RDMA_USER_CM_CMD_ACCEPT, body);
  }
  int reject(uint32_t id, const std::string& text) {
    rdma_ucm_reject body{};
    body.id = id;
    body.private_data_len = static_cast<uint8_t>(text.size());
    std::memcpy(body.private_data, text.data(), text.size());
    return command(RDMA_USER_CM_CMD_REJECT, body);
  }
  int disconnect(uint32_t id) { return command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id}); }
  /// @return the next event; its number is ~0 if there is none
  rdma_ucm_event_resp event() { return event_at(*file); }
  int migrate(uint32_t id, CmFile& to) {
    rdma_ucm_migrate_resp moved{};
    rdma_ucm_migrate_id body{};
    body.response = at(&moved);
    body.id = id;
    body.fd = static_cast<uint32_t>(file->descriptor->fd());
    return command_at(to, RDMA_USER_CM_CMD_MIGRATE_ID, body);
  }
  int join(uint32_t id, const IpAddress& group, uint32_t& handle) {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_join_ip_mcast body{};
    body.response = at(&made);
    body.uid = 0xCC;
    body.addr = to_sockaddr(group);
    body.id = id;
    const int error = command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, body);
    handle = made.id;
    return error;
  }
  int leave(uint32_t group) {
    rdma_ucm_destroy_id_resp gone{};
    rdma_ucm_destroy_id body{};
    body.response = at(&gone);
    body.id = group;
    return command(RDMA_USER_CM_CMD_LEAVE_MCAST, body);
  }
  int set_option(uint32_t id, int option, int value) {
    rdma_ucm_set_option body{};
    body.optval = at(&value);
    body.id = id;
    body.level = RDMA_OPTION_ID;
    body.optname = static_cast<uint32_t>(option);
    body.optlen = sizeof value;
    return command(RDMA_USER_CM_CMD_SET_OPTION, body);
  }
  rdma_ucm_event_resp event_at(CmFile& at_file) {
    rdma_ucm_event_resp out{};
    out.event = ~0U;
    if (readable(at_file)) {
      EXPECT_EQ(at_file.descriptor->take(), hca::Answer::kOk);
    }
    static_cast<void>(
        command_at(at_file, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = at(&out)}));
    return out;
  }
  static bool readable(const CmFile& which) {
    pollfd look{which.descriptor->fd(), POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }
  ib_uverbs_qp_attr qp_attr(uint32_t id, uint32_t state) {
    ib_uverbs_qp_attr out{};
    rdma_ucm_init_qp_attr body{};
    body.response = at(&out);
    body.id = id;
    body.qp_state = state;
    EXPECT_EQ(command(RDMA_USER_CM_CMD_INIT_QP_ATTR, body), 0);
    return out;
  }

  ManualClock& clock;
  SeededRandom random;
  uint64_t host = kHost;
  uint8_t mtu = IBV_MTU_4096;
  uint64_t incarnation = 0x1000;
  std::map<uint32_t, Presence> knows_of;
  std::vector<uint32_t> failed_qps;
  std::vector<CmFailure> explained;
  HostPorts ports;
  Endnode endnode;
  Commands commands;
  CmFile* file = nullptr;
};

inline uint32_t number(CmEvent event) {
  return static_cast<uint32_t>(event);
}
inline std::string text_of(const rdma_ucm_event_resp& event) {
  return reinterpret_cast<const char*>(event.param.conn.private_data);
}

class CommandsTest : public ::testing::Test {
 protected:
  /// A listener of b at b's address, and an identifier of a with the resolved route to it.
  void prepare(uint16_t port_space = RDMA_PS_TCP) {
    listener = b.create(0xB0, port_space);
    IpAddress address = b.own(4);
    address.port = 5000;
    ASSERT_EQ(b.bind(listener, address), 0);
    ASSERT_EQ(b.listen(listener), 0);
    client = a.create(0xA0, port_space);
    ASSERT_EQ(a.resolve(client, address), 0);
    network.run(100ms);
    ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved));
    ASSERT_EQ(a.route(client), 0);
    ASSERT_EQ(a.event().event, number(CmEvent::kRouteResolved));
  }
  /// librdmacm's commands up to the established connection.
  void establish() {
    prepare();
    ASSERT_EQ(a.connect(client, 0x111, "hello"), 0);
    network.run(10ms);
    const rdma_ucm_event_resp request = b.event();
    ASSERT_EQ(request.event, number(CmEvent::kConnectRequest));
    server = request.id;
    ASSERT_EQ(b.accept(server, 0xB1, Node::param(0x222, "welcome")), 0);
    network.run(10ms);
    ASSERT_EQ(a.event().event, number(CmEvent::kConnectResponse));
    ASSERT_EQ(a.accept(client, 0, {}), 0);
    network.run(10ms);
    ASSERT_EQ(b.event().event, number(CmEvent::kEstablished));
  }

  test::MadNetwork network;
  Node a{network, Lid(1)};
  Node b{network, Lid(2)};
  uint32_t listener = 0;
  uint32_t client = 0;
  uint32_t server = 0;
};

}  // namespace weft::rdma_cm
