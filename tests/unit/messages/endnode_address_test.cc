#include "messages/endnode_address.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(EndnodeAddress, lists_of_addresses_are_checked) {
  for (const char* good :
       {"", "10.0.0.7", "fd00::7", "192.0.2.1,fd00::7", "10.86.255.255", "10.88.0.0", "fd57:4546:5401::1"})
    EXPECT_EQ(address_list_fault(good), "") << good;
  for (const char* no_address : {"x", "1.2.3", ",", "10.0.0.7,,fd00::7", "10.0.0.7,hello", "10.0.0.7 "})
    EXPECT_NE(address_list_fault(no_address).find("must be addresses like"), std::string::npos) << no_address;
}

TEST(EndnodeAddress, addresses_of_lids_cannot_be_chosen) {
  for (const char* of_lid : {"10.87.0.0", "10.87.0.9", "10.87.255.255", "fd57:4546:5400::9",
                             "fd57:4546:5400:ffff::1", "10.0.0.7,10.87.0.9"})
    EXPECT_NE(address_list_fault(of_lid).find("cannot be chosen"), std::string::npos) << of_lid;
}

}  // namespace
}  // namespace weft
