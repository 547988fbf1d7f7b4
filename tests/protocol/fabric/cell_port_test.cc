// Cells put together from flits written by hand: what cannot be one is dropped under its own name, and the
// next good one arrives.
#include <gtest/gtest.h>

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
    now_ += 1us;
    port.poll(now_);
    const size_t cells = port.receive().size();
    port.release();
    port.flush(now_);
    return cells;
  }

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

}  // namespace
}  // namespace weft::test
