// Every invariant of the simulator finds the bug that is planted for it, by its own words and within 300
// seeds. Without this an invariant could rot and every seed would still pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "sim/world.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kSeedsMax = 300;
constexpr size_t kCreditAt = offsetof(FlitHeader, credit);

/// Every `period`-th of what it counts.
class Every {
 public:
  explicit Every(uint32_t period) noexcept : period_(period) {}
  bool due() noexcept { return ++count_ % period_ == 0; }

 private:
  uint32_t period_;
  uint32_t count_ = 0;
};

template <class Bug>
std::unique_ptr<Saboteur> plant() {
  return std::make_unique<Bug>();
}

struct Hunt {
  Profile profile = Profile::kMixed;
  Traffic traffic = Traffic::kAny;
  std::string_view found_as;  // part of the violation
};

/// Runs seeds with the bug until one fails as it should. Returns how many it took, 0 when none did.
template <class Bug>
uint64_t seeds_to_find(const Hunt& hunt) {
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    Bug bug;
    World world(make_world_plan(seed, hunt.profile, hunt.traffic), {}, &bug);
    const WorldResult result = world.run();
    if (result.ok || result.violations.front().find(hunt.found_as) == std::string::npos) continue;
    std::cout << "seed " << seed << ": " << result.violations.front() << '\n';
    return seed;
  }
  return 0;
}

#define EXPECT_FOUND(BUG, ...) EXPECT_NE(seeds_to_find<BUG>({__VA_ARGS__}), 0U) << "300 seeds did not notice"

// ---- credits --------------------

/// The CRC of a flit whose payload stands for itself, or of one that carries a whole cell.
uint32_t flit_crc(std::span<const std::byte> flit, bool whole_cell) {
  const uint32_t header = crc32c(flit.first(kFlitHeaderBytes - kCrcBytes));
  const auto rest = whole_cell ? flit.last(kCrcBytes) : flit.subspan(kFlitHeaderBytes);
  return crc32c_extend(header, rest.data(), rest.size());
}

/// Changes 16 bits of a flit's header behind a right CRC.
void rewrite(std::span<std::byte> flit, size_t at, uint16_t value) {
  const auto crc = load_be<uint32_t>(flit.data() + 12);
  const bool whole_cell = flit.size() > kFlitHeaderBytes && flit_crc(flit, true) == crc;
  store_be<uint16_t>(flit.data() + at, value);
  store_be<uint32_t>(flit.data() + 12, flit_crc(flit, whole_cell));
}
uint16_t credit_of(std::span<const std::byte> flit) {
  return load_be<uint16_t>(flit.data() + kCreditAt);
}

/// A link end gives back one flit buffer more than was freed.
class CreditTwice final : public Saboteur {
 public:
  void on_flit(uint32_t /*link*/, uint32_t /*from_end*/, std::span<std::byte> flit) noexcept override {
    if (flit.size() != kFlitHeaderBytes || !every_.due()) return;
    rewrite(flit, kCreditAt, static_cast<uint16_t>(credit_of(flit) + 1));
  }

 private:
  Every every_{5};
};

/// A link end keeps one flit buffer for good.
class CreditKept final : public Saboteur {
 public:
  void on_flit(uint32_t link, uint32_t from_end, std::span<std::byte> flit) noexcept override {
    const bool mine = link == 0 && from_end == 1 && flit[offsetof(FlitHeader, credit_vl)] == std::byte{0};
    if (mine && credit_of(flit) != 0) rewrite(flit, kCreditAt, static_cast<uint16_t>(credit_of(flit) - 1));
  }
};

TEST(PlantedBugs, credit_given_back_twice) {
  EXPECT_FOUND(CreditTwice, .profile = Profile::kClean, .traffic = Traffic::kCells, .found_as = " granted ");
}

TEST(PlantedBugs, credit_never_given_back) {
  EXPECT_FOUND(CreditKept, .profile = Profile::kClean, .traffic = Traffic::kCells,
               .found_as = "credits are missing at rest");
}

