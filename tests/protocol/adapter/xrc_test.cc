// Extended reliable connections: an initiator names a shared receive queue in each request, and its target
// receives into that queue. Keys, order, repetition and errors are those of RC.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "adapter/bring_up.h"
#include "adapter/queues/shared_receives.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/adapter_star.h"

namespace weft::test {
using namespace adapter;
namespace {

/// An SRQ of an XRC domain at side 1 with its own protection domain, and its completions.
struct NamedQueue {
  PdId pd{};
  CompletionQueue* cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
  uint32_t number = 0;
  MemoryRegion region{};  // all of side 1's memory
  std::vector<WorkCompletion> completions;
};

TestFabricConfig two_nodes() {
  TestFabricConfig config;
  config.switching = small_switch(0, 64);
  config.nodes = 2;
  return config;
}

/// The same tests over links that lose cells and over a pipe.
template <class Sides>
class XrcOver : public ::testing::Test {
 protected:
  explicit XrcOver(const auto& joined) : star(joined) { domain = srqs().alloc_xrcd().value(); }

  ChannelAdapter& adapter(int index = 1) { return *star.side(index).adapter; }
  SharedReceives& srqs() { return adapter().srqs(); }
  NamedQueue make_queue(XrcdId xrcd, uint32_t wqes = 128, bool hold_places = false) {
    NamedQueue queue;
    queue.pd = adapter().alloc_pd().value();
    queue.cq = adapter().cqs().create(512).value();
    const SrqConfig config{
        .pd = queue.pd, .wqes = wqes, .xrcd = xrcd, .cq = queue.cq, .hold_places = hold_places};
    queue.srq = srqs().create(config).value();
    queue.number = srqs().number(*queue.srq);
    const Access all =
        Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
    queue.region = adapter().memory().regions.reg_mr(queue.pd, star.side(1).memory, all).value();
    return queue;
  }
  /// Connects an initiator at side 0 and its target at side 1 up to RTS.
  void connect(QpAttr attr = {}) {
    initiator = star.make_qp(0, {.type = QpType::kXrcSend, .send_wqes = 512});
    target = adapter().create_qp({.type = QpType::kXrcRecv, .xrcd = domain}).value();
    attr.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
    attr.dest_qpn = adapter().qpn(*target);
    attr.dlid = Lid(2);
    ASSERT_EQ(bring_up(adapter(0), *initiator, attr, QpState::kRts), ModifyResult::kOk);
    attr.dest_qpn = adapter(0).qpn(*initiator);
    attr.dlid = Lid(1);
    ASSERT_EQ(bring_up(adapter(), *target, attr, QpState::kRts), ModifyResult::kOk);
  }
  PostResult post_recv(NamedQueue& queue, uint64_t wr_id, uint32_t offset, uint32_t bytes) {
    const Sge sge{.addr = queue.region.addr + offset, .length = bytes, .lkey = queue.region.lkey};
    return srqs().post_recv(*queue.srq, {.wr_id = wr_id, .sges = {&sge, 1}});
  }
  PostResult send(uint32_t srq, uint32_t offset, uint32_t bytes, uint64_t wr_id = 0) {
    const Sge sge = star.side(0).sge(offset, bytes);
    return adapter(0).post_send(*initiator, {.wr_id = wr_id, .sges = {&sge, 1}, .srq = srq});
  }
  PostResult one_sided(SendOpcode opcode, const NamedQueue& queue, uint32_t from, uint32_t to, uint32_t bytes,
                       uint32_t srq) {
    const Sge sge = star.side(0).sge(from, bytes);
    return adapter(0).post_send(*initiator, {.opcode = opcode,
                                             .sges = {&sge, 1},
                                             .imm = to,
                                             .remote_addr = queue.region.addr + to,
                                             .rkey = queue.region.rkey,
                                             .operand = 1,
                                             .srq = srq});
  }
  void poll(NamedQueue& queue) {
    std::array<WorkCompletion, 32> got;
    while (const uint32_t count = adapter().cqs().poll(*queue.cq, got))
      queue.completions.insert(queue.completions.end(), got.begin(), got.begin() + count);
  }
  [[nodiscard]] std::vector<WorkCompletion>& sent() { return star.side(0).completions; }
  [[nodiscard]] uint64_t count(AdapterCounter counter) { return adapter().counters().get(counter); }
  /// @return side 1's newest event that is not about its port
  AsyncEventKind event() {
    AsyncEventKind kind = AsyncEventKind::kPortUp;
    for (AsyncEvent one; adapter().next_event(one);) {
      if (one.kind != AsyncEventKind::kPortUp) kind = one.kind;
    }
    return kind;
  }

