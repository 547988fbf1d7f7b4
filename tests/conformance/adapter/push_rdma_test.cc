// PUSH-RDMAW, PUSH-IDATA (the adapter's part), SAN-SEM-02, SAN-WQE-02/03/05/08: memory semantics.
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class PushRdma : public ::testing::Test {
 protected:
  adapter::ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  adapter::SendRequest write_request(std::span<const adapter::Sge> sges, uint32_t target_offset,
                                     bool idata = false) {
    return {.wr_id = 5,
            .opcode = idata ? adapter::SendOpcode::kRdmaWriteWithImm : adapter::SendOpcode::kRdmaWrite,
            .sges = sges,
            .imm = 0x07050100,
            .remote_addr = pair.side(1).region.addr + target_offset,
            .rkey = pair.side(1).region.rkey};
  }

  AdapterPair pair;
};

TEST_F(PushRdma, PUSH_RDMAW_01_address_and_handle_are_required) {
  covers("PUSH-RDMAW-01");
  auto qps = pair.connect({.type = adapter::QpType::kRc});
  const adapter::Sge sge = pair.side(0).sge(0, 64);
  adapter::SendRequest without_handle = write_request({&sge, 1}, 0);
  without_handle.rkey = Rkey(0);
  EXPECT_EQ(adapter().post_send(*qps[0], without_handle), adapter::PostResult::kNoRemoteKey);
  adapter::SendRequest without_address = write_request({&sge, 1}, 0, true);
  without_address.remote_addr = kNoRemoteAddr;
  EXPECT_EQ(adapter().post_send(*qps[0], without_address), adapter::PostResult::kNoRemoteKey);
  pair.run(20);
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());
}

TEST_F(PushRdma, PUSH_RDMAW_02_a_wrong_handle_writes_nothing) {
  covers("PUSH-RDMAW-02 SAN-RMP-10 SAN-XPORT-09");
  auto qps = pair.connect({.type = adapter::QpType::kRc});
  pair.side(0).fill(0, 700, 1);
  const adapter::Sge sge = pair.side(0).sge(0, 700);
  adapter::SendRequest request = write_request({&sge, 1}, 0);
  request.rkey = Rkey(request.rkey.value() ^ 0x00012300U);
  ASSERT_EQ(adapter().post_send(*qps[0], request), adapter::PostResult::kOk);
  pair.run();
  EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, adapter::WcStatus::kRemoteAccess);
  const auto naks = pair.pipe.sent_by(1, Opcode::kNak);
  ASSERT_FALSE(naks.empty());
  EXPECT_EQ(naks[0]->view.ack.code, AckCode::kRemoteAccess);
  EXPECT_EQ(adapter(0).query_qp(*qps[0]).state, adapter::QpState::kErr);
  EXPECT_EQ(adapter(1).query_qp(*qps[1]).state, adapter::QpState::kErr);
}

TEST_F(PushRdma, PUSH_RDMAW_03_the_target_consumer_takes_no_part) {
  covers("PUSH-RDMAW-03 SAN-SEM-02 SAN-WQE-03");
  auto qps = pair.connect({.type = adapter::QpType::kRc});
  pair.side(0).fill(0, 2000, 1);
  const std::array<adapter::Sge, 3> gather{pair.side(0).sge(0, 300), pair.side(0).sge(500, 1),
                                           pair.side(0).sge(600, 699)};
  ASSERT_EQ(adapter().post_send(*qps[0], write_request(gather, 33)), adapter::PostResult::kOk);
  pair.run();
  EXPECT_TRUE(pair.side(1).completions.empty());
  EXPECT_EQ(pair.side(1).bytes_at(33, 300), pair.side(0).bytes_at(0, 300));
  EXPECT_EQ(pair.side(1).bytes_at(333, 1), pair.side(0).bytes_at(500, 1));
  EXPECT_EQ(pair.side(1).bytes_at(334, 699), pair.side(0).bytes_at(600, 699));
}

