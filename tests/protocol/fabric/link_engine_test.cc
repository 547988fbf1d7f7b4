// The link engine with flits written by hand, which are past, expected, future or malformed.
#include <gtest/gtest.h>

#include "base/stats_page.h"
#include "tests/support/reason_table.h"
#include "tests/support/requirement.h"
#include "tests/support/script_carrier.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

class Engine : public ::testing::Test {
 public:
  Engine() { start(true); }

  void start(bool whole_cell, bool rereads = false) {
    auto owned = std::make_unique<ScriptCarrier>();
    carrier = owned.get();
    carrier->can_reread = rereads;
    whole = whole_cell;
    engine.bring_up(std::move(owned), ScriptCarrier::params(whole_cell), now);
  }

  /// A data flit with a small cell, or with any payload if flits are small.
  std::vector<std::byte> data(uint16_t sequence, FlitFields fields = {}) const {
    const std::vector<std::byte> cell = make_cell({.vl = fields.vl, .number = sequence, .payload_bytes = 8});
    if (fields.flags == 0) fields.flags = kFlitHead | kFlitTail;
    fields.sequence = sequence;
    fields.payload_bytes = static_cast<uint16_t>(cell.size());
    std::vector<std::byte> flit(kFlitHeaderBytes + cell.size());
    std::memcpy(flit.data() + kFlitHeaderBytes, cell.data(), cell.size());
    compose_flit(flit.data(), fields, whole, cell_crc(cell));
    return flit;
  }
  static std::vector<std::byte> control(FlitFields fields) {
    std::vector<std::byte> flit(kFlitHeaderBytes);
    compose_flit(flit.data(), fields, true, 0);
    return flit;
  }
  /// Takes in what has arrived; @return the accepted sequence numbers.
  std::vector<uint32_t> receive() {
    now += 1us;
    engine.poll(now);
    std::vector<uint32_t> numbers;
    const std::span<const RxFlit> flits = engine.receive();
    for (const RxFlit& flit : flits) numbers.push_back(flit.payload.empty() ? 0 : cell_number(flit.payload));
    for (const RxFlit& flit : flits) engine.grant(flit.vl, 1);
    engine.release();
    engine.flush(now);
    return numbers;
  }
  std::vector<FlitFields> sent() {
    std::vector<FlitFields> out;
    for (const std::vector<std::byte>& flit : carrier->take_sent()) {
      FlitView view;
      EXPECT_EQ(decode_flit(flit, {ScriptCarrier::kFlitPayloadBytes, 4, whole}, view), FlitError::kNone);
      out.push_back(view.fields);
    }
    return out;
  }
  bool send(VirtualLane vl = VirtualLane(0)) {
    const std::vector<std::byte> cell = make_cell({.vl = vl, .payload_bytes = 8});
    std::byte* to = engine.claim(vl);
    if (to == nullptr) return false;
    std::memcpy(to, cell.data(), cell.size());
    engine.commit({vl, kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
    return true;
  }
  uint64_t count(LinkCounter counter) const { return engine.counters().get(counter); }

  LinkEngine engine;
  ScriptCarrier* carrier = nullptr;
  bool whole = true;
  Instant now{};
};
using Numbers = std::vector<uint32_t>;

/// A ring without reader that offers all its free slots in one run, like rings in memory.
class RunCarrier final : public Carrier {
 public:
  static constexpr uint32_t kSlots = 32;
  TxRun claim(uint32_t reserve) noexcept override {
    const uint32_t free = kSlots - used_;
    if (free <= reserve) return {};
    return {bytes_.data() + size_t{used_} * kStride, kStride, free - reserve};
  }
  void commit(uint32_t slots, uint32_t /*last_bytes*/) noexcept override { used_ += slots; }
  void publish(Instant /*now*/) noexcept override { ++looks; }
  void publish_quietly(Instant /*now*/) noexcept override { ++shown; }
  uint32_t publish_every() const noexcept override { return 8; }
  bool keeps_all() const noexcept override { return true; }
  void retire(uint64_t /*before*/) noexcept override {}
  void resend(uint64_t /*from*/) noexcept override {}
  uint32_t receive(std::span<RxSlot> /*out*/) noexcept override { return 0; }
  void release(uint64_t /*before*/) noexcept override {}
  bool reread(uint64_t /*from*/) noexcept override { return true; }
  std::string_view kind() const noexcept override { return "run"; }
  CarrierState poll(Instant /*now*/) noexcept override { return CarrierState::kUp; }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override { return kNever; }

  uint32_t looks = 0;  // reads of the peer's sleep flag
  uint32_t shown = 0;

 private:
  static constexpr uint32_t kStride = kFlitHeaderBytes + ScriptCarrier::kFlitPayloadBytes;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{kSlots} * kStride);
  uint32_t used_ = 0;
};

TEST_F(Engine, takes_the_expected_drops_the_past_asks_once_for_what_is_missing) {
  carrier->arrive(data(1));
  carrier->arrive(data(1));
  carrier->arrive(data(3));
  carrier->arrive(data(4));
  EXPECT_EQ(receive(), Numbers{1});
  EXPECT_EQ(count(LinkCounter::kDuplicates), 1U);
  EXPECT_EQ(count(LinkCounter::kOutOfSequence), 2U);
  const std::vector<FlitFields> answer = sent();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].kind, FlitKind::kRepeat);
  EXPECT_EQ(answer[0].acknowledged, 1);
  for (uint16_t i = 2; i <= 4; ++i) carrier->arrive(data(i));
  EXPECT_EQ(receive(), (Numbers{2, 3, 4}));
}

