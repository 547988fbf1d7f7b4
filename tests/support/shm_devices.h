// tests/support/shm_devices.h -- two devices of hca/ over shared memory to a switch in the same thread, in
// virtual time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "tests/support/test_fabric.h"
#include "tests/support/two_devices.h"

namespace weft::test {

/// Two devices around a switch that never sleeps, in one thread and virtual time. A helper is asked for and
/// kicked as ever, but has no descriptor behind it.
class ShmDevices {
 public:
  explicit ShmDevices(const std::string& path, uint32_t flit_payload_bytes = 0)
      : core(small_switch(flit_payload_bytes)),
        admission(core, {{"a", Guid(0x1001), Lid(1)}, {"b", Guid(0x1002), Lid(2)}}) {
    acceptor = std::move(fabric::ShmAcceptor::create(path, admission).value());
    for (Consumer* at : {&a, &b}) {
      fabric::LinkEndpointConfig config;
      config.link = small_switch(flit_payload_bytes).link;
      config.link.guid = Guid(at == &a ? 0x1001 : 0x1002);
      config.endpoint = "shm:" + path;
      EXPECT_TRUE(at->device.add_link(config).ok());
      at->open();
    }
  }
  bool join() {
    hca::PortState state[2];
    for (int i = 0; i < 2000 && !(state[0].up && state[1].up); ++i) {
      clock.advance(1ms);
      acceptor->poll(clock.now());
      core.poll(clock.now());
      static_cast<void>(a.device.help(true));
      static_cast<void>(b.device.help(true));
      static_cast<void>(a.device.query_port(1, state[0]));
      static_cast<void>(b.device.query_port(1, state[1]));
    }
    if (!state[0].up || !state[1].up) return false;
    return make_connected(a, b, qps);
  }
  bool transfer(uint64_t count) {
    uint64_t posted = 0;
    uint64_t done = 0;
    for (uint64_t turns = 0; done < count && turns < 100 * count; ++turns) {
      for (; posted < count && posted < done + 32; ++posted) {
        if (!post_one(a, b, qps, posted)) return false;
      }
      clock.advance(Duration(1));
      core.poll(clock.now());
      const int arrived = poll_both(a, b);
      if (arrived < 0) return false;
      done += static_cast<uint64_t>(arrived);
    }
    return done == count;
  }

  ManualClock clock;
  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<fabric::ShmAcceptor> acceptor;
  Consumer a{1, clock};
  Consumer b{2, clock};
  std::array<hca::Qp*, 2> qps{};
};

}  // namespace weft::test
