// A device with several NICs: each has a port, keys move between them, and a queue pair goes on by another
// one when its link is dead (docs/key_migration.md).
#include <gtest/gtest.h>

#include "node/key_component.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::AdapterCounter;
using node::KeyCounter;

constexpr uint32_t kWrites = 40;

class SeveralNics : public ::testing::Test {
 protected:
  SeveralNics() {
    for (size_t i = 0; i < 2; ++i) {
      at[i] = std::make_unique<Consumer>(i + 1, clock, Consumer::kStrict, std::string(), uint8_t{2});
      components[i].serve(at[i]->device.use_directory(components[i]));
      for (Pipe* pipe : {&first, &second}) at[i]->device.attach(pipe->end(static_cast<int>(i)));
      at[i]->open();
    }
  }
  ~SeveralNics() override {
    for (auto& side : at) side.reset();
  }

  /// One write of 8 bytes, to its end. @return its status
  adapter::WcStatus write(hca::Qp& qp, uint32_t offset) {
    const adapter::Sge from = at[0]->sge(0, 8);
    const adapter::SendRequest request{.opcode = adapter::SendOpcode::kRdmaWrite,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&from, 1),
                                       .remote_addr = at[1]->region->region().addr + offset,
                                       .rkey = at[1]->region->region().rkey};
    size_t posted = 0;
    if (qp.post_send(std::span(&request, 1), posted) != hca::Answer::kOk) return adapter::WcStatus::kGeneral;
    adapter::WorkCompletion done{.status = adapter::WcStatus::kGeneral};
    for (int turn = 0; turn < 10'000 && at[0]->cq->poll(std::span(&done, 1)) == 0; ++turn) {
      for (const auto& side : at) static_cast<void>(side->device.help(false));
      clock.advance(std::chrono::microseconds(10));
    }
    return done.status;
  }

  ManualClock clock;
  Pipe first{4096, Lid(1), Lid(2)};
  Pipe second{4096, Lid(3), Lid(4)};
  std::array<node::KeyComponent, 2> components;
  std::array<std::unique_ptr<Consumer>, 2> at;
};

TEST_F(SeveralNics, go_on_for_each_other_and_back) {
  const std::array<hca::Qp*, 2> qps{at[0]->make_qp(), at[1]->make_qp()};
  connect(*qps[0], Lid(1), *qps[1], Lid(2));
  std::array<Pipe*, 2> pipes{&first, &second};
  for (uint32_t i = 0; i < kWrites; ++i) {
    if (i % 10 == 5) {  // the link in use is cut, the other one is healed
      pipes[(i / 10) % 2]->set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
      pipes[1 - (i / 10) % 2]->set_filter({});
    }
    at[0]->memory[0] = std::byte(i + 1);
    ASSERT_EQ(write(*qps[0], 8 * i), adapter::WcStatus::kSuccess) << i;
    EXPECT_EQ(at[1]->memory[8 * i], std::byte(i + 1));
  }
  EXPECT_EQ(at[0]->device.count(AdapterCounter::kWaysTaken), kWrites / 10);
  EXPECT_EQ(components[1].counters().get(KeyCounter::kHandedOver), 1U);
  EXPECT_EQ(components[1].counters().get(KeyCounter::kQuestions), 1U) << "the first NIC has the key still";
}

TEST_F(SeveralNics, have_a_port_each) {
  for (uint8_t port = 1; port <= 2; ++port) {
    hca::PortState state;
    ASSERT_EQ(at[0]->device.query_port(port, state), hca::Answer::kOk);
    EXPECT_TRUE(state.up);
    EXPECT_EQ(state.info.lid, Lid(static_cast<uint16_t>(2 * port - 1)));
  }
}

}  // namespace
}  // namespace weft::test
