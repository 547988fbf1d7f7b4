// adapter/adapter.h -- one channel adapter: QPs, completion queues, protected memory, driven by poll(now)
// over one or more cell ports. HCA and TCA are this object with different limits and event policy.
//
// Calls above the line "data path" are what a kernel agent does for VI (PUSH-WQ-07): each is counted as
// kAgentCalls. Calls below it never allocate, lock or make a system call (PUSH-WQ-09).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "adapter/counters.h"
#include "adapter/memory/memory_table.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/result.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::adapter {

class CompletionQueue;
class QueuePair;

/// What an adapter can hold; capability query (SAN-NODE-04, C-16).
struct AdapterLimits {
  uint32_t queue_pairs = 4096;
  uint32_t completion_queues = 1024;
  uint32_t cqes_per_queue = 65536;
  uint32_t wqes_per_queue = 16384;
  uint32_t sges_per_wqe = 16;
  uint32_t inline_bytes = 256;
  uint32_t protection_domains = 1024;
  uint32_t keys = 65536;       // regions and windows together
  uint32_t stash_cells = 256;  // cells whose base is unknown (decisions 2.1)
  uint32_t stash_cells_per_qp = 32;
  uint32_t rd_contexts = 64;
  uint32_t message_bytes_max = 1U << 31;
  bool inbound_rdma = true;
};

struct AdapterConfig {
  Guid guid{};
  uint8_t number = 0;  // of this adapter in its computer, top 4 bits of every key (LAY-STAG)
  AdapterLimits limits{};
  /// Verify the CRC of each cell again: for carriers that do not (CellPort promises that they do).
  bool verify_cells = false;
};

struct QpConfig {
  QpType type = QpType::kRc;
  PdId pd{};
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  uint32_t send_wqes = 128;  // outstanding requests (SAN-QP-05, decisions 1.16)
  uint32_t recv_wqes = 128;
  uint32_t sges = 4;
  AckMode ack_mode = AckMode::kSelective;
  bool signal_all = true;            // every WQE makes a CQE (O-25)
  bool idata_takes_recv_wqe = true;  // false: push-push channel, kRdataIndicate (O-06)
  bool packet_crc = false;           // PUSH-CELL-08
  uint32_t packet_bytes = 0;         // 0 = 64 cells or the largest sensible packet
  /// A QP number that must be this one: kQpnGsi for the listener of session openings, one per port, type kUd.
  /// 0 = any (random, decisions section 4).
  Qpn wanted_qpn{};
  uint8_t port = 1;  // of wanted_qpn
};

/// What happens beside completions; the numbers of async events in libibverbs differ, the meaning does not.
enum class AsyncEventKind : uint8_t {
  kQpFatal,         // the QP gave up: retries exceeded, local fault; `status` says why
  kQpRequestError,  // the peer asked for something this QP does not allow, or broke the protocol
  kQpAccessError,   // the peer's key, range or right did not fit
  kSqDrained,       // SQD: everything started has completed
  kCqOverrun,       // `cq`: a completion was lost; the QPs that complete there are in error
  kPortUp,
  kPortDown,
  kPortExpired,  // down for so long that the QPs of the port were failed (decisions 2.12)
  kCount,
};
[[nodiscard]] std::string_view to_string(AsyncEventKind kind) noexcept;

struct AsyncEvent {
  AsyncEventKind kind{};
  Qpn qpn{};
  WcStatus status = WcStatus::kSuccess;
  uint8_t port = 0;
  CompletionQueue* cq = nullptr;
};

/// What create_cq() and a query answer (SAN-CQ-01).
struct CqInfo {
  uint32_t depth = 0;  // entries it holds
  uint32_t fill = 0;   // entries waiting
  bool overrun = false;
};

/// When an armed CQ gives its one notification.
enum class CqNotify : uint8_t { kOff, kSolicited, kNext };

/// Owner: one thread. Objects it creates belong to it and die with it.
class ChannelAdapter {
 public:
  /// `random` gives QPNs, PSNs and keys; it must outlive the adapter.
  ChannelAdapter(const AdapterConfig& config, RandomSource& random);
  ~ChannelAdapter();
  ChannelAdapter(const ChannelAdapter&) = delete;
  ChannelAdapter& operator=(const ChannelAdapter&) = delete;