  Sides star;
  XrcdId domain{};
  QueuePair* initiator = nullptr;
  QueuePair* target = nullptr;
};

class Xrc : public XrcOver<AdapterStar> {
 protected:
  Xrc() : XrcOver(two_nodes()) {}
};

class XrcTrace : public XrcOver<AdapterPair> {
 protected:
  XrcTrace() : XrcOver(256U) {}
};

TEST_F(XrcTrace, a_message_for_another_queue_waits_for_those_before_it) {
  NamedQueue first = make_queue(domain);
  NamedQueue second = make_queue(domain);
  connect();
  star.side(0).fill(0, 2048, 9);
  ASSERT_EQ(post_recv(first, 1, 0, 1024), PostResult::kOk);
  ASSERT_EQ(post_recv(second, 2, 1024, 1024), PostResult::kOk);
  star.pipe.set_filter([](int from, std::vector<std::byte>& cell) {
    CellView view;
    (void)decode_cell(cell, CrcCheck::kAlreadyVerified, view);
    return from == 0 && view.cell_number == 3 ? Verdict::kHold : Verdict::kPass;
  });
  ASSERT_EQ(send(first.number, 0, 1024), PostResult::kOk);
  ASSERT_EQ(send(second.number, 1024, 300), PostResult::kOk);
  star.run(5);
  star.pipe.set_filter(nullptr);
  star.pipe.release_held();
  star.run(5);
  for (NamedQueue* queue : {&first, &second}) {
    poll(*queue);
    ASSERT_EQ(queue->completions.size(), 1U);
    EXPECT_EQ(queue->completions[0].status, WcStatus::kSuccess);
  }
  EXPECT_EQ(star.side(1).bytes_at(0, 1324), star.side(0).bytes_at(0, 1324));
  EXPECT_EQ(adapter().counters(*target).get(QpCounter::kCellsStashed), 2U);
}

/// A hostile initiator: the first packet of a message names one queue, the second another one of the domain.
TEST_F(XrcTrace, a_message_names_one_queue_to_its_end) {
  NamedQueue first = make_queue(domain);
  NamedQueue second = make_queue(domain);
  connect();
  constexpr uint32_t kTwoPackets = 64 * 256 + 100;
  ASSERT_EQ(post_recv(first, 1, 0, kTwoPackets), PostResult::kOk);
  ASSERT_EQ(post_recv(second, 2, 0, kTwoPackets), PostResult::kOk);
  std::vector<std::vector<std::byte>> of_second_packet;
  star.pipe.set_filter([&](int from, std::vector<std::byte>& cell) {
    CellView view;
    (void)decode_cell(cell, CrcCheck::kAlreadyVerified, view);
    if (from != 0 || (view.flags2 & kCell2Continues) == 0) return Verdict::kPass;
    of_second_packet.push_back(cell);
    return Verdict::kDrop;
  });
  ASSERT_EQ(send(first.number, 0, kTwoPackets), PostResult::kOk);
  star.run(10);
  ASSERT_FALSE(of_second_packet.empty());
  std::array<std::byte, 4> number{};
  store_be(number.data(), first.number);
  const std::vector<std::vector<std::byte>> cells = of_second_packet;
  for (std::vector<std::byte> cell : cells) {
    const auto at = std::search(cell.begin(), cell.end(), number.begin(), number.end());
    if (at != cell.end()) store_be(&*at, second.number);
    star.pipe.inject(1, cell);
  }
  star.run(10);
  EXPECT_EQ(adapter().query_qp(*target).state, QpState::kErr);
  for (NamedQueue* queue : {&first, &second}) {
    poll(*queue);
    for (const WorkCompletion& done : queue->completions) EXPECT_NE(done.status, WcStatus::kSuccess);
  }
}

TEST_F(Xrc, a_message_goes_to_the_queue_it_names_and_completes_at_the_queue_s_own_cq) {
  std::array<NamedQueue, 2> queues{make_queue(domain), make_queue(domain)};
  connect();
  star.side(0).fill(0, 8192, 3);
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(post_recv(queues[i % 2], i, i * 2048, 2048), PostResult::kOk);
    ASSERT_EQ(send(queues[i % 2].number, i * 2048, 1500), PostResult::kOk);
  }
  star.run(50);
  for (uint32_t which = 0; which < 2; ++which) {
    poll(queues[which]);
    ASSERT_EQ(queues[which].completions.size(), 2U);
    for (uint32_t i = 0; i < 2; ++i) {
      const WorkCompletion& one = queues[which].completions[i];
      EXPECT_EQ(one.wr_id, i * 2 + which);
      EXPECT_EQ(one.status, WcStatus::kSuccess);
      EXPECT_EQ(one.byte_count, 1500U);
      EXPECT_EQ(one.qpn, adapter().qpn(*target)) << "the target's number";
      const uint32_t at = static_cast<uint32_t>(one.wr_id) * 2048;
      EXPECT_EQ(star.side(1).bytes_at(at, 1500), star.side(0).bytes_at(at, 1500));
    }
  }
  EXPECT_EQ(sent().size(), 4U);
  EXPECT_TRUE(star.side(1).completions.empty());
}

/// Sends, writes with and without immediate data, and fetch-and-adds, each to one of three queues, over links
/// that
/// lose, double and reorder cells: everything happens once, and in order at each queue.
class XrcLoss : public Xrc, public ::testing::WithParamInterface<uint32_t> {
 protected:
  static constexpr uint32_t kMessages = 300;
  static constexpr uint32_t kSlot = 2048;  // bytes of side 1 for one message
  static constexpr uint32_t kWord = kPairBufferBytes - 8;

