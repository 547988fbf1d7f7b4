// Keys that move between the NICs of a computer: one test per row of MIG, with 2, 3 and 4 NICs. The first NIC
// makes the keys unless a test says otherwise; a QP that moves arrives at another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "messages/transport_headers.h"
#include "tests/support/nic_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
using node::KeyCounter;
namespace {

class KeyMigration : public ::testing::TestWithParam<size_t> {
 protected:
  /// The last NIC: where the QP goes.
  [[nodiscard]] static size_t other() { return GetParam() - 1; }

  NicPair pair{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Nics, KeyMigration, ::testing::Values(2, 3, 4),
                         [](const auto& at) { return std::to_string(at.param); });

TEST(KeysOfNics, MIG_STAG_01_no_key_of_four_nics_comes_twice) {
  covers("MIG-STAG-01");
  NicPair pair(4);
  std::set<uint32_t> seen;
  for (size_t nic = 0; nic < 4; ++nic) {
    std::vector<Rkey> keys(10'000);
    ASSERT_TRUE(pair.list(pair.far, nic).windows.alloc_rkeys(pair.far.pd, keys).ok());
    for (const Rkey key : keys) {
      seen.insert(key.value());
      ASSERT_EQ(key.value() >> 28, NicPair::kNumbers[nic]);
    }
  }
  EXPECT_EQ(seen.size(), 40'000U);
}

TEST_P(KeyMigration, MIG_STAG_02_a_key_is_made_by_the_nic_and_bound_to_memory_afterwards) {
  covers("MIG-STAG-02");
  static_assert(sizeof(Rkey().value()) == 4, "a key has 32 bits");
  const auto qps = pair.connect();
  MemoryTable& list = pair.list(pair.far, 0);
  const MemoryRegion reserved = list.regions.reserve_mr(pair.far.pd, true).value();
  EXPECT_FALSE(list.query(reserved.rkey.value())->valid);
  std::vector<std::byte> memory(4096);
  ASSERT_TRUE(list.regions.stage(reserved.lkey, memory).ok());
  ASSERT_EQ(list.regions.fill_reserved(pair.far.pd, {.lkey = reserved.lkey,
                                                     .addr = 0x5000,
                                                     .access = Access::kLocalWrite | Access::kRemoteWrite}),
            AccessFault::kNone);
  pair.near.fill(0, 64, 0x41);
  ASSERT_EQ(pair.write(*qps[0], reserved.rkey, 0x5000 + 128, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(memory[128 + 63], std::byte{0x41});
}

TEST_P(KeyMigration, MIG_STAG_03_the_answer_to_a_read_has_the_key_of_its_request) {
  covers("MIG-STAG-03");
  const auto qps = pair.connect();
  pair.pipes[0]->clear_trace();
  ASSERT_EQ(pair.read(*qps[0], pair.far.region.rkey, pair.far.region.addr, 4096, 64), PostResult::kOk);
  pair.run();
  const auto requests = pair.pipes[0]->sent_by(0, Opcode::kRdmaReadRequest);
  const auto answers = pair.pipes[0]->sent_by(1, Opcode::kRdmaReadResponse);
  ASSERT_EQ(requests.size(), 1U);
  ASSERT_EQ(answers.size(), 1U);
  ReadRequestWire request;
  std::memcpy(&request, requests[0]->view.payload.data(), sizeof request);
  EXPECT_EQ(request.sink_key.get(), pair.near.region.lkey.value());
  EXPECT_EQ(answers[0]->view.rkey.value(), request.sink_key.get());
}

TEST_P(KeyMigration, MIG_STAG_04_a_key_in_the_list_of_its_nic_needs_no_software) {
  covers("MIG-STAG-04");
  const auto qps = pair.connect();
  const uint32_t key = pair.far.region.rkey.value();
  EXPECT_TRUE(pair.list(pair.far, 0).has_key(key));
  EXPECT_FALSE(pair.list(pair.far, other()).has_key(key));
  pair.near.fill(0, 64, 0x42);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(pair.write(*qps[0], 64, 64), PostResult::kOk);
    pair.run(4);
  }
  EXPECT_EQ(pair.near.done.size(), 100U);
  EXPECT_EQ(pair.far.at(64), std::byte{0x42});
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 0U);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 0U);
}

TEST_P(KeyMigration, MIG_STATE_01_an_unknown_key_is_reported_once_and_its_packet_waits) {
  covers("MIG-STATE-01");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  pair.far.component_runs = false;
  pair.near.fill(0, 64, 0x43);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run(30);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 1U);
  EXPECT_GE(pair.far.count(AdapterCounter::kKeyCellsHeld), 1U);
  EXPECT_EQ(pair.far.at(0), std::byte{0}) << "nothing is written before the answer";
  EXPECT_TRUE(pair.near.done.empty());
  pair.far.component_runs = true;
  pair.run();
  EXPECT_EQ(pair.far.at(0), std::byte{0x43});
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
}

TEST(KeysOfNics, MIG_STATE_01_a_corrupted_packet_is_not_reported) {
  covers("MIG-STATE-01");
  NicPair pair(2, true);
  const auto qps = pair.connect();
  pair.move(qps);
  std::vector<std::byte> cell;
  pair.pipes[1]->set_filter([&](int from, std::vector<std::byte>& bytes) {
    if (from == 0 && cell.empty()) cell = bytes;
    return from == 0 ? Verdict::kDrop : Verdict::kPass;
  });
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run(3);
  ASSERT_FALSE(cell.empty());
  cell[cell.size() / 2] ^= std::byte{1};
  pair.pipes[1]->inject_as_is(1, cell);
  pair.run(3);
  EXPECT_EQ(pair.far.adapter->bad_cells().get(CellError::kCrc), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 0U);
  cell[cell.size() / 2] ^= std::byte{1};
  pair.pipes[1]->inject_as_is(1, cell);
  pair.run(3);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 1U) << "the cell as it was sent is";
}

TEST_P(KeyMigration, MIG_STATE_02_the_component_asks_the_originator_for_its_list_and_searches_it) {
  covers("MIG-STATE-02");
  const auto qps = pair.connect({}, other());
  struct Look final : KeyVisitor {
    void see(const KeyEntry& entry) override { seen.push_back(entry); }
    std::vector<KeyEntry> seen;
  } look;
  pair.far.keys->list(NicPair::kNumbers[0])->for_each(look);
  const auto listed = std::find_if(look.seen.begin(), look.seen.end(), [&](const KeyEntry& entry) {
    return entry.key == pair.far.region.rkey.value();
  });
  ASSERT_NE(listed, look.seen.end());
  EXPECT_EQ(listed->origin, reinterpret_cast<uintptr_t>(pair.far.memory.data()));
  pair.move(qps);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.far.count(KeyCounter::kLists), 1U);
  EXPECT_EQ(pair.far.count(KeyCounter::kHandedOver), 1U);
  EXPECT_EQ(pair.far.count(KeyCounter::kInvalid), 0U);
}

