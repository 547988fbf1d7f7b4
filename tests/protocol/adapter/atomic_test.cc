// Compare-and-swap and fetch-and-add on aligned words: executed once under loss and repetition, in order with
// earlier requests, and only under a key and a QP that allow them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "adapter/queues/queue_pair.h"
#include "messages/transport_headers.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

class Atomics : public ::testing::Test {
 protected:
  Atomics() {
    PairSide& far = pair.side(1);
    region = far.adapter->memory()
                 .regions.reg_mr(far.pd, std::as_writable_bytes(std::span(words)), kAll | Access::kWindowBind)
                 .value();
  }
  std::array<QueuePair*, 2> connect(const QpAttr& attr = {}, const QpConfig& config = {}) {
    const auto qps = pair.connect(config, attr);
    grant(*qps[1], kAll);
    return qps;
  }
  void grant(QueuePair& qp, Access access) {
    QpAttr attr;
    attr.access = access;
    ASSERT_EQ(pair.side(1).adapter->modify_qp(qp, attr, kQpAttrAccess), ModifyResult::kOk);
  }
  SendRequest request(SendOpcode opcode, uint64_t operand, uint64_t compare = 0, uint64_t offset = 0) const {
    return {.opcode = opcode,
            .remote_addr = region.addr + offset,
            .rkey = region.rkey,
            .compare = compare,
            .operand = operand};
  }
  /// Posts a request whose old value goes to word `slot` of side 0.
  PostResult post(QueuePair& qp, SendRequest wanted, uint32_t slot = 0) {
    const Sge sge = pair.side(0).sge(slot * 8, 8);
    wanted.wr_id = slot;
    wanted.sges = {&sge, 1};
    return pair.side(0).adapter->post_send(qp, wanted);
  }
  uint64_t old_value(uint32_t slot = 0) {
    uint64_t value = 0;
    std::memcpy(&value, &pair.side(0).memory[size_t{slot} * 8], sizeof value);
    return value;
  }
  std::vector<WorkCompletion>& completions() { return pair.side(0).completions; }
  WcStatus status_of_one(QueuePair& qp, const SendRequest& wanted) {
    completions().clear();
    EXPECT_EQ(post(qp, wanted), PostResult::kOk);
    pair.run(50);
    return completions().empty() ? WcStatus::kGeneral : completions()[0].status;
  }

  std::array<uint64_t, 512> words{};
  AdapterPair pair;
  MemoryRegion region;
};

TEST_F(Atomics, and_writes_behind_a_read_do_not_change_what_it_brings) {
  const auto qps = connect();
  words[0] = 41;
  constexpr uint64_t kNew = 77;
  std::memcpy(&pair.side(0).memory[8], &kNew, sizeof kNew);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kRdmaRead, 0)), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kRdmaWrite, 0), 1), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kRdmaRead, 0), 2), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 1), 3), PostResult::kOk);
  pair.run(50);
  ASSERT_EQ(completions().size(), 4U);
  EXPECT_EQ(old_value(0), 41U);
  EXPECT_EQ(old_value(2), kNew);
  EXPECT_EQ(old_value(3), kNew);
  EXPECT_EQ(words[0], kNew + 1);
}

TEST_F(Atomics, change_the_word_and_give_back_what_it_was) {
  const auto qps = connect();
  words[0] = 41;
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 1)), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kCompareSwap, 7, 42), 1), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kCompareSwap, 9, 42), 2), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, ~uint64_t{0}), 3), PostResult::kOk);
  pair.run(50);
  ASSERT_EQ(completions().size(), 4U);
  for (const WorkCompletion& done : completions()) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(completions()[0].opcode, WcOpcode::kFetchAdd);
  EXPECT_EQ(completions()[1].opcode, WcOpcode::kCompareSwap);
  EXPECT_EQ(completions()[1].byte_count, 8U);
  EXPECT_EQ(old_value(0), 41U);
  EXPECT_EQ(old_value(1), 42U) << "as compared: swapped";
  EXPECT_EQ(old_value(2), 7U) << "not as compared: left alone";
  EXPECT_EQ(old_value(3), 7U);
  EXPECT_EQ(words[0], 6U) << "addition wraps";
}

