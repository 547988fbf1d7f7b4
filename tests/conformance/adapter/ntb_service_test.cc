// NTB: the rows of the service over a memory window: queues and completions of each context, the four kinds
// of request and what the device is asked for each, refusals, failed DMA. The rows of the window itself are
// in tests/conformance/window.
#include <gtest/gtest.h>

#include <tuple>

#include "fabric/window/window_words.h"
#include "messages/window_record.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/direct_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
using fabric::DmaKind;
using fabric::DmaRequest;
using fabric::DmaSpace;
namespace {

/// What a program sees of a completion.
using Seen = std::tuple<uint64_t, WcStatus, WcOpcode, uint32_t, uint32_t>;
std::vector<Seen> seen_of(const std::vector<WorkCompletion>& completions) {
  std::vector<Seen> out;
  for (const WorkCompletion& one : completions) {
    const bool good = one.status == WcStatus::kSuccess;  // the other fields of a failed one are undefined
    out.emplace_back(one.wr_id, one.status, good ? one.opcode : WcOpcode{}, good ? one.byte_count : 0,
                     good ? one.imm : 0);
  }
  return out;
}

/// A request for the memory of `peer` from byte `offset`.
SendRequest request_to(const PairSide& peer, SendOpcode opcode, uint64_t offset, uint64_t wr_id = 0) {
  return {
      .wr_id = wr_id, .opcode = opcode, .remote_addr = peer.region.addr + offset, .rkey = peer.region.rkey};
}

class NtbService : public ::testing::Test {
 protected:
  std::array<QueuePair*, 2> connect(const QpConfig& config = {}, QpAttr attr = {}) {
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.ack_timeout = 10ms;
    attr.retry_count = 2;
    const auto qps = pair.connect(config, attr);
    pair.run(20);
    clear();
    return qps;
  }
  void clear() {
    for (int i = 0; i < 2; ++i) {
      pair.trace(i).trace.clear();
      (void)pair.take_completions(i);
    }
  }
  SendRequest remote(SendOpcode opcode, uint64_t offset, uint64_t wr_id = 0) {
    return request_to(pair.side(1), opcode, offset, wr_id);
  }
  void post(QueuePair& qp, const SendRequest& request, uint32_t offset, uint32_t bytes) {
    ASSERT_EQ(pair.post_send(0, qp, request, {pair.side(0).sge(offset, bytes)}), PostResult::kOk);
  }
  void receive(QueuePair& qp, uint64_t wr_id, uint32_t offset, uint32_t bytes) {
    ASSERT_EQ(pair.post_recv(1, qp, wr_id, {pair.side(1).sge(offset, bytes)}), PostResult::kOk);
  }
  /// The peer uses its key once through the owner, so that the owner shows it in its table.
  void show_key(QueuePair& qp) {
    post(qp, remote(SendOpcode::kRdmaWrite, 0), 0, 8);
    pair.run(20);
    ASSERT_EQ(pair.end(1).own().published(), 1U);
    ASSERT_EQ(seen_of(pair.take_completions(0)).size(), 1U);
    clear();
  }
  /// Requests for the peer's memory, outside its window.
  [[nodiscard]] std::vector<DmaRequest> moved(int index) {
    std::vector<DmaRequest> out;
    for (const DmaRequest& request : pair.trace(index).requests()) {
      if (request.space == DmaSpace::kMemory) out.push_back(request);
    }
    return out;
  }
  /// Requests that put a record into a slot of the peer's FIFO.
  [[nodiscard]] std::vector<DmaRequest> inserted(int index) {
    const WindowAnchor& anchor = pair.end(index).peer().anchor();
    std::vector<DmaRequest> out;
    for (const DmaRequest& request : pair.trace(index).requests()) {
      const uint64_t slots = anchor.fifo_offset + kFifoControlBytes;
      const bool slot = request.remote >= slots && request.remote < anchor.fifo_offset + anchor.fifo_bytes;
      if (request.space == DmaSpace::kWindow && request.kind == DmaKind::kWrite && slot)
        out.push_back(request);
    }
    return out;
  }
  /// Head and tail of both FIFOs.
  [[nodiscard]] std::array<uint64_t, 4> pointers() {
    std::array<uint64_t, 4> out{};
    for (int i = 0; i < 2; ++i) {
      std::byte* const fifo = pair.end(i).own().fifo().data();
      out[2 * static_cast<size_t>(i)] = fabric::load_window_word(fifo + kFifoHeadAt);
      out[2 * static_cast<size_t>(i) + 1] = fabric::load_window_word(fifo + kFifoTailAt);
    }
    return out;
  }

