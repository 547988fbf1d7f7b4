// Automatic path migration: two adapters with two ports each and a link between each pair of ports. A QP
// moves to
// its alternate path when the first path is silent or its port is down, when its consumer orders it, and when
// its
// peer has moved. Both ends must be ready, or neither moves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/limits.h"
#include "adapter/queues/qp_rules.h"
#include "base/rng.h"
#include "tests/support/pipe_port.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

/// End `i` of link `k` has LID 2 k + i + 1: the near adapter has 1 and 3, the far adapter 2 and 4.
class PathMigration : public ::testing::Test {
 protected:
  struct End {
    explicit End(uint64_t seed) : random(seed) {}
    SeededRandom random;
    std::unique_ptr<ChannelAdapter> adapter;
    PdId pd;
    CompletionQueue* cq = nullptr;
    std::vector<std::byte> memory = std::vector<std::byte>(8192);
    MemoryRegion region;
    QueuePair* qp = nullptr;
    std::vector<WorkCompletion> done;
    std::vector<AsyncEventKind> events;
  };

  PathMigration() {
    for (End* end : {&near, &far}) {
      const int index = end == &near ? 0 : 1;
      end->adapter = std::make_unique<ChannelAdapter>(AdapterConfig{.guid = Guid(9)}, end->random);
      for (Pipe* link : {&first, &second}) end->adapter->ports().attach(link->end(index));
      end->adapter->poll(clock.now());
      end->pd = end->adapter->alloc_pd().value();
      end->cq = end->adapter->cqs().create(256).value();
      end->region = end->adapter->memory()
                        .regions.reg_mr(end->pd, end->memory, Access::kLocalWrite | Access::kRemoteRead)
                        .value();
    }
  }
  ~PathMigration() override {
    near.adapter.reset();
    far.adapter.reset();
  }

  /// Brings both QPs to RTS over the first link; with `armed` the second link is their alternate path.
  void connect(QpType type, bool near_ready = true, bool far_ready = true,
               AckMode ack_mode = AckMode::kSelective) {
    for (End* end : {&near, &far}) {
      const QpConfig config{.type = type,
                            .pd = end->pd,
                            .send_cq = end->cq,
                            .recv_cq = end->cq,
                            .sges = 1,
                            .ack_mode = ack_mode};
      end->qp = end->adapter->create_qp(config).value();
    }
    for (End* end : {&near, &far}) {
      End& peer = end == &near ? far : near;
      QpAttr attr{.access = Access::kRemoteRead,
                  .dlid = end == &near ? Lid(2) : Lid(1),
                  .retry_count = 1,
                  .dest_qpn = peer.adapter->qpn(*peer.qp)};
      attr.alt = {.dlid = end == &near ? Lid(4) : Lid(3), .port = 2, .ack_timeout = 33ms};
      attr.path_mig_state = PathMigState::kRearm;
      const bool ready = end == &near ? near_ready : far_ready;
      QpState from = QpState::kReset;
      for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        uint32_t mask = kQpAttrState | find_qp_rule(type, from, to)->required;
        if (ready && to == QpState::kRtr) mask |= kQpAttrAltPath;
        if (ready && to == QpState::kRts) mask |= kQpAttrPathMigState;
        attr.state = from = to;
        ASSERT_EQ(end->adapter->modify_qp(*end->qp, attr, mask), ModifyResult::kOk);
      }
    }
  }
  void send(End& from, End& to, uint64_t wr_id) {
    const Sge into{to.region.addr + 4096, 64, to.region.lkey};
    const Sge data{from.region.addr, 64, from.region.lkey};
    ASSERT_EQ(to.adapter->post_recv(*to.qp, {.wr_id = wr_id, .sges = {&into, 1}}), PostResult::kOk);
    ASSERT_EQ(from.adapter->post_send(*from.qp, {.wr_id = wr_id, .sges = {&data, 1}}), PostResult::kOk);
  }
  void run(int turns = 20, Duration step = 100us) {
    for (int i = 0; i < turns; ++i, clock.advance(step)) {
      for (End* end : {&near, &far}) {
        end->adapter->poll(clock.now());
        std::array<WorkCompletion, 16> some;
        const uint32_t count = end->adapter->cqs().poll(*end->cq, some);
        end->done.insert(end->done.end(), some.begin(), some.begin() + count);
        for (AsyncEvent event; end->adapter->next_event(event);) end->events.push_back(event.kind);
      }
    }
  }
  static int64_t count(End& end, AsyncEventKind kind) {
    return std::count(end.events.begin(), end.events.end(), kind);
  }
  PathMigState migration(End& end) { return end.adapter->query_qp(*end.qp).path_mig_state; }
  ModifyResult set(End& end, PathMigState state) {
    QpAttr attr;
    attr.path_mig_state = state;
    return end.adapter->modify_qp(*end.qp, attr, kQpAttrPathMigState);
  }
  /// One message each way; it also tells each end that the other one is ready.
  void exchange() {
    send(near, far, 1);
    run();
    send(far, near, 2);
    run();
    near.done.clear();
    far.done.clear();
  }
  void expect_all_good(size_t each) {
    for (End* end : {&near, &far}) {
      EXPECT_EQ(end->done.size(), each);
      for (const WorkCompletion& done : end->done) EXPECT_EQ(done.status, WcStatus::kSuccess);
    }
  }

  ManualClock clock;
  Pipe first{256, Lid(1), Lid(2)};
  Pipe second{256, Lid(3), Lid(4)};
  Pipe wide{512, Lid(5), Lid(6)};
  End near{5};
  End far{6};
};

