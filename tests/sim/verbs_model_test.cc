// Random programs of verbs against the reference model: fresh seeds, of which the first is printed
// (WEFT_SIM_SEED repeats them), exact replay, a planted bug for each thing that the model judges.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/cell.h"
#include "messages/opcode.h"
#include "messages/transport_headers.h"
#include "sim/verbs/command.h"
#include "sim/verbs/world.h"

namespace weft::sim::verbs {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr uint64_t kPlantedSeedsMax = 300;
constexpr size_t kLongCellBytes = 4096;  // where messages are long
constexpr size_t kDlidAt = offsetof(CellHeader, dlid);
constexpr size_t kSlidAt = offsetof(CellHeader, slid);

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 0);
}

TEST(VerbsModel, random_programs_get_what_verbs_promise) {
  const auto now = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  const uint64_t base = number_from("WEFT_SIM_SEED", now & 0xFFFF'FFFF'FFFF);
  const uint64_t count = number_from("WEFT_VERBS_SEEDS", kSeeds);
  std::cout << "seeds " << base << " to " << base + count - 1 << "; again with WEFT_SIM_SEED=" << base
            << std::endl;
  Tally tally;
  for (uint64_t seed = base; seed < base + count; ++seed) {
    if ((seed - base) % 50 == 0) std::cout << "at seed " << seed << std::endl;
    const Outcome outcome = run_timed(make_plan(seed));
    tally += outcome.tally;
    EXPECT_TRUE(outcome.ok) << "seed " << seed << ": " << outcome.violations.front()
                            << "\nreplay: weft-sim --traffic verbs --seed " << seed << " --verbose";
    if (::testing::Test::HasFailure() && seed > base + 20) return;
  }
  if (count < kTallySeedsMin) return;
  EXPECT_EQ(too_few(tally, count), "") << "what is never tried shows nothing";
}

/// Links that lose flits lose news of credit as well. Then cells seem to wait at the neighbour for ever.
TEST(VerbsModel, requests_end_though_news_of_credit_is_lost) {
  for (const uint64_t seed : {52UL, 150UL, 172UL, 178UL}) {
    const Outcome outcome = run(make_plan(seed));
    EXPECT_TRUE(outcome.ok) << "seed " << seed << ": " << outcome.violations.front();
  }
}

TEST(VerbsModel, seeds_that_failed_once_hold) {
  for (const uint64_t seed : {
           215'881'848'389'511UL,  // requests overtook the failed DMA of the record that says "ready"
           500'292UL, 501'966UL,   // requests end with their window
           830'023'666UL, 840'013'128UL, 840'026'562UL, 840'038'096UL,  // the peer never heard of them
           931'002'694UL,  // a response asked without an end for two ended keys of its memory
       })
    EXPECT_TRUE(run(make_plan(seed)).ok) << seed;
}

TEST(VerbsModel, a_seed_replays_exactly) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Outcome first = run(make_plan(seed));
    const Outcome second = run(make_plan(seed));
    EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
    EXPECT_EQ(first.ended, second.ended) << "seed " << seed;
    EXPECT_EQ(first.tally.count, second.tally.count) << "seed " << seed;
  }
  EXPECT_NE(run(make_plan(1)).hash, run(make_plan(2)).hash);
}

TEST(VerbsModel, what_is_never_tried_is_told) {
  EXPECT_NE(too_few(Tally{}, 100), "");
}

// ---- planted bugs --------------------

/// EveryNth `period`-th of what it counts.
class EveryNth {
 public:
  explicit EveryNth(uint32_t period) noexcept : period_(period) {}
  bool due() noexcept { return ++count_ % period_ == 0; }

 private:
  uint32_t period_;
  uint32_t count_ = 0;
};

/// Runs seeds with the bug until one fails with these words. Returns how many it took, 0 when none did.
template <class Bug>
uint64_t seeds_until(std::string_view words) {
  for (uint64_t seed = 1; seed <= kPlantedSeedsMax; ++seed) {
    Bug bug;
    const Outcome outcome = run(make_plan(seed), {.saboteur = &bug});
    if (outcome.ok || outcome.violations.front().find(words) == std::string::npos) continue;
    std::cout << "seed " << seed << ": " << outcome.violations.front() << '\n';
    return seed;
  }
  return 0;
}
#define EXPECT_VIOLATION(BUG, WORDS) EXPECT_NE(seeds_until<BUG>(WORDS), 0U) << "300 seeds did not notice"

