// Values of a specification that are written as words: which texts are one, and the bounds of each number.
#include "node/spec_values.h"

#include <gtest/gtest.h>

#include "node/limits.h"

namespace weft::node {
namespace {

TEST(ZmqEndpoints, need_an_address_and_a_port_or_a_path) {
  const std::string longest(kSocketPathBytesMax, 'p');
  const std::vector<std::string> good{"tcp://h:1", "tcp://h:65535", "tcp://[fe80::1]:7000", "ipc://p",
                                      "ipc://" + longest};
  for (const std::string& endpoint : good) EXPECT_TRUE(valid_zmq_endpoint(endpoint)) << endpoint;
  const std::vector<std::string> bad{
      "tcp://:7000", "tcp://h",   "tcp://h:", "tcp://h:0", "tcp://h:65536", "tcp://h:x", "tcp://",
      "tcp:h:1",     "udp://h:1", "",         "ipc://",    "ipc:p",         "h:7000",    "ipc://p" + longest};
  for (const std::string& endpoint : bad) EXPECT_FALSE(valid_zmq_endpoint(endpoint)) << endpoint;
}

TEST(LaneWeights, have_a_lane_and_a_weight_within_their_bounds) {
  const std::string lane = std::to_string(fabric::kDataLanesMax - 1);
  const std::string most = std::to_string(kLaneWeightMax);
  for (const std::string& good : {std::string("0:1"), lane + ":" + most})
    EXPECT_TRUE(parse_lane_weight(good).ok()) << good;
  EXPECT_EQ(lane_weight_text(parse_lane_weight(lane + ":" + most).value()), lane + ":" + most);
  for (const std::string& bad :
       {std::to_string(fabric::kDataLanesMax) + ":1", std::string("0:0"),
        "0:" + std::to_string(kLaneWeightMax + 1), std::string("3"), std::string("3:"), std::string(":3")})
    EXPECT_FALSE(parse_lane_weight(bad).ok()) << bad;
}

}  // namespace
}  // namespace weft::node