// ---- the switch --------------------

class CellForgotten final : public Saboteur {
 public:
  void on_switch_cells(SwitchCells& cells) noexcept override {
    if (cells.held != 0 && every_.due()) ++lost_;
    cells.held -= std::min(lost_, cells.held);
  }

 private:
  Every every_{50};
  uint64_t lost_ = 0;
};

TEST(PlantedBugs, switch_loses_a_cell_that_it_holds) {
  EXPECT_FOUND(CellForgotten, .profile = Profile::kClean, .found_as = "cells in, ");
}

// ---- frames --------------------

template <FrameFate kFate, uint32_t kPeriod>
class FrameSpoiled final : public Saboteur {
 public:
  FrameFate on_frame(uint32_t /*flow*/, Instant /*now*/) noexcept override {
    return every_.due() ? kFate : FrameFate::kArrives;
  }

 private:
  Every every_{kPeriod};
};
using FrameLost = FrameSpoiled<FrameFate::kLost, 20>;
using FrameTwice = FrameSpoiled<FrameFate::kTwice, 20>;
using FrameLate = FrameSpoiled<FrameFate::kAfterNext, 20>;
using FrameShort = FrameSpoiled<FrameFate::kShortened, 20>;
using FrameDamaged = FrameSpoiled<FrameFate::kDamaged, 20>;

class PlantedFrameBugs : public ::testing::TestWithParam<Traffic> {};
INSTANTIATE_TEST_SUITE_P(Traffic, PlantedFrameBugs,
                         ::testing::Values(Traffic::kCells, Traffic::kRaw, Traffic::kNetdev),
                         [](const auto& traffic) { return std::string(to_string(traffic.param)); });

TEST_P(PlantedFrameBugs, a_frame_is_lost) {
  EXPECT_FOUND(FrameLost, .profile = Profile::kClean, .traffic = GetParam(),
               .found_as = "lost without a reason");
}
TEST_P(PlantedFrameBugs, a_frame_comes_twice) {
  EXPECT_FOUND(FrameTwice, .profile = Profile::kClean, .traffic = GetParam(), .found_as = "arrived twice");
}
TEST_P(PlantedFrameBugs, two_frames_change_places) {
  EXPECT_FOUND(FrameLate, .profile = Profile::kClean, .traffic = GetParam(),
               .found_as = " arrived after number ");
}
TEST_P(PlantedFrameBugs, a_frame_is_too_short) {
  EXPECT_FOUND(FrameShort, .profile = Profile::kClean, .traffic = GetParam(),
               .found_as = " bytes instead of ");
}
TEST_P(PlantedFrameBugs, a_frame_is_damaged) {
  EXPECT_FOUND(FrameDamaged, .profile = Profile::kClean, .traffic = GetParam(), .found_as = "is damaged");
}

// ---- completions --------------------

enum class Spoil : uint8_t { kTwice, kSwapped, kLost, kFlushLost };

template <bool kSends, Spoil kSpoil>
class CompletionSpoiled final : public Saboteur {
 public:
  uint32_t on_completions(bool of_sends, std::span<adapter::WorkCompletion> wcs,
                          uint32_t count) noexcept override {
    if (of_sends != kSends || count == 0) return count;
    if constexpr (kSpoil == Spoil::kFlushLost) {
      const auto end = wcs.begin() + count;
      return static_cast<uint32_t>(std::remove_if(wcs.begin(), end, is_flushed) - wcs.begin());
    }
    if (!every_.due()) return count;
    if (kSpoil == Spoil::kLost) return count - 1;
    if (kSpoil == Spoil::kSwapped && count > 1) std::swap(wcs[0], wcs[1]);
    if (kSpoil != Spoil::kTwice || count == wcs.size()) return count;
    wcs[count] = wcs[count - 1];
    return count + 1;
  }

