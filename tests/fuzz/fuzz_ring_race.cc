// A shared-memory peer whose second thread changes its rings while a switch reads them. The switch may drop
// its cells and reset its link; what it delivers is whole and from the peer's own address, and nobody else's
// link suffers (docs/shared_memory.md, "Trust").
//
// The input is a program of four bytes a step, run round and round until the switch has had its turns: where
// to write (ring of the peer, byte of a slot; now and then a position or the flag of a ring) and what.
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "fabric/carrier/shm_carrier.h"
#include "fabric/carrier/slot_ring.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "messages/cell.h"

namespace {

using namespace weft;
using namespace weft::fabric;

constexpr uint32_t kCellPayloadBytes = 256;
constexpr uint32_t kCredits = 8;
constexpr int kTurns = 16;
constexpr size_t kStepBytes = 4;
constexpr size_t kSlotsOffset = 4096;  // of the region, as docs/shared_memory.md has it
constexpr Lid kPeer{1};
constexpr Lid kVictim{2};

void demand(bool holds) {
  if (!holds) std::abort();
}

LinkConfig link_config() {
  LinkConfig config;
  config.guid = Guid(5);
  config.cell_payload_bytes = kCellPayloadBytes;
  config.credits_per_lane = kCredits;
  return config;
}

LinkParams peer_params() {
  LinkParams params;
  params.lid = kPeer;
  params.flit_payload_bytes = make_hello(link_config(), 0).flit_payload_bytes;
  params.cell_payload_bytes = kCellPayloadBytes;
  params.lanes = kDataLanesDefault;
  params.credits_per_lane = kCredits;
  return params;
}

/// A switch between a peer over shared memory, both ends of which are here, and a victim.
class World {
 public:
  World() : random_(1), victim_(cable().end(0)), switch_(switch_config()) {
    log_setup("fuzz", LogLevel::kError);
    switch_.attach(1, at_switch_);
    switch_.attach(2, cable().end(1));
    switch_.forwarding().set(kPeer, 1);
    switch_.forwarding().set(kVictim, 2);
    demand(cable().plug(now_) == LinkRefusal::kNone);
  }

  /// The peer's link is up, in a new region if it went down.
  void join() {
    if (at_switch_.state() == LinkState::kUp && at_peer_.state() == LinkState::kUp) return;
    at_switch_.take_down();
    at_peer_.take_down();
    step();
    const RingGeometry shape = ring_geometry(peer_params().flit_payload_bytes);
    SharedRegion region = std::move(SharedRegion::create("fuzz", shm_region_bytes(shape)).value());
    SharedRegion other =
        std::move(SharedRegion::adopt(UniqueFd(dup(region.fd())), shm_region_bytes(shape)).value());
    // The second thread's own mapping: it outlives a link that goes down under its hands.
    memory_.emplace(
        std::move(SharedRegion::adopt(UniqueFd(dup(region.fd())), shm_region_bytes(shape)).value()));
    int ends[2];
    demand(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    at_switch_.bring_up(
        make_shm_carrier({std::move(region), GuardedFd(UniqueFd(ends[0]))}, shape, ShmSide::kSwitch),
        peer_params(), now_);
    at_peer_.bring_up(
        make_shm_carrier({std::move(other), GuardedFd(UniqueFd(ends[1]))}, shape, ShmSide::kEndnode),
        peer_params(), now_);
    step();
  }

  /// The peer sends two cells, everybody has a turn.
  void turn() {
    for (uint32_t i = 0; i < 2; ++i) send();
    at_peer_.flush(now_);
    step();
    static_cast<void>(at_peer_.receive());
    at_peer_.release();
    for (const RxCell& cell : victim_.receive()) judge(cell);
    victim_.release();
    victim_.flush(now_);
    demand(cable().end(0).incarnation() == 1 && cable().end(0).state() == LinkState::kUp);
    demand(cable().end(1).state() == LinkState::kUp);
  }
  /// Once nobody writes any more: no cell was made or swallowed.
  void settle() {
    for (int i = 0; i < 4 * static_cast<int>(kFlitRepeatsMax); ++i) {
      step();
      static_cast<void>(victim_.receive());
      victim_.release();
      victim_.flush(now_);
    }
    uint64_t in = 0;
    uint64_t out = switch_.cells_held();
    for (uint32_t port = 0; port <= switch_.ports(); ++port) {
      const auto& counters = switch_.port(static_cast<PortNumber>(port)).counters;
      in += counters.get(SwitchPortCounter::kCellsIn) + counters.get(SwitchPortCounter::kCellsCopied);
      out += counters.get(SwitchPortCounter::kCellsOut);
      for (auto c = static_cast<uint32_t>(kFirstDrop); c < static_cast<uint32_t>(SwitchPortCounter::kCount);
           ++c)
        out += counters.get(static_cast<SwitchPortCounter>(c));
    }
    demand(in == out);
  }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_->bytes(); }