/// One completion in 50 that is of the right kind is changed.
template <bool kOfReceive, auto kChange>
class Changed final : public Saboteur {
 public:
  uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> wcs,
                          uint32_t count) noexcept override {
    for (adapter::WorkCompletion& wc : wcs.first(count)) {
      const bool of_receive =
          static_cast<uint8_t>(wc.opcode) >= static_cast<uint8_t>(adapter::WcOpcode::kRecv);
      if (wc.status == adapter::WcStatus::kSuccess && of_receive == kOfReceive && every_.due()) kChange(wc);
    }
    return count;
  }

 private:
  EveryNth every_{20};
};
using Wc = adapter::WorkCompletion;

TEST(VerbsPlantedBugs, a_wrong_status) {
  constexpr auto kAborted = [](Wc& wc) noexcept { wc.status = adapter::WcStatus::kRemoteAborted; };
  using Send = Changed<false, kAborted>;
  using Receive = Changed<true, kAborted>;
  EXPECT_VIOLATION(Send, "ended as");
  EXPECT_VIOLATION(Receive, "ended as");
}

TEST(VerbsPlantedBugs, wrong_fields_of_a_receive) {
  using Length = Changed<true, [](Wc& wc) noexcept { ++wc.byte_count; }>;
  using Immediate = Changed<true, [](Wc& wc) noexcept { ++wc.imm; }>;
  using Solicited = Changed<true, [](Wc& wc) noexcept { wc.flags ^= adapter::kWcSolicited; }>;
  using Sender = Changed<true, [](Wc& wc) noexcept { wc.src_qpn = Qpn(wc.src_qpn.value() ^ 1); }>;
  using Address = Changed<true, [](Wc& wc) noexcept { wc.written_va += 8; }>;
  using Key = Changed<true, [](Wc& wc) noexcept { wc.invalidated = Rkey(wc.invalidated.value() ^ 1); }>;
  EXPECT_VIOLATION(Length, "length of");
  EXPECT_VIOLATION(Immediate, "immediate data of");
  EXPECT_VIOLATION(Solicited, "solicited of");
  EXPECT_VIOLATION(Sender, "from an unknown sender");
  EXPECT_VIOLATION(Address, "address written of");
  EXPECT_VIOLATION(Key, "invalidated key of");
}

TEST(VerbsPlantedBugs, a_completion_of_another_operation) {
  using Bug = Changed<false, [](Wc& wc) noexcept { wc.opcode = adapter::WcOpcode::kDelay; }>;
  EXPECT_VIOLATION(Bug, "another operation, says its completion");
}

TEST(VerbsPlantedBugs, a_read_of_another_length) {
  using Bug = Changed<false, [](Wc& wc) noexcept { ++wc.byte_count; }>;
  EXPECT_VIOLATION(Bug, "bytes, says its completion");
}

enum class Mischief : uint8_t { kTwice, kLost, kSwapped };

template <Mischief kKind>
class Completions final : public Saboteur {
 public:
  uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> wcs,
                          uint32_t count) noexcept override {
    if (count == 0 || (kKind == Mischief::kSwapped && count < 2) || !every_.due()) return count;
    if (kKind == Mischief::kLost) return count - 1;
    if (kKind == Mischief::kSwapped) {
      std::swap(wcs[count - 1], wcs[count - 2]);
      return count;
    }
    wcs[count] = wcs[count - 1];
    return count + 1;
  }

 private:
  EveryNth every_{20};
};

TEST(VerbsPlantedBugs, completions_lost_doubled_and_swapped) {
  EXPECT_VIOLATION(Completions<Mischief::kTwice>, "is not under way");
  EXPECT_VIOLATION(Completions<Mischief::kTwice>, "out of turn, or twice");
  EXPECT_VIOLATION(Completions<Mischief::kLost>, "was passed over");
  EXPECT_VIOLATION(Completions<Mischief::kLost>, "never came back");
  EXPECT_VIOLATION(Completions<Mischief::kSwapped>, "out of turn, or twice");
}

