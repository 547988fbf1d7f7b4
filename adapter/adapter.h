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

#include "adapter/config.h"
#include "adapter/counters.h"
#include "adapter/events.h"
#include "adapter/memory/memory_table.h"
#include "adapter/port.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/fixed_ring.h"
#include "base/result.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "messages/failure.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::adapter {

class AdapterCore;
class AddressSpaces;
class MemoryManager;
class SharedReceives;
struct Supplies;

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
  Refusable<PdId> alloc_pd();
  Refusable<> dealloc_pd(PdId pd);
  /// The memory functions: regions, windows, keys.
  [[nodiscard]] MemoryTable& memory() noexcept;
  /// Regions over effective, virtual and physical addresses become possible, by the tables of `manager`,
  /// which outlives the adapter (SAN-LMP). Once.
  AddressSpaces& use_manager(MemoryManager& manager);
  /// `vector`: below AdapterLimits::completion_vectors. All of an adapter's queues are served alike.
  Refusable<CompletionQueue*> create_cq(uint32_t cqes, uint32_t vector = 0);
  /// The same for a queue whose memory was taken beforehand, on any thread. The caller keeps it when the call
  /// is refused.
  Refusable<CompletionQueue*> create_cq(std::unique_ptr<CompletionQueue>&& made, uint32_t vector = 0);
  /// Another number of entries; refused when more wait, nothing changes then.
  Refusable<> resize_cq(CompletionQueue& cq, uint32_t cqes);
  /// The same with memory taken beforehand; what the entries stood in is the caller's then.
  Refusable<> resize_cq(CompletionQueue& cq, FixedRing<WorkCompletion>& room);
  /// Refused while a QP completes there.
  Refusable<> destroy_cq(CompletionQueue* cq);
  /// The same, but for its memory, which is the caller's then.
  Refusable<> destroy_cq(CompletionQueue* cq, std::unique_ptr<CompletionQueue>& memory);
  /// Shared receive queues: creation, change, posting (adapter/queues/shared_receives.h).
  [[nodiscard]] SharedReceives& srqs() noexcept;
  Refusable<QueuePair*> create_qp(const QpConfig& config);
  /// The same in two steps: memory for a QP like this and its queues, which anybody may take at any time, and
  /// its place in the adapter. Nothing of `config` is checked before the second; who is refused keeps the
  /// memory.
  [[nodiscard]] QpMemory make_qp(const QpConfig& config) const;
  Refusable<QueuePair*> create_qp(const QpConfig& wanted, QpMemory&& memory);
  /// Flushes nothing: what is queued is forgotten, and so are unpolled completions of the QP,
  /// as with RESET. Move to kErr first and poll if they are wanted.
  Refusable<> destroy_qp(QueuePair* qp);
  /// The same, but for its memory, which is the caller's then.
  Refusable<> destroy_qp(QueuePair* qp, QpMemory& memory);
  /// For an owner that ends and leaves its QPs as they are: what they have received and not acknowledged is
  /// acknowledged with the next poll(), as when they are destroyed.
  void say_last_words() noexcept;
  ModifyResult modify_qp(QueuePair& qp, const QpAttr& attr, uint32_t mask);
  [[nodiscard]] QpAttr query_qp(const QueuePair& qp) const;
  /// What the QP was created as: its service (PUSH-CHAN-01), queues and sizes.
  [[nodiscard]] const QpConfig& config(const QueuePair& qp) const noexcept;
  [[nodiscard]] Qpn qpn(const QueuePair& qp) const noexcept;
  /// The QP of a number that is no management number; null when there is none.
  [[nodiscard]] QueuePair* find_qp(Qpn number) const noexcept;
  /// Hangs something on a QP, for who asks, and for its events.
  void set_user(QueuePair& qp, void* user) noexcept;
  [[nodiscard]] void* user(const QueuePair& qp) const noexcept;
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

  /// What a port is called and how it sends, while its link is up; a link that comes up says it anew. QPs go
  /// on, by other paths; kLidChange is raised. A port has the 2^`lmc` LIDs from `base` on.
  Refusable<> set_lid(uint8_t port, Lid base, uint8_t lmc);
  /// Below kActive a port drops what arrives, and what is to leave waits.
  Refusable<> set_port_state(uint8_t port, PortState state);
  Refusable<> set_service_lanes(uint8_t port, const ServiceLanes& lanes);
  /// The partitions of a port, kPkeysPerPort at most; entry 0 is there when the port is attached: the default
  /// partition. QPs go by their index: what stands there now is theirs.
  Refusable<> set_pkeys(uint8_t port, std::span<const uint16_t> pkeys);
  [[nodiscard]] std::span<const uint16_t> pkeys(uint8_t port) const noexcept;
  /// Makes a UD QP a member of a multicast group of its port, or no member any more; it hears what is sent to
  /// the group's LID with its Gid, also from this adapter. A member is not destroyed.
  Refusable<> attach_mcast(QueuePair& qp, const Gid& gid, Lid lid);
  Refusable<> detach_mcast(QueuePair& qp, const Gid& gid, Lid lid);
  /// IPv6 datagrams of an upper-level protocol that come to `address`, as raw frames for kQpnByProtocol, are
  /// for this RAW QP (SAN-XPORT-16); others are dropped. A QP that is registered is not destroyed.
  Refusable<> register_protocol(QueuePair& qp, uint8_t next_header, const Gid& address);
  Refusable<> unregister_protocol(QueuePair& qp, uint8_t next_header, const Gid& address);
  /// An address handle for datagram QPs of `pd`; refused when an attribute is out of range.
  Refusable<AddressHandle> make_ah(PdId pd, const AhAttr& attr);

  // ---- memory taken beforehand (adapter/supplies.h), for an owner under whose lock others wait --------
  /// SupplyKind bits of what the tables have little of. After supply() with all of that none of the calls
  /// above that make one object takes memory, but for what it is given.
  [[nodiscard]] uint32_t lacks() const noexcept;
  /// Keeps of `supplies` what it lacks.
  void supply(Supplies& supplies) noexcept;
  /// `flag` becomes true when the data path has come to lack something. From then on it takes no memory
  /// itself: a turn sends and receives as much as it has memory for, and what waits goes on after supply().
  void report_lack(bool& flag) noexcept;
  /// There is no memory for supply(): until there is, what finds none is dropped or fails as at a limit.
  void go_without() noexcept;

  // ---- data path --------------------
  /// Queues one WQE without telling the adapter (PUSH-WQ-04).
  [[nodiscard]] PostResult post(QueuePair& qp, const SendRequest& request) noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Send doorbell: everything posted so far may go.
  void ring_send(QueuePair& qp) noexcept;
  /// Forgets the send requests that were posted since the last doorbell.
  void take_back_posts(QueuePair& qp) noexcept;
  /// Receive doorbell: everything posted so far may be used for what arrives.
  void ring_recv(QueuePair& qp) noexcept;
  /// post() and ring_send().
  [[nodiscard]] PostResult post_send(QueuePair& qp, const SendRequest& request) noexcept;
  /// post() of a list until one is refused, and ring_send(). `accepted` is how many were taken, and so the
  /// place of the one that the result speaks of; those before it are executed.
  [[nodiscard]] PostResult post_send(QueuePair& qp, std::span<const SendRequest> list,
                                     size_t& accepted) noexcept;
  /// post() and ring_recv().
  [[nodiscard]] PostResult post_recv(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Takes up to `out.size()` completions, oldest first; returns how many.
  [[nodiscard]] uint32_t poll_cq(CompletionQueue& cq, std::span<WorkCompletion> out) noexcept;
  /// Asks for one notification with the next entry, or the next solicited or failed one.
  void arm_cq(CompletionQueue& cq, CqNotify when) noexcept;
  /// True once after an armed queue has got its entry.
  [[nodiscard]] bool take_cq_notification(CompletionQueue& cq) noexcept;
  /// The CQ whose notification is the oldest that was not taken, so that no caller needs to look at all of
  /// them; null when there is none. Its notification is taken with that.
  [[nodiscard]] CompletionQueue* next_notified_cq() noexcept;
  /// Takes the oldest asynchronous event; false when there is none. None is lost: it waits in its object,
  /// where two of one kind become one.
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  /// Takes the oldest failure of a request or message that people may hear of; false when there is none.
  [[nodiscard]] bool next_failure(Failure& out) noexcept;
  /// `flag` becomes true with each failure.
  void report_failures(bool& flag) noexcept;
  /// One bounded turn: receive, execute, send, acknowledge, timers. Returns work done.
  int poll(Instant now) noexcept;
  /// Sends what was posted since poll(), as far as a turn may: who posts because of what that poll() brought
  /// does not wait for the next one. Returns the cells sent.
  int send_posted() noexcept;
  /// When poll() must run next though no cell arrives.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  std::unique_ptr<AdapterCore> core_;
};

}  // namespace weft::adapter
