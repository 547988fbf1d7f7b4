// The links that a device keeps up: the news of each of them are news of the device.
#include "hca/device_ports.h"

#include <gtest/gtest.h>

#include "fabric/link/limits.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

class DevicePorts : public ::testing::Test {
 protected:
  void add_link_to_switch() { ASSERT_TRUE(ports.add_link(box.endpoint(Guid(0x11))).ok()); }
  void add_link_to_nowhere() {
    fabric::LinkEndpointConfig nowhere = box.endpoint(Guid(0x12));
    nowhere.endpoint = "shm:" + dir.path() + "/nobody";
    ASSERT_TRUE(ports.add_link(nowhere).ok());
  }
  /// @return the number of turns that had news
  int run() {
    int news = 0;
    for (int turn = 0; turn < 100; ++turn) {
      ports.look(clock.now());
      news += ports.settle(clock.now()) ? 1 : 0;
      ports.clear();
      box.poll(clock.now());
      clock.advance(1ms);
    }
    return news;
  }

  const TempDir dir;
  ManualClock clock;
  SeededRandom random{3};
  SwitchBox box{"shm:" + dir.path() + "/s1", small_switch(), nodes_with({Guid(0x11)})};
  fabric::WakeList wakes{2};
  hca::DevicePorts ports{wakes, random};
};

TEST_F(DevicePorts, a_link_that_comes_up_is_news_also_beside_one_that_stays_down) {
  add_link_to_switch();
  add_link_to_nowhere();
  EXPECT_EQ(run(), 1);
}

/// A link that is up has no deadline of its own.
TEST_F(DevicePorts, a_link_that_is_down_is_tried_again_also_beside_one_that_is_up) {
  add_link_to_nowhere();
  add_link_to_switch();
  EXPECT_EQ(run(), 1);
  EXPECT_LE(ports.deadline(), clock.now() + fabric::kLinkRetryInterval);
  EXPECT_FALSE(ports.missing().why.empty());
}

TEST_F(DevicePorts, links_that_are_up_need_no_look_at_a_time) {
  add_link_to_switch();
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(ports.deadline(), kNever);
  EXPECT_TRUE(ports.missing().why.empty());
}

}  // namespace
}  // namespace weft::test
