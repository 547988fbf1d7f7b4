// tests/support/live_fabric.h -- a switch that runs in a thread of its own, for tests
// of what has threads itself.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/loop_runner.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

/// Over shared memory, or ZeroMQ and a Unix socket. Lets in GUID 0x1001 as LID 1 and GUID 0x1002 as LID 2.
class LiveFabric {
 public:
  explicit LiveFabric(LinkKind wanted = LinkKind::kShm, SubnetId subnet = {})
      : kind(wanted), box(endpoint(), switch_of(subnet), nodes_with({Guid(0x1001), Guid(0x1002)})) {
    start();
  }
  ~LiveFabric() { stop(); }
  LiveFabric(const LiveFabric&) = delete;
  LiveFabric& operator=(const LiveFabric&) = delete;

  void start() {
    runner = std::make_unique<LoopRunner>(clock,
                                          LoopConfig{.spin = {}, .sleep_max = std::chrono::milliseconds(20)});
    runner->add(*box.acceptor);
    runner->add(box.core);
    thread = std::thread([this] { runner->run(); });
  }
  /// The switch stands still until start().
  void stop() {
    if (!thread.joinable()) return;
    runner->stop();
    thread.join();
  }
  /// Another switch stands at the same place and gives the nodes LID 1 and the next ones.
  void exchange(const std::vector<Guid>& guids) {
    stop();
    std::destroy_at(&box);
    std::construct_at(&box, endpoint(), small_switch(), nodes_with(guids));
    start();
  }
  [[nodiscard]] fabric::LinkEndpointConfig endpoint_of(uint64_t guid) const {
    return box.endpoint(Guid(guid));
  }
  [[nodiscard]] std::string endpoint() const {
    return (kind == LinkKind::kShm ? "shm:" : "ipc://") + dir.path() + "/s";
  }

  LinkKind kind;
  MonotonicClock clock;
  TempDir dir;
  SwitchBox box;

 private:
  static fabric::SwitchConfig switch_of(SubnetId subnet) {
    fabric::SwitchConfig out = small_switch();
    out.subnet = subnet;
    return out;
  }

  std::unique_ptr<LoopRunner> runner;
  std::thread thread;
};

}  // namespace weft::test
