// Reasons of failed requests: mistakes of programs, the reports of each side and the code in the completion.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "adapter/failure_log.h"
#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
using namespace std::chrono_literals;
namespace {

class Failures : public ::testing::Test {
 protected:
  static constexpr uint64_t kWrId = 77;
  static constexpr uint64_t kReceiveWrId = 88;

  static QpAttr quick() {
    QpAttr attr;
    attr.ack_timeout = 20ms;
    attr.retry_count = 3;
    attr.rnr_retry = 5;
    attr.min_rnr_timer = 1ms;
    return attr;
  }
  void connect(QpAttr attr = quick(), QpType type = QpType::kRc) {
    qps_ = pair_.connect({.type = type}, attr);
  }
  /// Side 0 is set to this peer and these numbers; side 1 is set correctly.
  void connect_wrongly(uint32_t qpn_flip, Lid dlid, uint32_t psn_ahead) {
    const QpConfig config;
    qps_ = {pair_.make_qp(0, config), pair_.make_qp(1, config)};
    const auto qpn = [&](int side) {
      return pair_.side(side).adapter->qpn(*qps_[static_cast<size_t>(side)]);
    };
    pair_.bring_up(0, *qps_[0], config, Qpn(qpn(1).value() ^ qpn_flip), dlid, Psn(1000).plus(psn_ahead),
                   Psn(50), quick());
    pair_.bring_up(1, *qps_[1], config, qpn(0), Lid(1), Psn(50), Psn(1000), quick());
  }
  SendRequest request(SendOpcode opcode) {
    sge_ = pair_.side(0).sge(0, 64);
    return {.wr_id = kWrId,
            .opcode = opcode,
            .sges = {&sge_, 1},
            .remote_addr = pair_.side(1).region.addr,
            .rkey = pair_.side(1).region.rkey};
  }
  void post(const SendRequest& request) {
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  }
  void send() { post(request(SendOpcode::kSend)); }
  void write() { post(request(SendOpcode::kRdmaWrite)); }
  void receive(uint32_t bytes) {
    ASSERT_EQ(pair_.post_recv(1, *qps_[1], kReceiveWrId, {pair_.side(1).sge(0, bytes)}), PostResult::kOk);
  }
  void settle() { pair_.run(3000, 1ms); }
  /// @return what a side has reported since the last call
  std::vector<Failure> reports(int side) {
    std::vector<Failure> out;
    for (Failure one; pair_.side(side).adapter->next_failure(one);) out.push_back(one);
    return out;
  }
  /// Each side has reported this reason only; kNone: nothing.
  void expect(Reason requester, Reason responder) {
    settle();
    for (const int side : {0, 1}) {
      const Reason wanted = side == 0 ? requester : responder;
      last_[static_cast<size_t>(side)] = reports(side);
      const std::vector<Failure>& got = last_[static_cast<size_t>(side)];
      ASSERT_EQ(got.size(), wanted == Reason::kNone ? 0U : 1U)
          << "side " << side << (got.empty() ? "" : ": " + describe(got[0]));
      if (wanted == Reason::kNone) continue;
      EXPECT_EQ(got[0].reason, wanted) << describe(got[0]);
      EXPECT_EQ(got[0].by_peer, side == 1) << describe(got[0]);
      EXPECT_EQ(find_reason(code_of(wanted)), wanted);
    }
  }
  /// The request's completion carries the same reason as a number.
  void expect_status(WcStatus status, Reason reason) {
    ASSERT_FALSE(pair_.side(0).completions.empty());
    const WorkCompletion& entry = pair_.side(0).completions.front();
    EXPECT_EQ(entry.wr_id, kWrId);
    EXPECT_EQ(entry.status, status);
    EXPECT_EQ(entry.imm, code_of(reason));
    EXPECT_EQ(last_[0].front().status, static_cast<uint8_t>(status));
    EXPECT_EQ(last_[0].front().wr_id, kWrId);
  }
  [[nodiscard]] const Failure& of_requester() const { return last_[0].front(); }
  [[nodiscard]] const Failure& of_responder() const { return last_[1].front(); }

  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
  Sge sge_{};
  std::array<std::vector<Failure>, 2> last_;
};

// ---- the requester's own memory --------------------

TEST_F(Failures, an_lkey_of_a_region_that_was_deregistered) {
  connect();
  MemoryTable& memory = pair_.side(0).adapter->memory();
  const MemoryRegion gone =
      memory.regions.reg_mr(pair_.side(0).pd, pair_.side(0).memory, Access::kLocalWrite).value();
  ASSERT_TRUE(memory.regions.dereg_mr(gone.lkey).ok());
  SendRequest wrong = request(SendOpcode::kSend);
  sge_.lkey = gone.lkey;
  post(wrong);
  expect(Reason::kLocalKeyUnknown, Reason::kNone);
  expect_status(WcStatus::kLocalProtection, Reason::kLocalKeyUnknown);
  EXPECT_EQ(of_requester().key, gone.lkey.value());
  EXPECT_EQ(of_requester().address, sge_.addr);
  EXPECT_EQ(of_requester().bytes, 64U);
  EXPECT_EQ(of_requester().peer_lid, 2);
}

TEST_F(Failures, the_second_segment_is_the_one_that_is_named) {
  connect();
  std::array<Sge, 2> list{pair_.side(0).sge(0, 8), pair_.side(0).sge(kPairBufferBytes - 8, 9)};
  SendRequest wrong = request(SendOpcode::kSend);
  wrong.sges = list;
  post(wrong);
  expect(Reason::kLocalOutOfBounds, Reason::kNone);
  EXPECT_EQ(of_requester().address, list[1].addr);
  EXPECT_EQ(of_requester().expected, pair_.side(0).region.addr);
  EXPECT_EQ(of_requester().extent, kPairBufferBytes);
}

TEST_F(Failures, an_lkey_of_another_protection_domain) {
  connect();
  const PdId other = pair_.side(0).adapter->alloc_pd().value();
  const MemoryRegion foreign = pair_.side(0)
                                   .adapter->memory()
                                   .regions.reg_mr(other, pair_.side(0).memory, Access::kLocalWrite)
                                   .value();
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  sge_.lkey = foreign.lkey;
  post(wrong);
  expect(Reason::kLocalWrongPd, Reason::kNone);
  expect_status(WcStatus::kLocalProtection, Reason::kLocalWrongPd);
}

TEST_F(Failures, a_read_into_memory_that_may_not_be_written) {
  connect();
  const MemoryRegion constant = pair_.side(0)
                                    .adapter->memory()
                                    .regions.reg_mr(pair_.side(0).pd, pair_.side(0).memory, Access::kNone)
                                    .value();
  SendRequest wrong = request(SendOpcode::kRdmaRead);
  sge_.lkey = constant.lkey;
  post(wrong);
  expect(Reason::kLocalRightMissing, Reason::kNone);
  expect_status(WcStatus::kLocalProtection, Reason::kLocalRightMissing);
}

// ---- the responder's memory --------------------

TEST_F(Failures, an_rkey_of_a_region_that_was_deregistered) {
  connect();
  MemoryTable& memory = pair_.side(1).adapter->memory();
  const MemoryRegion gone =
      memory.regions
          .reg_mr(pair_.side(1).pd, pair_.side(1).memory, Access::kLocalWrite | Access::kRemoteWrite)
          .value();
  ASSERT_TRUE(memory.regions.dereg_mr(gone.lkey).ok());
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.rkey = gone.rkey;
  post(wrong);
  expect(Reason::kPeerRefusesAccess, Reason::kRemoteKeyUnknown);
  expect_status(WcStatus::kRemoteAccess, Reason::kPeerRefusesAccess);
  for (const Failure& one : {of_requester(), of_responder()}) {
    EXPECT_EQ(one.key, gone.rkey.value());
    EXPECT_EQ(one.address, pair_.side(1).region.addr);
    EXPECT_EQ(one.bytes, 64U);
    EXPECT_EQ(one.work, FailedWork::kWrite);
  }
  EXPECT_EQ(of_responder().peer_lid, 1);
  EXPECT_EQ(of_responder().peer_qpn, pair_.side(0).adapter->qpn(*qps_[0]).value());
}

TEST_F(Failures, a_write_beyond_the_end_of_a_region) {
  connect();
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.remote_addr += kPairBufferBytes - 63;
  post(wrong);
  expect(Reason::kPeerRefusesAccess, Reason::kRemoteOutOfBounds);
  EXPECT_EQ(of_responder().expected, pair_.side(1).region.addr);
  EXPECT_EQ(of_responder().extent, kPairBufferBytes);
}

TEST_F(Failures, an_rkey_of_another_protection_domain) {
  connect();
  const PdId other = pair_.side(1).adapter->alloc_pd().value();
  const MemoryRegion foreign =
      pair_.side(1)
          .adapter->memory()
          .regions.reg_mr(other, pair_.side(1).memory, Access::kLocalWrite | Access::kRemoteWrite)
          .value();
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.rkey = foreign.rkey;
  post(wrong);
  expect(Reason::kPeerRefusesAccess, Reason::kRemoteWrongPd);
}

TEST_F(Failures, a_read_of_a_region_that_may_only_be_written) {
  connect();
  const MemoryRegion region =
      pair_.side(1)
          .adapter->memory()
          .regions.reg_mr(pair_.side(1).pd, pair_.side(1).memory, Access::kLocalWrite | Access::kRemoteWrite)
          .value();
  SendRequest wrong = request(SendOpcode::kRdmaRead);
  wrong.rkey = region.rkey;
  post(wrong);
  expect(Reason::kPeerRefusesAccess, Reason::kRemoteRightMissing);
  EXPECT_EQ(of_responder().work, FailedWork::kRead);
  EXPECT_EQ(of_responder().key, region.rkey.value());
  EXPECT_EQ(of_responder().bytes, 64U);
}

TEST_F(Failures, a_write_to_a_qp_that_grants_none) {
  connect();
  QpAttr attr;
  attr.access = Access::kRemoteRead;
  ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrAccess), ModifyResult::kOk);
  write();
  expect(Reason::kPeerRefusesRequest, Reason::kQpRightMissing);
  expect_status(WcStatus::kRemoteInvalidRequest, Reason::kPeerRefusesRequest);
}