TEST_F(Engine, a_second_round_without_the_missing_flit_is_asked_for_again) {
  carrier->arrive(data(2));
  carrier->arrive(data(3));
  receive();
  carrier->arrive(data(2));
  receive();
  EXPECT_EQ(count(LinkCounter::kRepeatsRequested), 2U);
}

TEST_F(Engine, reads_again_by_itself_where_the_carrier_keeps_the_slots) {
  start(true, true);
  std::vector<std::byte> bad = data(1);
  bad.back() ^= std::byte{1};
  carrier->arrive(bad);
  for (uint32_t i = 0; i < kFlitRepeatsMax; ++i) EXPECT_TRUE(receive().empty());
  EXPECT_EQ(engine.state(), LinkState::kUp);
  EXPECT_EQ(count(LinkCounter::kRereads), kFlitRepeatsMax);
  EXPECT_TRUE(receive().empty());
  EXPECT_EQ(engine.state(), LinkState::kFaulty);
  EXPECT_EQ(count(LinkCounter::kRepeatsExhausted), 1U);
  EXPECT_TRUE(sent().empty()) << "nothing to ask the peer";
}

/// What a peer can do to a link, and the counter of it.
struct Offence {
  LinkCounter reason;
  LinkState state;  // state afterwards: kUp if the flit is only asked for again
  void (*commit)(Engine& at);
};

void arrive_as(Engine& at, const FlitFields& fields) {
  at.carrier->arrive(at.data(1, fields));
}
void flip(Engine& at, size_t offset) {
  std::vector<std::byte> flit = at.data(1);
  flit[offset] ^= std::byte{1};
  at.carrier->arrive(flit);
}