/// @return the cell with a changed header
template <class Change>
std::vector<std::byte> with_header(std::vector<std::byte> cell, Change&& change) {
  CellHeader header;
  std::memcpy(&header, cell.data(), sizeof header);
  change(header);
  std::memcpy(cell.data(), &header, sizeof header);
  return cell;
}

TEST_F(PathMigration, both_ends_are_armed_when_each_has_heard_that_the_other_is_ready) {
  connect(QpType::kRc);
  EXPECT_EQ(migration(near), PathMigState::kRearm);
  EXPECT_EQ(migration(far), PathMigState::kRearm);
  exchange();
  EXPECT_EQ(migration(near), PathMigState::kArmed);
  EXPECT_EQ(migration(far), PathMigState::kArmed);
  EXPECT_EQ(near.adapter->query_qp(*near.qp).alt.dlid, Lid(4));
  EXPECT_TRUE(second.trace().empty());
}

TEST_F(PathMigration, one_end_alone_is_never_armed) {
  connect(QpType::kRc, true, false);
  exchange();
  EXPECT_EQ(migration(near), PathMigState::kRearm);
  first.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  send(near, far, 3);
  run(40, 10ms);
  ASSERT_EQ(near.done.size(), 1U);
  EXPECT_EQ(near.done[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(count(near, AsyncEventKind::kPathMigrated), 0);
  EXPECT_TRUE(second.trace().empty());
}

/// It has the peer's LID on the alternate path, but comes by the port of the path that the QP is on.
TEST_F(PathMigration, a_cell_of_the_other_path_moves_nothing_at_the_wrong_port) {
  connect(QpType::kRc);
  exchange();
  std::vector<std::byte> moved;
  second.set_filter([&](int from, std::vector<std::byte>& cell) {
    if (from == 0 && moved.empty()) moved = cell;
    return Verdict::kDrop;
  });
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  send(near, far, 3);
  run(5);
  ASSERT_FALSE(moved.empty());
  first.inject(1, with_header(moved, [](CellHeader& header) { header.dlid = Be16(2); }));
  run(5);
  EXPECT_EQ(migration(far), PathMigState::kArmed);
  EXPECT_EQ(count(far, AsyncEventKind::kPathMigrated), 0);
  second.set_filter(nullptr);
  second.inject(1, moved);
  run(5);
  EXPECT_EQ(count(far, AsyncEventKind::kPathMigrated), 1) << "at its own port it does";
}

TEST_F(PathMigration, the_last_retry_takes_the_other_path_and_the_peer_follows) {
  connect(QpType::kRc);
  exchange();
  first.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  send(near, far, 3);
  run(40, 10ms);
  send(far, near, 4);
  run();
  expect_all_good(2);
  for (End* end : {&near, &far}) {
    EXPECT_EQ(count(*end, AsyncEventKind::kPathMigrated), 1);
    EXPECT_EQ(count(*end, AsyncEventKind::kQpFatal), 0);
    const QpAttr attr = end->adapter->query_qp(*end->qp);
    EXPECT_EQ(attr.path_mig_state, PathMigState::kMigrated);
    EXPECT_EQ(attr.port, 2);
    EXPECT_EQ(attr.dlid, end == &near ? Lid(4) : Lid(3));
    EXPECT_EQ(attr.ack_timeout, 33ms);
    EXPECT_EQ(attr.alt.dlid, kLidNone) << "it is the path now";
  }
  // Without an alternate path a silent peer ends the connection.
  second.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  near.done.clear();
  send(near, far, 5);
  run(40, 10ms);
  ASSERT_EQ(near.done.size(), 1U);
  EXPECT_EQ(near.done[0].status, WcStatus::kRetryExceeded);
}

TEST_F(PathMigration, a_port_that_goes_down_is_left_at_once) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    first.set_up(true);
    run(2);
    connect(type);
    exchange();
    near.events.clear();
    far.events.clear();
    first.set_up(false);
    run(5);
    EXPECT_EQ(count(near, AsyncEventKind::kPathMigrated), 1);
    EXPECT_EQ(count(far, AsyncEventKind::kPathMigrated), 1);
    send(near, far, 3);
    run();
    expect_all_good(1);
    near.done.clear();
    far.done.clear();
  }
}

