// tests/support/switch_row.h -- two switches in a row over real shared-memory links, in one thread and
// virtual time: node A (LID 1) - s1 - s2 - node B (LID 2). s1 joins s2.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
inline constexpr Guid kGuidA{0xA};
inline constexpr Guid kGuidB{0xB};
inline constexpr Guid kGuid1{0x51};
inline constexpr Guid kGuid2{0x52};

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
  std::unique_ptr<SwitchBox> box(const std::string& at, Guid guid, std::vector<fabric::NodeEntry> nodes) {
    fabric::SwitchConfig config = small_switch();
    config.link.guid = guid;
    return std::make_unique<SwitchBox>("shm:" + dir.path() + "/" + at, config, std::move(nodes));
  }
  void start_s1() {
    s1.reset();
    connector.reset();
    fabric::LinkEndpointConfig to_s2 = endpoint(kGuid1, kLidNone, "s2");
    to_s2.link.is_switch = true;
    connector = std::move(fabric::make_connector(to_s2, random).value());
    s1 = box("s1", kGuid1, {{"a", kGuidA, Lid(1)}, {"s2", kGuid2, kLidNone, {Lid(2)}, true}});
    s1->admission.engine(1).set_supervisor(connector.get());
  }
  void start_s2() {
    s2.reset();
    s2 = box("s2", kGuid2, {{"b", kGuidB, Lid(2)}, {"s1", kGuid1, kLidNone, {Lid(1)}}});
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      clock.advance(5ms);
      for (SwitchBox* box : {s1.get(), s2.get()})
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
  std::unique_ptr<SwitchBox> s1, s2;
  std::unique_ptr<Station> a, b;
};

}  // namespace weft::test