constexpr std::array kOffences{
    Offence{LinkCounter::kTooShort, LinkState::kUp,
            [](Engine& at) { at.carrier->arrive(std::vector<std::byte>(5)); }},
    Offence{LinkCounter::kBadLength, LinkState::kUp,
            [](Engine& at) {
              std::vector<std::byte> longer = at.data(1);
              store_be(longer.data() + 2, uint16_t{60000});
              at.carrier->arrive(longer);
            }},
    Offence{LinkCounter::kBadLength, LinkState::kUp,
            [](Engine& at) {  // flits without number carry no data
              std::vector<std::byte> longer(kFlitHeaderBytes + 8);
              compose_flit(longer.data(), {.kind = FlitKind::kAck, .payload_bytes = 8}, true, 0);
              at.carrier->arrive(longer);
            }},
    Offence{LinkCounter::kBadCrc, LinkState::kUp, [](Engine& at) { flip(at, 5); }},
    Offence{LinkCounter::kBadCellCrc, LinkState::kUp, [](Engine& at) { flip(at, 40); }},
    Offence{LinkCounter::kBadKind, LinkState::kFaulty,
            [](Engine& at) { at.carrier->arrive(Engine::control({.kind = static_cast<FlitKind>(7)})); }},
    Offence{LinkCounter::kBadReserved, LinkState::kFaulty,
            [](Engine& at) { arrive_as(at, {.flags = kFlitHead | kFlitTail | 1}); }},
    Offence{LinkCounter::kBadLane, LinkState::kFaulty,
            [](Engine& at) { arrive_as(at, {.vl = VirtualLane(9)}); }},
    Offence{LinkCounter::kBadLane, LinkState::kFaulty,
            [](Engine& at) { arrive_as(at, {.credit_vl = VirtualLane(4)}); }},
    Offence{LinkCounter::kBadFlags, LinkState::kFaulty,
            [](Engine& at) { arrive_as(at, {.flags = kFlitHead}); }},
    Offence{LinkCounter::kBadFlags, LinkState::kFaulty,
            [](Engine& at) {
              at.carrier->arrive(Engine::control({.kind = FlitKind::kAck, .flags = kFlitTail}));
            }},
    Offence{LinkCounter::kBadFlags, LinkState::kFaulty,
            [](Engine& at) {  // poison ends a cell, so the flit must be a tail
              at.start(false);
              arrive_as(at, {.flags = kFlitHead | kFlitPoison});
            }},
    Offence{LinkCounter::kBadFraming, LinkState::kFaulty,
            [](Engine& at) {  // a second head on a lane; another lane may begin in between
              at.start(false);
              at.carrier->arrive(at.data(1, {.flags = kFlitHead}));
              at.carrier->arrive(at.data(2, {.vl = VirtualLane(1), .flags = kFlitHead}));
              EXPECT_EQ(at.receive().size(), 2U);
              EXPECT_EQ(at.engine.state(), LinkState::kUp);
              at.carrier->arrive(at.data(3, {.flags = kFlitHead}));
            }},
    Offence{LinkCounter::kBadFraming, LinkState::kFaulty,
            [](Engine& at) {  // a tail without a head
              at.start(false);
              at.carrier->arrive(at.data(1, {.flags = kFlitTail}));
            }},
    Offence{
        LinkCounter::kAckBeyondSent, LinkState::kFaulty,
        [](Engine& at) { at.carrier->arrive(Engine::control({.kind = FlitKind::kAck, .acknowledged = 1})); }},
    Offence{
        LinkCounter::kCreditBeyondSent, LinkState::kFaulty,
        [](Engine& at) { at.carrier->arrive(Engine::control({.kind = FlitKind::kCredit, .credit = 1})); }},
    Offence{LinkCounter::kSentWithoutCredit, LinkState::kFaulty,
            [](Engine& at) {  // eight credits, none of them returned
              for (uint16_t i = 1; i <= 9; ++i) at.carrier->arrive(at.data(i));
            }},
    Offence{LinkCounter::kRepeatsExhausted, LinkState::kFaulty,
            [](Engine& at) {
              at.start(true, true);
              flip(at, 5);
              for (uint32_t i = 0; i < kFlitRepeatsMax; ++i) EXPECT_TRUE(at.receive().empty());
              EXPECT_EQ(at.engine.state(), LinkState::kUp);
            }},
    Offence{LinkCounter::kCarrierFaults, LinkState::kDown,
            [](Engine& at) { at.carrier->condition = CarrierState::kFaulty; }},
    Offence{LinkCounter::kReceiveOverruns, LinkState::kDown,
            [](Engine& at) { at.carrier->condition = CarrierState::kOverrun; }},
    Offence{LinkCounter::kPeerGone, LinkState::kDown,
            [](Engine& at) { at.carrier->condition = CarrierState::kPeerGone; }},
};
static_assert(names_every_reason(kOffences, LinkCounter::kTooShort, LinkCounter::kPeerStalled));