TEST_F(PathMigration, a_consumer_says_when) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    connect(type);
    exchange();
    second.clear_trace();
    near.events.clear();
    far.events.clear();
    EXPECT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
    EXPECT_EQ(migration(near), PathMigState::kMigrated);
    EXPECT_EQ(migration(far), PathMigState::kArmed) << "nothing has come by the other path yet";
    send(near, far, 3);
    run();
    EXPECT_EQ(migration(far), PathMigState::kMigrated);
    send(far, near, 4);
    run();
    expect_all_good(2);
    EXPECT_FALSE(second.sent_by(1).empty());
    EXPECT_EQ(count(near, AsyncEventKind::kPathMigrated), 1);
    EXPECT_EQ(count(far, AsyncEventKind::kPathMigrated), 1);
    near.done.clear();
    far.done.clear();
  }
}

/// The peer must follow before it sends to the old path, where its cells would be dropped.
TEST_F(PathMigration, an_end_that_moves_says_so_though_it_has_nothing_to_send) {
  for (const AckMode mode : {AckMode::kSelective, AckMode::kStrict}) {
    for (const bool received : {false, true}) {
      connect(QpType::kRc, true, true, mode);
      send(near, far, 1);
      run();
      if (received) exchange();
      near.done.clear();
      far.done.clear();
      ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
      run(2);
      EXPECT_EQ(migration(far), PathMigState::kMigrated);
      send(far, near, 3);
      run();
      expect_all_good(1);
      EXPECT_EQ(far.adapter->counters(*far.qp).get(QpCounter::kTimeouts), 0U);
      EXPECT_EQ(near.adapter->counters().get(AdapterCounter::kDropOtherLid), 0U);
      EXPECT_EQ(far.adapter->counters(*far.qp).get(QpCounter::kProtocolViolations), 0U);
    }
  }
}

/// The acknowledgement would otherwise wait for a link that may never give credit again.
TEST_F(PathMigration, an_acknowledgement_that_found_no_credit_leaves_by_the_path_that_was_taken) {
  connect(QpType::kRc);
  exchange();
  first.set_room(1, 0);
  send(near, far, 3);
  run(5);
  ASSERT_EQ(far.done.size(), 1U);
  ASSERT_TRUE(near.done.empty());
  ASSERT_EQ(set(far, PathMigState::kMigrated), ModifyResult::kOk);
  run(5);
  EXPECT_EQ(second.sent_by(1, Opcode::kAck).size(), 1U);
  ASSERT_EQ(near.done.size(), 1U);
  EXPECT_EQ(near.done[0].status, WcStatus::kSuccess);
}