template <adapter::AsyncEventKind kKind>
class EventLost final : public Saboteur {
 public:
  bool on_event(adapter::AsyncEvent& event) noexcept override { return event.kind != kKind; }
};
/// In place of another one.
template <adapter::AsyncEventKind kKind,
          adapter::AsyncEventKind kTold = adapter::AsyncEventKind::kQpAccessError>
class EventInvented final : public Saboteur {
 public:
  bool on_event(adapter::AsyncEvent& event) noexcept override {
    if (event.kind == kTold) event.kind = kKind;
    return true;
  }
};

TEST(VerbsPlantedBugs, events_lost_and_invented) {
  using Kind = adapter::AsyncEventKind;
  EXPECT_VIOLATION(EventLost<Kind::kQpFatal>, "no event said");
  EXPECT_VIOLATION(EventLost<Kind::kLastWqeReached>, "never said that it took its last WQE");
  EXPECT_VIOLATION(EventLost<Kind::kSrqLimit>, "no event said that a shared receive queue");
  EXPECT_VIOLATION(EventInvented<Kind::kSrqLimit>, "a limit event of a shared receive queue that is no more");
  EXPECT_VIOLATION(EventInvented<Kind::kQpRequestError>, "no peer did anything of the kind");
  EXPECT_VIOLATION(EventInvented<Kind::kSqDrained>, "the program had not asked for it");
  EXPECT_VIOLATION(EventInvented<Kind::kPortExpired>, "there was no reason");
}

template <bool kTold>
class Notified final : public Saboteur {
 public:
  void on_notification(bool& told) noexcept override {
    if (told != kTold && every_.due()) told = kTold;
  }

 private:
  EveryNth every_{10};
};

TEST(VerbsPlantedBugs, notifications_lost_and_invented) {
  EXPECT_VIOLATION(Notified<true>, "without an entry");
  EXPECT_VIOLATION(Notified<false>, "kept quiet");
}

/// The first byte of a payload changes behind a right CRC.
template <Opcode kOpcode>
class PayloadChanged final : public Saboteur {
 public:
  bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> cell) noexcept override {
    CellView view;
    if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return true;
    if (view.opcode != kOpcode || view.payload.empty() || view.has(kCellPacketCrc)) return true;
    const auto at = static_cast<size_t>(view.payload.data() - cell.data());
    cell[at] ^= std::byte{1};
    store_be<uint32_t>(cell.data() + cell.size() - kCrcBytes, crc32c(cell.first(cell.size() - kCrcBytes)));
    return true;
  }
};

TEST(VerbsPlantedBugs, bytes_changed_on_their_way) {
  EXPECT_VIOLATION(PayloadChanged<Opcode::kSend>, "bytes of");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kUdSend>, "bytes of");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kRdSend>, "bytes of");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kXrcSend>, "bytes of");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kRdmaWrite>, "memory after");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kRdmaReadResponse>, "brought what was never there");
  EXPECT_VIOLATION(PayloadChanged<Opcode::kFetchOpResponse>, "which no order of its operations gives");
}

/// Behind the first quarter of a MiB.
class LongMessageChanged final : public Saboteur {
 public:
  bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> cell) noexcept override {
    CellView view;
    if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return true;
    const bool behind = view.cell_number == kCellsPerPacketMax - 1 && view.payload.size() == kLongCellBytes;
    if (view.opcode != Opcode::kRdmaWrite || !behind || view.has(kCellPacketCrc)) return true;
    const auto at = static_cast<size_t>(view.payload.data() - cell.data());
    cell[at] ^= std::byte{1};
    store_be<uint32_t>(cell.data() + cell.size() - kCrcBytes, crc32c(cell.first(cell.size() - kCrcBytes)));
    return true;
  }
};

TEST(VerbsPlantedBugs, a_byte_of_a_long_message_changed) {
  EXPECT_VIOLATION(LongMessageChanged, "memory after");
}

// ---- planted bugs: what an adapter makes of what it is asked for

/// Each request, before the adapter gets it.
template <class Change>
class Requests final : public Saboteur {
 public:
  void on_requests(std::vector<adapter::SendRequest>& list) noexcept override {
    for (adapter::SendRequest& request : list) change_(request);
  }

 private:
  Change change_;
};
using adapter::SendOpcode;