TEST_F(Failures, an_atomic_that_is_not_aligned) {
  connect();
  QpAttr attr;
  attr.access = Access::kRemoteAtomic;
  ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrAccess), ModifyResult::kOk);
  const MemoryRegion region =
      pair_.side(1)
          .adapter->memory()
          .regions.reg_mr(pair_.side(1).pd, pair_.side(1).memory, Access::kLocalWrite | Access::kRemoteAtomic)
          .value();
  SendRequest wrong = request(SendOpcode::kFetchAdd);
  sge_.length = 8;
  wrong.rkey = region.rkey;
  wrong.remote_addr += 4;
  post(wrong);
  expect(Reason::kPeerRefusesRequest, Reason::kMisaligned);
  EXPECT_EQ(of_responder().work, FailedWork::kAtomic);
}

TEST_F(Failures, reads_that_neither_side_may_have) {
  QpAttr attr = quick();
  attr.max_dest_rd_atomic = 0;
  connect(attr);
  post(request(SendOpcode::kRdmaRead));
  expect(Reason::kPeerRefusesRequest, Reason::kReadsNotGranted);
  attr.max_rd_atomic = 0;
  pair_.side(0).completions.clear();
  connect(attr);
  post(request(SendOpcode::kRdmaRead));
  expect(Reason::kNoReadsAllowed, Reason::kNone);
  expect_status(WcStatus::kLocalQpOperation, Reason::kNoReadsAllowed);
}

