// TPT-REG-02..07: registration through the send queue between two adapters, with both error options.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "adapter/counters.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr Access kUsualRights = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kBase = 0x7000'0000;

class SendRegistrationRow : public ::testing::Test {
 protected:
  void connect(SendRegistration option, bool signal_all = true) {
    QpConfig config;
    config.registration = option;
    config.signal_all = signal_all;
    qps_ = pair_.connect(config);
    near().completions.clear();
    far().completions.clear();
  }
  [[nodiscard]] PairSide& near() { return pair_.side(0); }
  [[nodiscard]] PairSide& far() { return pair_.side(1); }
  [[nodiscard]] MemoryTable& table() { return near().adapter->memory(); }
  [[nodiscard]] QpState state(int side) {
    return pair_.side(side).adapter->query_qp(*qps_[static_cast<size_t>(side)]).state;
  }

  /// Reserves a region and stages four pages of side 0's memory for it, the last page first.
  MemoryRegion reserve() {
    const MemoryRegion region = table().regions.reserve_mr(near().pd, true).value();
    return stage(region.lkey);
  }
  MemoryRegion stage(Lkey lkey) {
    std::vector<std::byte*> pages;
    for (uint64_t page = 4; page-- > 0;) pages.push_back(near().memory.data() + kStaged + page * kPageBytes);
    return table().regions.stage(lkey, PageList{.pages = pages, .length = 4 * kPageBytes}).value();
  }
  /// The bytes of that region in the order of its addresses.
  [[nodiscard]] std::vector<std::byte> staged_bytes(uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> out;
    for (uint64_t i = offset; i < offset + bytes; ++i)
      out.push_back(near().memory[kStaged + (3 - i / kPageBytes) * kPageBytes + i % kPageBytes]);
    return out;
  }
  static SendRequest registration(uint64_t wr_id, Lkey lkey, Access access = kUsualRights) {
    return {.wr_id = wr_id,
            .opcode = SendOpcode::kRegister,
            .flags = kSendSignaled,
            .registration = {.lkey = lkey, .addr = kBase, .access = access}};
  }
  SendRequest write(uint64_t wr_id, const Sge& from, uint64_t to = 0) {
    return {.wr_id = wr_id,
            .opcode = SendOpcode::kRdmaWrite,
            .flags = kSendSignaled,
            .sges = {&from, 1},
            .remote_addr = far().region.addr + to,
            .rkey = far().region.rkey};
  }
  void post(int side, const SendRequest& request) {
    ASSERT_EQ(pair_.side(side).adapter->post_send(*qps_[static_cast<size_t>(side)], request),
              PostResult::kOk);
  }
  void expect_completions(int side, const std::vector<std::pair<uint64_t, WcStatus>>& expected) {
    const auto& got = pair_.side(side).completions;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].wr_id, expected[i].first) << i;
      EXPECT_EQ(got[i].status, expected[i].second) << i << ": " << to_string(got[i].status);
    }
  }
  [[nodiscard]] std::vector<AsyncEventKind> events(int side) {
    std::vector<AsyncEventKind> kinds;
    for (AsyncEvent event; pair_.side(side).adapter->next_event(event);) {
      if (event.kind != AsyncEventKind::kPortUp) kinds.push_back(event.kind);
    }
    return kinds;
  }

  static constexpr uint64_t kStaged = 512 * 1024;  // offset of the staged pages
  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
};

TEST_F(SendRegistrationRow, TPT_REG_02_the_mechanism_is_enabled_by_a_field_of_the_qp) {
  covers("TPT-REG-02");
  connect(SendRegistration::kOff);
  EXPECT_EQ(near().adapter->config(*qps_[0]).registration, SendRegistration::kOff);
  const MemoryRegion region = reserve();
  post(0, registration(1, region.lkey));
  pair_.run();
  expect_completions(0, {{1, WcStatus::kLocalQpOperation}});
  EXPECT_FALSE(table().query(region.lkey.value())->valid);
  connect(SendRegistration::kReactive);
  EXPECT_EQ(near().adapter->config(*qps_[0]).registration, SendRegistration::kReactive);
  post(0, registration(2, region.lkey));
  pair_.run();
  expect_completions(0, {{2, WcStatus::kSuccess}});
  EXPECT_TRUE(table().query(region.lkey.value())->valid);
}