/// A message lands in the shared receive queue that the one before named.
struct AnotherQueue {
  uint32_t before = 0;
  void operator()(adapter::SendRequest& request) noexcept {
    if (request.srq == 0) return;
    const uint32_t named = request.srq;
    if (before != 0) request.srq = before;
    before = named;
  }
};

TEST(VerbsPlantedBugs, a_message_in_another_shared_queue) {
  EXPECT_VIOLATION(Requests<AnotherQueue>, "received something else than was sent");
}

/// A window begins behind where it should.
struct BindMoved {
  void operator()(adapter::SendRequest& request) noexcept {
    if (request.opcode != SendOpcode::kBindWindow || request.bind.length < 4096) return;
    request.bind.addr += 2048;
    request.bind.length -= 2048;
  }
};
/// An invalidation ends the window that was bound before.
struct InvalidatesAnother {
  Rkey bound;
  void operator()(adapter::SendRequest& request) noexcept {
    if (request.opcode == SendOpcode::kBindWindow) bound = request.bind.window;
    if (request.opcode == SendOpcode::kLocalInvalidate && bound != Rkey()) request.rkey = bound;
  }
};
/// A key that was invalidated, by its owner or by a peer, opens what another one does.
struct EndedKeyOpens {
  std::set<uint32_t> ended;
  adapter::SendRequest good;
  void operator()(adapter::SendRequest& request) {
    if (request.opcode == SendOpcode::kLocalInvalidate || request.opcode == SendOpcode::kSendWithInvalidate)
      ended.insert(request.rkey.value());
    if (request.opcode != SendOpcode::kRdmaWrite) return;
    if (ended.count(request.rkey.value()) == 0) {
      good = request;
    } else if (good.rkey != Rkey()) {
      request.rkey = good.rkey;
      request.remote_addr = good.remote_addr;
    }
  }
};

TEST(VerbsPlantedBugs, windows_and_keys) {
  EXPECT_VIOLATION(Requests<BindMoved>, "no peer did anything of the kind");
  EXPECT_VIOLATION(Requests<InvalidatesAnother>, "ended as");
  EXPECT_VIOLATION(Requests<EndedKeyOpens>, "ended as success");
}

/// A registration begins a page behind where it should.
struct RegisteredElsewhere {
  void operator()(adapter::SendRequest& request) noexcept {
    if (request.opcode == SendOpcode::kRegister) request.registration.addr += 4096;
  }
};

TEST(VerbsPlantedBugs, registrations_by_work_request) {
  EXPECT_VIOLATION(Requests<RegisteredElsewhere>, "ended as");
}

/// What cannot be taken is passed over, and the list goes on behind it.
class BadPassedOver final : public Saboteur {
 public:
  void on_requests(std::vector<adapter::SendRequest>& list) noexcept override {
    list.erase(std::remove_if(list.begin(), list.end(),
                              [](const adapter::SendRequest& request) {
                                return (request.flags & ~adapter::kSendFlagsAll) != 0;
                              }),
               list.end());
  }
};
class ResizedTooSmall final : public Saboteur {
 public:
  void on_resize(uint32_t& entries) noexcept override { entries = std::max(1U, entries / 16); }
};

TEST(VerbsPlantedBugs, lists_and_sizes_of_queues) {
  EXPECT_VIOLATION(BadPassedOver, "were taken");
  EXPECT_VIOLATION(ResizedTooSmall, "a completion queue has run over");
}

// ---- planted bugs: what becomes of the fabric

TEST(VerbsPlantedBugs, events_of_ports_lost) {
  using Kind = adapter::AsyncEventKind;
  EXPECT_VIOLATION(EventLost<Kind::kPortDown>, "never said that it was down");
  EXPECT_VIOLATION(EventLost<Kind::kPortUp>, "never said that it is up again");
  EXPECT_VIOLATION(EventLost<Kind::kPortExpired>, "has not expired");
  EXPECT_VIOLATION(EventLost<Kind::kClientReregister>, "never said that it is another link");
  EXPECT_VIOLATION(EventLost<Kind::kPkeyChange>, "never said that its partitions have changed");
}

TEST(VerbsPlantedBugs, paths_that_were_taken_or_not) {
  using Kind = adapter::AsyncEventKind;
  EXPECT_VIOLATION(EventLost<Kind::kPathMigrated>, "was to take its alternate path, and no event said so");
  EXPECT_VIOLATION(EventInvented<Kind::kPathMigrated>, "there was no alternate path");
  EXPECT_VIOLATION(EventInvented<Kind::kPathMigError>, "there was no alternate path");
}