TEST_P(KeyMigration, MIG_STATE_03_the_receiving_nic_completes_the_transfer_itself) {
  covers("MIG-STATE-03");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  pair.near.fill(0, 5000, 0x44);
  ASSERT_EQ(pair.write(*qps[0], 100, 5000), PostResult::kOk);
  pair.run(200);
  ASSERT_EQ(pair.near.done.size(), 1U);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(std::count(pair.far.memory.begin(), pair.far.memory.end(), std::byte{0x44}), 5000);
  EXPECT_TRUE(pair.list(pair.far, other()).has_key(pair.far.region.rkey.value()));
}

TEST_P(KeyMigration, MIG_STATE_04_a_guessed_key_is_declared_invalid_and_nothing_is_written) {
  covers("MIG-STATE-04");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  const std::vector<std::byte> before = pair.far.memory;
  pair.near.fill(0, 64, 0x45);
  const Rkey guess(pair.far.region.rkey.value() ^ 0x5A5A);
  ASSERT_EQ(pair.write(*qps[0], guess, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.far.count(KeyCounter::kInvalid), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyCellsDiscarded), 1U);
  EXPECT_EQ(pair.far.memory, before);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
}

TEST(KeysOfNics, MIG_STATE_05_the_number_in_the_key_names_the_nic_that_is_asked) {
  covers("MIG-STATE-05");
  NicPair pair(3);
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const Rkey of_last = pair.bound_key(2, 0, 4096);
  pair.near.fill(0, 64, 0x46);
  ASSERT_EQ(pair.write(*qps[0], of_last, pair.far.region.addr + 64, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.far.at(64), std::byte{0x46});
  EXPECT_EQ(pair.far.count(KeyCounter::kLists), 1U) << "one NIC is asked, not each in turn";
  EXPECT_FALSE(pair.list(pair.far, 0).has_key(of_last.value())) << "the third NIC does not get it";
  const Rkey of_nobody(0x7000'1234);
  ASSERT_EQ(pair.write(*qps[0], of_nobody, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.count(KeyCounter::kLists), 1U) << "no NIC has this number";
}

/// Every access of the second NIC that its copy of the entry does not allow.
TEST_P(KeyMigration, MIG_STATE_06_the_receiving_nic_makes_every_check) {
  covers("MIG-STATE-06");
  struct Case {
    const char* what;
    Access rights;
    uint32_t begin;
    bool reads;
  };
  for (const Case& at : {Case{"below the range", Access::kRemoteWrite, 255, false},
                         Case{"beyond the range", Access::kRemoteWrite, 256 + 128 - 63, false},
                         Case{"no right to write", Access::kRemoteRead, 256, false},
                         Case{"no right to read", Access::kRemoteWrite, 256, true}}) {
    const auto qps = pair.connect({}, other());
    pair.move(qps);
    const Rkey key = pair.bound_key(0, 256, 128, at.rights);
    const std::vector<std::byte> before = pair.far.memory;
    pair.near.fill(0, 64, 0x47);
    const uint64_t va = pair.far.region.addr + at.begin;
    ASSERT_EQ(at.reads ? pair.read(*qps[0], key, va, 0, 64) : pair.write(*qps[0], key, va, 64),
              PostResult::kOk);
    pair.run();
    EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess) << at.what;
    EXPECT_EQ(pair.far.memory, before) << at.what;
    EXPECT_TRUE(pair.list(pair.far, other()).has_key(key.value())) << at.what;
  }
}

TEST_P(KeyMigration, MIG_STATE_06_a_one_shot_key_serves_once_among_all_nics) {
  covers("MIG-STATE-06");
  const auto first = pair.connect({}, other());
  const auto second = pair.connect({}, other());
  pair.move(first);
  const Rkey key = pair.bound_key(0, 0, 4096, Access::kRemoteWrite | Access::kOneShot);
  pair.near.fill(0, 64, 0x48);
  ASSERT_EQ(pair.write(*first[0], key, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_TRUE(pair.list(pair.far, 0).query(key.value())->touched) << "its maker knows that it was used";
  EXPECT_FALSE(pair.list(pair.far, other()).has_key(key.value()));
  ASSERT_EQ(pair.write(*second[0], key, pair.far.region.addr + 128, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess) << "through the NIC that made it";
  EXPECT_EQ(pair.far.at(128), std::byte{0});
}

/// The key ends with the execution of the read, before its response cells leave.
TEST_P(KeyMigration, MIG_STATE_06_a_read_under_a_one_shot_key_is_answered_to_its_last_byte) {
  covers("MIG-STATE-06");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  const Rkey key = pair.bound_key(0, 0, 4096, Access::kRemoteRead | Access::kOneShot);
  pair.far.fill(0, 4096, 0x4C);
  ASSERT_EQ(pair.read(*qps[0], key, pair.far.region.addr, 8192, 3000), PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.near.done.size(), 1U);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.near.at(8192), std::byte{0x4C});
  EXPECT_EQ(pair.near.at(8192 + 2999), std::byte{0x4C});
  EXPECT_TRUE(pair.list(pair.far, 0).query(key.value())->touched) << "its maker knows that it was used";
  EXPECT_FALSE(pair.list(pair.far, other()).has_key(key.value()));
  ASSERT_EQ(pair.read(*qps[0], key, pair.far.region.addr, 8192, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
}

TEST_P(KeyMigration, MIG_STATE_07_later_packets_with_the_key_need_no_question) {
  covers("MIG-STATE-07");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  pair.near.fill(0, 3000, 0x49);
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(pair.write(*qps[0], 0, 3000), PostResult::kOk);
    pair.run(10);
  }
  EXPECT_EQ(pair.near.done.size(), 50U);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeysHandedOver), 1U);
}

TEST_P(KeyMigration, MIG_INV_01_the_bit_places_its_data_and_ends_the_key) {
  covers("MIG-INV-01");
  const auto qps = pair.connect();
  const Rkey key = pair.bound_key(0, 0, 4096);
  pair.near.fill(0, 3000, 0x4A);
  pair.pipes[0]->clear_trace();
  ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 3000, kSendSignaled | kSendInvalidateTarget),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.far.at(2999), std::byte{0x4A}) << "the packet's own data is placed";
  const auto cells = pair.pipes[0]->sent_by(0, Opcode::kRdmaWrite);
  ASSERT_FALSE(cells.empty());
  EXPECT_TRUE(cells.back()->view.has(kCellInvalidateKey));
  EXPECT_FALSE(pair.list(pair.far, 0).query(key.value())->valid);
  pair.near.fill(0, 64, 0x4B);
  ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.at(0), std::byte{0x4A}) << "the next packet is discarded";
}

