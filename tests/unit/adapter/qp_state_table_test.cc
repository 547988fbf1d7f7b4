// Every service, every move between states, every bit of the attribute mask, asked of a QP that is in that
// state. What is expected stands here as the table of "modify QP" in the verbs specification has it
// (11.2.5.2, with the masks by which Linux reads it), and is not taken from the adapter's own table. RD has
// no EE contexts here: its rows are those of RC without what an EE context would say.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/queues/shared_receives.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using S = QpState;
constexpr QpType kServices[] = {QpType::kRc,  QpType::kUc,      QpType::kUd,     QpType::kRd,
                                QpType::kRaw, QpType::kXrcSend, QpType::kXrcRecv};
constexpr S kAllStates[] = {S::kReset, S::kInit, S::kRtr, S::kRts, S::kSqd, S::kSqe, S::kErr};

/// Bit numbers of enum ibv_qp_attr_mask.
uint32_t bits(std::string_view names) {
  static const std::map<std::string, uint32_t> kNumbers{
      {"cur", 1},  {"drain", 2},     {"access", 3},     {"pkey", 4},    {"port", 5},     {"qkey", 6},
      {"av", 7},   {"mtu", 8},       {"timeout", 9},    {"retry", 10},  {"rnr", 11},     {"rq_psn", 12},
      {"rd", 13},  {"alt", 14},      {"rnr_timer", 15}, {"sq_psn", 16}, {"dest_rd", 17}, {"mig", 18},
      {"cap", 19}, {"dest_qpn", 20}, {"rate", 25}};
  uint32_t mask = 0;
  std::istringstream words{std::string(names)};
  for (std::string word; words >> word;) mask |= 1U << kNumbers.at(word);
  return mask;
}

struct Row {
  S from;
  S to;
  std::string_view required[7];  // RC, UC, UD, RD, RAW, XRC initiator, XRC target
  std::string_view optional[7];
};

constexpr Row kTable[] = {
    {S::kReset,
     S::kInit,
     {"pkey port access", "pkey port access", "pkey port qkey", "pkey port qkey", "port", "pkey port access",
      "pkey port access"},
     {"", "", "", "access", "", "", ""}},
    {S::kInit,
     S::kInit,
     {"", "", "", "", "", "", ""},
     {"pkey port access", "pkey port access", "pkey port qkey", "pkey port access qkey", "",
      "pkey port access", "pkey port access"}},
    {S::kInit,
     S::kRtr,
     {"av mtu dest_qpn rq_psn dest_rd rnr_timer", "av mtu dest_qpn rq_psn", "", "rnr_timer", "",
      "av mtu dest_qpn rq_psn", "av mtu dest_qpn rq_psn dest_rd rnr_timer"},
     {"alt access pkey", "alt access pkey", "pkey qkey", "access pkey qkey", "", "alt access pkey",
      "alt access pkey"}},
    {S::kRtr,
     S::kRts,
     {"timeout retry rnr sq_psn rd", "sq_psn", "sq_psn", "timeout retry rnr", "",
      "timeout retry rnr sq_psn rd", "timeout sq_psn"},
     {"cur alt access rnr_timer mig", "cur alt access mig", "cur qkey", "cur access qkey rnr_timer sq_psn",
      "rate", "cur alt access mig", "cur alt access rnr_timer mig"}},
    {S::kRts,
     S::kRts,
     {"", "", "", "", "", "", ""},
     {"cur alt access rnr_timer mig", "cur alt access mig", "cur qkey", "cur access qkey rnr_timer", "rate",
      "cur alt access mig", "cur alt access rnr_timer mig"}},
    {S::kRts,
     S::kSqd,
     {"", "", "", "", "", "", ""},
     {"drain", "drain", "drain", "drain", "", "drain", "drain"}},
    {S::kSqd,
     S::kRts,
     {"", "", "", "", "", "", ""},
     {"cur alt access rnr_timer mig", "cur alt access mig", "cur qkey", "cur access qkey rnr_timer", "",
      "cur alt access mig", "cur alt access rnr_timer mig"}},
    {S::kSqd,
     S::kSqd,
     {"", "", "", "", "", "", ""},
     {"port av timeout retry rnr rd dest_rd alt access pkey rnr_timer mig", "av alt access pkey mig",
      "pkey qkey", "timeout retry rnr access pkey qkey rnr_timer", "",
      "port av timeout retry rnr rd alt access pkey mig",
      "port av timeout dest_rd alt access pkey rnr_timer mig"}},
    {S::kSqe, S::kRts, {"", "", "", "", "", "", ""}, {"", "cur access", "cur qkey", "", "", "", ""}},
};