TEST_F(Engine, each_offence_has_its_own_counter) {
  for (const Offence& one : kOffences) {
    start(true);
    const uint64_t before = count(one.reason);
    one.commit(*this);
    receive();
    EXPECT_EQ(count(one.reason), before + 1) << CounterSet<LinkCounter>::label(one.reason);
    EXPECT_EQ(engine.state(), one.state) << CounterSet<LinkCounter>::label(one.reason);
    if (one.state == LinkState::kUp) {  // damage: the flit is repeated undamaged
      carrier->arrive(data(1));
      EXPECT_EQ(receive(), Numbers{1});
    } else {  // a broken rule with a correct CRC, or a failed carrier: this incarnation ends
      engine.poll(now);
      EXPECT_EQ(engine.state(), LinkState::kDown);
    }
  }
}

/// If a sender changes a cell while a switch copies it, no repetition repairs the flit. The receiver behind
/// the
/// switch loses that cell only.
TEST_F(Engine, a_cell_that_no_repeat_mends_is_dropped_and_the_link_goes_on) {
  start(true, true);
  flip(*this, 40);
  carrier->arrive(data(2));
  for (uint32_t i = 0; i < kFlitRepeatsMax; ++i) {
    EXPECT_TRUE(receive().empty());
    EXPECT_EQ(count(LinkCounter::kTornCells), 0U) << "asked for again first";
  }
  EXPECT_EQ(receive(), Numbers{2});
  EXPECT_EQ(engine.state(), LinkState::kUp);
  EXPECT_EQ(count(LinkCounter::kTornCells), 1U);
  EXPECT_EQ(count(LinkCounter::kRepeatsExhausted), 0U);
  EXPECT_EQ(engine.lane(VirtualLane(0)).held(), 0U) << "the credit of the dropped cell goes back";
  EXPECT_EQ(engine.lane(VirtualLane(0)).arrived(), 2U) << "and it was spent like any other";
  carrier->arrive(data(3));
  EXPECT_EQ(receive(), Numbers{3});
}

/// The sender is asked for a lost flit until it counts as given up. Another cell that is damaged in between
/// does
/// not count as repeated too often.
TEST_F(Engine, only_the_next_flit_in_order_is_given_up) {
  for (uint32_t i = 1; i <= kFlitRepeatsMax; ++i) {
    carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer, .sequence = 2}));
    receive();
    EXPECT_EQ(count(LinkCounter::kRepeatsRequested), i);
  }
  std::vector<std::byte> torn = data(2);
  torn[40] ^= std::byte{1};
  carrier->arrive(torn);
  EXPECT_EQ(receive(), Numbers{});
  EXPECT_EQ(count(LinkCounter::kBadCellCrc), 1U);
  EXPECT_EQ(count(LinkCounter::kTornCells), 0U);
  carrier->arrive(data(1));
  carrier->arrive(data(2));
  EXPECT_EQ(receive(), (Numbers{1, 2}));
}

/// A cell is torn if it arrives damaged again and again. A flit that was lost as often and is then damaged
/// once is
/// asked for like any other flit.
TEST_F(Engine, losses_do_not_make_a_damaged_cell_a_torn_one) {
  for (uint32_t i = 1; i <= kFlitRepeatsMax; ++i) {
    carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer, .sequence = 1}));
    receive();
  }
  std::vector<std::byte> damaged = data(1);
  damaged[40] ^= std::byte{1};
  for (uint32_t copy = 0; copy < 2; ++copy) {
    carrier->arrive(damaged);
    EXPECT_EQ(receive(), Numbers{});
    EXPECT_EQ(engine.state(), LinkState::kUp);
  }
  EXPECT_EQ(count(LinkCounter::kTornCells), 0U);
  carrier->arrive(data(1));
  EXPECT_EQ(receive(), Numbers{1});
}