TEST_P(KeyMigration, MIG_INV_02_a_command_of_the_program_ends_a_key) {
  covers("MIG-INV-02");
  const auto qps = pair.connect();
  const Rkey key = pair.bound_key(0, 0, 4096);
  pair.near.fill(0, 64, 0x4D);
  ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  ASSERT_EQ(pair.far.adapter->post_send(*qps[1], {.opcode = SendOpcode::kLocalInvalidate, .rkey = key}),
            PostResult::kOk);
  pair.run();
  EXPECT_FALSE(pair.list(pair.far, 0).query(key.value())->valid);
  pair.near.fill(0, 64, 0x4E);
  ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.at(0), std::byte{0x4D}) << "the packet behind the command is discarded";
}

/// The three ways to end a key, seen by one NIC: none serves it any more.
enum class KeyEnd : uint8_t { kBit, kSend, kCommand };
class KeyEnding : public ::testing::TestWithParam<std::tuple<size_t, KeyEnd>> {
 protected:
  NicPair pair{std::get<0>(GetParam())};

  /// Ends the key by a packet of near, or at far.
  void finish(QueuePair& near_qp, QueuePair& far_qp, Rkey key) {
    const Sge nothing = pair.near.sge(0, 8);
    switch (std::get<1>(GetParam())) {
      case KeyEnd::kBit:
        ASSERT_EQ(pair.write(near_qp, key, pair.far.region.addr, 8, kSendSignaled | kSendInvalidateTarget),
                  PostResult::kOk);
        break;
      case KeyEnd::kSend: {
        const Sge into = pair.far.sge(8192, 64);
        ASSERT_EQ(pair.far.adapter->post_recv(far_qp, {.sges = {&into, 1}}), PostResult::kOk);
        ASSERT_EQ(
            pair.near.adapter->post_send(
                near_qp, {.opcode = SendOpcode::kSendWithInvalidate, .sges = {&nothing, 1}, .rkey = key}),
            PostResult::kOk);
        break;
      }
      case KeyEnd::kCommand:
        ASSERT_EQ(pair.far.adapter->post_send(far_qp, {.opcode = SendOpcode::kLocalInvalidate, .rkey = key}),
                  PostResult::kOk);
        break;
    }
    pair.run();
    ASSERT_FALSE(pair.near.done.empty() && pair.far.done.empty());
    for (const WorkCompletion& done : pair.near.done) ASSERT_EQ(done.status, WcStatus::kSuccess);
    for (const WorkCompletion& done : pair.far.done) ASSERT_EQ(done.status, WcStatus::kSuccess);
  }
};
[[nodiscard]] std::string name_of_end(const ::testing::TestParamInfo<std::tuple<size_t, KeyEnd>>& at) {
  constexpr std::array kNames{"bit", "send", "command"};
  return std::to_string(std::get<0>(at.param)) + "_" + kNames[static_cast<size_t>(std::get<1>(at.param))];
}
INSTANTIATE_TEST_SUITE_P(Nics, KeyEnding,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(KeyEnd::kBit, KeyEnd::kSend, KeyEnd::kCommand)),
                         name_of_end);

