// The address from which a request claims to come, with a stranger that may write any.
#include "messages/mad/cm.h"
#include "rdma_cm/host_mark.h"
#include "rdma_cm/ip_cm.h"
#include "rdma_cm/node_addresses.h"
#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

const IpAddress kFar = make_ipv4(0xC0A80002);   // 192.168.0.2: of a host that nothing is known about
const IpAddress kHere = make_ipv4(0xC0A80001);  // 192.168.0.1: of the host of `b`

IpAddress mapped(const IpAddress& v4) {
  IpAddress out = v4;
  out.family = 6;
  out.ip[10] = out.ip[11] = std::byte{0xFF};
  return out;
}

/// Speaks to `b` from LID 9.
class RequestSource : public CommandsTest {
 protected:
  static constexpr Lid kStranger{9};
  void SetUp() override {
    for (const uint16_t space : {uint16_t{RDMA_PS_TCP}, uint16_t{RDMA_PS_UDP}}) {
      const uint32_t id = b.create(0xB0, space);
      IpAddress any{.family = 6, .port = 5000};
      ASSERT_EQ(b.bind(id, any), 0);
      ASSERT_EQ(b.listen(id), 0);
    }
  }
  /// @return the transaction that an endnode of `host` with this LID uses
  static uint64_t transaction(uint64_t host, CmAttribute kind, Lid from, uint32_t id) {
    return host_mark(host, static_cast<uint16_t>(kind), from, id);
  }
  CmMad request_from(const IpAddress& source, bool datagrams) {
    IpAddress to = b.own(source.family);
    const IpCmHeader header{.family = source.family, .source = source.ip, .destination = to.ip};
    ++number_;
    if (datagrams) {
      CmSidrReq ask{.request_id = number_, .service_id = ip_service(RDMA_PS_UDP, 5000)};
      encode_ip_cm(header, std::span(ask.private_data).first<kIpCmBytes>());
      return {.transaction = 1, .body = ask};
    }
    CmReq ask{.local_id = number_, .service_id = ip_service(RDMA_PS_TCP, 5000), .qpn = 0x333};
    encode_ip_cm(header, std::span(ask.private_data).first<kIpCmBytes>());
    return {.transaction = 1, .body = ask};
  }
  /// @return whether the program of `b` hears of the request
  bool hears_of(const CmMad& request, Lid from = kStranger) {
    b.explained.clear();
    b.endnode.receive(network.clock.now(), from, encode_cm(request));
    const bool heard = b.event().event == number(CmEvent::kConnectRequest);
    EXPECT_EQ(b.explained.empty(), heard);
    if (!heard && !b.explained.empty()) {
      EXPECT_EQ(b.explained.back().turned_away, TurnedAway::kFalseSource);
    }
    return heard;
  }
  uint64_t refused() { return b.endnode.manager().counters().get(CmCounter::kFalseSource); }

  uint32_t number_ = 100;
};

TEST_F(RequestSource, a_fixed_address_is_that_of_its_lid) {
  for (const bool datagrams : {false, true}) {
    for (const IpAddress& one : {ipv4_of(Lid(5)), ipv6_of(Lid(5)), mapped(ipv4_of(Lid(5)))})
      EXPECT_FALSE(hears_of(request_from(one, datagrams))) << to_string(one);
    for (const IpAddress& one : {ipv4_of(kStranger), ipv6_of(kStranger)})
      EXPECT_TRUE(hears_of(request_from(one, datagrams))) << to_string(one);
  }
  EXPECT_EQ(refused(), 6U);
}

TEST_F(RequestSource, a_loopback_address_and_one_of_this_host_are_those_of_an_endnode_of_this_host) {
  for (const bool datagrams : {false, true}) {
    const CmAttribute kind = datagrams ? CmAttribute::kSidrReq : CmAttribute::kReq;
    for (const IpAddress& one :
         {loopback(4), make_ipv4(0x7F000102), loopback(6), mapped(loopback(4)), kHere}) {
      SCOPED_TRACE(to_string(one));
      EXPECT_FALSE(hears_of(request_from(one, datagrams)));
      CmMad request = request_from(one, datagrams);
      request.transaction = transaction(kHost + 1, kind, kStranger, number_);
      EXPECT_FALSE(hears_of(request)) << "of another host";
      request = request_from(one, datagrams);
      request.transaction = transaction(kHost, kind, Lid(5), number_);
      EXPECT_FALSE(hears_of(request)) << "heard in a request of another endnode";
      request = request_from(one, datagrams);
      request.transaction = transaction(kHost, kind, kStranger, number_ + 1);
      EXPECT_FALSE(hears_of(request)) << "of another request";
      request = request_from(one, datagrams);
      request.transaction = transaction(kHost, kind, kStranger, number_);
      EXPECT_TRUE(hears_of(request)) << "of this host";
      EXPECT_TRUE(hears_of(request_from(one, datagrams), b.lid())) << "of this process";
    }
  }
  EXPECT_TRUE(hears_of(request_from(kFar, false))) << "an address that may be anyone's";
}

/// What the stranger is refused, an endnode of the host has without further ado.
TEST_F(RequestSource, an_endnode_of_this_host_connects_by_loopback) {
  for (const uint16_t space : {uint16_t{RDMA_PS_TCP}, uint16_t{RDMA_PS_UDP}}) {
    for (IpAddress to : {loopback(4), loopback(6), kHere}) {
      SCOPED_TRACE(to_string(to));
      to.port = 5000;
      client = a.create(0xA0, space);
      ASSERT_EQ(a.resolve(client, to), 0);
      network.run(500ms);
      ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved));
      ASSERT_EQ(a.route(client), 0);
      ASSERT_EQ(a.event().event, number(CmEvent::kRouteResolved));
      ASSERT_EQ(a.connect(client, 0x111), 0);
      network.run(10ms);
      const rdma_ucm_event_resp request = b.event();
      ASSERT_EQ(request.event, number(CmEvent::kConnectRequest));
      EXPECT_TRUE(from_sockaddr(b.query(request.id).dst_addr).same_ip(to)) << "its source";
    }
  }
  EXPECT_EQ(refused(), 0U);
}

}  // namespace
}  // namespace weft::rdma_cm
