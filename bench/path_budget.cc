// bench/path_budget.cc -- instructions of the hot paths: a cell at host, switch and unit; a frame at host and
// unit; post and poll of a verbs program. Also of two paths whose cost must not grow with what is there: a
// cell that arrives behind others, and an identifier of connection management. One thread, links in memory,
// virtual time and fixed seeds, so the same build gives the same count. scripts/bench --budget compares the
// counts with bench/budget.toml.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "adapter/queues/qp_rules.h"
#include "base/check.h"
#include "bench/support/cm_ids.h"
#include "bench/support/direct_rig.h"
#include "bench/support/instructions.h"
#include "bench/support/late_cell_rig.h"
#include "bench/support/one_thread_fabric.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"
#include "hca/context.h"
#include "hca/device.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"
#include "session/netdev_session.h"
#include "session/session_port.h"

namespace weft::bench {
namespace {

constexpr uint32_t kPayloadBytes = 256;
constexpr uint32_t kWriteBytes = 4096;
constexpr uint32_t kWindow = 64;
constexpr int kWarmUp = 100;  // rounds that are not counted
constexpr int kRounds = 300;
constexpr Duration kRound = std::chrono::microseconds(5);
constexpr uint32_t kFrameBytes = 1514;

// Names of the paths; callgrind assigns costs by them.
struct HostCell {};
struct SwitchCell {};
struct UnitCell {};
struct HostFrame {};
struct UnitFrame {};
struct VerbsPost {};
struct VerbsPoll {};
struct CellAhead {};       // a cell ahead of its turn, with none behind it
struct LateCell {};        // one that arrives after the cells of 510 later writes to the same place
struct LateCellPieces {};  // one that 510 later writes have covered byte by byte
struct CmIdOf2000 {};      // an identifier of connection management, made and ended among 2000
struct Direct1 {};         // a Send through the sender's only memory window
struct Direct100 {};       // a Send through one of its 100; bench/budget.py compares the pair
struct CmIdOf20000 {};     // the same among 20,000; bench/budget.py compares each pair
// Two programs that answer each other's Sends through a memory window:
struct DirectPost {};   // post of a Send, which acknowledges the peer's
struct DirectPoll {};   // poll that finds the peer's Send
struct DirectEmpty {};  // poll that finds no Send; it may find the completion of an own one

void count_cells(const InstructionCounter& counter) {
  OneThreadFabric world(kPayloadBytes);
  VerbsExchange exchange{};
  VerbsEnd host(world.host_port, exchange, true, WriteStream::kMemoryBytes + kWriteBytes);
  VerbsEnd unit(world.unit_port, exchange, false, WriteStream::kMemoryBytes + kWriteBytes);
  host.bring_up();
  unit.bring_up();
  WriteStream stream(host, kWriteBytes, kWindow);
  std::array<PathCount, 3> counts;
  Instant now = Endnode::now();
  uint64_t before = 0;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) before = stream.completed();
    const bool counting = round >= kWarmUp;
    now += kRound;
    count<HostCell>(counter, counting, counts[0], [&] {
      stream.post();
      host.adapter().poll(now);
      stream.complete();
    });
    count<SwitchCell>(counter, counting, counts[1], [&] { world.middle.poll(now); });
    count<UnitCell>(counter, counting, counts[2], [&] { unit.adapter().poll(now); });
  }
  const uint64_t cells = (stream.completed() - before) * (kWriteBytes / kPayloadBytes);
  WEFT_CHECK(cells > 0, "nothing was written");
  for (PathCount& each : counts) each.units = cells;
  print_path("HostCell", counter, counts[0]);
  print_path("SwitchCell", counter, counts[1]);
  print_path("UnitCell", counter, counts[2]);
}

