// tests/support/two_switches.h -- a host and a unit with two switches between them, over memory cables with
// flits of 96 bytes, each link traced (the worked example of SAN-FLIT-07).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "fabric/link/link_cell_port.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "tests/support/flit_trace.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

/// Host -- switch -- switch -- unit.
struct TwoSwitches {
  TwoSwitches() : first(small_switch(96)), second(small_switch(96)) {
    for (uint32_t link = 0; link < 3; ++link) {
      fabric::MemoryCableConfig config;
      for (fabric::LinkConfig& end : config.ends) end = small_switch(96).link;
      config.ends[0].guid = Guid(link + 1);
      if (link != 1) config.ends[0].lid = Lid(link == 0 ? 1 : 2);
      traces.push_back(std::make_unique<FlitTrace>(false));
      config.observer = traces.back().get();
      cables.push_back(std::make_unique<fabric::MemoryCable>(config, random));
      EXPECT_EQ(cables.back()->plug(clock.now()), LinkRefusal::kNone);
    }
    first.attach(1, cables[0]->end(1));
    first.attach(2, cables[1]->end(0));
    second.attach(1, cables[1]->end(1));
    second.attach(2, cables[2]->end(1));
    for (fabric::Switch* one : {&first, &second}) {
      one->forwarding().set(Lid(1), 1);
      one->forwarding().set(Lid(2), 2);
    }
    host = std::make_unique<fabric::LinkCellPort>(cables[0]->end(0));
    unit = std::make_unique<fabric::LinkCellPort>(cables[2]->end(0));
    turn();
  }
  /// Switches and, unless they are lent, the ports at both ends.
  void turn() {
    clock.advance(std::chrono::microseconds(2));
    for (fabric::LinkCellPort* port : {host.get(), unit.get()}) {
      if (lent) break;
      port->poll(clock.now());
      const size_t got = port->receive().size();
      (port == host.get() ? at_host : at_unit) += got;
      if (got != 0) port->release();
      port->flush(clock.now());
    }
    first.poll(clock.now());
    second.poll(clock.now());
  }
  static void send(fabric::LinkCellPort& from, const std::vector<std::byte>& cell) {
    std::byte* to = from.claim(VirtualLane(0), static_cast<uint32_t>(cell.size()));
    ASSERT_NE(to, nullptr);
    std::memcpy(to, cell.data(), cell.size());
    from.commit(VirtualLane(0), static_cast<uint32_t>(cell.size()), cell_crc(cell));
  }

  SeededRandom random{1};
  ManualClock clock;
  std::vector<std::unique_ptr<FlitTrace>> traces;
  std::vector<std::unique_ptr<fabric::MemoryCable>> cables;
  fabric::Switch first;
  fabric::Switch second;
  std::unique_ptr<fabric::LinkCellPort> host;
  std::unique_ptr<fabric::LinkCellPort> unit;
  bool lent = false;  // the ports are polled by whoever has them
  size_t at_host = 0;
  size_t at_unit = 0;
};

}  // namespace weft::test