TEST_F(Atomics, scatter_the_old_value_over_a_list) {
  const auto qps = connect();
  words[0] = 0x0807060504030201;
  const std::array<Sge, 2> list{pair.side(0).sge(100, 3), pair.side(0).sge(200, 5)};
  SendRequest wanted = request(SendOpcode::kFetchAdd, 0);
  wanted.sges = list;
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], wanted), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(std::memcmp(&pair.side(0).memory[100], words.data(), 3), 0);
  EXPECT_EQ(std::memcmp(&pair.side(0).memory[200], std::as_bytes(std::span(words)).data() + 3, 5), 0);
  wanted.sges = {list.data(), 1};
  EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], wanted), PostResult::kBadAtomic);
}

TEST_F(Atomics, SAN_WQE_04_eight_queue_pairs_increment_a_word_a_thousand_times_each) {
  covers("SAN-WQE-04");
  constexpr uint32_t kQps = 8;
  constexpr uint64_t kIncrements = 1000;
  std::array<QueuePair*, kQps> qps{};
  for (QueuePair*& qp : qps) qp = connect()[0];
  std::array<uint64_t, kQps> guess{};
  std::array<uint64_t, kQps> done{};
  std::vector<bool> seen(kQps * kIncrements);
  uint64_t rounds = 0;
  for (bool left = true; left && rounds < 2 * kQps * kIncrements; ++rounds) {
    left = false;
    for (uint32_t i = 0; i < kQps; ++i) {
      if (done[i] == kIncrements) continue;
      left = true;
      ASSERT_EQ(post(*qps[i], request(SendOpcode::kCompareSwap, guess[i] + 1, guess[i]), i), PostResult::kOk);
    }
    pair.run(2, 1us);
    pair.pipe.clear_trace();
    for (uint32_t i = 0; i < kQps && left; ++i) {
      if (done[i] == kIncrements) continue;
      const uint64_t was = old_value(i);
      if (was == guess[i]) {  // swapped: no other QP has swapped this value
        ASSERT_FALSE(seen[was]);
        seen[was] = true;
        ++done[i];
        guess[i] = was + 1;
      } else {
        guess[i] = was;
      }
    }
  }
  EXPECT_EQ(words[0], kQps * kIncrements);
  for (const WorkCompletion& one : completions()) ASSERT_EQ(one.status, WcStatus::kSuccess);
}

TEST_F(Atomics, are_executed_once_however_much_is_lost_on_either_way) {
  SeededRandom random(5);
  const auto qps = connect({.ack_timeout = 200ms});
  pair.pipe.set_filter([&](int, std::vector<std::byte>&) {
    const uint64_t dice = random.below(10);
    return dice < 3 ? Verdict::kDrop : dice < 5 ? Verdict::kTwice : Verdict::kPass;
  });
  constexpr uint32_t kAdds = 300;
  uint32_t posted = 0;
  for (int turns = 0; turns < 4000 && completions().size() < kAdds; ++turns) {
    while (posted < kAdds && posted < completions().size() + 100 &&
           post(*qps[0], request(SendOpcode::kFetchAdd, 1), posted) == PostResult::kOk) {
      ++posted;
    }
    pair.run(5, 1ms);
  }
  ASSERT_EQ(completions().size(), kAdds);
  EXPECT_EQ(words[0], kAdds);
  for (uint32_t i = 0; i < kAdds; ++i) {
    EXPECT_EQ(completions()[i].status, WcStatus::kSuccess);
    EXPECT_EQ(old_value(i), i);
  }
}

