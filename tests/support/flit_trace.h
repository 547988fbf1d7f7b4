// tests/support/flit_trace.h -- every flit a memory link carried, decoded, in order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fabric/link/memory_link.h"
#include "messages/flit.h"

namespace weft::test {

struct TracedFlit {
  uint32_t from_end;
  FlitFields fields;
  std::vector<std::byte> payload;
};

class FlitTrace final : public fabric::FlitObserver {
 public:
  explicit FlitTrace(bool whole_cell) : whole_cell_(whole_cell) {}

  void on_flit(uint32_t from_end, std::span<const std::byte> flit) noexcept override {
    FlitView view;
    const FlitError error = decode_flit(flit, {UINT16_MAX, 15, whole_cell_}, view);
    if (is_damage(error) && torn_expected) return;
    EXPECT_EQ(error, FlitError::kNone) << to_string(error);
    flits.push_back({from_end, view.fields, {view.payload.begin(), view.payload.end()}});
  }
  [[nodiscard]] size_t count(uint32_t from_end, FlitKind kind) const {
    return static_cast<size_t>(std::count_if(flits.begin(), flits.end(), [&](const TracedFlit& flit) {
      return flit.from_end == from_end && flit.fields.kind == kind;
    }));
  }
  [[nodiscard]] size_t count(uint32_t from_end) const {
    return static_cast<size_t>(std::count_if(
        flits.begin(), flits.end(), [&](const TracedFlit& flit) { return flit.from_end == from_end; }));
  }
  /// Data flits of one direction.
  [[nodiscard]] std::vector<TracedFlit> data(uint32_t from_end) const {
    std::vector<TracedFlit> out;
    for (const TracedFlit& flit : flits) {
      if (flit.from_end == from_end && flit.fields.kind == FlitKind::kData) out.push_back(flit);
    }
    return out;
  }
  void clear() { flits.clear(); }

  std::vector<TracedFlit> flits;
  bool torn_expected = false;  // a hostile sender changes its cells while the switch copies them

 private:
  bool whole_cell_;
};

}  // namespace weft::test
