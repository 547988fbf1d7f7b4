// A transport service of a test's own: its row and its class are all that an adapter needs of it. No line of
// the product knows it.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <span>

#include "adapter/transport/delivery.h"
#include "adapter/transport/packet_service.h"
#include "adapter/transport/services.h"
#include "messages/cell.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

/// Numbered notes of one cell between two QPs. What arrives completes at once and takes no receive.
class NoteService final : public PacketService {
 public:
  NoteService(Engine& engine, CellWriter& writer) : PacketService(engine, writer), engine_(engine) {
    g_newest = this;
  }

  void take(QueuePair& qp, const CellView& cell) noexcept override {
    ++taken[&qp];
    deliver(engine_, qp, {.imm = taken[&qp], .bytes = cell.payload.size(), .src_qpn = cell.src_qpn}, false);
  }
  uint32_t run(QueuePair& qp, uint32_t /*budget*/, bool& blocked) noexcept override {
    return PacketService::run(qp, 1, blocked);  // one a turn
  }
  void on_timer(QueuePair& qp) noexcept override {
    ++timers;
    PacketService::on_timer(qp);
  }
  void forget(QueuePair& qp) noexcept override { taken.erase(&qp); }
  [[nodiscard]] bool has_turns() const noexcept override { return true; }
  uint32_t run_turn() noexcept override {
    ++turns;
    return 0;
  }

  static NoteService* g_newest;
  std::map<QueuePair*, uint32_t> taken;
  int timers = 0;
  int turns = 0;

 private:
  Engine& engine_;
};
NoteService* NoteService::g_newest = nullptr;

constexpr QpType kNotes{11};
constexpr std::array kNoteOperations =
    offer({{SendOpcode::kSend, Opcode::kStreamSegment}, {SendOpcode::kDelay}});
const ServiceRow kNoteRow{.type = kNotes,
                          .states_like = QpType::kUc,
                          .operations = kNoteOperations,
                          .connected = true,
                          .make = make_service<NoteService>};
constexpr std::array<const ServiceRow*, 1> kOnlyNotes{&kNoteRow};

class OwnService : public ::testing::Test {
 protected:
  OwnService() {
    for (int i = 0; i < 2; ++i) qps[static_cast<size_t>(i)] = pair.make_qp(i, {.type = kNotes});
    for (int i = 0; i < 2; ++i) {
      QpAttr attr{.dlid = Lid(static_cast<uint16_t>(2 - i))};
      attr.dest_qpn = at(1 - i).qpn(*qps[static_cast<size_t>(1 - i)]);
      QpState from = QpState::kReset;
      for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        attr.state = to;
        const uint32_t mask = kQpAttrState | find_qp_rule(QpType::kUc, from, to)->required;
        EXPECT_EQ(at(i).modify_qp(*qps[static_cast<size_t>(i)], attr, mask), ModifyResult::kOk);
        from = to;
      }
    }
  }
  ChannelAdapter& at(int index) { return *pair.side(index).adapter; }
  PostResult post(const SendRequest& request) { return at(0).post_send(*qps[0], request); }

  AdapterPair pair{256, {}, false, kOnlyNotes};
  NoteService& receiver = *NoteService::g_newest;  // of the adapter that was made last
  std::array<QueuePair*, 2> qps{};
};

TEST_F(OwnService, takes_and_runs_by_its_own_rules_and_its_own_operation_on_the_wire) {
  const Sge sge = pair.side(0).sge(0, 100);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(post({.wr_id = i, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run_one(0);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kStreamSegment).size(), 1U) << "one a turn";
  pair.run(5);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kStreamSegment).size(), 3U);
  ASSERT_EQ(pair.side(0).completions.size(), 3U);
  ASSERT_EQ(pair.side(1).completions.size(), 3U);
  EXPECT_EQ(pair.side(1).completions[2].imm, 3U) << "it counts what it takes";
  EXPECT_EQ(pair.side(1).completions[2].byte_count, 100U);
  EXPECT_GE(receiver.turns, 5);
}

TEST_F(OwnService, has_no_other_operations_and_no_other_service_stands_beside_it) {
  const Sge sge = pair.side(0).sge(0, 8);
  EXPECT_EQ(post({.opcode = SendOpcode::kRdmaRead, .sges = {&sge, 1}, .remote_addr = 0, .rkey = Rkey(1)}),
            PostResult::kBadOpcode);
  const QpConfig rc{.pd = pair.side(0).pd, .send_cq = pair.side(0).cq, .recv_cq = pair.side(0).cq};
  const auto refused = at(0).create_qp(rc);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("no such service"), std::string::npos);
}

TEST_F(OwnService, times_and_forgets) {
  NoteService& service = receiver;
  ASSERT_EQ(at(1).post_send(*qps[1], {.opcode = SendOpcode::kDelay, .delay = 50us}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 100);
  ASSERT_EQ(post({.sges = {&sge, 1}}), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(service.timers, 1);
  EXPECT_EQ(service.taken.size(), 1U);
  ASSERT_TRUE(at(1).destroy_qp(qps[1]));
  EXPECT_TRUE(service.taken.empty());
}

}  // namespace
}  // namespace weft::test
