// Hostile cells into an adapter with a QP of every service: nothing may be written outside the region,
// nothing may crash, and the engine must stay bounded. The fuzzer's bytes choose opcode, flags, numbers and
// lengths; addresses and keys are right half of the time, so that cells get past the first gates.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/bring_up.h"
#include "adapter/queues/shared_receives.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"

namespace weft {
namespace {

/// A port that swallows what is sent and gives what the test puts in.
class FuzzPort final : public fabric::CellPort {
 public:
  [[nodiscard]] bool up() const noexcept override { return true; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant) noexcept override { return 0; }
  [[nodiscard]] std::byte* claim(VirtualLane, uint32_t bytes) noexcept override {
    return bytes <= sizeof staging_ ? staging_ : nullptr;
  }
  void commit(VirtualLane, uint32_t, uint32_t) noexcept override {}
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override { return views_; }
  void release() noexcept override { views_.clear(); }
  void flush(Instant) noexcept override {}
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }
  void put(const std::vector<std::byte>& cell) { views_.push_back({cell, VirtualLane(0)}); }

 private:
  fabric::CellPortInfo info_{
      .guid = Guid(1), .lid = Lid(1), .subnet = SubnetId(1), .cell_payload_bytes = 256, .lanes = 4};
  std::vector<fabric::RxCell> views_;
  std::byte staging_[cell_bytes_max(256)] = {};
};

constexpr uint32_t kQkey = 1;

class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> data) : data_(data) {}
  [[nodiscard]] uint8_t next() {
    if (data_.empty()) return 0;
    const uint8_t value = data_.front();
    data_ = data_.subspan(1);
    return value;
  }
  [[nodiscard]] bool empty() const { return data_.empty(); }

 private:
  std::span<const uint8_t> data_;
};

struct Target {
  static constexpr uint32_t kGuard = 256;
  static constexpr uint32_t kRegion = 4096;
  SeededRandom random{7};
  FuzzPort port;
  adapter::AdapterLimits limits{.queue_pairs = 14, .keys = 64};
  adapter::ChannelAdapter adapter{{.guid = Guid(1), .limits = limits}, random};
  std::vector<std::byte> memory = std::vector<std::byte>(kRegion + 2 * kGuard, std::byte{0xAB});
  adapter::MemoryRegion region{};
  adapter::PdId pd{};
  Rkey window{};
  Rkey type1{};  // the present keys of windows of the verbs' types
  Rkey type2{};
  adapter::CompletionQueue* cq = nullptr;
  std::vector<adapter::QueuePair*> qps;
  adapter::SharedReceiveQueue* srq = nullptr;  // of XRC
  Instant now{};