  void start() {
    for (NamedQueue& queue : queues) queue = make_queue(domain, 16);
    connect({.ack_timeout = 200ms, .min_rnr_timer = 20us});
    star.side(0).fill(0, kMessages * kSlot, 5);
    const fabric::CellFaults faults{
        .drop_ppm = GetParam(), .duplicate_ppm = GetParam(), .reorder_ppm = GetParam()};
    for (const int side : {0, 1}) star.set_cell_faults(side, faults);
  }
  void post(uint32_t i) {
    const uint32_t which = static_cast<uint32_t>(random.below(3));
    const auto bytes = static_cast<uint32_t>(1 + random.below(kSlot));
    lengths.push_back(bytes);
    const NamedQueue& queue = queues[which];
    switch (random.below(4)) {
      case 0:
        ASSERT_EQ(one_sided(SendOpcode::kRdmaWrite, queue, i * kSlot, i * kSlot, bytes, queue.number),
                  PostResult::kOk);
        break;
      case 1:
        ASSERT_EQ(one_sided(SendOpcode::kFetchAdd, queue, kWord, kWord, 8, queue.number), PostResult::kOk);
        ++added;
        lengths.back() = 0;
        break;
      case 2:
        ASSERT_EQ(one_sided(SendOpcode::kRdmaWriteWithImm, queue, i * kSlot, i * kSlot, bytes, queue.number),
                  PostResult::kOk);
        expected[which].push_back(i);
        break;
      default:
        ASSERT_EQ(send(queue.number, i * kSlot, bytes), PostResult::kOk);
        expected[which].push_back(i);
        sends[which].push_back(i);
    }
  }
  /// Receives are filled in the order of posting: a queue's next receive serves its next message that needs
  /// one.
  void feed() {
    for (uint32_t which = 0; which < 3; ++which) {
      size_t& next = posted[which];
      while (next < expected[which].size() &&
             post_recv(queues[which], next, expected[which][next] * kSlot, kSlot) == PostResult::kOk)
        ++next;
      poll(queues[which]);
    }
  }

