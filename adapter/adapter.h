// adapter/adapter.h -- one channel adapter: QPs, completion queues and protected memory, driven by poll(now)
// over one or more cell ports. HCA and TCA are this object with different limits and event policy.
//
// The calls above the line "data path" are those that a kernel agent makes in VI (PUSH-WQ-07); each is
// counted as kAgentCalls. The calls below it never allocate, lock or make a system call (PUSH-WQ-09).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "adapter/config.h"
#include "adapter/counters.h"
#include "adapter/events.h"
#include "adapter/memory/memory_table.h"
#include "adapter/ports.h"
#include "adapter/queues/completion_queues.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/result.h"
#include "base/rng.h"
#include "messages/failure.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::adapter {

class AddressSpaces;
class KeyDirectory;
class MemoryManager;
class NicKeys;
class SharedReceives;
struct AdapterParts;
struct Supplies;

/// What an adapter's memory windows have for its owner.
enum class WindowNews : uint8_t {
  kNoWindows,  // no QP uses one
  kNone,
  kSome,
};

/// The ways of a QP to its peers. The numbers are those of a stats page.
enum class QpWay : uint8_t {
  kSwitch = 1,  // a port
  kWindow = 2,  // memory windows (docs/window.md)
  kBoth = 3,    // UD: windows to some of the LIDs to which it has sent
};

/// Owner: one thread. The adapter owns the objects that it creates and destroys them with itself.
class ChannelAdapter {
 public:
  /// `random` gives QPNs, PSNs and keys; it must outlive the adapter.
  ChannelAdapter(const AdapterConfig& config, RandomSource& random);
  ~ChannelAdapter();
  ChannelAdapter(const ChannelAdapter&) = delete;
  ChannelAdapter& operator=(const ChannelAdapter&) = delete;

  /// The ports, none at first (adapter/ports.h).
  [[nodiscard]] Ports& ports() noexcept;
  [[nodiscard]] const Ports& ports() const noexcept;

  // ---- kernel agent --------------------
  [[nodiscard]] const AdapterLimits& limits() const noexcept;
  Refusable<PdId> alloc_pd();
  Refusable<> dealloc_pd(PdId pd);
  /// The memory functions: regions, windows, keys. Of the first NIC.
  [[nodiscard]] MemoryTable& memory() noexcept;
  /// The same for a NIC of AdapterConfig::nics: each has its own list of valid keys (MIG-STAG-04).
  [[nodiscard]] MemoryTable& memory(uint8_t nic) noexcept;
  /// Several NICs: `directory`, which outlives the adapter, finds the owners of keys that the arriving NIC
  /// does not know. It answers through the result, which lasts as long as the adapter. Null with one NIC,
  /// whose unknown keys are invalid. At most once.
  NicKeys* use_directory(KeyDirectory& directory) noexcept;
  /// Allows regions over effective, virtual and physical addresses, by the tables of `manager`, which must
  /// outlive the adapter (SAN-LMP). At most once.
  AddressSpaces& use_manager(MemoryManager& manager);
  /// Completion queues: creation, change, polling (adapter/queues/completion_queues.h).
  [[nodiscard]] CompletionQueues& cqs() noexcept;
  /// Shared receive queues: creation, change, posting (adapter/queues/shared_receives.h).
  [[nodiscard]] SharedReceives& srqs() noexcept;
  Refusable<QueuePair*> create_qp(const QpConfig& config);
  /// The same in two steps: make_qp() checks service and sizes and allocates memory for a QP and its
  /// queues, on any thread; create_qp() checks the rest and enters the QP into the adapter. If it refuses,
  /// the caller keeps the memory.
  Refusable<QpMemory> make_qp(const QpConfig& config) const;
  Refusable<QueuePair*> create_qp(QpMemory&& memory);
  /// Flushes nothing: queued requests and unpolled completions of the QP are dropped, as with RESET. To get
  /// them, move the QP to kErr and poll first. The QP's memory goes to `memory`, unless that is null.
  Refusable<> destroy_qp(QueuePair* qp, QpMemory* memory = nullptr);
  /// For an owner that ends and leaves its QPs as they are: the next poll() acknowledges everything that they
  /// have received, as when they are destroyed.
  void say_last_words() noexcept;
  ModifyResult modify_qp(QueuePair& qp, const QpAttr& attr, uint32_t mask);
  [[nodiscard]] QpAttr query_qp(const QueuePair& qp) const;
  /// The configuration at creation: service (PUSH-CHAN-01), queues and sizes.
  [[nodiscard]] const QpConfig& config(const QueuePair& qp) const noexcept;
  /// How the QP reaches its peer, and a UD QP its peers.
  [[nodiscard]] QpWay way_of(const QueuePair& qp) const noexcept;
  [[nodiscard]] Qpn qpn(const QueuePair& qp) const noexcept;
  /// The QP with this number; null when there is none, and for management numbers.
  [[nodiscard]] QueuePair* find_qp(Qpn number) const noexcept;
  /// Attaches a pointer of the owner to a QP; it also comes with the QP's events.
  void set_user(QueuePair& qp, void* user) noexcept;
  [[nodiscard]] void* user(const QueuePair& qp) const noexcept;
  /// Packets that an unacknowledged connected QP knows to be missing: gaps in the PSN order, packets left
  /// incomplete, Sends that found no receive WQE. A session resets when this moves (decisions 2.19).
  [[nodiscard]] uint64_t missed_packets(const QueuePair& qp) const noexcept;
  [[nodiscard]] const CounterSet<QpCounter>& counters(const QueuePair& qp) const noexcept;
  [[nodiscard]] const CounterSet<AdapterCounter>& counters() const noexcept;
  /// Cells that failed validation, and accesses that were refused, by reason.
  [[nodiscard]] const CounterSet<CellError>& bad_cells() const noexcept;
  [[nodiscard]] const CounterSet<AccessFault>& access_faults() const noexcept;
  /// Publishes the counters of the adapter and of its ports on a page as `prefix.*` and `prefix.port.N.*`;
  /// false when the page is full. The page must outlive the adapter.
  bool publish(StatsPage& page, std::string_view prefix);
  /// The same for a QP's counters.
  bool publish(StatsPage& page, std::string_view prefix, QueuePair& qp);
  /// Adds a UD QP to a multicast group of its port, or removes it. A member receives datagrams for the
  /// group's LID with its Gid, also those of this adapter. A member cannot be destroyed.
  Refusable<> attach_mcast(QueuePair& qp, const Gid& gid, Lid lid);
  Refusable<> detach_mcast(QueuePair& qp, const Gid& gid, Lid lid);
  /// This RAW QP gets the IPv6 datagrams of an upper-level protocol for `address`, which come to its port as
  /// raw frames for kQpnByProtocol (SAN-XPORT-16). Datagrams without a registered QP are dropped. A
  /// registered QP cannot be destroyed.
  Refusable<> register_protocol(QueuePair& qp, uint8_t next_header, const Gid& address);
  Refusable<> unregister_protocol(QueuePair& qp, uint8_t next_header, const Gid& address);
  /// Removes it from all its groups, and ends its registrations for protocols.
  void leave_groups_and_protocols(QueuePair& qp) noexcept;
  /// Makes an address handle for datagram QPs of `pd`; refused when an attribute is out of range.
  Refusable<AddressHandle> make_ah(PdId pd, const AhAttr& attr);