/// A device for a verbs program, with one QP.
struct Program {
  /// @param windows directory in which it meets others for memory windows; empty: it uses the switch alone
  Program(uint64_t number, const Clock& clock, fabric::CellPort& port, const std::string& windows = {})
      : random(number),
        link_random(number + 100),
        device({.guid = Guid(0x1000 + number), .direct_programs = windows}, clock, random, link_random),
        memory(4096) {
    device.attach(port);
    context = device.open().object;
    WEFT_CHECK(context != nullptr, "no context");
    hca::ProtectionDomain* pd = context->alloc_pd().object;
    cq = context->create_cq(256, context->create_channel().object).object;
    const auto all =
        adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
    region = context->reg_mr(*pd, memory, all).object;
    qp = context->create_qp(*pd, {.send_cq = cq, .recv_cq = cq, .config = {}, .user = this}).object;
    WEFT_CHECK(region != nullptr && qp != nullptr, "no region or QP");
  }
  ~Program() { device.close(context); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void connect(Qpn peer, Lid dlid) {
    adapter::QpAttr attr{.access = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead,
                         .dlid = dlid,
                         .rq_psn = Psn(5),
                         .sq_psn = Psn(5),
                         .dest_qpn = peer};
    adapter::QpState from = adapter::QpState::kReset;
    for (const adapter::QpState to :
         {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
      attr.state = to;
      const adapter::QpRule* rule = adapter::find_qp_rule(adapter::QpType::kRc, from, to);
      WEFT_CHECK(qp->modify(attr, adapter::kQpAttrState | rule->required) == hca::Answer::kOk, "modify");
      from = to;
    }
  }

  SeededRandom random;
  SeededRandom link_random;
  hca::Device device;
  std::vector<std::byte> memory;
  hca::Context* context = nullptr;
  hca::Cq* cq = nullptr;
  hca::MemoryRegion* region = nullptr;
  hca::Qp* qp = nullptr;
};

void count_verbs(const InstructionCounter& counter) {
  OneThreadFabric world(kPayloadBytes);
  ManualClock clock;
  clock.set(Endnode::now());
  Program a(1, clock, world.host_port);
  Program b(2, clock, world.unit_port);
  a.connect(b.qp->number(), kUnitLid);
  b.connect(a.qp->number(), kHostLid);
  const adapter::Sge from{.addr = a.region->region().addr, .length = 8, .lkey = a.region->region().lkey};
  const adapter::SendRequest request{.opcode = adapter::SendOpcode::kRdmaWrite,
                                     .flags = adapter::kSendSignaled,
                                     .sges = std::span(&from, 1),
                                     .remote_addr = b.region->region().addr,
                                     .rkey = b.region->region().rkey};
  PathCount post;
  PathCount poll;
  std::array<adapter::WorkCompletion, 16> got;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    const bool counting = round >= kWarmUp;
    count<VerbsPost>(counter, counting, post, [&] {
      size_t posted = 0;
      WEFT_CHECK(a.qp->post_send(std::span(&request, 1), posted) == hca::Answer::kOk, "not posted");
    });
    int done = 0;
    for (int turn = 0; turn < 100 && done == 0; ++turn) {
      clock.advance(kRound);
      world.middle.poll(clock.now());
      static_cast<void>(b.cq->poll(got));
      world.middle.poll(clock.now());
      count<VerbsPoll>(counter, counting, poll, [&] { done = a.cq->poll(got); });
    }
    WEFT_CHECK(done == 1 && got[0].status == adapter::WcStatus::kSuccess, "not completed");
  }
  post.units = poll.units = kRounds;
  print_path("VerbsPost", counter, post);
  print_path("VerbsPoll", counter, poll);
}

/// Two programs with a memory window between them, in turn.
class DirectPair {
 public:
  DirectPair() : a_(1, clock_, world_.host_port, place_.path), b_(2, clock_, world_.unit_port, place_.path) {
    clock_.set(Endnode::now());
    help();  // both listen
    a_.connect(b_.qp->number(), kUnitLid);
    help();
    b_.connect(a_.qp->number(), kHostLid);
    help();
  }

  /// One message each way. From here on the switch forwards nothing.
  void exchange(const InstructionCounter& counter, bool counting) {
    send(counter, counting, a_, b_);
    send(counter, counting, b_, a_);
  }
  void print(const InstructionCounter& counter) {
    print_path("DirectPost", counter, post_);
    print_path("DirectPoll", counter, poll_);
    print_path("DirectEmpty", counter, empty_);
  }

 private:
  static constexpr uint32_t kBytes = 8;
  static constexpr Duration kCall = std::chrono::nanoseconds(200);

  struct Place {
    std::string path = (std::filesystem::temp_directory_path() / "weft-bench-XXXXXX").string();
    Place() { WEFT_CHECK(mkdtemp(path.data()) != nullptr, "a directory"); }
    ~Place() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
  };

  /// What helper threads and a switch do until the programs have met.
  void help() {
    for (int i = 0; i < 20; ++i) {
      clock_.advance(std::chrono::milliseconds(1));
      world_.middle.poll(clock_.now());
      static_cast<void>(a_.device.help(true, true));
      static_cast<void>(b_.device.help(true, true));
    }
  }