TEST_F(Atomics, that_come_again_long_after_are_answered_as_before_or_not_at_all) {
  const auto qps = connect();
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 5)), PostResult::kOk);
  pair.run(20);
  const std::vector<std::byte> first = pair.pipe.sent_by(0, Opcode::kFetchOpRequest).at(0)->bytes;
  const std::vector<std::byte> answer = pair.pipe.sent_by(1, Opcode::kFetchOpResponse).at(0)->bytes;
  pair.pipe.clear_trace();
  grant(*qps[1], Access::kNone);  // the request was executed while it was allowed
  pair.pipe.inject(1, first);
  pair.run_one(1);
  EXPECT_EQ(words[0], 5U);
  ASSERT_EQ(pair.pipe.sent_by(1, Opcode::kFetchOpResponse).size(), 1U);
  EXPECT_EQ(pair.pipe.sent_by(1, Opcode::kFetchOpResponse)[0]->bytes, answer);
  grant(*qps[1], kAll);
  for (uint32_t i = 0; i < 16; ++i) {
    ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 5)), PostResult::kOk);
  }
  pair.run(50);
  pair.pipe.clear_trace();
  pair.pipe.inject(1, first);
  pair.run_one(1);
  EXPECT_EQ(words[0], 17U * 5);
  EXPECT_TRUE(pair.pipe.sent_by(1, Opcode::kFetchOpResponse).empty());
  EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kReadsNotRepeated), 1U);
}

/// PSNs repeat after 2^24 packets; with few atomic operations in between, an old result is still kept.
TEST_F(Atomics, that_come_again_are_not_answered_as_those_of_the_circle_of_psns_before) {
  constexpr uint64_t kOld = 77;
  for (const Psn border : {Psn(0), Psn(1U << 23)}) {
    for (const SendOpcode crosses : {SendOpcode::kRdmaWrite, SendOpcode::kFetchAdd}) {
      const Psn first = border.plus(Psn::kMask - 1);  // two PSNs before the border
      const QpConfig config;
      const std::array<QueuePair*, 2> qps{pair.make_qp(0, config), pair.make_qp(1, config)};
      const auto number = [&](int index) {
        return pair.side(index).adapter->qpn(*qps[static_cast<size_t>(index)]);
      };
      pair.bring_up(0, *qps[0], config, number(1), Lid(2), first, first);
      pair.bring_up(1, *qps[1], config, number(0), Lid(1), first, first);
      grant(*qps[1], kAll);
      words.fill(0);
      auto& kept = qps[1]->rx.executed_reads;
      kept.push({.psn = border.plus(1),
                 .key = region.rkey,
                 .va = region.addr,
                 .bytes = 8,
                 .is_atomic = true,
                 .old_value = kOld});
      ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 5)), PostResult::kOk);
      pair.run(20);
      EXPECT_EQ(kept.size(), 2U) << "the border is not reached";
      ASSERT_EQ(post(*qps[0], request(crosses, 5, 0, 8)), PostResult::kOk);
      pair.run(20);
      ASSERT_EQ(qps[1]->rx.expected, border);
      EXPECT_EQ(kept.front().psn, first) << "that of this half is kept, the old one is not";
      ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 5)), PostResult::kOk);
      pair.run(20);
      pair.pipe.set_filter([first_one = true](int from, std::vector<std::byte>&) mutable {
        return from == 1 && std::exchange(first_one, false) ? Verdict::kDrop : Verdict::kPass;
      });
      ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 5), 3), PostResult::kOk);
      pair.run(2000, 1ms);
      pair.pipe.set_filter(nullptr);
      EXPECT_EQ(words[0], 15U);
      EXPECT_EQ(old_value(3), 10U);
    }
  }
}

