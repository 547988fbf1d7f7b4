// Cells that an adapter drops: each reason has its own counter, nothing is delivered or stored, and no answer
// helps a stranger.
#include <algorithm>

#include "adapter/limits.h"
#include "adapter/queues/shared_receives.h"
#include "base/endian.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/reason_table.h"

namespace weft::test {
using namespace adapter;
namespace {

/// A cell built by hand, from side 1 to the QP under test at side 0.
struct HandMade {
  Opcode opcode = Opcode::kSend;
  uint8_t flags = kCellFirst | kCellLast;
  uint16_t number = 0;
  std::vector<std::byte> parts{};  // between header and data
  uint32_t bytes = 16;
  Lid dlid{1};
  Lid slid{2};
  uint32_t dest_flip = 0;  // bits to flip in the QP number
  SubnetId dest_subnet{1};
  uint16_t pkey = kPkeyDefault;
  uint32_t ahead = 0;  // packets between the expected one and this one
};

class Bench {
 public:
  Bench() : pair(256, small()) { before_ = pair.side(0).memory; }

  /// Makes the QP under test; a connected service gets a peer at side 1.
  void use(QpType type) {
    const auto qps = pair.connect({.type = type});
    qp = qps[0];
    peer_ = pair.side(1).adapter->qpn(*qps[1]);
    pair.run(2);
    pair.pipe.clear_trace();
  }
  void use_xrc_target() {
    ChannelAdapter& adapter = *pair.side(0).adapter;
    const QpConfig config{.type = QpType::kXrcRecv, .xrcd = adapter.srqs().alloc_xrcd().value()};
    qp = adapter.create_qp(config).value();
    peer_ = Qpn(0x77);
    pair.bring_up(0, *qp, config, peer_, Lid(2), Psn(1), Psn(0xFFFFF0));
    pair.run(2);
    pair.pipe.clear_trace();
  }
  void use_subnet_management() {
    const QpConfig config{.type = QpType::kUd,
                          .pd = pair.side(0).pd,
                          .send_cq = pair.side(0).cq,
                          .recv_cq = pair.side(0).cq,
                          .wanted_qpn = kQpnSmi};
    qp = pair.side(0).adapter->create_qp(config).value();
    pair.bring_up(0, *qp, config, kQpnSmi, Lid(2), Psn(1), Psn(0xFFFFF0));
    pair.run(2);
    pair.pipe.clear_trace();
  }
  void post_recv(uint32_t bytes) {
    ASSERT_EQ(pair.post_recv(0, *qp, 1, {pair.side(0).sge(0, bytes)}), PostResult::kOk);
  }
  void receive(const HandMade& cell) {
    const CellTemplate fixed =
        make_cell_template({.dest_subnet = cell.dest_subnet,
                            .src_subnet = SubnetId(1),
                            .dlid = cell.dlid,
                            .slid = cell.slid,
                            .vl = VirtualLane(0),
                            .sl = ServiceLevel(0),
                            .dest_qpn = Qpn(pair.side(0).adapter->qpn(*qp).value() ^ cell.dest_flip),
                            .src_qpn = peer_,
                            .pkey = cell.pkey});
    std::vector<std::byte> out(kCellHeaderBytes + cell.parts.size() + cell.bytes + kCrcBytes,
                               std::byte{0x5A});
    (void)compose_cell_header(out.data(), fixed,
                              {.opcode = cell.opcode,
                               .flags = cell.flags,
                               .psn = Psn(0xFFFFF0).plus(cell.ahead),
                               .cell_number = cell.number,
                               .payload_bytes = static_cast<uint16_t>(cell.bytes)});
    std::copy(cell.parts.begin(), cell.parts.end(), out.begin() + kCellHeaderBytes);
    pair.pipe.inject(0, std::move(out));
    pair.run_one(0);
  }
  /// The first part of a write to side 0.
  [[nodiscard]] std::vector<std::byte> va_and_key(uint32_t wrong_bits = 0) {
    std::vector<std::byte> out(kVaBytes);
    store_be(out.data(), pair.side(0).region.addr);
    store_be(out.data() + 8, pair.side(0).region.rkey.value() ^ wrong_bits);
    return out;
  }
  static std::vector<std::byte> qkey(uint32_t value) {
    std::vector<std::byte> out(kDatagramHeaderBytes);
    store_be(out.data(), value);
    return out;
  }
  [[nodiscard]] bool untouched() { return pair.side(0).memory == before_; }

  AdapterPair pair;
  QueuePair* qp = nullptr;