/// While a port is down nobody hears of QPs that leave it, or follow: they have stayed. Those that are asked
/// to leave do.
class StaysOnDeadPort final : public Saboteur {
 public:
  void on_attributes(adapter::QpAttr& attr, uint32_t mask) noexcept override {
    asked_ |=
        (mask & adapter::kQpAttrPathMigState) != 0 && attr.path_mig_state == adapter::PathMigState::kMigrated;
  }
  bool on_event(adapter::AsyncEvent& event) noexcept override {
    using Kind = adapter::AsyncEventKind;
    if (event.kind == Kind::kPortDown) ++down_;
    if (event.kind == Kind::kPortUp && down_ != 0) --down_;
    if (event.kind != Kind::kPathMigrated || std::exchange(asked_, false)) return true;
    return down_ == 0;
  }

 private:
  bool asked_ = false;
  uint32_t down_ = 0;
};

/// What a port that expires does to its QPs: nothing.
class OutlivesItsPort final : public Saboteur {
 public:
  bool on_event(adapter::AsyncEvent& event) noexcept override {
    using Kind = adapter::AsyncEventKind;
    if (event.kind == Kind::kPortExpired) expired_ = true;
    if (event.kind == Kind::kPortUp) expired_ = false;
    const bool fails = event.kind == Kind::kQpFatal && event.status == adapter::WcStatus::kRetryExceeded;
    if (!expired_ || !fails) return true;
    alive_.insert(event.qpn);
    return false;
  }
  uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> wcs,
                          uint32_t count) noexcept override {
    const auto end = wcs.begin() + count;
    const auto hidden = [&](const adapter::WorkCompletion& wc) { return alive_.count(wc.qpn) != 0; };
    return static_cast<uint32_t>(std::remove_if(wcs.begin(), end, hidden) - wcs.begin());
  }

 private:
  bool expired_ = false;
  std::set<Qpn> alive_;
};

/// Nobody is given as much time to answer as was asked for.
class GivesUpEarly final : public Saboteur {
 public:
  void on_attributes(adapter::QpAttr& attr, uint32_t mask) noexcept override {
    if ((mask & adapter::kQpAttrRetryCount) != 0) attr.retry_count /= 4;
  }
};

/// Who has another path takes it the first time that nobody answers.
class LeavesAtOnce final : public Saboteur {
 public:
  void on_attributes(adapter::QpAttr& attr, uint32_t mask) noexcept override {
    if ((mask & adapter::kQpAttrAltPath) != 0) attr.retry_count = 0;
  }
};

/// Who has another path, and finds its port down, does not ask as often as it was told to.
class StuckEarly final : public Saboteur {
 public:
  void on_attributes(adapter::QpAttr& attr, uint32_t mask) noexcept override {
    if ((mask & adapter::kQpAttrAltPath) != 0 && (mask & adapter::kQpAttrRetryCount) != 0)
      attr.retry_count = 2;
  }
};

TEST(VerbsPlantedBugs, ports_and_paths_that_are_left_too_early_or_not_at_all) {
  EXPECT_VIOLATION(StaysOnDeadPort, "was to leave it and did not");
  EXPECT_VIOLATION(OutlivesItsPort, "it had expired, and QP");
  EXPECT_VIOLATION(GivesUpEarly, "(transport retry counter exceeded), and neither its requests");
  EXPECT_VIOLATION(LeavesAtOnce, "there was no reason to leave the path");
  EXPECT_VIOLATION(StuckEarly,
                   "the port of its other path was down, and this path was silent for less than half of the "
                   "retries' time");
}

/// No question for another way is answered.
class WaysUnanswered final : public Saboteur {
 public:
  bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> cell) noexcept override {
    CellView view;
    if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return true;
    return view.opcode != Opcode::kWays || view.payload.empty() ||
           view.payload[0] == static_cast<std::byte>(WaysKind::kAsk);
  }
};

TEST(VerbsPlantedBugs, a_queue_pair_gives_up_although_another_way_is_whole) {
  EXPECT_VIOLATION(WaysUnanswered, "(transport retry counter exceeded), and neither its requests");
}