TEST_P(KeyEnding, MIG_INV_03_a_key_that_ends_at_one_nic_has_ended_at_the_others) {
  covers("MIG-INV-03");
  const size_t other = std::get<0>(GetParam()) - 1;
  for (const bool ends_at_other : {true, false}) {
    const auto stays = pair.connect({}, other);
    const auto moves = pair.connect({}, other);
    pair.move(moves);
    const Rkey key = pair.bound_key(0, 0, 4096);
    pair.near.fill(0, 64, 0x4C);
    ASSERT_EQ(pair.write(*moves[0], key, pair.far.region.addr, 64), PostResult::kOk);
    ASSERT_EQ(pair.write(*stays[0], key, pair.far.region.addr, 64), PostResult::kOk);
    pair.run();
    EXPECT_TRUE(pair.list(pair.far, other).has_key(key.value()));
    const auto& ends = ends_at_other ? moves : stays;
    finish(*ends[0], *ends[1], key);
    EXPECT_FALSE(pair.list(pair.far, 0).query(key.value())->valid);
    EXPECT_FALSE(pair.list(pair.far, other).has_key(key.value()));
    pair.near.fill(0, 64, 0x4D);
    for (const auto& qps : {stays, moves}) {
      ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
      pair.run();
      EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
    }
    EXPECT_NE(pair.far.at(0), std::byte{0x4D});
    pair.near.done.clear();
    pair.far.done.clear();
  }
}