// ---- receives --------------------

TEST_F(Failures, no_receive_is_posted) {
  connect();
  send();
  expect(Reason::kPeerHasNoReceive, Reason::kNoReceive);
  EXPECT_EQ(of_responder().work, FailedWork::kSend);
  expect_status(WcStatus::kRnrRetryExceeded, Reason::kPeerHasNoReceive);
}

TEST_F(Failures, no_receive_is_posted_for_immediate_data) {
  connect();
  post(request(SendOpcode::kRdmaWriteWithImm));
  expect(Reason::kPeerHasNoReceive, Reason::kNoReceive);
  EXPECT_EQ(of_responder().work, FailedWork::kWrite);
}

/// With seven retries a request waits without limit: it is reported once and continues.
TEST_F(Failures, a_request_that_waits_for_a_receive_for_ever) {
  QpAttr attr = quick();
  attr.rnr_retry = 7;
  connect(attr);
  send();
  expect(Reason::kPeerNeverReceives, Reason::kNoReceive);
  EXPECT_EQ(of_requester().expected, static_cast<uint64_t>(kRnrWaitTold / 1ms));
  EXPECT_TRUE(pair_.side(0).completions.empty());
  receive(64);
  settle();
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_TRUE(reports(0).empty());
}

/// A receive that is posted a little after the message is no mistake.
TEST_F(Failures, a_receive_that_is_late_is_nothing_to_speak_of) {
  connect();
  send();
  pair_.run(20, 100us);
  receive(64);
  expect(Reason::kNone, Reason::kNone);
  EXPECT_EQ(pair_.side(0).completions.at(0).status, WcStatus::kSuccess);
}

