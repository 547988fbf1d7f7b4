// The links that a device keeps up: the news of each of them are news of the device.
#include "hca/device_ports.h"

#include <gtest/gtest.h>

#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

TEST(DevicePorts, a_link_that_comes_up_is_news_also_beside_one_that_stays_down) {
  const TempDir dir;
  ManualClock clock;
  SeededRandom random{3};
  SwitchBox box("shm:" + dir.path() + "/s1", small_switch(), nodes_with({Guid(0x11)}));
  fabric::WakeList wakes(2);
  hca::DevicePorts ports(wakes, random);
  ASSERT_TRUE(ports.add_link(box.endpoint(Guid(0x11))).ok());
  fabric::LinkEndpointConfig nowhere = box.endpoint(Guid(0x12));
  nowhere.endpoint = "shm:" + dir.path() + "/nobody";
  ASSERT_TRUE(ports.add_link(nowhere).ok());
  int news = 0;
  for (int turn = 0; turn < 100; ++turn) {
    ports.look(clock.now());
    news += ports.settle(clock.now()) ? 1 : 0;
    ports.clear();
    box.poll(clock.now());
    clock.advance(1ms);
  }
  EXPECT_EQ(news, 1);
}

}  // namespace
}  // namespace weft::test