  SeededRandom random{11};
  std::array<NamedQueue, 3> queues;
  std::array<std::vector<uint32_t>, 3> expected;  // messages that use a receive
  std::array<std::vector<uint32_t>, 3> sends;
  std::array<size_t, 3> posted{};
  std::vector<uint32_t> lengths;
  uint64_t added = 0;
};

TEST_P(XrcLoss, everything_happens_once_and_in_order_at_each_queue) {
  start();
  for (uint32_t i = 0; i < kMessages; ++i) post(i);
  for (int round = 0; round < 40'000 && sent().size() < kMessages; ++round) {
    feed();
    star.run(10, 50us);
  }
  feed();
  ASSERT_EQ(sent().size(), kMessages);
  for (const WorkCompletion& one : sent()) ASSERT_EQ(one.status, WcStatus::kSuccess);
  for (uint32_t which = 0; which < 3; ++which) {
    const auto& got = queues[which].completions;
    ASSERT_EQ(got.size(), expected[which].size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].status, WcStatus::kSuccess);
      EXPECT_EQ(got[i].wr_id, i);
      EXPECT_EQ(got[i].byte_count, lengths[expected[which][i]]);
      const bool is_send =
          std::find(sends[which].begin(), sends[which].end(), expected[which][i]) != sends[which].end();
      EXPECT_EQ(got[i].opcode == WcOpcode::kRecv, is_send);
      if (!is_send) {
        EXPECT_EQ(got[i].imm, expected[which][i] * kSlot);
      }
    }
  }
  for (uint32_t i = 0; i < kMessages; ++i)
    ASSERT_EQ(star.side(1).bytes_at(i * kSlot, lengths[i]), star.side(0).bytes_at(i * kSlot, lengths[i]))
        << i;
  uint64_t word = 0;
  std::memcpy(&word, &star.side(1).memory[kWord], sizeof word);
  EXPECT_EQ(word, added) << "a repeated addition adds once";
  EXPECT_EQ(star.cell_fault_counts(1).dropped != 0, GetParam() != 0);
}
INSTANTIATE_TEST_SUITE_P(faults, XrcLoss, ::testing::Values(0U, 50'000U, 300'000U));

TEST_F(XrcTrace, a_target_that_ends_acknowledges_what_it_has_received) {
  NamedQueue queue = make_queue(domain);
  connect();
  ASSERT_EQ(post_recv(queue, 1, 0, 64), PostResult::kOk);
  ASSERT_EQ(send(queue.number, 0, 64), PostResult::kOk);
  star.pipe.set_room(1, 0);  // no credit for the acknowledgement
  for (int turns = 0; turns < 10 && queue.completions.empty(); ++turns) {
    star.run(1, Duration{});
    poll(queue);
  }
  ASSERT_EQ(queue.completions.size(), 1U);
  star.run(2, Duration{});
  ASSERT_TRUE(sent().empty());
  star.pipe.set_room(1, UINT32_MAX);
  ASSERT_TRUE(adapter().destroy_qp(target));
  star.run(20, Duration{});
  ASSERT_EQ(sent().size(), 1U);
  EXPECT_EQ(sent()[0].status, WcStatus::kSuccess);
}

TEST_F(Xrc, reads_come_back) {
  NamedQueue queue = make_queue(domain);
  connect();
  star.side(1).fill(0, 9000, 7);
  ASSERT_EQ(one_sided(SendOpcode::kRdmaRead, queue, 0, 0, 9000, queue.number), PostResult::kOk);
  star.run(50);
  ASSERT_EQ(sent().size(), 1U);
  EXPECT_EQ(sent()[0].status, WcStatus::kSuccess);
  EXPECT_EQ(star.side(0).bytes_at(0, 9000), star.side(1).bytes_at(0, 9000));
}