/// The request for a repetition may be lost, or the repetition. The sender's own questions are then 200 ms
/// apart, but its other flits name the missing flit too.
TEST_F(Engine, what_is_still_missing_after_a_while_is_asked_for_again) {
  const auto peer_speaks = [this] {
    carrier->arrive(control({.kind = FlitKind::kAck, .sequence = 1}));
    receive();
  };
  peer_speaks();
  EXPECT_EQ(count(LinkCounter::kRepeatsRequested), 1U);
  for (const Duration pause : {LinkTimers{}.probe_steady - 1us, Duration{1us}, Duration{1us}}) {
    now += pause;
    engine.poll(now);
    peer_speaks();
  }
  EXPECT_EQ(count(LinkCounter::kRepeatsRequested), 2U);
}

/// Without these slots two full rings whose owners both have to acknowledge would wait for each other for
/// ever.
TEST_F(Engine, data_never_takes_the_slots_that_are_kept_for_flits_without_data) {
  engine.bring_up(std::make_unique<RunCarrier>(), ScriptCarrier::params(true, 1000), now);
  uint32_t data = 0;
  while (send()) ++data;
  EXPECT_EQ(data, RunCarrier::kSlots - kControlSlots);
  engine.poll(now);  // starts the watch for progress
  for (uint32_t i = 0; i < kControlSlots; ++i) {
    now += 300ms;
    engine.poll(now);  // nothing is acknowledged, so the engine asks the peer
    EXPECT_EQ(count(LinkCounter::kProbesSent), i + 1);
    EXPECT_FALSE(send()) << "behind flit without data number " << i;
  }
  now += 300ms;
  engine.poll(now);
  EXPECT_EQ(count(LinkCounter::kProbesSent), kControlSlots) << "now the ring is really full";
  EXPECT_EQ(count(LinkCounter::kRepeatsServed), 1U)
      << "without room for a probe the engine repeats its flits";
}

TEST_F(Engine, acknowledgement_retires_and_repeat_request_resends_from_the_gap) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send());
  engine.flush(now);
  EXPECT_EQ(sent().size(), 5U);
  carrier->arrive(control({.kind = FlitKind::kAck, .acknowledged = 2}));
  receive();
  EXPECT_EQ(engine.unacknowledged(), 3U);
  EXPECT_EQ(carrier->retired, 2U);
  carrier->arrive(control({.kind = FlitKind::kRepeat, .acknowledged = 3}));
  receive();
  EXPECT_EQ(carrier->resent_from, 3U);
  EXPECT_EQ(count(LinkCounter::kRepeatsServed), 1U);
  carrier->arrive(control({.kind = FlitKind::kAck, .acknowledged = 1}));  // an old acknowledgement
  receive();
  EXPECT_EQ(engine.unacknowledged(), 2U);
}

/// Each repeat sends a whole window, so a peer must not have as many as it likes.
TEST_F(Engine, a_peer_that_asks_for_repeats_and_acknowledges_nothing_loses_its_link) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(send());
  engine.flush(now);
  const auto ask = [&](uint32_t times, uint16_t acknowledged) {
    for (uint32_t i = 0; i < times; ++i) {
      carrier->arrive(control({.kind = FlitKind::kRepeat, .acknowledged = acknowledged}));
      receive();
      engine.poll(now);
    }
  };
  ask(kRepeatsServedMax, 0);
  ask(kRepeatsServedMax, 1);
  EXPECT_EQ(engine.state(), LinkState::kUp) << "something new was acknowledged between them";
  EXPECT_EQ(count(LinkCounter::kRepeatsServed), 2 * kRepeatsServedMax);
  ask(1, 1);
  EXPECT_NE(engine.state(), LinkState::kUp);
  EXPECT_EQ(count(LinkCounter::kRepeatsExhausted), 1U);
}

TEST_F(Engine, credit_is_absolute_so_late_and_repeated_updates_do_no_harm) {
  covers("SAN-FLIT-02");
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(send());
  EXPECT_FALSE(send());
  engine.flush(now);
  for (const uint16_t total : std::array<uint16_t, 5>{3, 5, 3, 5, 0}) {
    carrier->arrive(control({.kind = FlitKind::kCredit, .credit = total}));
    receive();
  }
  EXPECT_EQ(engine.credits(VirtualLane(0)), 5U);
  EXPECT_EQ(engine.credits(VirtualLane(1)), 8U);
}

