// tests/support/switch_row.h -- two switches in a row over real shared-memory links, in one thread and
// virtual time: node A (LID 1) - s1 - s2 - node B (LID 2). s1 joins s2.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/switch/shm_acceptor.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
inline constexpr Guid kGuidA{0xA};
inline constexpr Guid kGuidB{0xB};
inline constexpr Guid kGuid1{0x51};
inline constexpr Guid kGuid2{0x52};

/// A switch as weft-switch builds it, without its process.
struct Box {
  Box(Guid guid, std::vector<fabric::NodeEntry> nodes, const std::string& socket)
      : core(config(guid)), admission(core, std::move(nodes)) {
    acceptor = std::move(fabric::ShmAcceptor::create(socket, admission).value());
  }
  static fabric::SwitchConfig config(Guid guid) {
    fabric::SwitchConfig out = small_switch();
    out.link.guid = guid;
    return out;
  }
  void poll(Instant now) {
    acceptor->poll(now);
    core.poll(now);
  }
  [[nodiscard]] uint64_t drops(fabric::PortNumber port, fabric::SwitchPortCounter counter) const {
    return core.port(port).counters.get(counter);
  }

  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<fabric::ShmAcceptor> acceptor;
};

/// An endnode's end of a link.
struct Station {
  Station(const fabric::LinkEndpointConfig& config, RandomSource& random)
      : link(std::move(fabric::connect_link(config, random).value())), port(link->link()) {}
  void poll(Instant now) {
    port.poll(now);
    const std::span<const fabric::RxCell> cells = port.receive();
    for (const fabric::RxCell& cell : cells) {
      received.push_back(cell_number(cell.bytes));
      bytes.emplace_back(cell.bytes.begin(), cell.bytes.end());
    }
    if (!cells.empty()) port.release();
    port.flush(now);
  }
  bool send(const TestCell& what) { return send_cell(port, make_cell(what)); }

  std::unique_ptr<fabric::LinkConnection> link;
  fabric::LinkCellPort port;
  bool frozen = false;
  std::vector<uint32_t> received;             // numbers of the cells
  std::vector<std::vector<std::byte>> bytes;  // and the cells
};

class SwitchRow : public ::testing::Test {
 protected:
  SwitchRow() {
    start_s2();
    start_s1();
    a = std::make_unique<Station>(endpoint(kGuidA, Lid(1), "s1"), random);
    b = std::make_unique<Station>(endpoint(kGuidB, Lid(2), "s2"), random);
    run(50);
  }
  fabric::LinkEndpointConfig endpoint(Guid guid, Lid lid, const std::string& at) const {
    fabric::LinkEndpointConfig out;
    out.link = small_switch().link;
    out.link.guid = guid;
    out.link.lid = lid;
    out.endpoint = "shm:" + dir.path() + "/" + at;
    return out;
  }
  void start_s1() {
    s1.reset();
    connector.reset();
    fabric::LinkEndpointConfig to_s2 = endpoint(kGuid1, kLidNone, "s2");
    to_s2.link.is_switch = true;
    connector = std::move(fabric::make_connector(to_s2, random).value());
    s1 = std::make_unique<Box>(
        kGuid1,
        std::vector<fabric::NodeEntry>{{"a", kGuidA, Lid(1)}, {"s2", kGuid2, kLidNone, {Lid(2)}, true}},
        dir.path() + "/s1");
    s1->admission.engine(1).set_supervisor(connector.get());
  }
  void start_s2() {
    s2.reset();
    s2 = std::make_unique<Box>(
        kGuid2, std::vector<fabric::NodeEntry>{{"b", kGuidB, Lid(2)}, {"s1", kGuid1, kLidNone, {Lid(1)}}},
        dir.path() + "/s2");
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      clock.advance(5ms);
      for (Box* box : {s1.get(), s2.get()})
        if (box != nullptr) box->poll(clock.now());
      for (Station* station : {a.get(), b.get()})
        if (!station->frozen) station->poll(clock.now());
    }
  }
  /// `count` cells each way, numbered from `first`; all arrive in order.
  void expect_both_ways(uint32_t first, uint32_t count) {
    a->received.clear();
    b->received.clear();
    std::vector<uint32_t> numbers;
    for (uint32_t i = first; i < first + count; ++i) {
      numbers.push_back(i);
      while (!a->send({.dlid = Lid(2), .slid = Lid(1), .number = i})) run(1);
      while (!b->send({.dlid = Lid(1), .slid = Lid(2), .number = i})) run(1);
    }
    run(20);
    EXPECT_EQ(a->received, numbers);
    EXPECT_EQ(b->received, numbers);
  }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
  std::unique_ptr<fabric::LinkSupervisor> connector;
  std::unique_ptr<Box> s1, s2;
  std::unique_ptr<Station> a, b;
};

}  // namespace weft::test
