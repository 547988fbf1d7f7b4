// tests/support/live_consumer.h -- a consumer whose device has a link to a live switch and a helper thread.
#pragma once

#include "hca/helper_thread.h"
#include "tests/support/live_fabric.h"
#include "tests/support/two_devices.h"

namespace weft::test {

struct LiveConsumer : Consumer {
  /// @param direct see Consumer
  LiveConsumer(uint64_t number, LiveFabric& fabric, const std::string& direct = {})
      : Consumer(number, fabric.clock, kStrict, direct) {
    EXPECT_TRUE(device.add_link(fabric.endpoint_of(0x1000 + number)).ok());
    thread = std::make_unique<hca::HelperThread>(device, fabric.clock);
    EXPECT_TRUE(device.wait_for_ports(30s));
    open();
  }
  ~LiveConsumer() { thread.reset(); }
  LiveConsumer(const LiveConsumer&) = delete;
  LiveConsumer& operator=(const LiveConsumer&) = delete;
  std::unique_ptr<hca::HelperThread> thread;
};

}  // namespace weft::test