TEST_F(Atomics, see_what_was_written_before_them_and_are_seen_by_reads_after_them) {
  const auto qps = connect();
  // The write arrives last.
  pair.pipe.set_filter([first = true](int from, std::vector<std::byte>&) mutable {
    return from == 0 && std::exchange(first, false) ? Verdict::kHold : Verdict::kPass;
  });
  const uint64_t value = 100;
  std::memcpy(&pair.side(0).memory[800], &value, sizeof value);
  const Sge from = pair.side(0).sge(800, 8);
  const Sge into = pair.side(0).sge(900, 8);
  SendRequest write = request(SendOpcode::kRdmaWrite, 0);
  write.sges = {&from, 1};
  SendRequest read = request(SendOpcode::kRdmaRead, 0);
  read.sges = {&into, 1};
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], write), PostResult::kOk);
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 11)), PostResult::kOk);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], read), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(words[0], 0U);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(3000);
  ASSERT_EQ(completions().size(), 3U);
  EXPECT_EQ(old_value(), 100U);
  uint64_t seen = 0;
  std::memcpy(&seen, &pair.side(0).memory[900], sizeof seen);
  EXPECT_EQ(seen, 111U);
}

TEST_F(Atomics, make_a_fenced_request_wait) {
  const auto qps = connect();
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  ASSERT_EQ(post(*qps[0], request(SendOpcode::kFetchAdd, 1)), PostResult::kOk);
  SendRequest fenced = request(SendOpcode::kSend, 0);
  fenced.flags = kSendFence;
  ASSERT_EQ(post(*qps[0], fenced, 1), PostResult::kOk);
  pair.run(10);
  EXPECT_TRUE(pair.pipe.sent_by(0, Opcode::kSend).empty());
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 1U);
}

TEST_F(Atomics, are_refused_without_the_right_of_the_qp_or_of_the_key) {
  const auto plain = connect();
  grant(*plain[1], Access::kRemoteRead | Access::kRemoteWrite);
  EXPECT_EQ(status_of_one(*plain[0], request(SendOpcode::kFetchAdd, 1)), WcStatus::kRemoteInvalidRequest);
  PairSide& far = pair.side(1);
  const Rkey key = far.adapter->memory().windows.alloc_rkey(far.pd).value();
  ASSERT_EQ(far.adapter->memory().windows.bind_rkey(
                far.pd, {key, region.lkey, region.addr, 64, Access::kRemoteRead | Access::kRemoteWrite}),
            AccessFault::kNone);
  SendRequest wanted = request(SendOpcode::kFetchAdd, 1);
  wanted.rkey = key;
  EXPECT_EQ(status_of_one(*connect()[0], wanted), WcStatus::kRemoteAccess);
  wanted = request(SendOpcode::kFetchAdd, 1, 0, sizeof words);
  EXPECT_EQ(status_of_one(*connect()[0], wanted), WcStatus::kRemoteAccess) << "beyond the region";
  EXPECT_EQ(status_of_one(*connect({.max_rd_atomic = 0})[0], request(SendOpcode::kFetchAdd, 1)),
            WcStatus::kLocalQpOperation);
  EXPECT_EQ(status_of_one(*connect({.max_dest_rd_atomic = 0})[0], request(SendOpcode::kFetchAdd, 1)),
            WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(words[0], 0U);
}

TEST_F(Atomics, are_refused_where_the_address_or_the_memory_is_not_aligned) {
  EXPECT_EQ(status_of_one(*connect()[0], request(SendOpcode::kFetchAdd, 1, 0, 4)),
            WcStatus::kRemoteInvalidRequest);
  PairSide& far = pair.side(1);
  const Rkey key = far.adapter->memory().windows.alloc_rkey(far.pd).value();
  ASSERT_EQ(far.adapter->memory().windows.bind_rkey(
                far.pd, {key, region.lkey, region.addr + 4, 64, Access::kRemoteAtomic | Access::kZeroBased}),
            AccessFault::kNone);
  SendRequest wanted = request(SendOpcode::kFetchAdd, 1);
  wanted.rkey = key;
  wanted.remote_addr = 8;
  EXPECT_EQ(status_of_one(*connect()[0], wanted), WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(words, (std::array<uint64_t, 512>{}));
}

/// A request has no data for a packet CRC; a request that claims one is not executed.
TEST_F(Atomics, with_a_packet_crc_are_refused) {
  const auto qps = connect();
  pair.pipe.set_filter([this](int from, std::vector<std::byte>& bytes) {
    if (from != 0) return Verdict::kPass;
    bytes[14] |= std::byte{kCellPacketCrc};
    bytes.insert(bytes.end(), kCrcBytes, std::byte{0});
    pair.pipe.inject(1, bytes);
    return Verdict::kDrop;
  });
  EXPECT_EQ(status_of_one(*qps[0], request(SendOpcode::kFetchAdd, 1)), WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(words[0], 0U);
}

TEST_F(Atomics, lose_nothing_to_the_processors_own) {
  const auto qps = connect();
  constexpr uint64_t kAdds = 20'000;
  std::thread other([this] {
    const std::atomic_ref<uint64_t> word(words[0]);
    for (uint64_t i = 0; i < kAdds; ++i) word.fetch_add(1);
  });
  uint32_t posted = 0;
  for (int turns = 0; turns < 1000 && completions().size() < 2000; ++turns) {
    while (posted < 2000 && post(*qps[0], request(SendOpcode::kFetchAdd, 1)) == PostResult::kOk) ++posted;
    pair.run(2);
    pair.pipe.clear_trace();
  }
  other.join();
  EXPECT_EQ(completions().size(), 2000U);
  EXPECT_EQ(words[0], kAdds + 2000);
}

/// Lists of work requests and requests without data segments.
class WorkRequests : public ::testing::Test {
 protected:
  AdapterPair pair;
};

TEST_F(WorkRequests, of_a_list_are_taken_up_to_the_first_bad_one) {
  const auto qps = pair.connect({.send_wqes = 8});
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  }
  const Sge sge = pair.side(0).sge(0, 16);
  std::array<SendRequest, 5> list;
  for (uint64_t i = 0; i < list.size(); ++i) list[i] = {.wr_id = i, .sges = {&sge, 1}};
  size_t accepted = 0;
  EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], list, accepted), PostResult::kOk);
  EXPECT_EQ(accepted, list.size());
  list[2].opcode = static_cast<SendOpcode>(200);
  EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], list, accepted), PostResult::kBadOpcode);
  EXPECT_EQ(accepted, 2U);
  list[2].opcode = SendOpcode::kSend;
  EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], list, accepted), PostResult::kWouldBlock);
  EXPECT_EQ(accepted, 1U) << "eight in the queue";
  pair.run(20);
  std::vector<uint64_t> done;
  for (const WorkCompletion& one : pair.side(0).completions) done.push_back(one.wr_id);
  EXPECT_EQ(done, (std::vector<uint64_t>{0, 1, 2, 3, 4, 0, 1, 0}));
}

