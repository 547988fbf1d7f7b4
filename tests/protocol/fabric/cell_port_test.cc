// A port assembles cells from flits written by hand. Bytes that are no cell are dropped and counted by
// reason,
// and the next good cell arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "fabric/link/link_cell_port.h"
#include "tests/support/reason_table.h"
#include "tests/support/script_carrier.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

class Port {
 public:
  Port() { restart(); }
  void restart() {
    auto owned = std::make_unique<ScriptCarrier>();
    carrier_ = owned.get();
    engine_.bring_up(std::move(owned), ScriptCarrier::params(false), now_);
    sequence_ = 0;
    port.poll(now_);
  }
  void arrive(int flags, std::span<const std::byte> bytes) {
    FlitFields fields;
    fields.flags = static_cast<uint8_t>(flags);
    fields.sequence = ++sequence_;
    fields.payload_bytes = static_cast<uint16_t>(bytes.size());
    std::vector<std::byte> flit(kFlitHeaderBytes + bytes.size());
    std::copy(bytes.begin(), bytes.end(), flit.begin() + kFlitHeaderBytes);
    compose_flit(flit.data(), fields, false, 0);
    carrier_->arrive(std::move(flit));
  }
  size_t receive() {
    const size_t cells = take();
    port.release();
    port.flush(now_);
    return cells;
  }
  /// @return the number of cells that receive() has; none of them is released
  size_t take() {
    now_ += 1us;
    port.poll(now_);
    return port.receive().size();
  }
  [[nodiscard]] const LaneCredit& lane() const { return engine_.lane(VirtualLane(0)); }

 private:
  LinkEngine engine_;
  ScriptCarrier* carrier_ = nullptr;
  Instant now_{};
  uint16_t sequence_ = 0;

 public:
  LinkCellPort port{engine_};
};

struct Broken {
  CellPortCounter reason;
  void (*send)(Port& to);
};

constexpr std::array kBroken{
    Broken{CellPortCounter::kPoisoned,
           [](Port& to) {
             to.arrive(kFlitHead, std::span<const std::byte>(make_cell({})).first(50));
             to.arrive(kFlitTail | kFlitPoison, {});
           }},
    Broken{CellPortCounter::kTooShort,
           [](Port& to) { to.arrive(kFlitHead | kFlitTail, std::array<std::byte, 20>{}); }},
    Broken{CellPortCounter::kTooLong,
           [](Port& to) {
             to.arrive(kFlitHead, std::array<std::byte, 300>{});
             to.arrive(kFlitTail, std::array<std::byte, 300>{});
           }},
    Broken{CellPortCounter::kBadCrc,
           [](Port& to) {
             std::vector<std::byte> cell = make_cell({});
             cell[40] ^= std::byte{1};
             to.arrive(kFlitHead | kFlitTail, cell);
           }},
    Broken{CellPortCounter::kUnfinishedAtReset,
           [](Port& to) {
             to.arrive(kFlitHead, std::span<const std::byte>(make_cell({})).first(50));
             EXPECT_EQ(to.receive(), 0U);
             to.restart();
           }},
};
static_assert(names_every_reason(kBroken, CellPortCounter::kPoisoned, CellPortCounter::kCount));

/// The first eight cells of a lane have credit. The ninth is cut into flits when more comes.
TEST(CellPortDrops, a_cell_that_had_not_left_whole_counts_for_its_lane) {
  Port at;
  for (const VirtualLane vl : {VirtualLane(0), VirtualLane(1)}) {
    const std::vector<std::byte> cell = make_cell({.vl = vl, .payload_bytes = 8});
    const auto bytes = static_cast<uint32_t>(cell.size());
    int sent = 0;
    for (; std::byte* const to = at.port.claim(vl, bytes); ++sent) {
      std::copy(cell.begin(), cell.end(), to);
      at.port.commit(vl, bytes, cell_crc(cell));
    }
    EXPECT_EQ(sent, 9);
  }
  at.restart();
  EXPECT_EQ(at.port.counters().get(CellPortCounter::kUnfinishedAtReset), 2U);
}

TEST(CellPortDrops, each_reason_has_its_own_counter) {
  for (const Broken& one : kBroken) {
    const std::string_view name = CounterSet<CellPortCounter>::label(one.reason);
    Port at;
    one.send(at);
    EXPECT_EQ(at.receive(), 0U) << name;
    for (auto i = static_cast<size_t>(CellPortCounter::kPoisoned);
         i < static_cast<size_t>(CellPortCounter::kCount); ++i) {
      const auto counter = static_cast<CellPortCounter>(i);
      EXPECT_EQ(at.port.counters().get(counter), counter == one.reason ? 1U : 0U)
          << CounterSet<CellPortCounter>::label(counter) << " while provoking " << name;
    }
    at.arrive(kFlitHead | kFlitTail, make_cell({}));
    EXPECT_EQ(at.receive(), 1U) << name;
  }
}

/// Without credit for each single flit, a cell with more flits than the lane has credits would never be
/// complete.
TEST(CellPortCredit, comes_back_for_each_flit_of_a_cell_that_is_not_whole_yet) {
  Port at;
  const std::vector<std::byte> cell = make_cell({.payload_bytes = 100});
  constexpr size_t kPiece = 4;
  ASSERT_GT(cell.size() / kPiece, at.lane().capacity());
  size_t cells = 0;
  for (size_t done = 0; done < cell.size(); done += kPiece) {
    const size_t bytes = std::min(kPiece, cell.size() - done);
    at.arrive((done == 0 ? kFlitHead : 0) | (done + bytes == cell.size() ? kFlitTail : 0),
              std::span(cell).subspan(done, bytes));
    cells += at.take();
  }
  EXPECT_EQ(cells, 1U);
}

TEST(CellPortCredit, of_an_earlier_link_is_not_given_to_a_new_one) {
  Port at;
  at.arrive(kFlitHead | kFlitTail, make_cell({}));
  EXPECT_EQ(at.take(), 1U);
  at.restart();
  at.port.release();
  EXPECT_EQ(at.lane().held(), 0U);
  EXPECT_EQ(at.lane().untold(), 0U);
  at.arrive(kFlitHead | kFlitTail, make_cell({}));
  EXPECT_EQ(at.take(), 1U);
  at.port.release();
  EXPECT_EQ(at.lane().untold(), 1U) << "of the one cell that came by the new link";
}

TEST(CellPortClaim, is_for_no_cell_that_is_longer_than_the_link_carries) {
  Port at;
  EXPECT_NE(at.port.claim(VirtualLane(0), cell_bytes_max(256)), nullptr);
  EXPECT_EQ(at.port.claim(VirtualLane(0), cell_bytes_max(256) + 1), nullptr);
}

}  // namespace
}  // namespace weft::test