 private:
  static AdapterLimits small() {
    AdapterLimits limits;
    limits.rd_contexts = 1;
    limits.window_chunks = 0;
    return limits;
  }
  Qpn peer_{};
  std::vector<std::byte> before_;
};

struct Drop {
  AdapterCounter reason;
  void (*provoke)(Bench& at);
};

constexpr std::array kDrops{
    Drop{AdapterCounter::kDropOtherLid,
         [](Bench& at) {
           at.use(QpType::kRc);
           at.receive({.dlid = Lid(5)});
         }},
    Drop{AdapterCounter::kDropOtherLid,
         [](Bench& at) {  // the same LID in another subnet
           at.use(QpType::kRc);
           at.post_recv(64);
           at.receive({.dest_subnet = SubnetId(2)});
         }},
    Drop{AdapterCounter::kDropPortInactive,
         [](Bench& at) {
           at.use(QpType::kRc);
           at.post_recv(64);
           EXPECT_TRUE(at.pair.side(0).adapter->ports().set_state(1, PortState::kArmed));
           at.receive({});
         }},
    Drop{AdapterCounter::kDropNoQp,
         [](Bench& at) {
           at.use(QpType::kRc);
           at.receive({.dest_flip = 0x800000});
         }},
    Drop{AdapterCounter::kDropQpState,
         [](Bench& at) {
           at.use(QpType::kRc);
           QpAttr reset;
           reset.state = QpState::kReset;
           ASSERT_EQ(at.pair.side(0).adapter->modify_qp(*at.qp, reset, adapter::kQpAttrState),
                     ModifyResult::kOk);
           at.receive({});
         }},
    Drop{AdapterCounter::kDropSource,
         [](Bench& at) {
           at.use(QpType::kRc);
           at.post_recv(64);
           at.receive({.slid = Lid(3)});
         }},
    Drop{AdapterCounter::kDropSource,
         [](Bench& at) {  // a peer in this subnet, as if a router stood between
           at.use(QpType::kRc);
           at.post_recv(64);
           at.receive({.flags = kCellFirst | kCellLast | kCellGlobal,
                       .parts = std::vector<std::byte>(kGlobalHeaderBytes)});
         }},
    Drop{AdapterCounter::kDropQkey,
         [](Bench& at) {
           at.use(QpType::kUd);
           at.post_recv(64);
           at.receive({.opcode = Opcode::kUdSend, .parts = Bench::qkey(AdapterPair::kQkey + 1)});
         }},
    Drop{AdapterCounter::kDropQkey,
         [](Bench& at) {
           at.use(QpType::kRd);
           at.post_recv(64);
           at.receive({.opcode = Opcode::kRdSend, .parts = Bench::qkey(AdapterPair::kQkey + 1)});
         }},
    Drop{AdapterCounter::kDropPkey,
         [](Bench& at) {
           at.use(QpType::kRc);
           at.post_recv(64);
           at.receive({.pkey = 0x8001});
         }},
    Drop{AdapterCounter::kDropPkey,
         [](Bench& at) {  // a datagram has a P_Key beside its Q_Key
           at.use(QpType::kUd);
           at.post_recv(64);
           std::vector<std::byte> parts = Bench::qkey(AdapterPair::kQkey);
           store_be(&parts[4], uint16_t{0x8001});
           at.receive({.opcode = Opcode::kUdSend, .parts = parts});
         }},
    Drop{AdapterCounter::kDropManagementLane,
         [](Bench& at) {  // lane 0
           at.use_subnet_management();
           at.post_recv(64);
           at.receive({.opcode = Opcode::kUdSend, .parts = Bench::qkey(AdapterPair::kQkey)});
         }},
    Drop{AdapterCounter::kDropMulticast,
         [](Bench& at) {
           at.use(QpType::kUd);
           at.post_recv(64);
           at.receive(
               {.opcode = Opcode::kUdSend, .parts = Bench::qkey(AdapterPair::kQkey), .dlid = Lid(0xC001)});
         }},
    Drop{AdapterCounter::kDropXrcSrq,
         [](Bench& at) {
           at.use_xrc_target();
           at.receive({.opcode = Opcode::kXrcSend, .parts = std::vector<std::byte>(kXrcHeaderBytes)});
         }},
    Drop{AdapterCounter::kDropProtocol,
         [](Bench& at) {  // an IPv6 datagram without a registered receiver
           at.use(QpType::kRaw);
           at.post_recv(64);
           const uint32_t own = at.pair.side(0).adapter->qpn(*at.qp).value();
           at.receive({.opcode = Opcode::kRaw,
                       .flags = kCellFirst | kCellLast | kCellGlobal,
                       .parts = std::vector<std::byte>(kGlobalHeaderBytes),
                       .dest_flip = own ^ kQpnMask});
         }},
    Drop{AdapterCounter::kDropService,
         [](Bench& at) {  // a Send without the Q_Key of reliable datagrams
           at.use(QpType::kRd);
           at.post_recv(64);
           at.receive({});
         }},
    Drop{AdapterCounter::kDropService,
         [](Bench& at) {  // an answer to an XRC target, which sends no requests
           at.use_xrc_target();
           at.receive({.opcode = Opcode::kRdmaReadResponse,
                       .flags = kCellFirst | kCellLast | kCellVa,
                       .parts = at.va_and_key()});
         }},
    Drop{AdapterCounter::kDropService,
         [](Bench& at) {  // a Send to an XRC initiator
           at.use(QpType::kXrcSend);
           at.receive({});
         }},
    Drop{AdapterCounter::kDropService,
         [](Bench& at) {  // an RDMA write to a datagram QP
           at.use(QpType::kUd);
           at.post_recv(64);
           at.receive({.opcode = Opcode::kRdmaWrite,
                       .flags = kCellFirst | kCellLast | kCellVa,
                       .parts = at.va_and_key()});
         }},
    Drop{AdapterCounter::kDropSegment,
         [](Bench& at) {  // neither full nor last
           at.use(QpType::kUc);
           at.post_recv(64);
           at.receive({.flags = kCellFirst});
         }},
    Drop{AdapterCounter::kDropNoRecvWqe,
         [](Bench& at) {
           at.use(QpType::kUc);
           at.receive({});
         }},
    Drop{AdapterCounter::kDropAccess,
         [](Bench& at) {
           at.use(QpType::kUc);
           at.receive({.opcode = Opcode::kRdmaWrite,
                       .flags = kCellFirst | kCellLast | kCellVa,
                       .parts = at.va_and_key(0x5500)});
         }},
    Drop{AdapterCounter::kDropLength,
         [](Bench& at) {
           at.use(QpType::kUc);
           at.post_recv(8);
           at.receive({});
         }},
    Drop{AdapterCounter::kDropAccess,
         [](Bench& at) {  // the same on an acknowledged service
           at.use(QpType::kRc);
           at.receive({.opcode = Opcode::kRdmaWrite,
                       .flags = kCellFirst | kCellLast | kCellVa,
                       .parts = at.va_and_key(0x5500)});
         }},
    Drop{AdapterCounter::kDropAccess,
         [](Bench& at) {  // a good key, but a QP that grants no writes
           at.use(QpType::kUc);
           QpAttr attr;
           attr.access = Access::kRemoteRead;
           ASSERT_EQ(at.pair.side(0).adapter->modify_qp(*at.qp, attr, adapter::kQpAttrAccess),
                     ModifyResult::kOk);
           at.receive({.opcode = Opcode::kRdmaWrite,
                       .flags = kCellFirst | kCellLast | kCellVa,
                       .parts = at.va_and_key()});
         }},
    Drop{AdapterCounter::kDropLength,
         [](Bench& at) {
           at.use(QpType::kUd);
           at.post_recv(8);
           at.receive({.opcode = Opcode::kUdSend, .parts = Bench::qkey(AdapterPair::kQkey)});
         }},
    Drop{AdapterCounter::kDropRdContext,
         [](Bench& at) {  // one context and a second remote node
           at.use(QpType::kRd);
           for (const Lid lid : {Lid(2), Lid(3)}) {
             at.receive({.opcode = Opcode::kRdSend, .parts = Bench::qkey(AdapterPair::kQkey), .slid = lid});
           }
         }},
    Drop{AdapterCounter::kStashFull,
         [](Bench& at) {  // writes without their first cell: their address is not known
           at.use(QpType::kRc);
           const uint32_t room = AdapterLimits{}.stash_cells_per_qp;
           for (uint32_t i = 0; i <= room; ++i) {
             const auto number = static_cast<uint16_t>(1 + i % (kChunkPackets - 1));
             at.receive({.opcode = Opcode::kRdmaWrite,
                         .flags = 0,
                         .number = number,
                         .bytes = 256,
                         .ahead = i / (kChunkPackets - 1)});
           }
         }},
    Drop{AdapterCounter::kDropWindow,
         [](Bench& at) {  // a Send whose neighbours in memory are not those of the expected one
           at.use(QpType::kRc);
           at.post_recv(64);
           at.receive({.ahead = kChunkPackets});
         }},
};
static_assert(names_every_reason(kDrops, AdapterCounter::kDropOtherLid, AdapterCounter::kQpErrors));

TEST(AdapterDrops, each_reason_has_its_own_counter_and_stores_nothing) {
  for (const Drop& one : kDrops) {
    const std::string_view name = CounterSet<AdapterCounter>::label(one.reason);
    Bench at;
    one.provoke(at);
    const auto& counters = at.pair.side(0).adapter->counters();
    for (auto i = static_cast<size_t>(AdapterCounter::kDropOtherLid);
         i < static_cast<size_t>(AdapterCounter::kQpErrors); ++i) {
      const auto counter = static_cast<AdapterCounter>(i);
      EXPECT_EQ(counters.get(counter), counter == one.reason ? 1U : 0U)
          << CounterSet<AdapterCounter>::label(counter) << " while provoking " << name;
    }
    EXPECT_TRUE(at.untouched()) << name;
    for (const WorkCompletion& done : at.pair.side(0).completions) {
      EXPECT_NE(done.status, WcStatus::kSuccess) << name;
    }
  }
}

TEST(AdapterDrops, a_packet_that_goes_on_as_another_operation_is_missed) {
  Bench at;
  at.use(QpType::kUc);
  at.post_recv(1024);
  at.receive({.flags = kCellFirst, .bytes = 256});
  at.receive({.opcode = Opcode::kRdmaWrite, .flags = kCellLast, .number = 1});
  EXPECT_TRUE(at.pair.side(0).completions.empty());
  EXPECT_EQ(at.pair.side(0).adapter->missed_packets(*at.qp), 1U);
}

}  // namespace
}  // namespace weft::test
