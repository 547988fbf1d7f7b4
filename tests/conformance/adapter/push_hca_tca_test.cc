// PUSH-NODE-03: a host's adapter and a unit's adapter behave alike. A traced pipe joins the production Hca
// and Tca. Each exchange runs in both directions, and the cells must be equal but for the names of the ends.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <tuple>
#include <vector>

#include "adapter/bring_up.h"
#include "hca/hca.h"
#include "tca/tca.h"
#include "tests/support/pipe_port.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kMemoryBytes = 8192;

/// One end: an adapter, its memory and a connected QP.
struct AdapterEnd {
  ChannelAdapter* adapter = nullptr;
  PdId pd;
  CompletionQueue* cq = nullptr;
  std::vector<std::byte> memory;
  MemoryRegion region;
  QueuePair* qp = nullptr;
  std::vector<WorkCompletion> completions;

  void open(ChannelAdapter& owner) {
    adapter = &owner;
    memory.assign(kMemoryBytes, std::byte{0});
    pd = owner.alloc_pd().value();
    cq = owner.cqs().create(64).value();
    region = owner.memory()
                 .regions.reg_mr(pd, memory, Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead)
                 .value();
    qp = owner.create_qp({.pd = pd, .send_cq = cq, .recv_cq = cq, .idata_takes_recv_wqe = false}).value();
  }
  [[nodiscard]] Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region.addr + offset, .length = bytes, .lkey = region.lkey};
  }
};

/// The properties of a cell that do not name its ends.
using Shape = std::tuple<Opcode, int, uint32_t, uint32_t, size_t>;

class HcaAndTca : public ::testing::Test {
 protected:
  HcaAndTca() {
    hca.attach(pipe.end(0));
    tca.attach(pipe.end(1));
    ends[0].open(hca.adapter());
    ends[1].open(tca.adapter());
    for (size_t i = 0; i < 2; ++i) {
      const AdapterEnd& peer = ends[1 - i];
      const QpAttr attr{.access = Access::kRemoteWrite | Access::kRemoteRead,
                        .dlid = Lid(static_cast<uint16_t>(2 - i)),
                        .rq_psn = Psn(100),
                        .sq_psn = Psn(100),
                        .dest_qpn = peer.adapter->qpn(*peer.qp)};
      EXPECT_EQ(bring_up(*ends[i].adapter, *ends[i].qp, attr), ModifyResult::kOk);
    }
  }

  void run() {
    for (int turn = 0; turn < 60; ++turn) {
      hca.poll(clock.now());
      tca.poll(clock.now());
      for (AdapterEnd& end : ends) {
        std::array<WorkCompletion, 8> got;
        const uint32_t count = end.adapter->cqs().poll(*end.cq, got);
        end.completions.insert(end.completions.end(), got.begin(), got.begin() + count);
      }
      clock.advance(std::chrono::microseconds(10));
    }
  }

  /// The same work from side `from`: a Send of 1000 bytes, a write of 700 with idata, a read of 600.
  std::vector<Shape> exchange(int from) {
    AdapterEnd& here = ends[static_cast<size_t>(from)];
    AdapterEnd& there = ends[static_cast<size_t>(1 - from)];
    pipe.clear_trace();
    for (AdapterEnd& end : ends) end.completions.clear();
    const auto pattern = static_cast<uint32_t>(from) * 91 + 1;
    for (uint32_t i = 0; i < 1000; ++i) here.memory[i] = static_cast<std::byte>(pattern + i * 7);
    const Sge into = there.sge(2000, 1000);
    const Sge source = here.sge(0, 1000);
    const Sge block = here.sge(0, 700);
    const Sge sink = here.sge(6000, 600);
    EXPECT_EQ(there.adapter->post_recv(*there.qp, {.wr_id = 1, .sges = {&into, 1}}), PostResult::kOk);
    EXPECT_EQ(here.adapter->post_send(*here.qp, {.wr_id = 2, .sges = {&source, 1}}), PostResult::kOk);
    EXPECT_EQ(here.adapter->post_send(*here.qp, {.wr_id = 3,
                                                 .opcode = SendOpcode::kRdmaWriteWithImm,
                                                 .sges = {&block, 1},
                                                 .imm = 0x07050100,
                                                 .remote_addr = there.region.addr + 4000,
                                                 .rkey = there.region.rkey}),
              PostResult::kOk);
    EXPECT_EQ(here.adapter->post_send(*here.qp, {.wr_id = 4,
                                                 .opcode = SendOpcode::kRdmaRead,
                                                 .sges = {&sink, 1},
                                                 .remote_addr = there.region.addr + 2000,
                                                 .rkey = there.region.rkey}),
              PostResult::kOk);
    run();
    EXPECT_EQ(std::memcmp(there.memory.data() + 2000, here.memory.data(), 1000), 0) << "the Send";
    EXPECT_EQ(std::memcmp(there.memory.data() + 4000, here.memory.data(), 700), 0) << "the write";
    EXPECT_EQ(std::memcmp(here.memory.data() + 6000, here.memory.data(), 600), 0) << "the read";
    EXPECT_EQ(here.completions.size(), 3U);
    EXPECT_EQ(there.completions.size(), 2U);
    for (const AdapterEnd& end : ends) {
      for (const WorkCompletion& done : end.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
    }
    std::vector<Shape> shapes;
    for (const TracedCell& cell : pipe.trace()) {
      shapes.emplace_back(cell.view.opcode, cell.from == from ? 0 : 1, cell.view.flags, cell.view.cell_number,
                          cell.view.payload.size());
    }
    return shapes;
  }

  ManualClock clock;
  Pipe pipe;
  SeededRandom random{1};
  hca::Hca hca{Guid(0x11), random};
  tca::Tca tca{Guid(0x22), random};
  std::array<AdapterEnd, 2> ends;
};

TEST_F(HcaAndTca, PUSH_NODE_03_both_segment_reassemble_write_and_answer_alike) {
  covers("PUSH-NODE-03");
  const std::vector<Shape> from_host = exchange(0);
  const std::vector<Shape> from_unit = exchange(1);
  EXPECT_GE(from_host.size(), 4U + 3 + 1 + 3) << "cut into cells";
  // The host's adapter is polled first, so the order between the sides may differ; each side's cells are
  // equal.
  const auto of = [](const std::vector<Shape>& shapes, int side) {
    std::vector<Shape> out;
    for (const Shape& shape : shapes) {
      const Opcode opcode = std::get<0>(shape);
      if (std::get<1>(shape) == side && opcode != Opcode::kAck) out.push_back(shape);
    }
    return out;
  };
  EXPECT_EQ(of(from_host, 0), of(from_unit, 0));
  EXPECT_EQ(of(from_host, 1), of(from_unit, 1));
  EXPECT_EQ(of(from_host, 1).size(), 3U) << "the read's answer is cut too";
}

}  // namespace
}  // namespace weft::test