TEST_F(Failures, a_receive_that_is_too_short) {
  connect();
  receive(63);
  send();
  expect(Reason::kPeerRefusesRequest, Reason::kReceiveTooShort);
  expect_status(WcStatus::kRemoteInvalidRequest, Reason::kPeerRefusesRequest);
  EXPECT_EQ(of_responder().wr_id, kReceiveWrId);
  EXPECT_EQ(of_responder().bytes, 64U);
  EXPECT_EQ(of_responder().expected, 63U);
  const WorkCompletion& entry = pair_.side(1).completions.at(0);
  EXPECT_EQ(entry.status, WcStatus::kLocalLength);
  EXPECT_EQ(entry.imm, code_of(Reason::kReceiveTooShort));
}

TEST_F(Failures, a_receive_with_a_wrong_lkey) {
  connect();
  Sge wrong = pair_.side(1).sge(kPairBufferBytes - 10, 64);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], kReceiveWrId, {wrong}), PostResult::kOk);
  send();
  expect(Reason::kPeerHasNoMemory, Reason::kLocalOutOfBounds);
  EXPECT_EQ(of_responder().key, wrong.lkey.value());
  EXPECT_EQ(of_responder().address, wrong.addr);
  EXPECT_EQ(pair_.side(1).completions.at(0).imm, code_of(Reason::kLocalOutOfBounds));
}

// ---- numbers of the connection --------------------

TEST_F(Failures, a_wrong_qp_number) {
  connect_wrongly(0x4, Lid(2), 0);
  send();
  expect(Reason::kPeerNeverAnswered, Reason::kNoSuchQp);
  expect_status(WcStatus::kRetryExceeded, Reason::kPeerNeverAnswered);
  EXPECT_EQ(of_requester().extent, quick().retry_count);
  EXPECT_GE(of_requester().expected, 80U) << "milliseconds of silence: four times the timeout";
  EXPECT_EQ(of_responder().qpn, of_requester().peer_qpn);
  EXPECT_EQ(of_responder().peer_lid, 1);
}

TEST_F(Failures, a_wrong_lid) {
  connect_wrongly(0, Lid(9), 0);
  send();
  expect(Reason::kPeerNeverAnswered, Reason::kNone);
}