  // ---- memory allocated beforehand (adapter/supplies.h), for an owner under whose lock others wait --------
  /// SupplyKind bits of the tables that are short of memory. After supply() with all of these, none of the
  /// calls above that create one object allocates memory beyond what it is given.
  [[nodiscard]] uint32_t lacks() const noexcept;
  /// Takes from `supplies` what the adapter is short of.
  void supply(Supplies& supplies) noexcept;
  /// Sets `flag` when the data path runs short of memory. From then on the data path never allocates: a turn
  /// sends and receives as far as memory suffices, and the rest continues after supply().
  void report_lack(bool& flag) noexcept;
  /// Call when supply() finds no memory: until it does, work that needs more memory is dropped or fails as at
  /// a limit.
  void go_without() noexcept;

  // ---- data path --------------------
  /// Queues one WQE without telling the adapter (PUSH-WQ-04).
  [[nodiscard]] PostResult post(QueuePair& qp, const SendRequest& request) noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Send doorbell: all requests posted so far may be sent.
  void ring_send(QueuePair& qp) noexcept;
  /// Forgets send requests posted since the last doorbell.
  void take_back_posts(QueuePair& qp) noexcept;
  /// Receive doorbell: all receive requests posted so far may be used.
  bool ring_recv(QueuePair& qp) noexcept;
  /// post() and ring_send().
  [[nodiscard]] PostResult post_send(QueuePair& qp, const SendRequest& request) noexcept;
  /// post() of a list up to the first refusal, then ring_send(). `accepted` is the number of accepted
  /// requests, and so the index of the refused one. The accepted requests are executed.
  [[nodiscard]] PostResult post_send(QueuePair& qp, std::span<const SendRequest> list,
                                     size_t& accepted) noexcept;
  /// post() and ring_recv().
  [[nodiscard]] PostResult post_recv(QueuePair& qp, const RecvRequest& request) noexcept;
  /// Takes the oldest asynchronous event; false when there is none. No event is lost: it waits in its object,
  /// where two of one kind become one.
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  /// next_event() or cqs().next_notified() may have something to take.
  [[nodiscard]] bool has_reports() const noexcept;
  /// Takes the oldest failure to report to people; false when there is none.
  [[nodiscard]] bool next_failure(Failure& out) noexcept;
  /// Sets `flag` with each failure.
  void report_failures(bool& flag) noexcept;
  /// One bounded turn: receive, execute, send, acknowledge, timers. Returns work done.
  int poll(Instant now) noexcept;
  /// Sends what was posted since poll(), within the limits of a turn. A request that the owner posts in
  /// response to that poll() need not wait for the next one. Returns the number of cells sent.
  int send_posted() noexcept;
  /// The part of a turn that concerns memory windows alone, for a caller that waits: takes what peers have
  /// put there. poll() still has to run often. Returns work done; if no peer has written, that is 0 after a
  /// few loads.
  int look_at_windows(Instant now) noexcept;
  /// Whether peers have written to windows, or windows were left in the middle of something. Needs no time,
  /// so it does not see those that are due by time.
  [[nodiscard]] WindowNews window_news() const noexcept;
  /// Starts the requests of a QP that uses a window, ahead of the rest of a turn. False for other QPs, whose
  /// requests wait for poll().
  bool send_by_window(QueuePair& qp, Instant now) noexcept;
  /// Time by which poll() must run although no cell arrives.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  std::unique_ptr<AdapterParts> parts_;
};

}  // namespace weft::adapter