 private:
  static bool is_flushed(const adapter::WorkCompletion& wc) noexcept {
    return wc.status == adapter::WcStatus::kFlushed;
  }
  Every every_{20};
};
using SendTwice = CompletionSpoiled<true, Spoil::kTwice>;
using SendSwapped = CompletionSpoiled<true, Spoil::kSwapped>;
using SendLost = CompletionSpoiled<true, Spoil::kLost>;
using SendNotFlushed = CompletionSpoiled<true, Spoil::kFlushLost>;
using ReceiveTwice = CompletionSpoiled<false, Spoil::kTwice>;
using ReceiveSwapped = CompletionSpoiled<false, Spoil::kSwapped>;
using ReceiveNotFlushed = CompletionSpoiled<false, Spoil::kFlushLost>;

TEST(PlantedBugs, send_completions) {
  constexpr std::string_view kFound = "send completion ";
  EXPECT_FOUND(SendTwice, .traffic = Traffic::kRaw, .found_as = kFound);
  EXPECT_FOUND(SendSwapped, .traffic = Traffic::kRaw, .found_as = kFound);
  EXPECT_FOUND(SendLost, .traffic = Traffic::kRaw, .found_as = kFound);
}
TEST(PlantedBugs, receive_completions) {
  constexpr std::string_view kFound = "receive completion ";
  EXPECT_FOUND(ReceiveTwice, .traffic = Traffic::kRaw, .found_as = kFound);
  EXPECT_FOUND(ReceiveSwapped, .traffic = Traffic::kRaw, .found_as = kFound);
}
TEST(PlantedBugs, work_requests_that_are_not_flushed) {
  constexpr std::string_view kFound = "never completed";
  EXPECT_FOUND(SendNotFlushed, .profile = Profile::kCrashes, .traffic = Traffic::kRaw, .found_as = kFound);
  EXPECT_FOUND(ReceiveNotFlushed, .profile = Profile::kCrashes, .traffic = Traffic::kRaw, .found_as = kFound);
}

// ---- data of RDMA reads --------------------

class ReadSpoiled final : public Saboteur {
 public:
  bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> cell) noexcept override {
    const auto opcode = static_cast<Opcode>(cell[13]);
    if (opcode != Opcode::kRdmaReadResponse || cell.size() <= kCellHeaderBytes + 2 * kCrcBytes) return true;
    cell[kCellHeaderBytes] ^= std::byte{1};
    store_be<uint32_t>(cell.data() + cell.size() - kCrcBytes, crc32c(cell.first(cell.size() - kCrcBytes)));
    return true;
  }
};

TEST(PlantedBugs, rdma_read_brings_other_data) {
  EXPECT_FOUND(ReadSpoiled, .traffic = Traffic::kRaw, .found_as = "RDMA read: wrong data");
}

// ---- sessions --------------------

/// A released element stands in no list.
class ElementLost final : public Saboteur {
 public:
  void on_session_sums(session::SessionRole /*role*/, Instant now,
                       session::SessionConservation& sums) noexcept override {
    if (now > Instant(5ms) && sums.own_freed != 0) --sums.own_freed;
  }
};
/// A renewal named an element that the peer knows already.
class ElementAnnouncedTwice final : public Saboteur {
 public:
  void on_session_sums(session::SessionRole role, Instant now,
                       session::SessionConservation& sums) noexcept override {
    if (role != session::SessionRole::kHost || now < Instant(5ms) || sums.peer_consumed == 0) return;
    sums.peer_free += sums.peer_consumed;
    sums.peer_consumed = 0;
  }
};
/// A renewal left an element out.
class ElementNotRenewed final : public Saboteur {
 public:
  void on_session_sums(session::SessionRole role, Instant now,
                       session::SessionConservation& sums) noexcept override {
    if (role != session::SessionRole::kHost || now < Instant(5ms) || sums.peer_free == 0) return;
    --sums.peer_free;
    ++sums.peer_consumed;
  }
};
/// Its fabric forgets node 2 for as long as a session waits for a sign of life.
class SilentNode final : public Saboteur {
 public:
  bool on_cell(uint32_t node, Instant now, std::span<std::byte> /*cell*/) noexcept override {
    return node != 2 || now < Instant(5ms);
  }
};