TEST_F(Failures, a_wrong_psn) {
  for (const uint32_t ahead : {uint32_t{5}, kPacketWindow + 7, uint32_t{0x800010}, uint32_t{0xFFFFF0}}) {
    SCOPED_TRACE(ahead);
    pair_.side(0).completions.clear();
    connect_wrongly(0, Lid(2), ahead);
    receive(64);
    send();
    expect(Reason::kPeerOtherPsn, Reason::kWrongPsn);
    expect_status(WcStatus::kRetryExceeded, Reason::kPeerOtherPsn);
    EXPECT_EQ(of_responder().expected, 1000U);
    EXPECT_EQ(of_responder().extent, Psn(1000).plus(ahead).value());
  }
}

TEST_F(Failures, a_peer_that_is_not_ready) {
  const QpConfig config;
  qps_ = {pair_.make_qp(0, config), pair_.make_qp(1, config)};
  pair_.bring_up(0, *qps_[0], config, pair_.side(1).adapter->qpn(*qps_[1]), Lid(2), Psn(1), Psn(1), quick());
  QpAttr attr;
  attr.state = QpState::kInit;
  const uint32_t mask = find_qp_rule(QpType::kRc, QpState::kReset, QpState::kInit)->required;
  ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrState | mask), ModifyResult::kOk);
  send();
  expect(Reason::kPeerNeverAnswered, Reason::kQpNotReady);
  EXPECT_EQ(of_responder().expected, static_cast<uint64_t>(QpState::kInit));
}

TEST_F(Failures, a_peer_that_is_connected_elsewhere) {
  const QpConfig config;
  qps_ = {pair_.make_qp(0, config), pair_.make_qp(1, config)};
  const Qpn other(0x123456);
  pair_.bring_up(0, *qps_[0], config, pair_.side(1).adapter->qpn(*qps_[1]), Lid(2), Psn(1), Psn(1), quick());
  pair_.bring_up(1, *qps_[1], config, other, Lid(1), Psn(1), Psn(1), quick());
  send();
  expect(Reason::kPeerNeverAnswered, Reason::kWrongPeer);
  EXPECT_EQ(of_responder().expected, 1U);
  EXPECT_EQ(of_responder().extent, other.value());
}

TEST_F(Failures, a_peer_that_answered_once_has_gone_silent) {
  connect();
  receive(64);
  send();
  pair_.run(200);
  ASSERT_TRUE(pair_.side(1).adapter->destroy_qp(qps_[1]).ok());
  pair_.side(0).completions.clear();
  send();
  expect(Reason::kPeerWentSilent, Reason::kNoSuchQp);
}

/// Late cells for a QP that has ended are no fault, however many cells there are.
TEST_F(Failures, cells_of_one_message_are_no_peer_that_repeats) {
  connect();
  ASSERT_TRUE(pair_.side(1).adapter->destroy_qp(qps_[1]).ok());
  SendRequest large = request(SendOpcode::kRdmaWrite);
  sge_.length = 4096;
  post(large);
  pair_.run(2);
  EXPECT_TRUE(reports(1).empty());
}

// ---- datagrams --------------------

TEST_F(Failures, datagrams_that_are_not_taken_are_reported_once_for_each_cause) {
  connect(quick(), QpType::kUd);
  const Qpn to = pair_.side(1).adapter->qpn(*qps_[1]);
  SendRequest datagram = request(SendOpcode::kSend);
  datagram.dest = {.lid = Lid(2), .qpn = to, .qkey = AdapterSides::kQkey + 1};
  for (int i = 0; i < 3; ++i) post(datagram);
  expect(Reason::kNone, Reason::kWrongQkey);
  EXPECT_EQ(of_responder().peer_lid, 1);
  EXPECT_EQ(of_responder().peer_qpn, pair_.side(0).adapter->qpn(*qps_[0]).value());
  datagram.dest.qkey = AdapterSides::kQkey;
  for (int i = 0; i < 3; ++i) post(datagram);
  expect(Reason::kNone, Reason::kNoReceive);
  receive(10);
  post(datagram);
  expect(Reason::kNone, Reason::kReceiveTooShort);
  EXPECT_EQ(of_responder().expected, 10U);
}