/// kNotAllowed, or the bits of a move.
struct Move {
  bool allowed = false;
  uint32_t required = 0;
  uint32_t optional = 0;
};
Move expected(size_t service, S from, S to) {
  if (to == S::kReset || to == S::kErr) return {.allowed = true};
  if (from == S::kSqe && is_acknowledged(kServices[service])) return {};  // it has no such state
  for (const Row& row : kTable) {
    if (row.from == from && row.to == to)
      return {true, bits(row.required[service]), bits(row.optional[service])};
  }
  return {};
}

class QpStateTable : public ::testing::Test {
 protected:
  ChannelAdapter& adapter() { return *pair.side(0).adapter; }
  /// A QP in that state; null for a state that the service does not have.
  QueuePair* make(QpType type, S state) {
    const QpConfig config{.type = type, .send_wqes = 2, .recv_wqes = 1, .sges = 1};
    if (state == S::kSqe && is_acknowledged(type)) return nullptr;
    if (domain == XrcdId()) domain = adapter().srqs().alloc_xrcd().value();
    QueuePair* qp = type == QpType::kXrcRecv ? adapter().create_qp({.type = type, .xrcd = domain}).value()
                                             : pair.make_qp(0, config);
    if (state == S::kErr) {
      EXPECT_EQ(adapter().modify_qp(*qp, {.state = S::kErr}, kQpAttrState), ModifyResult::kOk);
      return qp;
    }
    S from = S::kReset;
    const S target = state > S::kRts ? S::kRts : state;
    for (const S to : {S::kInit, S::kRtr, S::kRts}) {
      if (to > target) break;
      const auto index = static_cast<size_t>(std::find(std::begin(kServices), std::end(kServices), type) -
                                             std::begin(kServices));
      EXPECT_EQ(adapter().modify_qp(*qp, values(to), kQpAttrState | expected(index, from, to).required),
                ModifyResult::kOk);
      from = to;
    }
    if (state == S::kSqd) {
      EXPECT_EQ(adapter().modify_qp(*qp, {.state = S::kSqd}, kQpAttrState), ModifyResult::kOk);
    }
    if (state == S::kSqe) fail_send(*qp);
    EXPECT_EQ(adapter().query_qp(*qp).state, state);
    return qp;
  }
  /// Attributes that are all good, on the way to `to`.
  static QpAttr values(S to) {
    QpAttr attr{.state = to,
                .access = Access::kRemoteRead,
                .qkey = 7,
                .dlid = Lid(2),
                .path_mtu_bytes = 1024,
                .dest_qpn = Qpn(0x1234)};
    attr.alt = {.dlid = Lid(9)};
    attr.rate_limit_kbps = 1000;
    return attr;
  }
  /// A send that names memory which is not ours.
  void fail_send(QueuePair& qp) {
    const Sge bad{.addr = 0, .length = 64, .lkey = Lkey(0x77)};
    ASSERT_EQ(adapter().post_send(qp, {.sges = {&bad, 1}, .dest = {.lid = Lid(2), .qpn = Qpn(5)}}),
              PostResult::kOk);
    pair.run(2);
  }
  AdapterPair pair;
  XrcdId domain;
};