  void send(const InstructionCounter& counter, bool counting, Program& from, Program& to) {
    const adapter::Sge room{
        .addr = to.region->region().addr, .length = kBytes, .lkey = to.region->region().lkey};
    const adapter::RecvRequest receive{.sges = std::span(&room, 1)};
    const adapter::Sge data{
        .addr = from.region->region().addr, .length = kBytes, .lkey = from.region->region().lkey};
    const adapter::SendRequest request{
        .opcode = adapter::SendOpcode::kSend, .flags = adapter::kSendSignaled, .sges = std::span(&data, 1)};
    size_t posted = 0;
    WEFT_CHECK(to.qp->post_recv(std::span(&receive, 1), posted) == hca::Answer::kOk, "not posted");
    std::array<adapter::WorkCompletion, 16> got;
    int done = 0;
    clock_.advance(kCall);
    count<DirectEmpty>(counter, counting, empty_, [&] { done = to.cq->poll(got); });
    clock_.advance(kCall);
    count<DirectPost>(counter, counting, post_, [&] {
      WEFT_CHECK(from.qp->post_send(std::span(&request, 1), posted) == hca::Answer::kOk, "not posted");
    });
    clock_.advance(kCall);
    count<DirectPoll>(counter, counting, poll_, [&] { done = to.cq->poll(got); });
    const auto received = [](const adapter::WorkCompletion& entry) {
      return entry.opcode == adapter::WcOpcode::kRecv && entry.status == adapter::WcStatus::kSuccess;
    };
    WEFT_CHECK(done > 0 && std::any_of(got.begin(), got.begin() + done, received),
               "nothing came by the window");
    const auto calls = counting ? uint64_t{1} : 0;
    post_.units += calls;
    poll_.units += calls;
    empty_.units += calls;
  }

  OneThreadFabric world_{kPayloadBytes};
  ManualClock clock_;
  Place place_;
  Program a_;
  Program b_;
  PathCount post_;
  PathCount poll_;
  PathCount empty_;
};

void count_direct_calls(const InstructionCounter& counter) {
  DirectPair pair;
  for (int round = 0; round < kWarmUp + kRounds; ++round) pair.exchange(counter, round >= kWarmUp);
  pair.print(counter);
}

/// An operating system that always has another frame, or a LAN that takes every frame.
class EndlessPort final : public FramePort {
 public:
  EndlessPort(const MacAddress& mac, const MacAddress& peer) : frame_(kVnetBytes + kFrameBytes) {
    info_ = {.kind = "endless",
             .name = "",
             .mac = mac,
             .mtu_bytes = 1500,
             .frame_bytes_max = 65524,
             .offloads = {}};
    std::memcpy(frame_.data() + kVnetBytes, peer.data(), peer.size());
    std::memcpy(frame_.data() + kVnetBytes + 6, mac.data(), mac.size());
    frame_[kVnetBytes + 12] = std::byte{0x88};
    frame_[kVnetBytes + 13] = std::byte{0xB5};
  }
  uint32_t to_read = 0;
  uint64_t written = 0;

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override {
    if (to_read == 0) return {FrameIo::kEmpty, 0};
    --to_read;
    std::memcpy(into.data(), frame_.data(), frame_.size());
    return {FrameIo::kOk, static_cast<uint32_t>(frame_.size())};
  }
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> /*head*/,
                                    std::span<const std::byte> /*rest*/) noexcept override {
    ++written;
    return FrameIo::kOk;
  }
  int poll(Instant /*now*/) noexcept override { return 0; }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  void set_carrier(bool /*up*/) noexcept override {}
  [[nodiscard]] bool carrier() const noexcept override { return true; }
  Status set_offloads(Offload /*wanted*/) override { return {}; }
  Status set_mac(const MacAddress& mac) override {
    info_.mac = mac;
    return {};
  }
  Status set_mtu(uint32_t mtu_bytes) override {
    info_.mtu_bytes = mtu_bytes;
    return {};
  }
  Status set_promiscuous(bool /*on*/) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 private:
  FramePortInfo info_;
  std::vector<std::byte> frame_;  // vnet header and Ethernet frame
  CounterSet<PortCounter> counters_;
};

session::SessionConfig session_config(session::SessionRole role, const MacAddress& mac) {
  session::SessionConfig out;
  out.role = role;
  out.mode = TransferMode::kRdma;
  out.pools = {{2048, 64}};
  out.frame_bytes_max = kGsoFrameBytesMax;
  out.mac = mac;
  out.unit = kUnitLid;
  return out;
}