TEST(PlantedBugs, element_lost) {
  EXPECT_FOUND(ElementLost, .traffic = Traffic::kNetdev, .found_as = ": own ");
}
TEST(PlantedBugs, element_announced_twice) {
  EXPECT_FOUND(ElementAnnouncedTwice, .traffic = Traffic::kNetdev, .found_as = "elements announced twice");
}
TEST(PlantedBugs, element_not_renewed) {
  EXPECT_FOUND(ElementNotRenewed, .traffic = Traffic::kNetdev,
               .found_as = "elements or answers are missing at rest");
}
TEST(PlantedBugs, session_lost_without_a_reason) {
  EXPECT_FOUND(SilentNode, .profile = Profile::kClean, .traffic = Traffic::kNetdev,
               .found_as = "without a reason");
}

// ---- counters of honest nodes --------------------

/// A reserved byte is not zero, behind a right CRC.
class ReservedByte final : public Saboteur {
 public:
  void on_flit(uint32_t /*link*/, uint32_t /*from_end*/, std::span<std::byte> flit) noexcept override {
    if (flit.size() != kFlitHeaderBytes || !every_.due()) return;
    rewrite(flit, offsetof(FlitHeader, credit_vl), 1);
  }

 private:
  Every every_{50};
};
/// A link damages flits though nothing goes wrong in this world.
class QuietDamage final : public Saboteur {
 public:
  void on_flit(uint32_t /*link*/, uint32_t /*from_end*/, std::span<std::byte> flit) noexcept override {
    if (every_.due()) flit[12] ^= std::byte{1};
  }

 private:
  Every every_{100};
};

TEST(PlantedBugs, counters_of_honest_nodes) {
  EXPECT_FOUND(ReservedByte, .traffic = Traffic::kCells, .found_as = "flit_bad_reserved");
}
TEST(PlantedBugs, counters_in_peace) {
  EXPECT_FOUND(QuietDamage, .profile = Profile::kClean, .traffic = Traffic::kCells,
               .found_as = "flit_bad_crc");
}

// ---- recovery --------------------

class NothingPasses final : public Saboteur {
 public:
  FrameFate on_frame(uint32_t /*flow*/, Instant now) noexcept override {
    return now > Instant(1ms) ? FrameFate::kLost : FrameFate::kArrives;
  }
};

TEST(PlantedBugs, nothing_passes_after_the_last_fault) {
  EXPECT_FOUND(NothingPasses, .profile = Profile::kFlitFaults, .found_as = "nothing new has passed");
}

// ---- faults that never strike --------------------

template <WorldFault kKind>
class FaultWithheld final : public Saboteur {
 public:
  bool lets_happen(WorldFault kind) noexcept override { return kind != kKind; }
};
class NoFaults final : public Saboteur {
 public:
  bool lets_happen(WorldFault /*kind*/) noexcept override { return false; }
};
bool strikes(const fabric::FaultRates& rates) {
  return (rates.drop_ppm | rates.corrupt_ppm | rates.duplicate_ppm | rates.reorder_ppm | rates.delay_ppm) !=
         0;
}

/// In place of the rates that were drawn every tenth flit or cell meets one kind of fault.
template <WorldFault kLayer, uint32_t fabric::FaultRates::*kRate>
class OneRate final : public Saboteur {
 public:
  bool lets_happen(WorldFault kind) noexcept override { return kind == kLayer; }
  void change_rates(WorldFault /*layer*/, fabric::FaultRates& rates) noexcept override {
    fabric::FaultRates left;
    if (strikes(rates)) left.*kRate = 100'000;
    left.delay_min = 10us;
    left.delay_max = 100us;
    rates = left;
  }
};

constexpr uint64_t kFaultySeeds = 24;