TEST_F(PushRdma, PUSH_IDATA_05_data_to_the_buffer_idata_to_software) {
  covers("PUSH-IDATA-05");
  auto qps = pair.connect({.type = adapter::QpType::kRc, .idata_takes_recv_wqe = false});
  pair.side(0).fill(0, 700, 1);
  const adapter::Sge sge = pair.side(0).sge(0, 700);
  ASSERT_EQ(adapter().post_send(*qps[0], write_request({&sge, 1}, 128, true)), adapter::PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  const adapter::WorkCompletion& indicate = pair.side(1).completions[0];
  EXPECT_EQ(indicate.opcode, adapter::WcOpcode::kRdataIndicate);
  EXPECT_EQ(indicate.imm, 0x07050100U);
  EXPECT_EQ(indicate.byte_count, 700U);
  EXPECT_EQ(indicate.written_va, pair.side(1).region.addr + 128);
  EXPECT_EQ(pair.side(1).bytes_at(128, 700), pair.side(0).bytes_at(0, 700));
}

TEST_F(PushRdma, PUSH_IDATA_06_no_indication_before_the_last_byte_is_placed) {
  covers("PUSH-IDATA-06");
  auto qps = pair.connect({.type = adapter::QpType::kRc, .idata_takes_recv_wqe = false});
  pair.side(0).fill(0, 700, 1);
  pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
    return from == 0 && load_be<uint16_t>(bytes.data() + 28) == 0 ? Verdict::kHold : Verdict::kPass;
  });
  const adapter::Sge sge = pair.side(0).sge(0, 700);
  ASSERT_EQ(adapter().post_send(*qps[0], write_request({&sge, 1}, 0, true)), adapter::PostResult::kOk);
  pair.run(20);
  EXPECT_TRUE(pair.side(1).completions.empty());
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run();
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 700), pair.side(0).bytes_at(0, 700));
}

TEST_F(PushRdma, PUSH_IDATA_04_idata_in_any_cell_gives_one_indication) {
  covers("PUSH-IDATA-04");
  // Cells built by hand: idata in the first cell, in the last cell, in all three cells.
  for (const unsigned where : {0b001U, 0b100U, 0b111U}) {
    auto qps = pair.connect({.type = adapter::QpType::kRc, .idata_takes_recv_wqe = false});
    pair.side(1).completions.clear();
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(2),
                                                   .slid = Lid(1),
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = adapter(1).qpn(*qps[1]),
                                                   .src_qpn = adapter(0).qpn(*qps[0])});
    for (uint16_t i = 0; i < 3; ++i) {
      const bool idata = (where >> i & 1) != 0;
      const uint8_t flags = static_cast<uint8_t>((i == 0 ? kCellFirst | kCellVa : 0) |
                                                 (i == 2 ? kCellLast : 0) | (idata ? kCellIdata : 0));
      const uint32_t parts = (i == 0 ? kVaBytes : 0) + (idata ? kIdataBytes : 0);
      const uint16_t data = i == 2 ? 88 : 256;
      std::vector<std::byte> cell(kCellHeaderBytes + parts + data + kCrcBytes, std::byte{0x11});
      (void)compose_cell_header(cell.data(), fixed,
                                {.opcode = Opcode::kRdmaWrite,
                                 .flags = flags,
                                 .psn = Psn(100),
                                 .cell_number = i,
                                 .payload_bytes = data});
      std::byte* at = cell.data() + kCellHeaderBytes;
      if (i == 0) {
        store_be(at, pair.side(1).region.addr);
        store_be(at + 8, pair.side(1).region.rkey.value());
        at += kVaBytes;
      }
      if (idata) store_be(at, uint32_t{0x01020300});
      pair.pipe.inject(1, cell);
    }
    pair.run(50);
    ASSERT_EQ(pair.side(1).completions.size(), 1U) << where;
    EXPECT_EQ(pair.side(1).completions[0].imm, 0x01020300U);
    EXPECT_EQ(pair.side(1).completions[0].byte_count, 600U);
  }
}