/// A request whose peer was never reached ends well.
class GivenUpWell final : public Saboteur {
 public:
  uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> wcs,
                          uint32_t count) noexcept override {
    for (adapter::WorkCompletion& wc : wcs.first(count))
      if (wc.status == adapter::WcStatus::kRetryExceeded) wc.status = adapter::WcStatus::kSuccess;
    return count;
  }
};

TEST(VerbsPlantedBugs, what_was_given_up_ends_well) {
  EXPECT_VIOLATION(GivenUpWell, "succeeded and was never delivered");
}

/// Whoever begins in a place gives the numbers and keys again that the one before gave.
class SameSecrets final : public Saboteur {
 public:
  void on_birth(uint32_t place, uint64_t& secret) noexcept override { secret = place; }
};

TEST(VerbsPlantedBugs, a_new_node_hears_what_was_said_to_the_one_before) {
  EXPECT_VIOLATION(SameSecrets, "neither its requests nor its receives explain it");
}

/// A port that comes back says that it has another name.
template <adapter::AsyncEventKind kKind>
using NameInvented = EventInvented<kKind, adapter::AsyncEventKind::kClientReregister>;

/// Connections over a port that has another LID go on: cells of both ends are changed on their way as if it
/// had the old one.
class FollowsNames final : public Saboteur {
 public:
  void on_rename(Lid before, Lid lid) noexcept override { names_.emplace_back(before, lid); }
  bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> cell) noexcept override {
    CellView view;
    if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return true;
    const bool datagram = view.opcode == Opcode::kUdSend || view.opcode == Opcode::kRdSend;
    if (datagram || names_.size() != 1 || view.has(kCellPacketCrc)) return true;
    const auto [before, lid] = names_.front();
    if (view.dlid == before) store_be<uint16_t>(cell.data() + kDlidAt, lid.value());
    if (view.slid == lid) store_be<uint16_t>(cell.data() + kSlidAt, before.value());
    store_be<uint32_t>(cell.data() + cell.size() - kCrcBytes, crc32c(cell.first(cell.size() - kCrcBytes)));
    return true;
  }

 private:
  std::vector<std::pair<Lid, Lid>> names_;
};

TEST(VerbsPlantedBugs, names_of_ports) {
  using Kind = adapter::AsyncEventKind;
  EXPECT_VIOLATION(EventLost<Kind::kLidChange>, "never said that its LID is another");
  EXPECT_VIOLATION(EventLost<Kind::kGidChange>, "never said that its GID is another");
  EXPECT_VIOLATION(NameInvented<Kind::kLidChange>, "it has the name that it had");
  EXPECT_VIOLATION(NameInvented<Kind::kGidChange>, "it has the name that it had");
  EXPECT_VIOLATION(FollowsNames, "over a LID that is no more");
}

/// A switch that dies is there all the time.
class SwitchLives final : public Saboteur {
 public:
  bool lets_happen(WorldFault kind) noexcept override { return kind != WorldFault::kCrash; }
};

/// When a switch has died once, nothing leads to one of the nodes any more.
class WayForgotten final : public Saboteur {
 public:
  bool lets_happen(WorldFault kind) noexcept override {
    died_ |= kind == WorldFault::kCrash;
    return true;
  }
  bool on_cell(uint32_t node, Instant /*now*/, std::span<std::byte> /*cell*/) noexcept override {
    return !died_ || node != 0;
  }

 private:
  bool died_ = false;
};

TEST(VerbsPlantedBugs, switches_that_die) {
  EXPECT_VIOLATION(SwitchLives, "it never said that it is up again");
  EXPECT_VIOLATION(WayForgotten, "neither its requests nor its receives explain it");
}

// ---- replaying

/// Calls that are left out leave the others as they are.
TEST(VerbsModel, calls_can_be_left_out) {
  const Plan plan = make_plan(3);
  std::set<uint64_t> all;
  for (uint64_t call = 0; call < plan.operations; ++call) all.insert(call);
  const Outcome nothing = run(plan, {.leave_out = &all});
  EXPECT_TRUE(nothing.ok);
  EXPECT_LT(nothing.tally.count.size(), run(plan).tally.count.size());
}

}  // namespace
}  // namespace weft::sim::verbs
