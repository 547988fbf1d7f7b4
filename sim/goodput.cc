#include "sim/goodput.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/bring_up.h"
#include "base/check.h"
#include "base/rng.h"
#include "fabric/link/faulty_cell_port.h"
#include "sim/timed_link.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

/// Twice the rate at which shared memory moves bytes here, so that the measurement shows the transport, not
/// the link.
constexpr TimedLinkConfig kLink{
    .cell_payload_bytes = 1024, .latency = 2us, .bytes_per_second = 4'000'000'000, .room_cells = 256};
constexpr Duration kTurn = 250ns;  // time of one turn of both adapters with work
constexpr uint32_t kPosted = 128;  // most writes in flight
constexpr Duration kLongest = 60s;

struct Side {
  Side(fabric::CellPort& link, uint64_t seed, uint32_t loss_ppm)
      : random(seed), port(link, random, {.drop_ppm = loss_ppm}), memory(kGoodputBytesMax) {
    adapter::AdapterConfig config;
    config.guid = link.info().guid;
    adapter = std::make_unique<adapter::ChannelAdapter>(config, random);
    adapter->ports().attach(port);
    pd = adapter->alloc_pd().value();
    cq = adapter->cqs().create(2 * kPosted).value();
    region = adapter->memory()
                 .regions.reg_mr(pd, memory, adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite)
                 .value();
    qp = adapter
             ->create_qp(
                 {.type = adapter::QpType::kRc, .pd = pd, .send_cq = cq, .recv_cq = cq, .send_wqes = kPosted})
             .value();
  }

  SeededRandom random;
  fabric::FaultyCellPort port;
  std::vector<std::byte> memory;
  std::unique_ptr<adapter::ChannelAdapter> adapter;
  adapter::PdId pd;
  adapter::CompletionQueue* cq = nullptr;
  adapter::MemoryRegion region;
  adapter::QueuePair* qp = nullptr;
};

void bring_up(Side& side, const Side& peer) {
  adapter::QpAttr attr;
  attr.access = adapter::Access::kRemoteWrite;
  attr.dest_qpn = peer.adapter->qpn(*peer.qp);
  attr.dlid = peer.port.info().lid;
  WEFT_CHECK(adapter::bring_up(*side.adapter, *side.qp, attr) == adapter::ModifyResult::kOk, "a QP comes up");
}

class Measurement {
 public:
  explicit Measurement(const GoodputRun& run)
      : run_(run),
        link_(kLink),
        sides_{std::make_unique<Side>(link_.end(0), run.seed, run.loss_ppm),
               std::make_unique<Side>(link_.end(1), run.seed + 1, run.loss_ppm)} {
    turn();
    bring_up(*sides_[0], *sides_[1]);
    bring_up(*sides_[1], *sides_[0]);
  }

  Goodput result() {
    const Instant began = now_;
    const uint64_t messages = run_.bytes / run_.message_bytes;
    while (done_ < messages && !failed_ && now_ - began < kLongest) {
      while (posted_ < messages && posted_ - done_ < kPosted) post();
      turn();
      poll();
    }
    const double seconds = std::chrono::duration<double>(now_ - began).count();
    const auto& counters = sides_[0]->adapter->counters(*sides_[0]->qp);
    Goodput out{.cells_sent = counters.get(adapter::QpCounter::kCellsSent),
                .cells_repeated = counters.get(adapter::QpCounter::kCellsRepeated),
                .timeouts = counters.get(adapter::QpCounter::kTimeouts)};
    if (!failed_ && done_ == messages)
      out.bytes_per_second = static_cast<double>(messages * run_.message_bytes) / seconds;
    return out;
  }

 private:
  void turn() {
    int work = 0;
    for (auto& side : sides_) work += side->adapter->poll(now_);
    const Instant due = std::min({sides_[0]->adapter->deadline(), sides_[1]->adapter->deadline(),
                                  link_.end(0).deadline(), link_.end(1).deadline()});
    const Instant next = now_ + kTurn;
    now_ = work != 0 || due == kNever ? next : std::max(next, due);
  }
  void post() {
    Side& from = *sides_[0];
    const Side& to = *sides_[1];
    const uint64_t at = posted_++ * run_.message_bytes % (kGoodputBytesMax - run_.message_bytes + 1);
    const adapter::Sge sge{from.region.addr + at, run_.message_bytes, from.region.lkey};
    const auto result = from.adapter->post_send(*from.qp, {.opcode = adapter::SendOpcode::kRdmaWrite,
                                                           .flags = adapter::kSendSignaled,
                                                           .sges = {&sge, 1},
                                                           .remote_addr = to.region.addr + at,
                                                           .rkey = to.region.rkey});
    failed_ = failed_ || result != adapter::PostResult::kOk;
  }
  void poll() {
    std::array<adapter::WorkCompletion, 64> entries;
    const uint32_t got = sides_[0]->adapter->cqs().poll(*sides_[0]->cq, entries);
    for (const auto& entry : std::span(entries).first(got))
      failed_ = failed_ || entry.status != adapter::WcStatus::kSuccess;
    done_ += got;
  }

  GoodputRun run_;
  TimedLink link_;
  std::array<std::unique_ptr<Side>, 2> sides_;
  Instant now_{};
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  bool failed_ = false;
};

}  // namespace

Goodput measure_goodput(const GoodputRun& run) {
  return Measurement(run).result();
}

}  // namespace weft::sim