/// Of an unreliable connection: it is that of the refused request, not of the message before it.
TEST_F(Failures, a_report_describes_the_operation_that_was_refused) {
  connect(quick(), QpType::kUc);
  QpAttr attr;
  attr.access = Access::kRemoteRead;
  ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrAccess), ModifyResult::kOk);
  receive(64);
  send();
  settle();
  ASSERT_EQ(pair_.side(1).completions.size(), 1U);
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.remote_addr += 128;
  post(wrong);
  expect(Reason::kNone, Reason::kQpRightMissing);
  EXPECT_EQ(of_responder().work, FailedWork::kWrite);
  EXPECT_EQ(of_responder().key, pair_.side(1).region.rkey.value());
  EXPECT_EQ(of_responder().address, pair_.side(1).region.addr + 128);
}

// ---- flushed requests and later lives --------------------

TEST_F(Failures, flushed_requests_have_the_code_of_what_ended_their_qp) {
  connect();
  receive(64);
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.remote_addr += kPairBufferBytes;
  post(wrong);
  send();
  settle();
  ASSERT_EQ(pair_.side(0).completions.size(), 2U);
  EXPECT_EQ(pair_.side(0).completions[1].status, WcStatus::kFlushed);
  EXPECT_EQ(pair_.side(0).completions[1].imm, code_of(Reason::kPeerRefusesAccess));
  ASSERT_EQ(pair_.side(1).completions.size(), 1U);
  EXPECT_EQ(pair_.side(1).completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(pair_.side(1).completions[0].imm, code_of(Reason::kRemoteOutOfBounds));
}

/// A new life of a QP forgets the earlier failure, and a program that ends a QP itself gets that reason.
TEST_F(Failures, a_qp_that_its_program_ends_says_so) {
  connect();
  SendRequest wrong = request(SendOpcode::kRdmaWrite);
  wrong.remote_addr += kPairBufferBytes;
  post(wrong);
  settle();
  QpAttr attr;
  attr.state = QpState::kReset;
  ASSERT_EQ(pair_.side(0).adapter->modify_qp(*qps_[0], attr, kQpAttrState), ModifyResult::kOk);
  pair_.side(0).completions.clear();
  pair_.bring_up(0, *qps_[0], {}, Qpn(5), Lid(2), Psn(1), Psn(1), quick());
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 3, {pair_.side(0).sge(0, 8)}), PostResult::kOk);
  attr.state = QpState::kErr;
  ASSERT_EQ(pair_.side(0).adapter->modify_qp(*qps_[0], attr, kQpAttrState), ModifyResult::kOk);
  settle();
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  EXPECT_EQ(pair_.side(0).completions[0].imm, code_of(Reason::kEndedByProgram));
}