TEST_F(QpStateTable, holds_for_every_service_and_every_pair_of_states_and_every_bit) {
  pair.run(1);
  uint32_t tried = 0;
  for (size_t service = 0; service < std::size(kServices); ++service) {
    for (const S from : kAllStates) {
      QueuePair* qp = make(kServices[service], from);
      if (qp == nullptr) continue;
      for (const S to : kAllStates) {
        const Move move = expected(service, from, to);
        for (uint32_t bit = 1; bit < 32; ++bit) {
          const uint32_t one = 1U << bit;
          // A required bit is left out, any other is put in.
          const uint32_t mask = kQpAttrState | (move.required ^ one);
          const bool works = move.allowed && (move.optional & one) != 0;
          QpAttr attr = values(to);
          attr.cur_state = from;
          const QpAttr before = adapter().query_qp(*qp);
          const ModifyResult result = adapter().modify_qp(*qp, attr, mask);
          ++tried;
          ASSERT_EQ(result == ModifyResult::kOk, works)
              << "service " << service << ": " << to_string(from) << " -> " << to_string(to) << " bit " << bit
              << ": " << to_string(result);
          const QpAttr after = adapter().query_qp(*qp);
          ASSERT_EQ(after.state, works ? to : from);
          if (!works) {
            ASSERT_EQ(after.qkey, before.qkey);
            ASSERT_EQ(after.dlid, before.dlid);
            ASSERT_EQ(after.path_mtu_bytes, before.path_mtu_bytes);
            continue;
          }
          ASSERT_TRUE(adapter().destroy_qp(qp).ok());
          qp = make(kServices[service], from);
        }
        const ModifyResult bare = adapter().modify_qp(*qp, values(to), kQpAttrState | move.required);
        ASSERT_EQ(bare == ModifyResult::kOk, move.allowed)
            << "service " << service << ": " << to_string(from) << " -> " << to_string(to);
        ASSERT_TRUE(adapter().destroy_qp(qp).ok());
        qp = make(kServices[service], from);
      }
      ASSERT_TRUE(adapter().destroy_qp(qp).ok());
    }
  }
  EXPECT_EQ(tried, (7U * 7 - 4) * 7 * 31);
}

TEST_F(QpStateTable, a_move_from_a_state_the_qp_is_not_in_is_refused) {
  QueuePair* qp = make(QpType::kUd, S::kRts);
  QpAttr attr = values(S::kRts);
  for (const S said : kAllStates) {
    attr.cur_state = said;
    const bool possible = said >= S::kRtr && said <= S::kSqe;
    const ModifyResult refused = possible ? ModifyResult::kOtherState : ModifyResult::kBadValue;
    EXPECT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | kQpAttrCurState),
              said == S::kRts ? ModifyResult::kOk : refused)
        << to_string(said);
  }
  fail_send(*qp);
  attr.cur_state = S::kRts;
  EXPECT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | kQpAttrCurState), ModifyResult::kOtherState);
  attr.cur_state = S::kSqe;
  EXPECT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | kQpAttrCurState), ModifyResult::kOk);
}

TEST_F(QpStateTable, a_query_says_what_was_set_and_reset_forgets_it) {
  QueuePair* qp = make(QpType::kRc, S::kReset);
  QpAttr attr{.state = S::kInit, .access = Access::kRemoteWrite, .pkey_index = 0, .port = 1};
  ASSERT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | bits("pkey port access")), ModifyResult::kOk);
  attr.state = S::kRtr;
  attr.dlid = Lid(2);
  attr.sl = ServiceLevel(3);
  attr.path_mtu_bytes = 2048;
  attr.dest_qpn = Qpn(0x4711);
  attr.rq_psn = Psn(77);
  attr.max_dest_rd_atomic = 3;
  attr.min_rnr_timer = std::chrono::microseconds(640);
  attr.alt = {.dlid = Lid(6), .sl = ServiceLevel(2), .ack_timeout = std::chrono::milliseconds(5)};
  ASSERT_EQ(
      adapter().modify_qp(*qp, attr, kQpAttrState | bits("av mtu dest_qpn rq_psn dest_rd rnr_timer alt")),
      ModifyResult::kOk);
  attr.state = S::kRts;
  attr.ack_timeout = std::chrono::milliseconds(67);
  attr.retry_count = 5;
  attr.rnr_retry = 6;
  attr.sq_psn = Psn(99);
  attr.max_rd_atomic = 2;
  attr.path_mig_state = PathMigState::kRearm;
  ASSERT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | bits("timeout retry rnr sq_psn rd mig")),
            ModifyResult::kOk);
  const QpAttr got = adapter().query_qp(*qp);
  EXPECT_EQ(got.state, S::kRts);
  EXPECT_EQ(got.cur_state, S::kRts);
  EXPECT_EQ(got.access, Access::kRemoteWrite);
  EXPECT_EQ(got.dlid, Lid(2));
  EXPECT_EQ(got.sl, ServiceLevel(3));
  EXPECT_EQ(got.path_mtu_bytes, 2048U);
  EXPECT_EQ(got.dest_qpn, Qpn(0x4711));
  EXPECT_EQ(got.rq_psn, Psn(77));
  EXPECT_EQ(got.sq_psn, Psn(99));
  EXPECT_EQ(got.max_rd_atomic, 2);
  EXPECT_EQ(got.max_dest_rd_atomic, 3);
  EXPECT_EQ(got.min_rnr_timer, std::chrono::microseconds(640));
  EXPECT_EQ(got.ack_timeout, std::chrono::milliseconds(67));
  EXPECT_EQ(got.retry_count, 5);
  EXPECT_EQ(got.rnr_retry, 6);
  EXPECT_EQ(got.alt.dlid, Lid(6));
  EXPECT_EQ(got.alt.sl, ServiceLevel(2));
  EXPECT_EQ(got.alt.ack_timeout, std::chrono::milliseconds(5));
  EXPECT_EQ(got.path_mig_state, PathMigState::kRearm);
  ASSERT_EQ(adapter().modify_qp(*qp, {.state = S::kReset}, kQpAttrState), ModifyResult::kOk);
  const QpAttr cleared = adapter().query_qp(*qp);
  const QpAttr fresh;
  EXPECT_EQ(cleared.state, S::kReset);
  EXPECT_EQ(cleared.access, fresh.access);
  EXPECT_EQ(cleared.dlid, fresh.dlid);
  EXPECT_EQ(cleared.dest_qpn, fresh.dest_qpn);
  EXPECT_EQ(cleared.path_mtu_bytes, fresh.path_mtu_bytes);
  EXPECT_EQ(cleared.alt.dlid, kLidNone);
  EXPECT_EQ(cleared.path_mig_state, PathMigState::kMigrated);
  EXPECT_EQ(cleared.retry_count, fresh.retry_count);
}