TEST_F(PushRdma, SAN_WQE_02_read_fills_a_scatter_list) {
  covers("SAN-WQE-02");
  auto qps = pair.connect({.type = adapter::QpType::kRc});
  pair.side(1).fill(100, 1000, 4);
  const std::array<adapter::Sge, 3> scatter{pair.side(0).sge(0, 400), pair.side(0).sge(1000, 17),
                                            pair.side(0).sge(2000, 583)};
  const adapter::SendRequest request{.wr_id = 6,
                                     .opcode = adapter::SendOpcode::kRdmaRead,
                                     .sges = scatter,
                                     .remote_addr = pair.side(1).region.addr + 100,
                                     .rkey = pair.side(1).region.rkey};
  ASSERT_EQ(adapter().post_send(*qps[0], request), adapter::PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, adapter::WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).completions[0].byte_count, 1000U);
  EXPECT_EQ(pair.side(0).bytes_at(0, 400), pair.side(1).bytes_at(100, 400));
  EXPECT_EQ(pair.side(0).bytes_at(1000, 17), pair.side(1).bytes_at(500, 17));
  EXPECT_EQ(pair.side(0).bytes_at(2000, 583), pair.side(1).bytes_at(517, 583));
  EXPECT_TRUE(pair.side(1).completions.empty());
}

TEST_F(PushRdma, SAN_WQE_05_access_between_bind_and_unbind_only) {
  covers("SAN-WQE-05 TPT-WQE-02");
  auto qps = pair.connect({.type = adapter::QpType::kRc});
  PairSide& owner = pair.side(1);
  const Rkey key = owner.adapter->memory().windows.alloc_rkey(owner.pd).value();
  const adapter::SendRequest bind{.wr_id = 1,
                                  .opcode = adapter::SendOpcode::kBindWindow,
                                  .bind = {.window = key,
                                           .region = owner.region.lkey,
                                           .addr = owner.region.addr + 7,
                                           .length = 64,
                                           .access = adapter::Access::kRemoteWrite}};
  ASSERT_EQ(owner.adapter->post_send(*qps[1], bind), adapter::PostResult::kOk);
  pair.run();
  ASSERT_EQ(owner.completions.size(), 1U);
  ASSERT_EQ(owner.completions[0].status, adapter::WcStatus::kSuccess);
  EXPECT_EQ(owner.completions[0].opcode, adapter::WcOpcode::kBindWindow);
  pair.side(0).fill(0, 64, 9);
  const adapter::Sge sge = pair.side(0).sge(0, 64);
  adapter::SendRequest write = write_request({&sge, 1}, 7);
  write.rkey = key;
  ASSERT_EQ(adapter().post_send(*qps[0], write), adapter::PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  ASSERT_EQ(pair.side(0).completions[0].status, adapter::WcStatus::kSuccess);
  EXPECT_EQ(owner.bytes_at(7, 64), pair.side(0).bytes_at(0, 64));
  const adapter::SendRequest unbind{
      .wr_id = 2, .opcode = adapter::SendOpcode::kUnbindWindow, .bind = {.window = key}};
  ASSERT_EQ(owner.adapter->post_send(*qps[1], unbind), adapter::PostResult::kOk);
  pair.run();
  pair.side(0).fill(0, 64, 77);
  const auto before = owner.bytes_at(0, 256);
  ASSERT_EQ(adapter().post_send(*qps[0], write), adapter::PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[1].status, adapter::WcStatus::kRemoteAccess);
  EXPECT_EQ(owner.bytes_at(0, 256), before);
  // The window is destroyed, not only unbound: its key names nothing and cannot be bound again.
  EXPECT_FALSE(owner.adapter->memory().query(key.value()).has_value());
  qps = pair.connect({.type = adapter::QpType::kRc});
  ASSERT_EQ(owner.adapter->post_send(*qps[1], bind), adapter::PostResult::kOk);
  pair.run();
  EXPECT_EQ(owner.completions.back().status, adapter::WcStatus::kMwBind);
}

}  // namespace
}  // namespace weft::test