/// The notice is lost: each cell that arrives by the old path is answered on the new path.
TEST_F(PathMigration, a_peer_that_missed_the_notice_is_told_again_until_it_follows) {
  connect(QpType::kRc);
  exchange();
  second.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  run(5);
  EXPECT_EQ(migration(far), PathMigState::kArmed);
  second.set_filter({});
  send(far, near, 3);
  run(5);
  EXPECT_EQ(near.adapter->counters().get(AdapterCounter::kDropOtherLid), 1U);
  EXPECT_EQ(migration(far), PathMigState::kMigrated);
  EXPECT_EQ(far.adapter->counters(*far.qp).get(QpCounter::kTimeouts), 0U) << "not by its retries";
  expect_all_good(1);
  // A late cell of a peer that has moved is not answered.
  second.clear_trace();
  first.inject(0, first.sent_by(1, Opcode::kSend).back()->bytes);
  run(5);
  EXPECT_EQ(near.adapter->counters().get(AdapterCounter::kDropOtherLid), 2U);
  EXPECT_TRUE(second.trace().empty());
}

/// Each end has moved to a path that the other one does not use: neither answers the other's notice.
TEST_F(PathMigration, two_ends_on_different_paths_do_not_repeat_their_notices) {
  connect(QpType::kRc);
  exchange();
  int told = 0;
  second.set_filter([&](int, std::vector<std::byte>&) { return ++told, Verdict::kDrop; });
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  run(2);
  EXPECT_EQ(told, 1);
  // The far end's last cell by the first path.
  const std::vector<std::byte> ack = first.sent_by(1, Opcode::kAck).back()->bytes;
  for (int i = 0; i < 3; ++i) {
    first.inject(0, ack);
    run(2);
  }
  EXPECT_EQ(told, 1);
}

