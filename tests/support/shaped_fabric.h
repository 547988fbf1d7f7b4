// tests/support/shaped_fabric.h -- three nodes on one switch, whatever the flits are: cells of one flit, of
// several, and of several that pass before their cell is whole. Node 0 sends numbered cells, long and short
// ones in turn: in small flits a short cell is one flit.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/test_fabric.h"

namespace weft::test {

struct Shape {
  const char* name;
  uint32_t flit_payload_bytes;
  bool cut_through;
};

class ShapedFabric : public ::testing::TestWithParam<Shape> {
 public:
  static auto shapes() {
    return ::testing::Values(Shape{"whole", 0, false}, Shape{"flits96", 96, false},
                             Shape{"cut_through", 96, true});
  }
  static std::string name_of(const ::testing::TestParamInfo<Shape>& info) { return info.param.name; }

 protected:
  ShapedFabric() : fabric_(config()) {}

  static TestFabricConfig config() {
    TestFabricConfig out;
    out.switching = small_switch(GetParam().flit_payload_bytes);
    out.switching.link.cut_through = GetParam().cut_through;
    out.nodes = 3;
    return out;
  }
  /// Sends cells, one for each turn or later where there is no room.
  void send(uint32_t cells, uint32_t to = 1, uint32_t lane = 0) {
    for (uint32_t sent = 0; sent < cells;) {
      TestCell cell;
      cell.dlid = Lid(static_cast<uint16_t>(to + 1));
      cell.vl = VirtualLane(static_cast<uint8_t>(lane));
      cell.number = next_;
      cell.payload_bytes = next_ % 2 == 0 ? 200 : 40;
      if (fabric_.send(0, cell)) {
        ++sent;
        ++next_;
      }
      fabric_.step();
      fabric_.expect_conserved();
    }
  }

  TestFabric fabric_;
  uint32_t next_ = 0;
};

}  // namespace weft::test
