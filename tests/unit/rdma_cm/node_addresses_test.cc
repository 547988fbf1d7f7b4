// The addresses of an endnode: those that follow from its LID, and those that WEFT_IP sets.
#include "rdma_cm/node_addresses.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "base/clock.h"

namespace weft::rdma_cm {
namespace {

IpAddress parsed(const std::string& text) {
  return parse_ip(text).value();
}

TEST(NodeAddresses, follow_the_lid_where_none_is_set) {
  const ManualClock clock;
  NodeAddresses addresses(clock, Lid(0x123), "");
  EXPECT_TRUE(addresses.own(4).same_ip(parsed("10.87.1.35")));
  EXPECT_TRUE(addresses.own(6).same_ip(parsed("fd57:4546:5400::123")));
  addresses.set_lid(Lid(2));
  EXPECT_TRUE(addresses.own(4).same_ip(parsed("10.87.0.2")));
  EXPECT_TRUE(addresses.own(6).same_ip(parsed("fd57:4546:5400::2")));
}

/// A family without an address in the list follows the LID.
TEST(NodeAddresses, that_are_set_stay_with_every_lid) {
  const ManualClock clock;
  for (const auto& [list, v4, v6] : {std::tuple{"192.0.2.1", "192.0.2.1", "fd57:4546:5400::2"},
                                     std::tuple{"2001:db8::1", "10.87.0.2", "2001:db8::1"},
                                     std::tuple{"2001:db8::1,192.0.2.1", "192.0.2.1", "2001:db8::1"},
                                     std::tuple{"nothing,192.0.2.1,", "192.0.2.1", "fd57:4546:5400::2"}}) {
    NodeAddresses addresses(clock, Lid(1), list);
    addresses.set_lid(Lid(2));
    EXPECT_TRUE(addresses.own(4).same_ip(parsed(v4))) << list;
    EXPECT_TRUE(addresses.own(6).same_ip(parsed(v6))) << list;
  }
}

TEST(NodeAddresses, name_their_lid_if_they_are_fixed) {
  for (const Lid lid : {Lid(1), Lid(0x123), Lid(0xBFFF)}) {
    EXPECT_EQ(lid_of(ipv4_of(lid)), lid);
    EXPECT_EQ(lid_of(ipv6_of(lid)), lid);
  }
  EXPECT_EQ(lid_of(parsed("10.88.0.1")), kLidNone);
  EXPECT_EQ(lid_of(parsed("fd57:4546:5401::1")), kLidNone);
}

TEST(NodeAddresses, are_its_own_and_those_of_its_host) {
  const ManualClock clock;
  NodeAddresses addresses(clock, Lid(1), "192.0.2.1");
  EXPECT_TRUE(addresses.owns(parsed("192.0.2.1")));
  EXPECT_TRUE(addresses.owns(parsed("fd57:4546:5400::1")));
  EXPECT_TRUE(addresses.owns(parsed("127.0.0.1"))) << "of the loopback interface";
  EXPECT_FALSE(addresses.owns(ipv4_of(Lid(1)))) << "another is set";
  EXPECT_FALSE(addresses.owns(parsed("224.1.2.3"))) << "no interface has an address of a group";
}

}  // namespace
}  // namespace weft::rdma_cm
