// tests/support/linked_devices.h -- two devices of hca/ over shared memory or ZeroMQ to a switch in the same
// thread, in virtual time.
#pragma once

#include <array>
#include <string>
#include <thread>

#include "tests/support/switch_box.h"
#include "tests/support/two_devices.h"

namespace weft::test {

/// Two devices around a switch that never sleeps, in one thread and virtual time. A helper is asked for and
/// kicked as ever, but has no descriptor behind it.
class LinkedDevices {
 public:
  /// @param where   of the switch, as in SwitchBox
  /// @param direct  where both meet for memory windows; empty: nowhere
  explicit LinkedDevices(const std::string& where, uint32_t flit_payload_bytes = 0,
                         const std::string& direct = {})
      : zmq(where.rfind("shm:", 0) != 0),
        box(where, small_switch(flit_payload_bytes), nodes_with({Guid(0x1001), Guid(0x1002)})),
        a(1, clock, Consumer::kStrict, direct),
        b(2, clock, Consumer::kStrict, direct) {
    for (Consumer* at : {&a, &b}) {
      EXPECT_TRUE(at->device.add_link(box.endpoint(Guid(at == &a ? 0x1001 : 0x1002))).ok());
      at->open();
    }
  }
  bool join() {
    hca::PortState state[2];
    for (int i = 0; i < 20'000 && !(state[0].up && state[1].up); ++i) {
      turn(1ms);
      static_cast<void>(a.device.query_port(1, state[0]));
      static_cast<void>(b.device.query_port(1, state[1]));
      if (zmq) std::this_thread::sleep_for(1ms);  // ZeroMQ connects in its own time
    }
    if (!state[0].up || !state[1].up) return false;
    return make_connected(a, b, qps);
  }
  /// Over shared memory neither a device nor the acceptor, which opens links, is polled for itself.
  bool transfer(uint64_t count) {
    uint64_t posted = 0;
    uint64_t done = 0;
    for (uint64_t turns = 0; done < count && (zmq || turns < 100 * count); ++turns) {
      for (; posted < count && posted < done + 16; ++posted) {
        if (!post_one(a, b, qps, posted)) return false;
      }
      if (zmq) {
        turn(100us);
      } else {
        clock.advance(Duration(1));
        box.core.poll(clock.now());
      }
      const int arrived = poll_both(a, b);
      if (arrived < 0) return false;
      done += static_cast<uint64_t>(arrived);
    }
    return done == count;
  }
  void turn(Duration step) {
    clock.advance(step);
    box.poll(clock.now());
    static_cast<void>(a.device.help(true));
    static_cast<void>(b.device.help(true));
  }

  const bool zmq;
  ManualClock clock;
  SwitchBox box;
  Consumer a;
  Consumer b;
  std::array<hca::Qp*, 2> qps{};
};

}  // namespace weft::test