/// Cells of another connection or another partition are not answered either.
TEST_F(PathMigration, only_cells_of_the_peer_are_answered_by_the_path_that_was_taken) {
  connect(QpType::kRc);
  exchange();
  send(far, near, 3);
  run();
  const std::vector<std::byte> own = first.sent_by(1, Opcode::kSend).back()->bytes;
  int told = 0;
  second.set_filter([&](int, std::vector<std::byte>&) { return ++told, Verdict::kDrop; });
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  run(2);
  EXPECT_EQ(told, 1);
  const auto answered = [&](auto change) {
    first.inject(0, with_header(own, change));
    run(2);
    return std::exchange(told, 0) != 0;
  };
  told = 0;
  EXPECT_FALSE(answered([](CellHeader& h) { h.src_qpn.set(h.src_qpn.get() ^ 1); }));
  EXPECT_FALSE(answered([](CellHeader& h) {
    h.dest_qpn.set(h.dest_qpn.get() | 0x8100'0000);  // partition 0x8123
    h.src_qpn.set(h.src_qpn.get() | 0x2300'0000);
  }));
  EXPECT_FALSE(answered([](CellHeader& h) {
    const uint32_t word = h.flags2_psn.get();
    h.flags2_psn.set((word & 0xFF00'0000) | ((word - 513) & 0xFF'FFFF));
  })) << "a late cell of a connection that the QPs had before";
  EXPECT_TRUE(answered([](CellHeader&) {}));
}

TEST_F(PathMigration, a_path_is_loaded_again_and_taken_back) {
  connect(QpType::kRc);
  exchange();
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  exchange();
  for (End* end : {&near, &far}) {
    QpAttr attr;
    attr.alt = {.dlid = end == &near ? Lid(2) : Lid(1), .port = 1};
    attr.path_mig_state = PathMigState::kRearm;
    ASSERT_EQ(end->adapter->modify_qp(*end->qp, attr, kQpAttrAltPath | kQpAttrPathMigState),
              ModifyResult::kOk);
  }
  exchange();
  EXPECT_EQ(migration(near), PathMigState::kArmed);
  EXPECT_EQ(migration(far), PathMigState::kArmed);
  ASSERT_EQ(set(far, PathMigState::kMigrated), ModifyResult::kOk);
  first.clear_trace();
  send(far, near, 7);
  run();
  EXPECT_FALSE(first.trace().empty());
  EXPECT_EQ(near.adapter->query_qp(*near.qp).port, 1);
  EXPECT_EQ(migration(near), PathMigState::kMigrated);
}

TEST_F(PathMigration, what_does_not_fit_is_refused) {
  connect(QpType::kRc);
  QpAttr attr;
  const auto load = [&](const AlternatePath& path) {
    attr.alt = path;
    return near.adapter->modify_qp(*near.qp, attr, kQpAttrAltPath);
  };
  EXPECT_EQ(load({.dlid = Lid(0)}), ModifyResult::kBadValue);
  EXPECT_EQ(load({.dlid = Lid(4), .sl = ServiceLevel(16)}), ModifyResult::kBadValue);
  EXPECT_EQ(load({.dlid = Lid(4), .port = 3}), ModifyResult::kBadValue);
  EXPECT_EQ(load({.dlid = Lid(4), .port = 2, .pkey_index = 5}), ModifyResult::kNoAltPartition)
      << "no partition";
  EXPECT_EQ(load({.dlid = Lid(4), .port = 2, .pkey_index = 16}), ModifyResult::kBadValue);
  EXPECT_EQ(load({.dlid = Lid(4), .port = 2, .ack_timeout = -1ms}), ModifyResult::kBadValue);
  EXPECT_EQ(set(near, PathMigState::kArmed), ModifyResult::kNotRearmed)
      << "that is not the consumer's to say";
  EXPECT_EQ(set(near, static_cast<PathMigState>(3)), ModifyResult::kBadValue);
  EXPECT_EQ(load({.dlid = Lid(4), .port = 2}), ModifyResult::kOk);
  exchange();
  ASSERT_EQ(migration(near), PathMigState::kArmed);
  EXPECT_EQ(set(near, PathMigState::kArmed), ModifyResult::kOk);
  EXPECT_EQ(load({.dlid = Lid(6), .port = 2}), ModifyResult::kPathArmed) << "it may be taken at any moment";
  EXPECT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  EXPECT_EQ(set(near, PathMigState::kRearm), ModifyResult::kNoAltPath) << "no alternate path is loaded";
  near.adapter->ports().attach(wide.end(0));
  near.adapter->poll(clock.now());
  EXPECT_EQ(load({.dlid = Lid(6), .port = 3}), ModifyResult::kOtherCells);
}

TEST_F(PathMigration, to_a_port_that_is_down_is_an_error_event_and_nothing_moves) {
  connect(QpType::kRc);
  exchange();
  second.set_up(false);
  run(2);
  EXPECT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  run(2);
  EXPECT_EQ(count(near, AsyncEventKind::kPathMigError), 1);
  EXPECT_EQ(count(near, AsyncEventKind::kPathMigrated), 0);
  EXPECT_EQ(near.adapter->query_qp(*near.qp).port, 1);
  send(near, far, 3);
  run();
  expect_all_good(1);
}

/// Both paths are down until the port is given up: the waiting requests fail.
TEST_F(PathMigration, an_armed_end_whose_ports_are_both_down_fails_when_its_port_expires) {
  connect(QpType::kRc);
  exchange();
  ASSERT_EQ(migration(near), PathMigState::kArmed);
  second.set_up(false);
  run(2);
  first.set_up(false);
  run(2);
  EXPECT_EQ(count(near, AsyncEventKind::kPathMigError), 1);
  send(near, far, 3);
  run(20, 400ms);
  EXPECT_TRUE(near.done.empty()) << "the port may come back";
  run(20, 400ms);
  ASSERT_EQ(near.done.size(), 1U);
  EXPECT_EQ(near.done[0].status, WcStatus::kFlushed) << "it had not left";
  EXPECT_EQ(count(near, AsyncEventKind::kQpFatal), 1);
}

/// If the peer moves before this end is ready, an event reports it and its cells are dropped.
TEST_F(PathMigration, a_peer_that_moves_too_early_is_not_followed) {
  connect(QpType::kRc);
  exchange();
  ASSERT_EQ(set(far, PathMigState::kRearm), ModifyResult::kOk);
  ASSERT_EQ(set(near, PathMigState::kMigrated), ModifyResult::kOk);
  send(near, far, 3);
  run(3);
  EXPECT_EQ(count(far, AsyncEventKind::kPathMigError), 1);
  EXPECT_EQ(count(far, AsyncEventKind::kPathMigrated), 0);
  EXPECT_TRUE(far.done.empty());
  EXPECT_GT(far.adapter->counters().get(AdapterCounter::kDropOtherLid), 0U);
}

/// A stranger on the other link cannot make a QP move.
TEST_F(PathMigration, cells_that_are_not_from_the_peer_by_its_other_path_move_nothing) {
  connect(QpType::kRc);
  exchange();
  send(near, far, 3);
  run();
  ASSERT_FALSE(first.sent_by(0, Opcode::kSend).empty());
  const std::vector<std::byte> own = first.sent_by(0, Opcode::kSend).back()->bytes;
  const auto forged = [&](auto change) {
    second.inject(1, with_header(own, [&](CellHeader& header) {
                    header.dlid.set(4);
                    header.slid.set(3);
                    header.flags2_psn.set(header.flags2_psn.get() & 0xFF'FFFF);
                    change(header);
                  }));
    run(2);
    return migration(far) == PathMigState::kMigrated;
  };
  EXPECT_FALSE(forged([](CellHeader& h) { h.slid.set(7); }));
  EXPECT_FALSE(forged([](CellHeader& h) { h.src_qpn.set(h.src_qpn.get() ^ 1); }));
  EXPECT_FALSE(forged([](CellHeader& h) { h.dest_qpn.set(h.dest_qpn.get() | 0x0100'0000); }))
      << "one of another partition";
  EXPECT_FALSE(forged([](CellHeader& h) { h.flags2_psn.set(h.flags2_psn.get() | 0x1000'0000); }))
      << "one that may still migrate has not";
  EXPECT_FALSE(forged([](CellHeader& h) { h.flags2_psn.set((h.flags2_psn.get() - 513) & 0xFF'FFFF); }))
      << "a late cell of a connection that the QPs had before";
  EXPECT_TRUE(forged([](CellHeader&) {}));
}

TEST_F(PathMigration, a_late_cell_of_an_earlier_connection_does_not_arm) {
  connect(QpType::kRc, false, true);
  exchange();
  ASSERT_EQ(migration(far), PathMigState::kRearm);
  ASSERT_FALSE(first.sent_by(0, Opcode::kSend).empty());
  const std::vector<std::byte> own = first.sent_by(0, Opcode::kSend).back()->bytes;
  const auto ready_cell = [&](uint32_t before) {
    first.inject(1, with_header(own, [&](CellHeader& header) {
                   header.flags2_psn.set(0x1000'0000 | ((header.flags2_psn.get() - before) & 0xFF'FFFF));
                 }));
    run(2);
    return migration(far);
  };
  // The far end expects the PSN after `own`.
  EXPECT_EQ(ready_cell(kPacketWindow), PathMigState::kRearm) << "farther away than packets under way can be";
  EXPECT_EQ(ready_cell(kPacketWindow - 1), PathMigState::kArmed) << "the oldest that the peer may repeat";
}

/// On an unacknowledged service a lower PSN is late, and a higher PSN means that the packets between are
/// lost.
TEST_F(PathMigration, an_unacknowledged_qp_follows_cells_with_later_psns) {
  for (const bool moves : {false, true}) {
    connect(QpType::kUc, moves, true);
    exchange();
    send(near, far, 3);
    run();
    const std::vector<std::byte> own = first.sent_by(0, Opcode::kSend).back()->bytes;
    const auto after = [&](uint32_t packets) {
      Pipe& link = moves ? second : first;
      link.inject(1, with_header(own, [&](CellHeader& header) {
                    const uint32_t may_migrate = moves ? 0 : 0x1000'0000;
                    if (moves) header.dlid.set(4);
                    if (moves) header.slid.set(3);
                    header.flags2_psn.set(may_migrate | ((header.flags2_psn.get() + packets) & 0xFF'FFFF));
                  }));
      run(2);
      return migration(far);
    };
    EXPECT_EQ(after(0), moves ? PathMigState::kArmed : PathMigState::kRearm);
    EXPECT_EQ(after(600), moves ? PathMigState::kMigrated : PathMigState::kArmed);
  }
}

}  // namespace
}  // namespace weft::test