  DirectPair pair{{.traced = true}};
};

/// A client: it knows the calls of the verbs and nothing of what is below them. Returns what it sees.
struct ClientResult {
  std::vector<Seen> sent;
  std::vector<Seen> received;
  std::vector<std::byte> memory;
  std::vector<std::byte> peer_memory;
  bool operator==(const ClientResult&) const = default;
};

ClientResult run_client(AdapterSides& world) {
  QpAttr attr;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.ack_timeout = 10ms;
  attr.retry_count = attr.rnr_retry = 2;
  attr.min_rnr_timer = 100us;
  const auto qps = world.connect({}, attr);
  PairSide& near = world.side(0);
  const PairSide& far = world.side(1);
  near.fill(0, 20'000, 3);
  const auto post = [&](SendRequest request, uint32_t offset, uint32_t bytes) {
    const std::vector<Sge> sges{near.sge(offset, bytes)};
    request.sges = sges;
    EXPECT_EQ(near.adapter->post_send(*qps[0], request), PostResult::kOk);
    world.run(60);
  };
  const auto remote = [&](uint64_t wr_id, SendOpcode opcode, uint64_t offset, uint32_t imm = 0) {
    SendRequest request = request_to(far, opcode, offset, wr_id);
    request.imm = imm;
    return request;
  };
  for (uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(world.post_recv(1, *qps[1], 100 + i, {far.sge(100'000 + 8192 * i, 8192)}), PostResult::kOk);
  for (const uint32_t bytes : {0U, 1U, 255U, 5000U}) post({.wr_id = bytes}, 64, bytes);
  post({.wr_id = 9, .opcode = SendOpcode::kSendWithImm, .imm = 0xABCD}, 0, 100);
  for (uint64_t i = 0; i < 3; ++i) post(remote(10 + i, SendOpcode::kRdmaWrite, 1000 * i), 0, 3000);
  post(remote(20, SendOpcode::kRdmaWriteWithImm, 40'000, 0x1234), 0, 9000);
  post(remote(30, SendOpcode::kRdmaRead, 1500), 50'000, 7000);
  post(remote(31, SendOpcode::kRdmaRead, 0), 60'000, 1);
  post({.wr_id = 40}, 0, 64);  // without a receive: the retries end
  post({.wr_id = 41}, 0, 64);  // flushed, or refused in the error state
  return {seen_of(near.completions), seen_of(far.completions), near.memory, far.memory};
}

TEST(NtbApi, NTB_API_01_one_client_has_the_same_result_over_cells_and_over_a_window) {
  covers("NTB-API-01");
  AdapterPair cells;
  DirectPair window;
  const ClientResult over_cells = run_client(cells);
  const ClientResult over_window = run_client(window);
  EXPECT_EQ(over_window.sent, over_cells.sent);
  EXPECT_EQ(over_window.received, over_cells.received);
  EXPECT_TRUE(over_window.memory == over_cells.memory);
  EXPECT_TRUE(over_window.peer_memory == over_cells.peer_memory);
  EXPECT_EQ(over_cells.received.size(), 6U);
  EXPECT_EQ(std::get<1>(over_cells.sent.back()), WcStatus::kFlushed);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(window.cells(i), 0U) << "all of it went over the window";
    EXPECT_GT(cells.side(i).adapter->ports().total(AdapterPortCounter::kCellsSent), 0U);
  }
}

/// TracedDevice has no calls but those of the row: data movement, completion, notification, registers.
TEST(NtbApi, NTB_API_02_the_service_needs_plain_data_movement_alone) {
  covers("NTB-API-02");
  DirectPair plain({.memory_space = false, .traced = true});
  AdapterPair cells;
  EXPECT_TRUE(run_client(plain) == run_client(cells)) << "a device that reaches nothing but the window";
  EXPECT_EQ(plain.cells(0) + plain.cells(1), 0U);
  uint32_t reads = 0;
  uint32_t writes = 0;
  for (int i = 0; i < 2; ++i) {
    for (const DmaRequest& request : plain.trace(i).requests()) {
      EXPECT_EQ(request.space, DmaSpace::kWindow);
      EXPECT_TRUE(
          fabric::lies_inside(request.remote, request.bytes, plain.end(1 - i).device().own_memory().size()));
      (request.kind == DmaKind::kRead ? reads : writes) += 1;
    }
  }
  EXPECT_GT(reads, 0U);
  EXPECT_GT(writes, 0U);
}

TEST_F(NtbService, NTB_QUEUE_01_each_context_has_queues_of_its_own_that_are_served_in_order) {
  covers("NTB-QUEUE-01");
  std::array<std::array<CompletionQueue*, 2>, 2> cqs{};  // [context][side]
  std::array<std::array<QueuePair*, 2>, 2> qps{};
  for (size_t context = 0; context < 2; ++context) {
    std::array<QpConfig, 2> configs{};
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<size_t>(i);
      cqs[context][at] = pair.side(i).adapter->cqs().create(64).value();
      configs[at].send_cq = configs[at].recv_cq = cqs[context][at];
      qps[context][at] = pair.make_qp(i, configs[at]);
    }
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<size_t>(i);
      pair.bring_up(i, *qps[context][at], configs[at], pair.side(1 - i).adapter->qpn(*qps[context][1 - at]),
                    Lid(static_cast<uint16_t>(2 - i)), Psn(1), Psn(1));
    }
  }
  pair.run(20);
  clear();
  for (uint32_t i = 0; i < 6; ++i) {
    for (uint32_t context = 0; context < 2; ++context) {
      const uint32_t id = 100 * (context + 1) + i;
      pair.side(0).memory[id] = static_cast<std::byte>(id);
      receive(*qps[context][1], id, 64 * id, 64);
      post(*qps[context][0], {.wr_id = id}, id, 1);
    }
  }
  EXPECT_TRUE(pair.trace(0).requests().empty()) << "posts only queue; the service takes them in its turn";
  pair.run(40);
  EXPECT_TRUE(pair.take_completions(0).empty()) << "nothing in a queue of no context";
  for (uint32_t context = 0; context < 2; ++context) {
    for (size_t side = 0; side < 2; ++side) {
      std::array<WorkCompletion, 16> got;
      ASSERT_EQ(pair.sides[side].adapter->cqs().poll(*cqs[context][side], got), 6U);
      for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(got[i].wr_id, 100 * (context + 1) + i) << "in order";
    }
    for (uint32_t i = 0; i < 6; ++i) {
      const uint32_t id = 100 * (context + 1) + i;
      EXPECT_EQ(pair.side(1).memory[64 * id], static_cast<std::byte>(id)) << "message i in receive i";
    }
  }
}

TEST_F(NtbService, NTB_QUEUE_02_four_kinds_go_four_ways_and_an_unknown_one_fails) {
  covers("NTB-QUEUE-02");
  const auto qps = connect();
  show_key(*qps[0]);
  receive(*qps[1], 1, 4096, 64);
  pair.run(5);
  EXPECT_TRUE(pair.trace(1).requests().empty()) << "receive: the device is asked nothing";
  post(*qps[0], {.wr_id = 2}, 0, 64);
  pair.run(5);
  EXPECT_EQ(inserted(0).size(), 1U) << "send: into the FIFO";
  EXPECT_TRUE(moved(0).empty());
  clear();
  post(*qps[0], remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  ASSERT_EQ(moved(0).size(), 1U);
  EXPECT_EQ(moved(0)[0].kind, DmaKind::kWrite);
  EXPECT_TRUE(inserted(0).empty());
  clear();
  post(*qps[0], remote(SendOpcode::kRdmaRead, 0), 0, 64);
  pair.run(20);
  ASSERT_EQ(moved(0).size(), 1U);
  EXPECT_EQ(moved(0)[0].kind, DmaKind::kRead);
  EXPECT_TRUE(inserted(0).empty() && inserted(1).empty());
  clear();
  // An unknown kind is refused at its post; one that a peer invents does nothing and is counted.
  EXPECT_NE(pair.post_send(0, *qps[0], {.opcode = static_cast<SendOpcode>(40)}, {}), PostResult::kOk);
  auto unknown = encode_window_record({.kind = WindowRecordKind::kSend, .sender_life = 1});
  unknown[0] = std::byte{77};
  const uint32_t to = pair.side(1).adapter->qpn(*qps[1]).value();
  const uint32_t from = pair.side(0).adapter->qpn(*qps[0]).value();
  ASSERT_EQ(pair.end(0).send(to, from, unknown, 0), fabric::FifoPost::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kProtocolViolations), 1U);
  EXPECT_TRUE(pair.take_completions(0).empty() && pair.take_completions(1).empty());
}

TEST_F(NtbService, NTB_SEND_04_a_send_completes_after_its_dma_and_as_that_did) {
  covers("NTB-SEND-04");
  const auto qps = connect();
  for (uint64_t i = 0; i < 4; ++i) receive(*qps[1], i, 4096, 1024);
  // Late DMA: no completion before the data have arrived.
  pair.window->set_faults(0, {.late_ppm = 1'000'000, .late_min = 200us, .late_max = 300us});
  post(*qps[0], {.wr_id = 7}, 0, 600);  // several slots
  pair.run(15);
  EXPECT_TRUE(pair.take_completions(0).empty()) << "DMA is under way";
  pair.run(200);
  const auto good = pair.take_completions(0);
  ASSERT_EQ(good.size(), 1U) << "one, of several DMA requests";
  EXPECT_EQ(good[0].wr_id, 7U);
  EXPECT_EQ(good[0].status, WcStatus::kSuccess);
  // Failed DMA of one of several slots: one completion, which says so.
  pair.window->set_faults(0, {});
  clear();
  const auto failed_before = pair.window->counts(0).failed;
  pair.window->set_faults(0, {.fail_ppm = 1'000'000});
  post(*qps[0], {.wr_id = 8}, 0, 600);
  pair.run_one(0);
  pair.window->set_faults(0, {});
  pair.run(50);
  EXPECT_GT(pair.window->counts(0).failed, failed_before);
  const auto failed = pair.take_completions(0);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].wr_id, 8U);
  EXPECT_EQ(failed[0].status, WcStatus::kRetryExceeded);
  for (const WorkCompletion& one : pair.take_completions(1))
    EXPECT_NE(one.wr_id, 1U) << "the message did not arrive";
}

TEST_F(NtbService, NTB_RECV_01_a_notified_message_goes_to_a_receive_of_its_context) {
  covers("NTB-RECV-01");
  const auto first = connect();
  const auto second = connect();
  pair.side(0).fill(0, 8192, 40);
  receive(*first[1], 1, 0x10000, 1024);
  receive(*second[1], 2, 0x20000, 1024);
  EXPECT_TRUE(pair.end(1).prepare_sleep()) << "nothing has come";
  pair.end(1).finish_sleep();
  post(*second[0], {.wr_id = 3}, 100, 600);
  pair.run_one(0);
  EXPECT_FALSE(pair.end(1).prepare_sleep()) << "the notification ends the sleep";
  pair.end(1).finish_sleep();
  EXPECT_NE(pair.side(1).bytes_at(0x20000, 600), pair.side(0).bytes_at(100, 600)) << "still in the FIFO";
  pair.run_one(1);
  EXPECT_EQ(pair.side(1).bytes_at(0x20000, 600), pair.side(0).bytes_at(100, 600));
  EXPECT_EQ(pair.side(1).bytes_at(0x10000, 1024), std::vector<std::byte>(1024)) << "context 1 is untouched";
  const auto got = pair.take_completions(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 2U);
  // Both at once, alternately, without a receive of the other context being taken.
  for (uint32_t i = 0; i < 10; ++i) {
    receive(*first[1], 100 + i, 0x30000 + 64 * i, 64);
    receive(*second[1], 200 + i, 0x40000 + 64 * i, 64);
  }
  clear();
  for (uint32_t i = 0; i < 10; ++i) {
    post(*second[0], {}, 2000 + 64 * i, 64);
    if (i % 2 == 0) post(*first[0], {}, 4000 + 64 * i, 64);
  }
  pair.run(60);
  EXPECT_EQ(pair.side(1).bytes_at(0x40000, 640), pair.side(0).bytes_at(2000, 640));
  EXPECT_EQ(pair.side(1).bytes_at(0x10000, 64), pair.side(0).bytes_at(4000, 64)) << "its first receive";
  EXPECT_EQ(pair.side(1).bytes_at(0x30000, 64), pair.side(0).bytes_at(4000 + 128, 64));
}

TEST_F(NtbService, NTB_RECV_02_each_message_gives_one_receive_completion) {
  covers("NTB-RECV-02");
  const auto qps = connect();
  const std::array<uint32_t, 5> sizes{0, 1, 208, 209, 5000};
  for (uint32_t i = 0; i < sizes.size(); ++i) receive(*qps[1], 50 + i, 8192 * i, 8192);
  for (const uint32_t bytes : sizes) post(*qps[0], {.wr_id = bytes}, 0, bytes);
  pair.run(100);
  const auto got = pair.take_completions(1);
  ASSERT_EQ(got.size(), sizes.size());
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(got[i].wr_id, 50 + i);
    EXPECT_EQ(got[i].byte_count, sizes.at(i));
    EXPECT_EQ(got[i].opcode, WcOpcode::kRecv);
    EXPECT_EQ(got[i].status, WcStatus::kSuccess);
    EXPECT_EQ(got[i].qpn, pair.side(1).adapter->qpn(*qps[1])) << "of the context's own queue pair";
  }
}

/// An access that the copy of the table refuses, each in a world of its own because it ends the queue pair.
class NtbRefused : public ::testing::Test {
 protected:
  struct Wrong {
    const char* what;
    uint64_t offset;
    uint32_t bytes;
    uint32_t key_bits;  // flipped in the key
  };
  static constexpr std::array<Wrong, 4> kWrong{{{"starts inside, ends outside", kPairBufferBytes - 32, 64, 0},
                                                {"starts outside", kPairBufferBytes, 64, 0},
                                                {"wraps", UINT64_MAX - 1000, 64, 0},
                                                {"unknown key", 0, 64, 0x100}}};
};

void expect_refused(SendOpcode opcode, uint64_t offset, uint32_t key_bits, const char* what) {
  SCOPED_TRACE(what);
  DirectPair world({.traced = true});
  QpAttr attr;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  const auto qps = world.connect({}, attr);
  const SendRequest good = request_to(world.side(1), SendOpcode::kRdmaWrite, 0);
  ASSERT_EQ(world.post_send(0, *qps[0], good, {world.side(0).sge(0, 8)}), PostResult::kOk);
  world.run(20);
  ASSERT_EQ(world.end(1).own().published(), 1U) << "the key is in the table";
  (void)world.take_completions(0);
  for (int i = 0; i < 2; ++i) world.trace(i).trace.clear();
  const std::vector<std::byte> before = world.side(1).memory;
  std::fill_n(world.side(0).memory.begin(), 64, std::byte{0xE7});
  const std::vector<std::byte> mine = world.side(0).memory;
  SendRequest wrong = request_to(world.side(1), opcode, offset, 5);
  wrong.rkey = Rkey(wrong.rkey.value() ^ key_bits);
  ASSERT_EQ(world.post_send(0, *qps[0], wrong, {world.side(0).sge(0, 64)}), PostResult::kOk);
  world.run(20);
  const auto done = world.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 5U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteAccess);
  EXPECT_TRUE(world.side(1).memory == before) << "the peer's memory is unchanged";
  EXPECT_TRUE(world.side(0).memory == mine);
  for (int i = 0; i < 2; ++i) {
    for (const DmaRequest& request : world.trace(i).requests())
      EXPECT_EQ(request.space, DmaSpace::kWindow) << "no DMA of the data";
  }
  // Where the table has the key, the data do not leave at all.
  const std::span<std::byte> window = world.window->end(1).own_memory();
  const std::array<std::byte, 8> data{std::byte{0xE7}, std::byte{0xE7}, std::byte{0xE7}, std::byte{0xE7},
                                      std::byte{0xE7}, std::byte{0xE7}, std::byte{0xE7}, std::byte{0xE7}};
  const bool left = std::search(window.begin(), window.end(), data.begin(), data.end()) != window.end();
  EXPECT_FALSE(left && key_bits == 0);
}

TEST_F(NtbRefused, NTB_WRITE_01_a_destination_that_the_table_does_not_allow_gets_no_data) {
  covers("NTB-WRITE-01");
  for (const Wrong& wrong : kWrong)
    expect_refused(SendOpcode::kRdmaWrite, wrong.offset, wrong.key_bits, wrong.what);
  EXPECT_FALSE(HasFailure());
}

TEST_F(NtbRefused, NTB_READ_01_a_source_that_the_table_does_not_allow_is_not_read) {
  covers("NTB-READ-01");
  for (const Wrong& wrong : kWrong)
    expect_refused(SendOpcode::kRdmaRead, wrong.offset, wrong.key_bits, wrong.what);
  EXPECT_FALSE(HasFailure());
}

TEST_F(NtbService, NTB_WRITE_01_the_right_to_write_is_compared_too) {
  covers("NTB-WRITE-01");
  const auto qps = connect();
  MemoryTable& table = pair.side(1).adapter->memory();
  const MemoryRegion readable =
      table.regions
          .reg_mr(pair.side(1).pd, std::span(pair.side(1).memory).subspan(4096, 4096), Access::kRemoteRead)
          .value();
  SendRequest read = remote(SendOpcode::kRdmaRead, 4096);
  read.rkey = readable.rkey;
  post(*qps[0], read, 0, 64);
  pair.run(20);
  ASSERT_EQ(pair.end(1).own().published(), 1U);
  clear();
  const auto before = pair.side(1).bytes_at(4096, 64);
  pair.side(0).fill(0, 64, 99);
  SendRequest write = read;
  write.opcode = SendOpcode::kRdmaWrite;
  post(*qps[0], write, 0, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.side(1).bytes_at(4096, 64), before);
  EXPECT_TRUE(moved(0).empty());
  for (const DmaRequest& slot : inserted(0)) EXPECT_LE(slot.bytes, 16U + kWindowRecordBytes) << "no data";
}

TEST_F(NtbService, NTB_WRITE_02_a_valid_write_goes_straight_to_the_peers_memory) {
  covers("NTB-WRITE-02");
  const auto qps = connect();
  show_key(*qps[0]);
  pair.side(0).fill(0, 5000, 11);
  const auto before = pointers();
  post(*qps[0], remote(SendOpcode::kRdmaWrite, 512, 4), 0, 5000);
  pair.run(20);
  EXPECT_EQ(pair.side(1).bytes_at(512, 5000), pair.side(0).bytes_at(0, 5000));
  const auto requests = moved(0);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].kind, DmaKind::kWrite);
  EXPECT_EQ(requests[0].remote, reinterpret_cast<uint64_t>(pair.side(1).memory.data()) + 512);
  EXPECT_EQ(requests[0].local, pair.side(0).memory.data()) << "no intermediate buffer";
  EXPECT_EQ(requests[0].bytes, 5000U);
  EXPECT_EQ(pointers(), before) << "no FIFO";
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 4U);
  EXPECT_EQ(done[0].opcode, WcOpcode::kRdmaWrite);
  EXPECT_TRUE(pair.take_completions(1).empty());
  // The completion follows that of the DMA.
  pair.window->set_faults(0, {.late_ppm = 1'000'000, .late_min = 200us, .late_max = 300us});
  post(*qps[0], remote(SendOpcode::kRdmaWrite, 512, 5), 0, 5000);
  pair.run(15);
  EXPECT_TRUE(pair.take_completions(0).empty());
  pair.run(200);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
}

TEST_F(NtbService, NTB_READ_02_a_valid_read_comes_straight_from_the_peers_memory) {
  covers("NTB-READ-02");
  const auto qps = connect();
  show_key(*qps[0]);
  for (uint32_t i = 0; i < 5000; ++i) pair.side(1).memory[512 + i] = static_cast<std::byte>(i * 13);
  const auto before = pointers();
  post(*qps[0], remote(SendOpcode::kRdmaRead, 512, 4), 100, 5000);
  pair.run(20);
  EXPECT_EQ(pair.side(0).bytes_at(100, 5000), pair.side(1).bytes_at(512, 5000));
  const auto requests = moved(0);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].kind, DmaKind::kRead);
  EXPECT_EQ(requests[0].remote, reinterpret_cast<uint64_t>(pair.side(1).memory.data()) + 512);
  EXPECT_EQ(requests[0].local, pair.side(0).memory.data() + 100) << "no intermediate buffer";
  EXPECT_EQ(pointers(), before) << "no FIFO";
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 4U);
  EXPECT_EQ(done[0].opcode, WcOpcode::kRdmaRead);
  pair.window->set_faults(0, {.late_ppm = 1'000'000, .late_min = 200us, .late_max = 300us});
  post(*qps[0], remote(SendOpcode::kRdmaRead, 512, 5), 100, 5000);
  pair.run(15);
  EXPECT_TRUE(pair.take_completions(0).empty()) << "not before the DMA";
  pair.run(200);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
}

}  // namespace
}  // namespace weft::test