/// `weft stat` would take the credit of a dead link for that of a peer that does not read.
TEST_F(Engine, the_lanes_of_a_link_that_is_down_have_nothing) {
  const TempDir dir;
  const std::string path = dir.path() + "/page";
  StatsPage page = std::move(StatsPage::create(path).value());
  engine.publish(page, "link");
  const auto lane = [&](std::string_view gauge) {
    const auto entries = read_stats_page(path).value();
    for (const auto& [name, value] : entries)
      if (name == "link.vl.0." + std::string(gauge)) return value;
    return UINT64_MAX;
  };
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(send());
  engine.flush(now);
  now += 20ms;
  engine.poll(now);
  EXPECT_EQ(lane("flits_sent"), 8U);
  engine.take_down();
  engine.poll(now);
  for (const char* gauge : {"flits_sent", "flits_received", "credits", "held"})
    EXPECT_EQ(lane(gauge), 0U) << gauge;
}

TEST_F(Engine, lane_15_has_numbers_but_no_credit) {
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(send(kVlManagement));
  engine.flush(now);
  const std::vector<FlitFields> flits = sent();
  ASSERT_EQ(flits.size(), 40U);
  EXPECT_EQ(flits.back().sequence, 40);
  for (uint16_t i = 1; i <= 40; ++i) carrier->arrive(data(i, {.vl = kVlManagement}));
  EXPECT_EQ(receive().size(), 40U);
  EXPECT_EQ(engine.state(), LinkState::kUp);
}

TEST_F(Engine, a_lost_tail_is_noticed_by_the_number_in_unsequenced_flits) {
  carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer, .sequence = 2}));
  receive();
  const std::vector<FlitFields> answer = sent();
  ASSERT_FALSE(answer.empty());
  EXPECT_EQ(answer[0].kind, FlitKind::kRepeat);
}

TEST_F(Engine, without_progress_an_engine_probes_and_its_peer_answers_with_all_credits) {
  ASSERT_TRUE(send());
  engine.flush(now);
  sent();
  engine.poll(now);
  now += 3ms;
  engine.poll(now);
  const std::vector<FlitFields> probe = sent();
  ASSERT_EQ(probe.size(), 1U);
  EXPECT_EQ(probe[0].flags, kFlitAnswer);
  for (uint16_t i = 1; i <= 4; ++i) {
    carrier->arrive(data(i, {.vl = VirtualLane(static_cast<uint8_t>(i - 1))}));
  }
  receive();
  sent();
  carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer, .sequence = 4}));
  receive();
  EXPECT_EQ(sent().size(), 4U) << "one flit tells one lane's credit";
}

TEST_F(Engine, traffic_of_other_lanes_does_not_hide_that_a_lane_s_credit_was_lost) {
  uint16_t number = 0;
  while (send(VirtualLane(1))) ++number;
  for (uint16_t i = 1; i <= 6; ++i, now += 500us) {
    ASSERT_TRUE(send());
    carrier->arrive(control({.kind = FlitKind::kAck, .acknowledged = ++number, .credit = i}));
    receive();
  }
  EXPECT_EQ(count(LinkCounter::kProbesSent), 1U);
}

TEST_F(Engine, a_question_is_answered_without_a_flush) {
  carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer}));
  engine.poll(now);
  EXPECT_TRUE(engine.receive().empty());
  EXPECT_EQ(carrier->released, 1U) << "a flit without data is released at once";
  EXPECT_EQ(engine.deadline(), now + LinkTimers{}.ack_delay);
  now += LinkTimers{}.ack_delay;
  engine.poll(now);
  EXPECT_FALSE(sent().empty());
}

/// The flits sent before the sleep stay unacknowledged: the peer need not wake the engine for that.
TEST_F(Engine, an_engine_that_has_slept_neither_probes_nor_reports_a_stalled_peer) {
  engine.bring_up(std::make_unique<RunCarrier>(), ScriptCarrier::params(true), now);
  ASSERT_TRUE(send());
  engine.flush(now);
  engine.poll(now);
  ASSERT_TRUE(engine.prepare_sleep());
  now += 10s;
  engine.finish_sleep();
  engine.poll(now);
  EXPECT_EQ(count(LinkCounter::kProbesSent), 0U);
  EXPECT_EQ(count(LinkCounter::kPeerStalled), 0U);
}