  Target() {
    adapter.ports().attach(port);
    pd = adapter.alloc_pd().value();
    cq = adapter.cqs().create(256).value();
    region = adapter.memory()
                 .regions
                 .reg_mr(pd, std::span(memory).subspan(kGuard, kRegion),
                         adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite |
                             adapter::Access::kRemoteRead | adapter::Access::kWindowBind)
                 .value();
    window = adapter.memory().windows.alloc_rkey(pd).value();
    type1 = adapter.memory().windows.alloc_window(pd, adapter::WindowKind::kType1).value();
    type2 = adapter.memory().windows.alloc_window(pd, adapter::WindowKind::kType2).value();
    for (const adapter::QpType type : {adapter::QpType::kRc, adapter::QpType::kUc, adapter::QpType::kUd,
                                       adapter::QpType::kRd, adapter::QpType::kRaw}) {
      adapter::QpConfig config{.type = type};
      config.pd = pd;
      config.send_cq = config.recv_cq = cq;
      config.idata_takes_recv_wqe = type == adapter::QpType::kRc;
      qps.push_back(adapter.create_qp(config).value());
    }
    const adapter::XrcdId xrcd = adapter.srqs().alloc_xrcd().value();
    srq = adapter.srqs().create({.pd = pd, .xrcd = xrcd, .cq = cq}).value();
    qps.push_back(adapter.create_qp({.type = adapter::QpType::kXrcRecv, .xrcd = xrcd}).value());
    adapter::QpConfig initiator{.type = adapter::QpType::kXrcSend, .pd = pd, .send_cq = cq};
    qps.push_back(adapter.create_qp(initiator).value());
  }
  void revive() {
    const adapter::Sge sge{.addr = region.addr + 2048, .length = 1024, .lkey = region.lkey};
    for (adapter::QueuePair* qp : qps) {
      const adapter::QpState state = adapter.query_qp(*qp).state;
      if (state == adapter::QpState::kErr) {
        (void)adapter.modify_qp(*qp, {}, adapter::kQpAttrState);
      }
      adapter::QpAttr attr;
      attr.access = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
      attr.dlid = Lid(2);
      attr.dest_qpn = Qpn(5);
      attr.qkey = kQkey;
      (void)adapter::bring_up(adapter, *qp, attr);
      (void)adapter.post_recv(*qp, {.wr_id = 1, .sges = {&sge, 1}});
      (void)adapter.post_send(
          *qp, {.wr_id = 2, .sges = {&sge, 1}, .dest = {.lid = Lid(2), .qpn = Qpn(5)}, .srq = 5});
    }
    (void)adapter.srqs().post_recv(*srq, {.wr_id = 3, .sges = {&sge, 1}});
  }
  /// The region's key, or that of a window that comes and goes.
  [[nodiscard]] Rkey key(uint8_t which) const {
    const std::array keys{region.rkey, window, type1, type2};
    return keys[which % keys.size()];
  }
  /// What the owner does meanwhile: keys that serve once, end, or point elsewhere; rights that end.
  void change(uint8_t what) {
    adapter::MemoryTable& table = adapter.memory();
    const adapter::BindRequest bind{
        window, region.lkey, region.addr + uint64_t{what} * 4, 1024,
        adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead |
            ((what & 4) != 0 ? adapter::Access::kOneShot : adapter::Access::kNone)};
    adapter::QpAttr attr;
    attr.access = (what & 8) != 0 ? adapter::Access::kRemoteWrite : adapter::Access::kRemoteRead;
    switch (what % 6) {
      case 0:
        (void)table.windows.bind_rkey(pd, bind);
        break;
      case 1:
        (void)table.windows.unbind_rkey(pd, window);
        break;
      case 2:
        (void)table.windows.rebind_window(pd, bind, window);
        break;
      case 3:
        bind_type1(bind);
        break;
      case 4:
        bind_type2(bind, what);
        break;
      default:
        (void)adapter.modify_qp(*qps[what / 16 % qps.size()], attr, adapter::kQpAttrAccess);
    }
  }
  /// Under the next key, which may be promised and never come.
  void bind_type1(adapter::BindRequest bind) {
    bind.window = adapter.memory().windows.promise_key(type1);
    const bool kept = (bind.addr & 16) != 0;
    const adapter::Accessor who{pd, adapter.qpn(*qps[0])};
    if (kept && adapter.memory().windows.bind_window(who, bind) == adapter::AccessFault::kNone)
      type1 = bind.window;
  }
  /// Under a key of its block, by a QP that is the peer's half of the time; or it ends.
  void bind_type2(adapter::BindRequest bind, uint8_t what) {
    const adapter::Accessor who{pd, adapter.qpn(*qps[(what & 16) != 0 ? 0 : 1])};
    if ((what & 32) != 0) return static_cast<void>(adapter.memory().windows.invalidate(who, type2));
    bind.window = Rkey((type2.value() & ~0xFFU) | what);
    if (adapter.memory().windows.bind_window(who, bind) == adapter::AccessFault::kNone) type2 = bind.window;
  }
  void check() {
    std::vector<adapter::WorkCompletion> out(64);
    while (adapter.cqs().poll(*cq, out) == out.size()) {
    }
    for (uint32_t i = 0; i < kGuard; ++i) {
      if (memory[i] != std::byte{0xAB} || memory[kGuard + kRegion + i] != std::byte{0xAB}) std::abort();
    }
  }
};

