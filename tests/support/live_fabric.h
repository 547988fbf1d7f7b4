// tests/support/live_fabric.h -- a switch that runs in a thread of its own, for tests
// of what has threads itself.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/loop_runner.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "fabric/switch/zmq_acceptor.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

/// Over shared memory, or ZeroMQ and a Unix socket. Lets in GUID 0x1001 as LID 1 and GUID 0x1002 as LID 2.
class LiveFabric {
 public:
  explicit LiveFabric(LinkKind wanted = LinkKind::kShm)
      : kind(wanted),
        core(small_switch()),
        admission(core, {{"a", Guid(0x1001), Lid(1)}, {"b", Guid(0x1002), Lid(2)}}) {
    if (kind == LinkKind::kShm) {
      acceptor = std::move(fabric::ShmAcceptor::create(dir.path() + "/s", admission).value());
    } else {
      fabric::ZmqAcceptorConfig config;
      config.endpoints = {endpoint()};
      acceptor = std::move(fabric::ZmqAcceptor::create(config, admission).value());
    }
    start();
  }
  ~LiveFabric() { stop(); }
  LiveFabric(const LiveFabric&) = delete;
  LiveFabric& operator=(const LiveFabric&) = delete;

  void start() {
    runner = std::make_unique<LoopRunner>(clock,
                                          LoopConfig{.spin = {}, .sleep_max = std::chrono::milliseconds(20)});
    runner->add(*acceptor);
    runner->add(core);
    thread = std::thread([this] { runner->run(); });
  }
  /// The switch stands still until start().
  void stop() {
    if (!thread.joinable()) return;
    runner->stop();
    thread.join();
  }
  [[nodiscard]] fabric::LinkEndpointConfig endpoint_of(uint64_t guid) const {
    fabric::LinkEndpointConfig config;
    config.link = small_switch().link;
    config.link.guid = Guid(guid);
    config.endpoint = endpoint();
    return config;
  }
  [[nodiscard]] std::string endpoint() const {
    return (kind == LinkKind::kShm ? "shm:" : "ipc://") + dir.path() + "/s";
  }

  LinkKind kind;
  MonotonicClock clock;
  TempDir dir;
  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<Pollable> acceptor;

 private:
  std::unique_ptr<LoopRunner> runner;
  std::thread thread;
};

}  // namespace weft::test