  /// Adds the next port (1, 2, ...). The port must outlive the adapter.
  void attach(fabric::CellPort& port);

  // ---- kernel agent --------------------
  [[nodiscard]] const AdapterLimits& limits() const noexcept;
  Result<PdId> alloc_pd();
  Status dealloc_pd(PdId pd);
  /// The memory functions: regions, windows, keys.
  [[nodiscard]] MemoryTable& memory() noexcept;
  Result<CompletionQueue*> create_cq(uint32_t cqes);
  Status destroy_cq(CompletionQueue* cq);
  Result<QueuePair*> create_qp(const QpConfig& config);
  /// Flushes nothing: what is queued is forgotten. Moves to kErr first if completions are wanted.
  Status destroy_qp(QueuePair* qp);
  ModifyResult modify_qp(QueuePair& qp, const QpAttr& attr, uint32_t mask);
  [[nodiscard]] QpAttr query_qp(const QueuePair& qp) const;
  /// What the QP was created as: its service (PUSH-CHAN-01), queues and sizes.
  [[nodiscard]] const QpConfig& config(const QueuePair& qp) const noexcept;
  [[nodiscard]] Qpn qpn(const QueuePair& qp) const noexcept;
  /// Packets that an unacknowledged connected QP knows to be missing: gaps in the PSN order, packets left
  /// incomplete, Sends that found no receive WQE. A session resets when this moves (decisions 2.19).
  [[nodiscard]] uint64_t missed_packets(const QueuePair& qp) const noexcept;
  [[nodiscard]] const CounterSet<QpCounter>& counters(const QueuePair& qp) const noexcept;
  [[nodiscard]] const CounterSet<AdapterCounter>& counters() const noexcept;
  /// Cells that failed validation and accesses that were refused, by reason.
  [[nodiscard]] const CounterSet<CellError>& bad_cells() const noexcept;
  [[nodiscard]] const CounterSet<AccessFault>& access_faults() const noexcept;
  /// Moves the adapter's counters onto a page as `prefix.*`; false when it is full. The page must outlive the
  /// adapter.
  bool publish(StatsPage& page, std::string_view prefix);
  /// A QP's counters likewise.
  bool publish(StatsPage& page, std::string_view prefix, QueuePair& qp);
  [[nodiscard]] CqInfo query_cq(const CompletionQueue& cq) const noexcept;
  [[nodiscard]] uint32_t ports() const noexcept;
  /// LID, cell payload and lanes of a port; null before its link was up for the first time.
  [[nodiscard]] const fabric::CellPortInfo* port_info(uint8_t port) const noexcept;
  /// True while the link of port `port` (1, 2, ...) is up.
  [[nodiscard]] bool port_up(uint8_t port) const noexcept;

  // ---- data path --------------------
  /// Queues one WQE without telling the adapter (PUSH-WQ-04).
  [[nodiscard]] PostResult post(QueuePair& qp, const SendRequest& request) noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Send doorbell: everything posted so far may go.
  void ring_send(QueuePair& qp) noexcept;
  /// Receive doorbell: everything posted so far may be used for what arrives.
  void ring_recv(QueuePair& qp) noexcept;
  /// post() and ring_send().
  [[nodiscard]] PostResult post_send(QueuePair& qp, const SendRequest& request) noexcept;
  /// post() and ring_recv().
  [[nodiscard]] PostResult post_recv(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Takes up to `out.size()` completions, oldest first; returns how many.
  [[nodiscard]] uint32_t poll_cq(CompletionQueue& cq, std::span<WorkCompletion> out) noexcept;
  /// Asks for one notification with the next entry, or the next solicited or failed one.
  void arm_cq(CompletionQueue& cq, CqNotify when) noexcept;
  /// True once after an armed queue has got its entry.
  [[nodiscard]] bool take_cq_notification(CompletionQueue& cq) noexcept;
  /// Takes the oldest asynchronous event; false when there is none. Lost ones are counted (kEventsLost).
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  /// One bounded turn: receive, execute, send, acknowledge, timers. Returns work done.
  int poll(Instant now) noexcept;
  /// When poll() must run next though no cell arrives.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace weft::adapter
