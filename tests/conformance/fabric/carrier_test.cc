// The same traffic over every kind of link: the layers above do not depend on the carrier (SAN-LAYER-01).
#include <gtest/gtest.h>

#include <map>

#include "tests/support/requirement.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

struct Shape {
  LinkKind kind;
  uint32_t flit_payload_bytes;
  uint32_t credits;
};

class Carriers : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override { skip_what_a_sanitizer_misreads(GetParam().kind); }
};

std::string shape_name(const ::testing::TestParamInfo<Shape>& param_info) {
  const Shape& shape = param_info.param;
  return to_string(shape.kind) + (shape.flit_payload_bytes != 0 ? "_96" : "") +
         (shape.credits == 1 ? "_one_credit" : "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, Carriers,
                         ::testing::Values(Shape{LinkKind::kMem, 0, 32}, Shape{LinkKind::kMem, 0, 1},
                                           Shape{LinkKind::kMem, 96, 1}, Shape{LinkKind::kShm, 0, 32},
                                           Shape{LinkKind::kShm, 0, 1}, Shape{LinkKind::kShm, 96, 1},
                                           Shape{LinkKind::kZmq, 0, 32}, Shape{LinkKind::kZmq, 0, 1},
                                           Shape{LinkKind::kZmq, 96, 1}, Shape{LinkKind::kTcp, 0, 32}),
                         shape_name);

TEST_P(Carriers, SAN_LAYER_01_carrier_is_exchangeable_without_change_above) {
  covers("SAN-LAYER-01 SAN-FLIT-06");
  TestFabricConfig config;
  config.links = GetParam().kind;
  config.switching = small_switch(GetParam().flit_payload_bytes, GetParam().credits);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  EXPECT_EQ(fabric.link(0, kNode).carrier_kind(),
            config.links == LinkKind::kTcp ? "zmq" : to_string(config.links));
  using Flow = std::array<uint32_t, 2>;  // receiver, lane
  std::map<Flow, uint32_t> sent;
  uint32_t total = 0;
  for (int turn = 0; turn < 20'000 && total < 1000; ++turn) {
    for (uint32_t from = 0; from < 2; ++from) {
      const Flow flow{1 - from, static_cast<uint32_t>(fabric.random.below(4))};
      const TestCell cell{.dlid = Lid(static_cast<uint16_t>(2 - from)),
                          .vl = VirtualLane(static_cast<uint8_t>(flow[1])),
                          .number = sent[flow],
                          .payload_bytes = static_cast<uint32_t>(fabric.random.below(257))};
      if (!fabric.send(from, cell)) continue;
      ++sent[flow];
      ++total;
    }
    fabric.step();
  }
  fabric.run(2000);
  std::map<Flow, uint32_t> received;
  for (uint32_t at = 0; at < 2; ++at) {
    for (const std::vector<std::byte>& bytes : fabric.received[at]) {
      CellView view;
      ASSERT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
      EXPECT_EQ(view.psn.value(), (received[{at, view.vl.value()}]++));
    }
  }
  EXPECT_GE(total, 1000U);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(fabric.drops(), 0U);
  EXPECT_EQ(fabric.link(0, kNode).incarnation(), 1U);
}

}  // namespace
}  // namespace weft::test