std::vector<std::byte> make_cell(Target& target, Bytes& bytes) {
  const uint8_t which = bytes.next();
  const auto opcode = kOpcodes[bytes.next() % kOpcodes.size()].opcode;
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(opcode));
  const CellTemplate fixed =
      make_cell_template({.dest_subnet = SubnetId(1),
                          .src_subnet = SubnetId(1),
                          .dlid = Lid(1),
                          .slid = Lid(2),
                          .vl = VirtualLane(0),
                          .sl = ServiceLevel(0),
                          .dest_qpn = target.adapter.qpn(*target.qps[which % target.qps.size()]),
                          .src_qpn = Qpn(5)});
  CellVariable variable{
      .opcode = opcode, .flags = bytes.next(), .flags2 = static_cast<uint8_t>(bytes.next() & 0xE0)};
  variable.psn = Psn(static_cast<uint32_t>(bytes.next()) % 8 - (which & 0x80 ? 2U : 0U));
  variable.cell_number = bytes.next() % 4;
  if (variable.cell_number == 0) variable.flags |= kCellFirst;
  if (variable.cell_number != 0) variable.flags &= static_cast<uint8_t>(~(kCellFirst | kCellVa));
  const uint32_t length = (variable.flags & kCellLast) == 0 ? 256 : bytes.next();
  variable.payload_bytes = static_cast<uint16_t>(length);
  std::vector<std::byte> cell(kCellHeaderBytes);
  (void)compose_cell_header(cell.data(), fixed, variable);
  const uint32_t parts = ((variable.flags & kCellVa) != 0 ? kVaBytes : 0) +
                         ((properties & kOpDatagramHeader) != 0 ? kDatagramHeaderBytes : 0) +
                         ((properties & kOpXrcHeader) != 0 ? kXrcHeaderBytes : 0) +
                         ((properties & kOpAcknowledge) != 0 ? kAckBodyBytes : 0) +
                         ((variable.flags & kCellIdata) != 0 ? kIdataBytes : 0) +
                         ((variable.flags & kCellPacketCrc) != 0 ? kCrcBytes : 0);
  cell.resize(kCellHeaderBytes + parts + length + kCrcBytes);
  for (size_t i = kCellHeaderBytes; i < cell.size() && !bytes.empty(); ++i) cell[i] = std::byte{bytes.next()};
  std::byte* body = cell.data() + kCellHeaderBytes;
  if ((variable.flags & kCellVa) != 0 && (which & 0x40) != 0) {
    store_be(body, target.region.addr + static_cast<uint64_t>(which) * 32);
    store_be(body + 8, target.key(which).value());
  }
  if ((properties & kOpDatagramHeader) != 0 && (which & 0x20) != 0) {
    std::byte* datagram = body + ((variable.flags & kCellVa) != 0 ? kVaBytes : 0);
    store_be(datagram, kQkey);
    store_be(datagram + 4, uint32_t{0});
  }
  if ((properties & kOpXrcHeader) != 0) {
    const uint32_t number = (which & 0x10) != 0 ? target.adapter.srqs().number(*target.srq) : which;
    store_be(body + ((variable.flags & kCellVa) != 0 ? kVaBytes : 0), number);
    if ((variable.flags & kCellVa) == 0) body += kXrcHeaderBytes;
  }
  if (is_read_request(opcode) && length == 32 && (which & 0x40) != 0) {
    store_be(body + 12, uint32_t{which} * 20);
    store_be(body + 16, target.key(which).value());
    store_be(body + 20, target.region.addr + which);
  }
  if ((properties & kOpAcknowledge) != 0) {
    store_be(body, uint32_t{which} % 4);
    body[6] = std::byte{static_cast<uint8_t>(which % 7)};
  }
  return cell;
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using weft::Target;
  static Target& target = *std::make_unique<Target>().release();
  weft::Bytes input({data, bytes});
  for (int turn = 0; turn < 16 && !input.empty(); ++turn) {
    target.revive();
    std::deque<std::vector<std::byte>> cells;
    for (int i = 0; i < 4; ++i) {
      cells.push_back(make_cell(target, input));
      target.port.put(cells.back());
    }
    target.now += std::chrono::microseconds(100);
    if (const uint8_t what = input.next(); (what & 0x80) != 0) target.change(what & 0x7F);
    (void)target.adapter.poll(target.now);
    target.check();
  }
  return 0;
}