TEST_F(QpStateTable, a_queue_that_drains_says_so) {
  const auto qps = pair.connect({});
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
  pair.run(2);
  ASSERT_EQ(adapter().modify_qp(*qps[0], {.state = S::kSqd}, kQpAttrState), ModifyResult::kOk);
  EXPECT_TRUE(adapter().query_qp(*qps[0]).sq_draining);
  pair.pipe.set_filter(nullptr);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  pair.run(100, std::chrono::milliseconds(1));
  EXPECT_FALSE(adapter().query_qp(*qps[0]).sq_draining);
}

/// 1 Mbit/s of frames of 100 bytes: one every 1.1 ms, after what a quiet queue may send at once.
TEST_F(QpStateTable, a_rate_limit_paces_raw_frames) {
  const QpConfig config{.type = QpType::kRaw, .send_wqes = 64};
  QueuePair* limited = pair.make_qp(0, config);
  pair.bring_up(0, *limited, config, Qpn(0), Lid(2), Psn(0), Psn(0));
  ASSERT_EQ(adapter().modify_qp(*limited, {.rate_limit_kbps = 1000}, kQpAttrRateLimit), ModifyResult::kOk);
  EXPECT_EQ(adapter().query_qp(*limited).rate_limit_kbps, 1000U);
  const Sge sge = pair.side(0).sge(0, 100);
  const auto send = [&] {
    return adapter().post_send(*limited, {.sges = {&sge, 1}, .dest = {.lid = Lid(2), .qpn = Qpn(0x77)}});
  };
  for (int i = 0; i < 60; ++i) ASSERT_EQ(send(), PostResult::kOk);
  pair.run(20, std::chrono::microseconds(10));
  EXPECT_EQ(pair.pipe.sent_by(0).size(), 2U) << "a quiet queue has saved up one millisecond";
  pair.run(1080, std::chrono::microseconds(10));
  const size_t in_11_ms = pair.pipe.sent_by(0).size();
  EXPECT_GE(in_11_ms, 9U);
  EXPECT_LE(in_11_ms, 12U);
  ASSERT_EQ(adapter().modify_qp(*limited, {.rate_limit_kbps = 0}, kQpAttrRateLimit), ModifyResult::kOk);
  pair.run(300, std::chrono::microseconds(10));
  EXPECT_EQ(pair.pipe.sent_by(0).size(), 60U);
}

}  // namespace
}  // namespace weft::test