 private:
  static SwitchConfig switch_config() {
    SwitchConfig config;
    config.link = link_config();
    config.ports = 2;
    return config;
  }
  MemoryCable& cable() {
    if (cable_ == nullptr) {
      MemoryCableConfig config;
      config.ends[0] = config.ends[1] = link_config();
      config.ends[0].guid = Guid(6);
      config.ends[0].lid = kVictim;
      config.receiver_rereads = true;
      cable_ = std::make_unique<MemoryCable>(config, random_);
    }
    return *cable_;
  }
  void step() {
    now_ += std::chrono::milliseconds(1);
    at_peer_.poll(now_);
    victim_.poll(now_);
    switch_.poll(now_);
  }
  void send() {
    std::byte* to = at_peer_.claim(VirtualLane(0));
    if (to == nullptr) return;
    constexpr uint32_t kData = 64;
    const CellTemplate fixed =
        make_cell_template({.dlid = kVictim, .slid = kPeer, .dest_qpn = Qpn(0x100), .src_qpn = Qpn(0x200)});
    std::array<std::byte, kCellHeaderBytes + kData + kCrcBytes> cell{};
    static_cast<void>(compose_cell_header(
        cell.data(), fixed,
        {.opcode = Opcode::kSend, .flags = kCellFirst | kCellLast, .payload_bytes = uint16_t{kData}}));
    const uint32_t crc = crc32c(std::span(cell).first(cell.size() - kCrcBytes));
    store_be(cell.data() + cell.size() - kCrcBytes, crc);
    std::memcpy(to, cell.data(), cell.size());
    at_peer_.commit({VirtualLane(0), kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), crc});
  }
  static void judge(const RxCell& cell) {
    CellView view;
    const CellError error = decode_cell(cell.bytes, CrcCheck::kVerify, view);
    // A form that a switch does not look at may be anything behind a right CRC; what it vouches for may not.
    demand(error != CellError::kCrc && error != CellError::kVersion && error != CellError::kAddress);
    const CellHead head(cell.bytes.data());
    demand(head.slid() == kPeer && head.dlid() == kVictim && head.source_subnet() == SubnetId(0) &&
           head.vl() == cell.vl);
  }

  SeededRandom random_;
  Instant now_{std::chrono::seconds(1)};
  std::unique_ptr<MemoryCable> cable_;
  LinkEngine at_switch_;
  LinkEngine at_peer_;
  LinkCellPort victim_;
  Switch switch_;
  std::optional<SharedRegion> memory_;
};

/// One step of the peer's second thread.
void scribble(std::span<std::byte> memory, RingGeometry shape, const uint8_t* step) {
  size_t at = 0;
  if (step[0] < 8) {  // a control block: positions, now and then
    at = size_t{step[1]} * 3;
  } else {  // the first slots of the ring the peer sends on
    const size_t ring = kSlotsOffset + size_t{shape.slots} * shape.slot_bytes;
    at = ring + size_t{step[0]} % 32 * shape.slot_bytes + size_t{step[1]} % 128 + (step[2] & 0x80U);
  }
  const std::atomic_ref<std::byte> byte(memory[at]);
  const std::byte before = byte.load(std::memory_order_relaxed);
  byte.store(before ^ std::byte{step[3]}, std::memory_order_relaxed);
  for (uint32_t i = 0; i < (step[2] & 0x3FU); ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  if ((step[2] & 0x40U) == 0) byte.store(before, std::memory_order_relaxed);  // as if nothing had been
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static World world;
  world.join();
  const RingGeometry shape = ring_geometry(peer_params().flit_payload_bytes);
  const std::span<std::byte> memory = world.memory();
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    size_t at = 0;
    while (!stop.load(std::memory_order_relaxed) && bytes >= kStepBytes) {
      scribble(memory, shape, data + at);
      at = at + 2 * kStepBytes <= bytes ? at + kStepBytes : 0;
    }
  });
  for (int turn = 0; turn < kTurns; ++turn) world.turn();
  stop.store(true, std::memory_order_relaxed);
  peer.join();
  world.settle();
  return 0;
}