/// Numbers of no queue in the target's domain, for each kind of request.
TEST_F(Xrc, a_number_that_is_not_of_the_domain_ends_the_connection) {
  const XrcdId other = srqs().alloc_xrcd().value();
  NamedQueue mine = make_queue(domain);
  NamedQueue foreign = make_queue(other);
  NamedQueue gone = make_queue(domain);
  ASSERT_TRUE(srqs().destroy(gone.srq));
  NamedQueue in_its_place = make_queue(domain);
  EXPECT_NE(in_its_place.number, gone.number);
  const uint32_t plain = srqs().number(*srqs().create({.pd = star.side(1).pd}).value());
  uint64_t refused = 0;
  for (const uint32_t number : {foreign.number, gone.number, plain, uint32_t{0xFFFFFF}}) {
    for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead,
                                    SendOpcode::kFetchAdd, SendOpcode::kRdmaWriteWithImm}) {
      connect();
      sent().clear();
      const std::vector<std::byte> before = star.side(1).memory;
      ASSERT_EQ(post_recv(foreign, 1, 0, 64), PostResult::kOk);
      ASSERT_EQ(one_sided(opcode, mine, 64, 0, 8, number), PostResult::kOk);
      star.run(20);
      ASSERT_EQ(sent().size(), 1U) << number;
      EXPECT_EQ(sent()[0].status, WcStatus::kRemoteInvalidRequest);
      EXPECT_EQ(event(), AsyncEventKind::kQpRequestError);
      EXPECT_EQ(adapter().query_qp(*target).state, QpState::kErr);
      EXPECT_EQ(count(AdapterCounter::kDropXrcSrq), ++refused);
      EXPECT_EQ(star.side(1).memory, before);
    }
  }
}

TEST_F(Xrc, keys_are_those_of_the_queue_s_protection_domain) {
  NamedQueue first = make_queue(domain);
  NamedQueue second = make_queue(domain);
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead, SendOpcode::kFetchAdd}) {
    connect();
    sent().clear();
    ASSERT_EQ(one_sided(opcode, first, 0, 0, 8, first.number), PostResult::kOk);
    ASSERT_EQ(one_sided(opcode, second, 0, 0, 8, second.number), PostResult::kOk);
    star.run(20);
    ASSERT_EQ(one_sided(opcode, first, 0, 0, 8, second.number), PostResult::kOk);
    star.run(20);
    ASSERT_EQ(sent().size(), 3U);
    EXPECT_EQ(sent()[0].status, WcStatus::kSuccess);
    EXPECT_EQ(sent()[1].status, WcStatus::kSuccess);
    EXPECT_EQ(sent()[2].status, WcStatus::kRemoteAccess);
  }
}

TEST_F(Xrc, an_empty_queue_makes_its_sender_wait_and_its_limit_is_told) {
  NamedQueue queue = make_queue(domain);
  connect({.min_rnr_timer = 100us});
  ASSERT_TRUE(srqs().modify(*queue.srq, {.limit = 1}, kSrqLimit));
  EXPECT_EQ(event(), AsyncEventKind::kSrqLimit);
  ASSERT_EQ(send(queue.number, 0, 100), PostResult::kOk);
  star.run(20);
  EXPECT_TRUE(sent().empty());
  EXPECT_GT(adapter().counters(*target).get(QpCounter::kRnrNaksSent), 0U);
  ASSERT_EQ(post_recv(queue, 9, 0, 100), PostResult::kOk);
  ASSERT_TRUE(srqs().modify(*queue.srq, {.limit = 1}, kSrqLimit));
  star.run(50);
  ASSERT_EQ(sent().size(), 1U);
  poll(queue);
  ASSERT_EQ(queue.completions.size(), 1U);
  EXPECT_EQ(event(), AsyncEventKind::kSrqLimit);
}