TEST_F(WorkRequests, without_segments_are_messages_without_data_where_the_qp_says_so) {
  const PairSide& far = pair.side(1);
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd}) {
    const auto qps = pair.connect({.type = type, .empty_lists = true});
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {}), PostResult::kOk);
    SendRequest send;
    send.dest = {.lid = Lid(2), .qpn = far.adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], send), PostResult::kOk);
    pair.run(20);
    ASSERT_EQ(pair.side(0).completions.size(), 1U);
    ASSERT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(pair.side(1).completions[0].byte_count, 0U);
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
  }
  const auto qps = pair.connect({.empty_lists = true});
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    const SendRequest empty{.opcode = opcode, .remote_addr = far.region.addr, .rkey = far.region.rkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], empty), PostResult::kOk);
  }
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {  // nor do they need a key
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = opcode}), PostResult::kOk);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = opcode, .remote_addr = 1, .rkey = Rkey(7)}),
              PostResult::kOk);
  }
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 6U);
  for (const WorkCompletion& one : pair.side(0).completions) EXPECT_EQ(one.status, WcStatus::kSuccess);
  const auto strict = pair.connect({});
  EXPECT_EQ(pair.side(0).adapter->post_send(*strict[0], {}), PostResult::kBadSges);
}

}  // namespace
}  // namespace weft::test