/// Three requests follow each other without waiting: the registration, a Send that names the memory and a
/// Send
/// that gives the peer the key.
TEST_F(SendRegistrationRow, TPT_REG_03_the_keys_are_used_behind_the_request_without_waiting) {
  covers("TPT-REG-03");
  connect(SendRegistration::kAnticipatory);
  near().fill(kStaged, 4 * kPageBytes, 3);
  const MemoryRegion region = reserve();
  ASSERT_NE(region.lkey, Lkey());
  ASSERT_NE(region.rkey, Rkey());
  EXPECT_FALSE(table().query(region.lkey.value())->valid);
  const Sge data{.addr = kBase + 100, .length = 9000, .lkey = region.lkey};
  std::memcpy(near().memory.data(), &region.rkey, sizeof region.rkey);
  const Sge key = near().sge(0, sizeof region.rkey);
  const std::array<SendRequest, 3> list{
      registration(1, region.lkey), write(2, data),
      SendRequest{.wr_id = 3, .opcode = SendOpcode::kSend, .flags = kSendSignaled, .sges = {&key, 1}}};
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 7, {far().sge(100'000, 64)}), PostResult::kOk);
  size_t accepted = 0;
  ASSERT_EQ(near().adapter->post_send(*qps_[0], list, accepted), PostResult::kOk);
  pair_.run();
  expect_completions(0, {{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}});
  EXPECT_EQ(far().bytes_at(0, 9000), staged_bytes(100, 9000));
  // The peer reads through the key it has received.
  Rkey came;
  std::memcpy(&came, far().memory.data() + 100'000, sizeof came);
  const Sge into = far().sge(200'000, 5000);
  post(1, {.wr_id = 8,
           .opcode = SendOpcode::kRdmaRead,
           .sges = {&into, 1},
           .remote_addr = kBase + 4000,
           .rkey = came});
  pair_.run();
  ASSERT_EQ(far().completions.size(), 2U);
  EXPECT_EQ(far().completions[1].status, WcStatus::kSuccess);
  EXPECT_EQ(far().bytes_at(200'000, 5000), staged_bytes(4000, 5000));
}

struct Violation {
  const char* what;
  AccessFault fault;
  RegisterRequest (*make)(MemoryTable& table, PdId pd, const MemoryRegion& good);
};

constexpr std::array kViolations{
    Violation{"points to no entry", AccessFault::kNotValid,
              [](MemoryTable&, PdId, const MemoryRegion& good) {
                return RegisterRequest{Lkey(good.lkey.value() ^ 0x50), kBase, kUsualRights};
              }},
    Violation{"points to a window", AccessFault::kWrongType,
              [](MemoryTable&, PdId, const MemoryRegion& good) {
                return RegisterRequest{Lkey(good.rkey.value()), kBase, kUsualRights};
              }},
    Violation{"an entry of another domain", AccessFault::kWrongPd,
              [](MemoryTable& table, PdId pd, const MemoryRegion&) {
                return RegisterRequest{table.regions.reserve_mr(PdId(pd.value() + 1), true).value().lkey,
                                       kBase, kUsualRights};
              }},
    Violation{
        "an old instance", AccessFault::kWrongInstance,
        [](MemoryTable& table, PdId pd, const MemoryRegion&) {
          std::array<std::byte, 8> memory{};
          const MemoryRegion first = table.regions.reserve_mr(pd, true).value();
          EXPECT_TRUE(table.regions.stage(first.lkey, memory).ok());
          EXPECT_EQ(table.regions.fill_reserved(pd, {first.lkey, kBase, kUsualRights}), AccessFault::kNone);
          EXPECT_EQ(table.regions.invalidate_region(pd, first.lkey), AccessFault::kNone);
          EXPECT_NE(table.regions.stage(first.lkey, memory).value().lkey, first.lkey);
          return RegisterRequest{first.lkey, kBase, kUsualRights};
        }},
    Violation{
        "registered already", AccessFault::kAlreadyBound,
        [](MemoryTable& table, PdId pd, const MemoryRegion&) {
          static std::array<std::byte, 8> memory;
          const MemoryRegion twice = table.regions.reserve_mr(pd, true).value();
          EXPECT_TRUE(table.regions.stage(twice.lkey, memory).ok());
          EXPECT_EQ(table.regions.fill_reserved(pd, {twice.lkey, kBase, kUsualRights}), AccessFault::kNone);
          return RegisterRequest{twice.lkey, kBase, kUsualRights};
        }},
    Violation{"nothing is staged", AccessFault::kNotMapped,
              [](MemoryTable& table, PdId pd, const MemoryRegion&) {
                return RegisterRequest{table.regions.reserve_mr(pd, true).value().lkey, kBase, kUsualRights};
              }},
    Violation{"beyond the last address", AccessFault::kOutOfBounds,
              [](MemoryTable&, PdId, const MemoryRegion& good) {
                return RegisterRequest{good.lkey, std::numeric_limits<uint64_t>::max() - 4 * kPageBytes + 2,
                                       kUsualRights};
              }},
    Violation{"a right without its key", AccessFault::kBadFlags,
              [](MemoryTable&, PdId, const MemoryRegion& good) {
                return RegisterRequest{good.lkey, kBase, Access::kLocalWrite};
              }},
    Violation{"no room in the tables", AccessFault::kNoRoom,
              [](MemoryTable& table, PdId, const MemoryRegion& good) {
                table.regions.limit_page_entries(3);
                return RegisterRequest{good.lkey, kBase, kUsualRights};
              }},
};

TEST_F(SendRegistrationRow, TPT_REG_04_each_single_violation_gives_an_error_completion) {
  covers("TPT-REG-04");
  for (const Violation& violation : kViolations) {
    SCOPED_TRACE(violation.what);
    connect(SendRegistration::kAnticipatory);
    const MemoryRegion good = reserve();
    SendRequest request = registration(1, good.lkey);
    request.registration = violation.make(table(), near().pd, good);
    const uint64_t before = near().adapter->access_faults().get(violation.fault);
    post(0, request);
    EXPECT_TRUE(near().completions.empty()) << "it is validated when the WQE is reached";
    pair_.run();
    expect_completions(0, {{1, WcStatus::kMwBind}});
    EXPECT_EQ(near().adapter->access_faults().get(violation.fault), before + 1);
    EXPECT_FALSE(table().query(good.lkey.value())->valid);
    EXPECT_FALSE(table().query(good.rkey.value())->valid);
    table().regions.limit_page_entries(std::numeric_limits<uint64_t>::max());
    connect(SendRegistration::kAnticipatory);
    post(0, registration(2, good.lkey));
    pair_.run();
    expect_completions(0, {{2, WcStatus::kSuccess}});
    const TptEntry entry = *table().query(good.lkey.value());
    EXPECT_TRUE(entry.valid && table().query(good.rkey.value())->valid) << "then the entry is created";
    EXPECT_EQ(entry.start, kBase);
    EXPECT_EQ(entry.length, 4 * kPageBytes);
  }
}

TEST_F(SendRegistrationRow, TPT_REG_05_the_reactive_option_drains_the_send_queue_and_all_else_goes_on) {
  covers("TPT-REG-05");
  connect(SendRegistration::kReactive);
  near().fill(0, 100'000, 5);
  far().fill(300'000, 4096, 9);
  const MemoryRegion good = reserve();
  const MemoryRegion bad = table().regions.reserve_mr(near().pd, true).value();  // nothing is staged for it
  const Sge big = near().sge(0, 100'000);
  const Sge small{.addr = kBase, .length = 64, .lkey = good.lkey};
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 20, {near().sge(400'000, 4096)}), PostResult::kOk);
  const std::array<SendRequest, 4> list{write(1, big), registration(2, bad.lkey), registration(3, good.lkey),
                                        write(4, small, 200'000)};
  size_t accepted = 0;
  ASSERT_EQ(near().adapter->post_send(*qps_[0], list, accepted), PostResult::kOk);
  // All cells of the first request leave, and the second request is reached, before an acknowledgement comes.
  for (int turn = 0; turn < 50; ++turn) pair_.run_one(0);
  EXPECT_EQ(state(0), QpState::kSqd);
  EXPECT_TRUE(near().completions.empty()) << "in the order of posting";
  // In between the peer sends and reads.
  const Sge message = far().sge(300'000, 4096);
  const Sge into = far().sge(310'000, 4096);
  post(1, {.wr_id = 30, .opcode = SendOpcode::kSend, .sges = {&message, 1}});
  post(1, {.wr_id = 31,
           .opcode = SendOpcode::kRdmaRead,
           .sges = {&into, 1},
           .remote_addr = near().region.addr,
           .rkey = near().region.rkey});
  pair_.run();
  std::vector<WorkCompletion>& got = near().completions;
  const auto received = std::find_if(got.begin(), got.end(), [](const auto& c) { return c.wr_id == 20; });
  ASSERT_NE(received, got.end());
  EXPECT_EQ(received->status, WcStatus::kSuccess);
  got.erase(received);
  expect_completions(
      0, {{1, WcStatus::kSuccess}, {2, WcStatus::kMwBind}, {3, WcStatus::kFlushed}, {4, WcStatus::kFlushed}});
  expect_completions(1, {{30, WcStatus::kSuccess}, {31, WcStatus::kSuccess}});
  EXPECT_EQ(far().bytes_at(0, 100'000), near().bytes_at(0, 100'000));
  EXPECT_EQ(far().bytes_at(310'000, 4096), near().bytes_at(0, 4096));
  EXPECT_EQ(near().bytes_at(400'000, 4096), far().bytes_at(300'000, 4096));
  EXPECT_FALSE(table().query(good.lkey.value())->valid) << "what stands behind the bad one stops";
  EXPECT_EQ(state(0), QpState::kSqd);
  EXPECT_EQ(events(0), std::vector{AsyncEventKind::kSqDrained});
  EXPECT_EQ(state(1), QpState::kRts) << "the peer hears of nothing";

  // Retry: the queue accepts the requests at once and executes them when it runs again.
  got.clear();
  ASSERT_EQ(stage(bad.lkey).lkey, bad.lkey);
  for (size_t i = 1; i < list.size(); ++i) post(0, list[i]);
  pair_.run();
  EXPECT_TRUE(got.empty());
  QpAttr attr;
  attr.state = QpState::kRts;
  ASSERT_EQ(near().adapter->modify_qp(*qps_[0], attr, kQpAttrState), ModifyResult::kOk);
  pair_.run();
  expect_completions(0, {{2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}, {4, WcStatus::kSuccess}});
  EXPECT_EQ(far().bytes_at(200'000, 64), staged_bytes(0, 64));
}

/// The refusal that ends a connection is a NAK on RC (C-23). It goes out while the send queue is drained...
TEST_F(SendRegistrationRow, TPT_REG_05_a_bad_request_of_the_peer_is_refused_while_the_queue_is_drained) {
  covers("TPT-REG-05");
  connect(SendRegistration::kReactive);
  const MemoryRegion bad = table().regions.reserve_mr(near().pd, true).value();
  post(0, registration(1, bad.lkey));
  pair_.run();
  ASSERT_EQ(state(0), QpState::kSqd);
  const std::vector<std::byte> before = near().memory;
  far().fill(0, 64, 4);
  const Sge data = far().sge(0, 64);
  post(1, {.wr_id = 30,
           .opcode = SendOpcode::kRdmaWrite,
           .sges = {&data, 1},
           .remote_addr = near().region.addr,
           .rkey = Rkey(near().region.rkey.value() ^ 0x100)});
  pair_.run();
  expect_completions(1, {{30, WcStatus::kRemoteAccess}});
  EXPECT_EQ(near().memory, before);
  EXPECT_EQ(state(0), QpState::kErr);
  EXPECT_EQ(state(1), QpState::kErr);
}

/// ... and it is taken, for a request that was posted before the bad one.
TEST_F(SendRegistrationRow, TPT_REG_05_a_refusal_by_the_peer_is_taken_while_the_queue_drains) {
  covers("TPT-REG-05");
  connect(SendRegistration::kReactive);
  const MemoryRegion bad = table().regions.reserve_mr(near().pd, true).value();
  const Sge data = near().sge(0, 64);
  SendRequest refused = write(1, data);
  refused.rkey = Rkey(refused.rkey.value() ^ 0x100);
  const std::array<SendRequest, 3> list{refused, registration(2, bad.lkey), write(3, data)};
  size_t accepted = 0;
  ASSERT_EQ(near().adapter->post_send(*qps_[0], list, accepted), PostResult::kOk);
  for (int turn = 0; turn < 10; ++turn) pair_.run_one(0);
  ASSERT_EQ(state(0), QpState::kSqd);
  EXPECT_TRUE(near().completions.empty());
  pair_.run();
  expect_completions(0, {{1, WcStatus::kRemoteAccess}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}});
  EXPECT_EQ(state(0), QpState::kErr);
}

TEST_F(SendRegistrationRow, TPT_REG_06_the_anticipatory_option_stops_everything) {
  covers("TPT-REG-06");
  connect(SendRegistration::kAnticipatory);
  EXPECT_EQ(near().adapter->config(*qps_[0]).registration, SendRegistration::kAnticipatory);
  near().fill(0, 100'000, 5);
  const MemoryRegion good = reserve();
  const MemoryRegion bad = table().regions.reserve_mr(near().pd, true).value();
  const Sge big = near().sge(0, 100'000);
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 20, {near().sge(400'000, 4096)}), PostResult::kOk);
  const std::array<SendRequest, 3> list{write(1, big), registration(2, bad.lkey), registration(3, good.lkey)};
  size_t accepted = 0;
  ASSERT_EQ(near().adapter->post_send(*qps_[0], list, accepted), PostResult::kOk);
  for (int turn = 0; turn < 50; ++turn) pair_.run_one(0);
  EXPECT_EQ(state(0), QpState::kErr);
  expect_completions(
      0,
      {{1, WcStatus::kFlushed}, {2, WcStatus::kMwBind}, {3, WcStatus::kFlushed}, {20, WcStatus::kFlushed}});
  EXPECT_EQ(events(0), std::vector{AsyncEventKind::kQpFatal});
  EXPECT_FALSE(table().query(good.lkey.value())->valid);
  // A queue pair in error receives nothing.
  const auto before = near().memory;
  const Sge message = far().sge(0, 64);
  post(1, {.wr_id = 30,
           .opcode = SendOpcode::kRdmaWrite,
           .sges = {&message, 1},
           .remote_addr = near().region.addr,
           .rkey = near().region.rkey});
  pair_.run(100'000);
  EXPECT_EQ(near().memory, before);
  expect_completions(1, {{30, WcStatus::kRetryExceeded}});
  EXPECT_EQ(near().completions.size(), 4U);
}

TEST_F(SendRegistrationRow, TPT_REG_07_one_completion_for_each_request) {
  covers("TPT-REG-07");
  connect(SendRegistration::kReactive, false);
  for (uint64_t i = 0; i < 5; ++i) post(0, registration(i, reserve().lkey));
  SendRequest silent = registration(5, reserve().lkey);
  silent.flags = 0;
  post(0, silent);
  silent.wr_id = 6;  // the region is already registered, so this request fails
  post(0, silent);
  pair_.run();
  expect_completions(0, {{0, WcStatus::kSuccess},
                         {1, WcStatus::kSuccess},
                         {2, WcStatus::kSuccess},
                         {3, WcStatus::kSuccess},
                         {4, WcStatus::kSuccess},
                         {6, WcStatus::kMwBind}});
  for (const WorkCompletion& entry : near().completions) {
    EXPECT_EQ(entry.opcode, WcOpcode::kRegister);
    EXPECT_EQ(entry.qpn, near().adapter->qpn(*qps_[0]));
  }
}

// ---- what follows a registration --------------------

/// A local invalidation waits for earlier requests, because they may have to read the memory again.
TEST_F(SendRegistrationRow, a_local_invalidate_waits_until_earlier_requests_have_completed) {
  connect(SendRegistration::kReactive);
  near().fill(kStaged, 4 * kPageBytes, 11);
  const MemoryRegion region = reserve();
  const Sge data{.addr = kBase, .length = 4 * kPageBytes, .lkey = region.lkey};
  const std::array<SendRequest, 3> list{
      registration(1, region.lkey), write(2, data),
      SendRequest{.wr_id = 3, .opcode = SendOpcode::kLocalInvalidate, .rkey = Rkey(region.lkey.value())}};
  uint32_t sent = 0;
  pair_.pipe.set_filter([&](int from, std::vector<std::byte>& /*bytes*/) {
    return from == 0 && ++sent <= 8 ? Verdict::kDrop : Verdict::kPass;
  });
  size_t accepted = 0;
  ASSERT_EQ(near().adapter->post_send(*qps_[0], list, accepted), PostResult::kOk);
  for (int turn = 0; turn < 50; ++turn) pair_.run_one(0);
  EXPECT_TRUE(table().query(region.lkey.value())->valid);
  pair_.run(20'000);
  expect_completions(0, {{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}});
  EXPECT_EQ(far().bytes_at(0, 4 * kPageBytes), staged_bytes(0, 4 * kPageBytes));
  EXPECT_FALSE(table().query(region.lkey.value())->valid);
  EXPECT_FALSE(table().query(region.rkey.value())->valid);
}

TEST_F(SendRegistrationRow, a_fenced_registration_waits_for_reads) {
  connect(SendRegistration::kReactive);
  const MemoryRegion region = reserve();
  const Sge into = near().sge(0, 64);
  SendRequest fenced = registration(2, region.lkey);
  fenced.flags |= kSendFence;
  pair_.pipe.set_filter([](int from, std::vector<std::byte>& /*bytes*/) {
    return from == 1 ? Verdict::kHold : Verdict::kPass;
  });
  post(0, {.wr_id = 1,
           .opcode = SendOpcode::kRdmaRead,
           .sges = {&into, 1},
           .remote_addr = far().region.addr,
           .rkey = far().region.rkey});
  post(0, fenced);
  pair_.run(20);
  EXPECT_FALSE(table().query(region.lkey.value())->valid);
  pair_.pipe.set_filter({});
  pair_.pipe.release_held();
  pair_.run(20);
  expect_completions(0, {{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}});
  EXPECT_TRUE(table().query(region.lkey.value())->valid);
}

/// The peer's last message invalidates the key that it used; the next registration has new keys.
TEST_F(SendRegistrationRow, the_peer_invalidates_and_the_next_registration_has_new_keys) {
  connect(SendRegistration::kReactive);
  const MemoryRegion region = reserve();
  post(0, registration(1, region.lkey));
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 20, {near().sge(400'000, 64)}), PostResult::kOk);
  pair_.run();
  const Sge data = far().sge(0, 32);
  post(1, {.wr_id = 2, .opcode = SendOpcode::kSendWithInvalidate, .sges = {&data, 1}, .rkey = region.rkey});
  pair_.run();
  ASSERT_EQ(near().completions.size(), 2U);
  EXPECT_NE(near().completions[1].flags & kWcWithInvalidate, 0);
  EXPECT_EQ(near().completions[1].invalidated, region.rkey);
  std::byte* at = nullptr;
  EXPECT_EQ(table().checks.check_local(near().pd, {kBase, 1, region.lkey}, AccessKind::kLocalRead, at),
            AccessFault::kNotValid)
      << "both keys end";
  const MemoryRegion again = stage(region.lkey);
  EXPECT_NE(again.lkey, region.lkey);
  EXPECT_NE(again.rkey, region.rkey);
  post(0, registration(3, again.lkey));
  pair_.run();
  EXPECT_EQ(near().completions.back().status, WcStatus::kSuccess);
  RemoteGrant grant;
  EXPECT_EQ(table().checks.check_remote(near().pd, again.rkey, kBase, 1, AccessKind::kRemoteWrite, grant),
            AccessFault::kNone);
  EXPECT_EQ(table().checks.check_remote(near().pd, region.rkey, kBase, 1, AccessKind::kRemoteWrite, grant),
            AccessFault::kWrongInstance);
}

/// A peer may invalidate by an RKey only, and work requests do not end an ordinary region.
TEST_F(SendRegistrationRow, invalidation_ends_only_what_a_request_has_registered) {
  connect(SendRegistration::kReactive);
  const MemoryRegion region = reserve();
  post(0, registration(1, region.lkey));
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 20, {near().sge(400'000, 64)}), PostResult::kOk);
  pair_.run();
  const Sge data = far().sge(0, 32);
  post(1, {.wr_id = 2,
           .opcode = SendOpcode::kSendWithInvalidate,
           .sges = {&data, 1},
           .rkey = Rkey(region.lkey.value())});
  pair_.run();
  EXPECT_EQ(far().completions.back().status, WcStatus::kRemoteAccess);
  EXPECT_TRUE(table().query(region.lkey.value())->valid);
  EXPECT_EQ(table().regions.invalidate_region(near().pd, near().region.lkey), AccessFault::kWrongType);
  EXPECT_FALSE(table().regions.rereg_mr(region.lkey, {.access = Access::kLocalWrite}).ok());
  EXPECT_FALSE(table().regions.stage(region.lkey, near().memory).ok()) << "it is registered";
  // A region with a bound window cannot be invalidated.
  const MemoryRegion bound = reserve();
  ASSERT_EQ(table().regions.fill_reserved(near().pd, {bound.lkey, kBase, kUsualRights | Access::kWindowBind}),
            AccessFault::kNone);
  const Rkey key = table().windows.alloc_rkey(near().pd).value();
  ASSERT_EQ(table().windows.bind_rkey(near().pd, {key, bound.lkey, kBase, 8, Access::kRemoteRead}),
            AccessFault::kNone);
  EXPECT_EQ(table().regions.invalidate_region(near().pd, bound.lkey), AccessFault::kAlreadyBound);
  ASSERT_EQ(table().windows.unbind_rkey(near().pd, key), AccessFault::kNone);
  EXPECT_EQ(table().regions.invalidate_region(near().pd, bound.lkey), AccessFault::kNone);
}

/// Late cells of a write are not placed after the invalidation.
TEST_F(SendRegistrationRow, nothing_is_placed_after_the_invalidation) {
  connect(SendRegistration::kReactive);
  const MemoryRegion region = reserve();
  post(0, registration(1, region.lkey));
  pair_.run();
  uint32_t sent = 0;
  pair_.pipe.set_filter([&](int from, std::vector<std::byte>& /*bytes*/) {
    return from == 1 && ++sent > 2 ? Verdict::kHold : Verdict::kPass;
  });
  far().fill(0, 4096, 77);
  const Sge data = far().sge(0, 2000);
  post(1, {.wr_id = 2,
           .opcode = SendOpcode::kRdmaWrite,
           .sges = {&data, 1},
           .remote_addr = kBase,
           .rkey = region.rkey});
  pair_.run(5);
  post(0, {.wr_id = 3, .opcode = SendOpcode::kLocalInvalidate, .rkey = region.rkey});
  pair_.run(5);
  ASSERT_EQ(near().completions.back().wr_id, 3U);
  ASSERT_EQ(near().completions.back().status, WcStatus::kSuccess);
  const auto before = near().memory;
  // The same memory has new keys now: a late cell with the old key is refused.
  const MemoryRegion again = stage(region.lkey);
  post(0, registration(4, again.lkey));
  pair_.pipe.set_filter({});
  pair_.pipe.release_held();
  pair_.run();
  EXPECT_EQ(near().memory, before);
  EXPECT_EQ(far().completions.back().status, WcStatus::kRemoteAccess);
}

TEST_F(SendRegistrationRow, registering_and_invalidating_take_no_memory) {
  connect(SendRegistration::kReactive);
  const MemoryRegion region = reserve();
  post(0, registration(1, region.lkey));
  post(0, {.wr_id = 2, .opcode = SendOpcode::kLocalInvalidate, .rkey = region.rkey});
  const uint64_t before = allocations();
  near().adapter->poll(pair_.clock.now());
  EXPECT_EQ(allocations(), before);
  pair_.run();
  expect_completions(0, {{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}});
}

TEST_F(SendRegistrationRow, an_unacknowledged_service_registers_too) {
  QpConfig config;
  config.type = QpType::kUc;
  config.registration = SendRegistration::kReactive;
  qps_ = pair_.connect(config);
  const MemoryRegion good = reserve();
  const MemoryRegion bad = table().regions.reserve_mr(near().pd, true).value();
  post(0, registration(1, good.lkey));
  post(0, registration(2, bad.lkey));
  post(0, registration(3, good.lkey));
  pair_.run();
  expect_completions(0, {{1, WcStatus::kSuccess}, {2, WcStatus::kMwBind}, {3, WcStatus::kFlushed}});
  EXPECT_EQ(state(0), QpState::kSqd);
}

}  // namespace
}  // namespace weft::test