/// The queue's owner need not own a QP that uses it, so an event names the queue too.
TEST_F(Xrc, a_queue_whose_completion_queue_runs_over_is_in_error) {
  NamedQueue bystander = make_queue(domain);
  NamedQueue queue = make_queue(domain);
  connect();
  queue.cq = adapter().cqs().create(2).value();
  queue.srq = srqs().create({.pd = queue.pd, .wqes = 8, .xrcd = domain, .cq = queue.cq}).value();
  for (uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(post_recv(queue, id, 0, 64), PostResult::kOk);
    ASSERT_EQ(send(srqs().number(*queue.srq), 0, 64), PostResult::kOk);
  }
  star.run(50);
  std::map<AsyncEventKind, std::vector<const SharedReceiveQueue*>> events;
  for (AsyncEvent one; adapter().next_event(one);) events[one.kind].push_back(one.srq);
  EXPECT_EQ(events[AsyncEventKind::kSrqError], std::vector<const SharedReceiveQueue*>{queue.srq});
  EXPECT_EQ(events[AsyncEventKind::kCqOverrun].size(), 1U);
  EXPECT_EQ(events[AsyncEventKind::kQpFatal].size(), 1U) << "the target has lost a completion";
  poll(queue);
  EXPECT_EQ(queue.completions.size(), 2U);
}

TEST_F(Xrc, a_queue_may_go_while_its_targets_live) {
  NamedQueue going = make_queue(domain);
  NamedQueue staying = make_queue(domain);
  connect();
  ASSERT_EQ(post_recv(going, 1, 0, 100), PostResult::kOk);
  ASSERT_EQ(send(going.number, 0, 100), PostResult::kOk);
  star.run(20);
  EXPECT_FALSE(adapter().cqs().destroy(going.cq)) << "the queue completes there";
  ASSERT_TRUE(srqs().destroy(going.srq));
  EXPECT_TRUE(adapter().cqs().destroy(going.cq));
  ASSERT_EQ(post_recv(staying, 2, 0, 100), PostResult::kOk);
  ASSERT_EQ(send(staying.number, 0, 100), PostResult::kOk);
  star.run(20);
  poll(staying);
  ASSERT_EQ(staying.completions.size(), 1U);
  EXPECT_EQ(staying.completions[0].wr_id, 2U);
}

TEST_F(Xrc, a_message_that_is_half_received_ends_with_its_queue) {
  NamedQueue queue = make_queue(domain);
  connect();
  ASSERT_EQ(post_recv(queue, 4, 0, 65536), PostResult::kOk);
  ASSERT_EQ(send(queue.number, 0, 65536), PostResult::kOk);
  star.run(1, 1us);
  for (int i = 0; i < 100 && adapter().counters(*target).get(QpCounter::kCellsReceived) == 0; ++i)
    star.run(1, 1us);
  poll(queue);
  ASSERT_TRUE(queue.completions.empty());
  ASSERT_TRUE(srqs().destroy(queue.srq));
  poll(queue);
  ASSERT_EQ(queue.completions.size(), 1U);
  EXPECT_EQ(queue.completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(queue.completions[0].wr_id, 4U);
  EXPECT_EQ(adapter().query_qp(*target).state, QpState::kErr);
  star.run(20);
  EXPECT_TRUE(adapter().destroy_qp(target));
}

TEST_F(Xrc, what_a_target_received_outlives_it) {
  NamedQueue queue = make_queue(domain);
  connect();
  ASSERT_EQ(post_recv(queue, 5, 0, 100), PostResult::kOk);
  ASSERT_EQ(send(queue.number, 0, 100), PostResult::kOk);
  star.run(20);
  ASSERT_TRUE(adapter().destroy_qp(target));
  poll(queue);
  EXPECT_EQ(queue.completions.size(), 1U);
}

TEST_F(Xrc, a_receive_can_hold_its_place_until_its_completion_is_polled) {
  NamedQueue queue = make_queue(domain, 1, true);
  connect();
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(post_recv(queue, i, 0, 64), PostResult::kOk);
    ASSERT_EQ(send(queue.number, 0, 64), PostResult::kOk);
    star.run(20);
    EXPECT_EQ(post_recv(queue, 9, 0, 64), PostResult::kWouldBlock);
    poll(queue);
    ASSERT_EQ(queue.completions.size(), i + 1);
  }
}