TEST_F(Engine, unacknowledged_flits_are_limited) {
  uint32_t flits = 0;
  for (; flits <= kUnacknowledgedFlitsMax && send(kVlManagement); ++flits) engine.flush(now);
  EXPECT_EQ(flits, kUnacknowledgedFlitsMax);
  carrier->arrive(control({.kind = FlitKind::kAck, .acknowledged = 1}));
  receive();
  EXPECT_TRUE(send(kVlManagement));
  EXPECT_FALSE(send(kVlManagement));
}

TEST_F(Engine, it_asks_ever_more_rarely_while_nothing_moves_but_not_before_a_switch_would_give_up) {
  ASSERT_TRUE(send());
  engine.flush(now);
  engine.poll(now);
  const Instant begin = now;
  const LinkTimers timers;
  Duration between = timers.probe_first;
  for (int asked = 0; asked < 24; ++asked) {
    sent();
    now += between - 1us;
    engine.poll(now);
    EXPECT_TRUE(sent().empty()) << asked;
    now += 1us;
    engine.poll(now);
    EXPECT_EQ(sent().size(), 1U) << asked;
    if (now - begin >= kOutputStandstill) between = std::min(between * 2, timers.probe_max);
  }
  EXPECT_EQ(between, timers.probe_max);
  carrier->arrive(control({.kind = FlitKind::kAck, .acknowledged = 1}));
  receive();
  ASSERT_TRUE(send());
  engine.flush(now);
  sent();
  engine.poll(now);
  now += timers.probe_first;
  engine.poll(now);
  EXPECT_EQ(sent().size(), 1U) << "progress begins anew";
}

TEST_F(Engine, over_a_carrier_without_losses_the_second_probe_waits_twice_as_long) {
  engine.bring_up(std::make_unique<RunCarrier>(), ScriptCarrier::params(true), now);
  for (uint32_t i = 0; i < kFlitsPerAck; ++i) ASSERT_TRUE(send());
  engine.flush(now);
  engine.poll(now);
  now += LinkTimers{}.probe_first;
  engine.poll(now);
  EXPECT_EQ(engine.deadline(), now + 2 * LinkTimers{}.probe_first);
}

TEST_F(Engine, after_an_answer_no_timer_runs_though_some_lanes_were_never_used) {
  carrier->arrive(data(1, {.vl = VirtualLane(1)}));
  receive();
  carrier->arrive(control({.kind = FlitKind::kAck, .flags = kFlitAnswer, .sequence = 1}));
  receive();
  engine.poll(now);
  engine.flush(now);
  EXPECT_FALSE(sent().empty());
  EXPECT_EQ(engine.deadline(), kNever);
}

TEST_F(Engine, whether_the_peer_sleeps_is_looked_at_once_a_turn_and_never_forgotten) {
  auto made = std::make_unique<RunCarrier>();
  RunCarrier& ring = *made;
  engine.bring_up(std::move(made), ScriptCarrier::params(true, 1000), now);
  for (uint32_t i = 0; i < 2 * ring.publish_every(); ++i) ASSERT_TRUE(send());
  EXPECT_EQ(ring.shown, 2U);
  EXPECT_EQ(ring.looks, 0U);
  engine.flush(now);
  EXPECT_EQ(ring.looks, 1U) << "though nothing was left to be shown";
  engine.flush(now);
  EXPECT_EQ(ring.looks, 1U);
  EXPECT_EQ(count(LinkCounter::kBurstsSent), 2U);
}

TEST_F(Engine, numbers_wrap) {
  uint64_t accepted = 0;
  for (uint32_t i = 1; i <= 70'000; ++i) {
    carrier->arrive(data(static_cast<uint16_t>(i)));
    accepted += receive().size();
    carrier->take_sent();
  }
  EXPECT_EQ(accepted, 70'000U);
  EXPECT_EQ(engine.state(), LinkState::kUp);
}

}  // namespace
}  // namespace weft::test