/// All that seeds with every kind of fault do to their victims.
FaultEffects effects_of(const std::function<std::unique_ptr<Saboteur>()>& make,
                        Profile profile = Profile::kEverything, uint64_t seeds = kFaultySeeds) {
  FaultEffects sum;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::unique_ptr<Saboteur> bug = make();
    World world(make_world_plan(seed, profile, Traffic::kAny), {}, bug.get());
    sum += world.run().effects;
  }
  return sum;
}
template <class Bug>
std::string too_few_with() {
  return too_few_faults(effects_of(plant<Bug>), kFaultySeeds);
}

TEST(PlantedBugs, faults_that_never_strike_are_too_few) {
  EXPECT_EQ(too_few_with<Saboteur>(), "");
  EXPECT_NE(too_few_with<FaultWithheld<WorldFault::kFlits>>().find("flits damaged 0"), std::string::npos);
  // Frozen and dead nodes cost cells, too: what is left of them in a mixed run is too little.
  constexpr uint64_t kMixedSeeds = 150;
  const FaultEffects no_cells =
      effects_of(plant<FaultWithheld<WorldFault::kCells>>, Profile::kMixed, kMixedSeeds);
  EXPECT_NE(too_few_faults(no_cells, kMixedSeeds).find("cells "), std::string::npos) << describe(no_cells);
  EXPECT_NE(too_few_with<FaultWithheld<WorldFault::kCut>>().find("links cut 0"), std::string::npos);
  EXPECT_NE(too_few_with<FaultWithheld<WorldFault::kCrash>>().find("nodes died 0"), std::string::npos);
  EXPECT_NE(too_few_with<FaultWithheld<WorldFault::kFreeze>>().find("frozen nodes 0"), std::string::npos);
}

TEST(PlantedBugs, a_world_without_faults_has_victims_of_none) {
  const FaultEffects none = effects_of(plant<NoFaults>);
  EXPECT_EQ(none.flits_damaged + none.flits_behind_gap + none.flits_repeated, 0U);
  EXPECT_EQ(none.nodes_died + none.nodes_returned + none.links_cut + none.turns_missed, 0U);
}

using Rates = fabric::FaultRates;
template <WorldFault kLayer, uint32_t Rates::*kRate>
FaultEffects effects_of_rate() {
  return effects_of(plant<OneRate<kLayer, kRate>>,
                    kLayer == WorldFault::kFlits ? Profile::kFlitFaults : Profile::kCellFaults);
}

/// Each rate alone, by what only it can cause.
TEST(PlantedBugs, each_rate_of_flits_has_its_victims) {
  constexpr WorldFault kFlits = WorldFault::kFlits;
  EXPECT_GT((effects_of_rate<kFlits, &Rates::drop_ppm>().flits_behind_gap), 20U);
  EXPECT_GT((effects_of_rate<kFlits, &Rates::corrupt_ppm>().flits_damaged), 20U);
  EXPECT_GT((effects_of_rate<kFlits, &Rates::duplicate_ppm>().flits_repeated), 20U);
  EXPECT_GT((effects_of_rate<kFlits, &Rates::reorder_ppm>().flits_behind_gap), 20U);
  EXPECT_GT((effects_of_rate<kFlits, &Rates::delay_ppm>().flits_behind_gap), 20U);
}

TEST(PlantedBugs, each_rate_of_cells_has_its_victims) {
  constexpr WorldFault kCells = WorldFault::kCells;
  EXPECT_GT((effects_of_rate<kCells, &Rates::drop_ppm>().cells_missed), 20U);
  EXPECT_GT((effects_of_rate<kCells, &Rates::corrupt_ppm>().cells_missed), 20U);
  EXPECT_GT((effects_of_rate<kCells, &Rates::duplicate_ppm>().cells_twice), 20U);
  EXPECT_GT((effects_of_rate<kCells, &Rates::reorder_ppm>().cells_missed), 20U);
  EXPECT_GT((effects_of_rate<kCells, &Rates::delay_ppm>().cells_missed), 20U);
}

}  // namespace
}  // namespace weft::sim