TEST_F(Xrc, a_domain_in_use_stays) {
  NamedQueue queue = make_queue(domain);
  EXPECT_FALSE(srqs().dealloc_xrcd(domain));
  ASSERT_TRUE(srqs().destroy(queue.srq));
  connect();
  EXPECT_FALSE(srqs().dealloc_xrcd(domain));
  ASSERT_TRUE(adapter().destroy_qp(target));
  EXPECT_TRUE(srqs().dealloc_xrcd(domain));
  EXPECT_FALSE(srqs().dealloc_xrcd(domain));
  EXPECT_FALSE(adapter().create_qp({.type = QpType::kXrcRecv, .xrcd = domain}));
  EXPECT_FALSE(srqs().create({.pd = queue.pd, .xrcd = domain, .cq = queue.cq}));
  EXPECT_EQ(srqs().alloc_xrcd().value(), domain) << "it is free again";
}

TEST_F(Xrc, the_completion_queue_of_a_queue_is_free_when_that_has_ended) {
  NamedQueue queue = make_queue(domain);
  EXPECT_FALSE(adapter().cqs().destroy(queue.cq));
  ASSERT_TRUE(srqs().destroy(queue.srq));
  EXPECT_TRUE(adapter().cqs().destroy(queue.cq));
}

TEST_F(Xrc, the_last_domain_is_one_like_any_other) {
  std::vector<XrcdId> all{domain};
  while (const Refusable<XrcdId> next = srqs().alloc_xrcd()) all.push_back(next.value());
  EXPECT_EQ(all.size(), adapter().limits().xrc_domains);
  NamedQueue queue = make_queue(all.back());
  EXPECT_FALSE(srqs().dealloc_xrcd(all.back()));
  ASSERT_TRUE(srqs().destroy(queue.srq));
  for (const XrcdId each : all) EXPECT_TRUE(srqs().dealloc_xrcd(each));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(srqs().alloc_xrcd()) << "all are free again: " << i;
  EXPECT_FALSE(srqs().alloc_xrcd());
}

TEST_F(Xrc, what_does_not_fit_is_refused) {
  NamedQueue queue = make_queue(domain);
  PairSide& side = star.side(1);
  const auto refused = [&](QpConfig config) { return !adapter().create_qp(config); };
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv}));
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv, .pd = side.pd, .xrcd = domain}));
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv, .send_cq = side.cq, .xrcd = domain}));
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv, .recv_cq = side.cq, .xrcd = domain}));
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv, .srq = queue.srq, .xrcd = domain}));
  EXPECT_TRUE(refused({.type = QpType::kXrcRecv, .xrcd = domain, .idata_takes_recv_wqe = false}));
  EXPECT_TRUE(refused({.type = QpType::kXrcSend, .pd = side.pd}));
  EXPECT_TRUE(refused({.type = QpType::kXrcSend, .pd = side.pd, .send_cq = side.cq, .xrcd = domain}));
  EXPECT_TRUE(refused({.type = QpType::kXrcSend, .pd = side.pd, .send_cq = side.cq, .packet_crc = true}));
  EXPECT_TRUE(
      refused({.pd = side.pd, .send_cq = side.cq, .recv_cq = side.cq, .srq = queue.srq, .recv_wqes = 0}));
  EXPECT_FALSE(srqs().create({.pd = side.pd, .xrcd = domain}));
  EXPECT_FALSE(srqs().create({.pd = side.pd, .cq = side.cq}));
  EXPECT_FALSE(srqs().create({.pd = side.pd, .xrcd = domain, .cq = star.side(0).cq}));
  connect();
  const Sge sge = side.sge(0, 8);
  EXPECT_EQ(adapter().post_send(*target, {.sges = {&sge, 1}, .srq = queue.number}), PostResult::kBadOpcode);
  EXPECT_EQ(adapter().post_recv(*target, {.sges = {&sge, 1}}), PostResult::kBadOpcode);
  EXPECT_EQ(star.post_recv(0, *initiator, 1, {star.side(0).sge(0, 8)}), PostResult::kBadOpcode);
  EXPECT_EQ(send(0, 0, 8), PostResult::kNoDestination);
  EXPECT_EQ(send(0x1000000, 0, 8), PostResult::kNoDestination);
}

}  // namespace
}  // namespace weft::test