/// Of a datagram QP no failure but its own program's says what ended it: its receives then name no reason.
TEST_F(Failures, the_second_life_of_a_datagram_qp_knows_nothing_of_why_the_first_ended) {
  PairSide& side = pair_.side(0);
  for (const int lives : {1, 2}) {
    const QpConfig small{.type = QpType::kUd, .send_cq = side.adapter->cqs().create(1).value()};
    QueuePair* qp = pair_.make_qp(0, small);
    const auto live = [&](QpState end) {
      side.completions.clear();
      pair_.bring_up(0, *qp, small, Qpn(0), Lid(0), Psn(1), Psn(1));
      ASSERT_EQ(pair_.post_recv(0, *qp, 3, {side.sge(0, 64)}), PostResult::kOk);
      if (end == QpState::kErr) {
        ASSERT_EQ(side.adapter->modify_qp(*qp, {.state = end}, kQpAttrState), ModifyResult::kOk);
      }
    };
    if (lives == 2) {
      live(QpState::kErr);
      settle();
      ASSERT_EQ(side.completions.size(), 1U);
      EXPECT_EQ(side.completions[0].imm, code_of(Reason::kEndedByProgram));
      ASSERT_EQ(side.adapter->modify_qp(*qp, {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
    }
    live(QpState::kRts);
    const Sge sge = side.sge(0, 8);
    for (int i = 0; i < 2; ++i) {
      const Destination dest{.lid = Lid(2), .qpn = Qpn(77), .qkey = AdapterSides::kQkey};
      ASSERT_EQ(side.adapter->post_send(*qp, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
      settle();
    }
    ASSERT_EQ(side.adapter->query_qp(*qp).state, QpState::kErr) << "its send completions found no room";
    ASSERT_EQ(side.completions.size(), 1U);
    EXPECT_EQ(side.completions[0].status, WcStatus::kFlushed);
    EXPECT_EQ(side.completions[0].imm, 0U) << lives;
  }
}

TEST_F(Failures, a_completion_queue_that_is_too_small) {
  PairSide& side = pair_.side(0);
  const QpConfig small{.send_cq = side.adapter->cqs().create(1).value()};
  qps_ = {pair_.make_qp(0, small), pair_.make_qp(1, {})};
  const auto qpn = [&](int at) { return pair_.side(at).adapter->qpn(*qps_[static_cast<size_t>(at)]); };
  pair_.bring_up(0, *qps_[0], small, qpn(1), Lid(2), Psn(1), Psn(1), quick());
  pair_.bring_up(1, *qps_[1], {}, qpn(0), Lid(1), Psn(1), Psn(1), quick());
  write();
  write();
  expect(Reason::kCqOverrun, Reason::kNone);
}

// ---- the log --------------------

TEST(FailureLog, the_newest_stay) {
  FailureLog log;
  bool told = false;
  log.report_to(told);
  for (uint64_t i = 0; i < FailureLog::kKept + 5; ++i) log.add({.wr_id = i});
  EXPECT_TRUE(told);
  Failure out;
  ASSERT_TRUE(log.take(out));
  EXPECT_EQ(out.wr_id, 5U);
  size_t left = 0;
  while (log.take(out)) ++left;
  EXPECT_EQ(left, FailureLog::kKept - 1);
  EXPECT_EQ(out.wr_id, FailureLog::kKept + 4);
}

TEST(FailureLog, strangers_can_provoke_strays_most_reports) {
  FailureLog log;
  uint32_t told = 0;
  Instant now{};
  for (uint32_t qpn = 0; qpn < 2 * FailureLog::kStraysMost; ++qpn) {
    for (uint32_t time = 0; time < FailureLog::kStrayTimes; ++time) {
      told += log.note({Reason::kNoSuchQp, Qpn(qpn), Lid(1), Qpn(7)}, now) ? 1U : 0U;
      now += FailureLog::kStraySpan;
    }
  }
  EXPECT_EQ(told, FailureLog::kStraysMost);
}

TEST(FailureLog, several_strays_are_counted_beside_each_other) {
  FailureLog log;
  uint32_t told = 0;
  Instant now{};
  for (uint32_t time = 0; time < FailureLog::kStrayTimes; ++time, now += FailureLog::kStraySpan) {
    for (uint32_t qpn = 0; qpn < FailureLog::kStrayKinds; ++qpn)
      told += log.note({Reason::kNoSuchQp, Qpn(qpn), Lid(1), Qpn(7)}, now) ? 1U : 0U;
  }
  EXPECT_EQ(told, FailureLog::kStrayKinds);
}

TEST(FailureLog, every_fault_of_an_access_has_a_reason_in_each_place) {
  for (size_t i = 1; i < static_cast<size_t>(AccessFault::kCount); ++i) {
    const auto fault = static_cast<AccessFault>(i);
    EXPECT_NE(bind_reason(fault), Reason::kNone) << to_string(fault);
    const bool of_binds = fault == AccessFault::kNoWindowBind || fault == AccessFault::kAlreadyBound ||
                          fault == AccessFault::kBadFlags || fault == AccessFault::kNoRoom;
    if (of_binds) continue;
    EXPECT_NE(remote_reason(fault), Reason::kNone) << to_string(fault);
    if (fault == AccessFault::kWrongQp) continue;
    EXPECT_NE(local_reason(fault), Reason::kNone) << to_string(fault);
  }
}

}  // namespace
}  // namespace weft::test