void count_frames(const InstructionCounter& counter) {
  constexpr MacAddress kHostMac{0x02, 0, 0, 0, 0x10, 1};
  constexpr MacAddress kNicMac{0x02, 0, 0, 0, 0xEE, 1};
  constexpr MacAddress kLanMac{0x02, 0, 0, 0, 0xAA, 1};
  OneThreadFabric world(kPayloadBytes);
  SeededRandom random(1);
  adapter::ChannelAdapter host_adapter({.guid = Guid(2)}, random);
  adapter::ChannelAdapter unit_adapter({.guid = Guid(3)}, random);
  host_adapter.ports().attach(world.host_port);
  unit_adapter.ports().attach(world.unit_port);
  EndlessPort os(kHostMac, kLanMac);
  EndlessPort nic(kNicMac, kHostMac);
  session::AcceptorConfig accepting;
  accepting.session = session_config(session::SessionRole::kUnit, kNicMac);
  session::SessionPorts unit_ports(unit_adapter);
  session::SessionAcceptor acceptor(accepting, unit_ports, random);
  iou::IouNetdev unit(acceptor, nic, {});
  session::SessionPorts host_ports(host_adapter);
  const auto session =
      session::NetdevSession::make(session_config(session::SessionRole::kHost, kHostMac), host_ports, random);
  host::NicSettings settings;
  settings.mac = kHostMac;
  host::HostNetdev host(*session, os, settings);
  host.open();
  Instant now = Endnode::now();
  PathCount at_host;
  PathCount at_unit;
  const auto turn = [&](bool counting) {
    now += kRound;
    count<HostFrame>(counter, counting, at_host, [&] {
      host_adapter.poll(now);
      host.poll(now);
    });
    world.middle.poll(now);
    count<UnitFrame>(counter, counting, at_unit, [&] {
      unit_adapter.poll(now);
      unit.poll(now);
    });
    world.middle.poll(now);
  };
  for (int i = 0; i < 100'000 && !host.controller().settled(); ++i) turn(false);
  WEFT_CHECK(host.controller().settled(), "the session did not open");
  uint64_t before = 0;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) before = nic.written;
    os.to_read = 4;
    for (int i = 0; i < 4; ++i) turn(round >= kWarmUp);
  }
  at_host.units = at_unit.units = nic.written - before;
  WEFT_CHECK(at_unit.units > 0, "no frame arrived");
  print_path("HostFrame", counter, at_host);
  print_path("UnitFrame", counter, at_unit);
}

template <class Part>
void count_late_cell(const InstructionCounter& counter, std::string_view name, uint32_t later,
                     LateCellRig::Later where = LateCellRig::Later::kSamePlace) {
  constexpr int kLateCells = 50;
  LateCellRig rig(later, where);
  PathCount path;
  for (int round = 0; round < 5 + kLateCells; ++round) {
    rig.send();
    count<Part>(counter, round >= 5, path, [&] { rig.arrive(); });
    rig.finish();
  }
  path.units = kLateCells;
  print_path(name, counter, path);
}

template <class Part>
void count_ids(const InstructionCounter& counter, std::string_view name, uint32_t ids) {
  CmIds rig;
  rig.open_and_close(ids);
  PathCount path;
  count<Part>(counter, true, path, [&] { rig.open_and_close(ids); });
  path.units = 2 * ids;
  print_path(name, counter, path);
}

/// What a message costs its sender: the post, the turn in which it leaves, and that in which it completes.
template <class Part>
void count_direct(const InstructionCounter& counter, std::string_view name, uint32_t windows) {
  DirectRig rig(windows);
  PathCount path;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    const bool counting = round >= kWarmUp;
    rig.prepare();
    count<Part>(counter, counting, path, [&] { rig.send(); });
    rig.arrive();
    count<Part>(counter, counting, path, [&] { rig.finish(); });
  }
  path.units = kRounds;
  print_path(name, counter, path);
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  bool callgrind = false;
  po::options_description known("path_budget: instructions that the hot paths take");
  known.add_options()("callgrind", po::bool_switch(&callgrind), "does not count itself: callgrind does");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  const InstructionCounter counter(!callgrind);
  if (!callgrind && !counter.counts()) {
    fmt::print(stderr, "path_budget: the kernel offers no counter of instructions here\n");
    return 3;
  }
  count_cells(counter);
  count_verbs(counter);
  count_frames(counter);
  count_late_cell<CellAhead>(counter, "CellAhead", 0);
  count_late_cell<LateCell>(counter, "LateCell", LateCellRig::kLaterMost);
  count_late_cell<LateCellPieces>(counter, "LateCellPieces", LateCellRig::kLaterMost,
                                  LateCellRig::Later::kPieces);
  count_direct<Direct1>(counter, "Direct1", 1);
  count_direct<Direct100>(counter, "Direct100", 100);
  count_direct_calls(counter);
  count_ids<CmIdOf2000>(counter, "CmIdOf2000", 2000);
  count_ids<CmIdOf20000>(counter, "CmIdOf20000", 20'000);
  return 0;
}

}  // namespace weft::bench