/// All transfers are under way when the cable goes.
TEST_P(KeyMigration, MIG_FAIL_01_a_hundred_transfers_finish_through_the_other_nic) {
  covers("MIG-FAIL-01");
  constexpr uint32_t kCut = 100;
  std::vector<std::array<QueuePair*, 2>> all;
  std::vector<Rkey> keys;
  for (uint32_t i = 0; i < kCut; ++i) {
    all.push_back(pair.connect({}, other()));
    keys.push_back(pair.bound_key(0, i * 512, 512));
  }
  pair.near.fill(0, 500, 0x4E);
  pair.pipes[0]->set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  for (uint32_t i = 0; i < kCut; ++i) {
    ASSERT_EQ(pair.write(*all[i][0], keys[i], pair.far.region.addr + i * 512, 500), PostResult::kOk);
  }
  pair.run(2);
  pair.pipes[0]->set_up(false);
  pair.run(400);
  ASSERT_EQ(pair.near.done.size(), kCut);
  for (const WorkCompletion& done : pair.near.done) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(std::count(pair.far.memory.begin(), pair.far.memory.end(), std::byte{0x4E}), 500 * kCut);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), kCut) << "one question per key";
  EXPECT_EQ(pair.far.count(KeyCounter::kHandedOver), kCut);
}

TEST_P(KeyMigration, MIG_READ_01_both_keys_of_a_read_may_have_moved) {
  covers("MIG-READ-01");
  const auto qps = pair.connect({}, other());
  pair.move(qps);
  pair.far.fill(0, 3000, 0x4F);
  ASSERT_EQ(pair.read(*qps[0], pair.far.region.rkey, pair.far.region.addr, 8192, 3000), PostResult::kOk);
  pair.run(200);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(std::count(pair.near.memory.begin(), pair.near.memory.end(), std::byte{0x4F}), 3000);
  EXPECT_EQ(pair.far.count(KeyCounter::kHandedOver), 1U) << "the remote key, at the remote computer";
  EXPECT_EQ(pair.near.count(KeyCounter::kHandedOver), 1U) << "the local key, at this computer";
}

TEST_P(KeyMigration, MIG_WRITE_01_a_write_to_the_second_nic_is_placed_as_by_the_first) {
  covers("MIG-WRITE-01");
  const auto qps = pair.connect({}, other());
  pair.near.fill(0, 64, 0x50);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.far.at(0), std::byte{0x50});
  pair.move(qps);
  pair.near.fill(0, 64, 0x51);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.far.at(0), std::byte{0x51});
  EXPECT_EQ(pair.near.done.size(), 2U);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
