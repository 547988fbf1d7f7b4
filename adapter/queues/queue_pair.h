// adapter/queues/queue_pair.h -- a QP as the adapter's parts see it: queues, attributes, and the state of
// requester and responder. Users hold only the pointer; they see a QP through ChannelAdapter.
//
// Packets in flight are numbered by 64-bit counts from the first packet after RTR or RTS on; the PSN of
// packet n is the initial PSN plus n.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "adapter/config.h"
#include "adapter/counters.h"
#include "adapter/event_box.h"
#include "adapter/limits.h"
#include "adapter/memory/known_range.h"
#include "adapter/path.h"
#include "adapter/queues/packet_window.h"
#include "adapter/queues/qp_rules.h"
#include "adapter/queues/recv_queue.h"
#include "adapter/queues/work_queue.h"
#include "adapter/transport/service.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/fixed_ring.h"
#include "base/prefetch.h"
#include "messages/cell.h"
#include "messages/failure.h"

namespace weft::adapter {

struct Engine;

/// Bits 0..cells-1.
[[nodiscard]] constexpr uint64_t cell_mask(uint32_t cells) noexcept {
  return cells >= kCellsPerPacketMax ? ~uint64_t{0} : (uint64_t{1} << cells) - 1;
}

/// One packet of the requester: a piece of a WQE under one PSN.
struct TxPacket {
  uint64_t pending = 0;   // cells to be sent now; read: bit 0, the request
  uint64_t arrived = 0;   // its cells that the peer has; of a read, those of the response that are here
  Instant sent_at{};      // when its last pending cell left
  Instant repaired_at{};  // when cells were last marked for repetition
  uint32_t wqe = 0;       // low bits of the WQE's position in the SQ
  uint32_t offset = 0;    // of its first byte in the message
  uint32_t bytes = 0;
  uint32_t packet_crc = 0;
  uint8_t hashed_cells = 0;  // cells that packet_crc covers
  uint8_t crc_naks = 0;      // times the peer found the packet CRC wrong
  Opcode opcode{};
  uint8_t cells = 0;  // of the packet; read: of the response
  uint8_t flags2 = 0;
  bool last = false;  // of its message
  bool ack_wanted = false;
  bool sent = false;      // every cell has left at least once
  bool repeated = false;  // its round trip says nothing
  bool is_read = false;
  bool probed = false;     // its execution was asked for with its last cell
  bool has_idata = false;  // its last cell carries immediate data, or the key to invalidate
  bool invalidates = false;
};

/// How far the requester has got since it began to send. What each message changes stands first, in two lines
/// of cache and the beginning of a third.
struct SendProgress {
  Psn first_psn{};  // PSN of packet 0
  uint32_t reads_in_flight = 0;
  uint64_t first = 0;         // oldest packet not yet retired
  uint64_t end = 0;           // next packet to be made
  uint64_t cursor = 0;        // no packet before it has pending cells
  uint64_t cumulative = 0;    // packets before it are acknowledged
  uint64_t newest_acked = 0;  // behind the newest packet of which a cell was acknowledged
  uint64_t bytes_in_flight = 0;
  uint8_t retries = 0;
  uint8_t rnr_retries = 0;
  uint8_t repairs = 0;  // asked so often since anything new was heard
  bool halted = false;  // a WQE has failed: nothing new is started
  bool drain_reported = false;
  bool rtt_known = false;
  uint16_t still_ms = 0;  // time forgiven since the last acknowledgement: the peer stands still
  Instant progress_at{};  // last acknowledgement of something new
  Instant retransmit_at = kNever;
  Instant rnr_until = Instant::min();    // paused by RNR NAK
  Instant delay_until = Instant::min();  // paused by a delay WQE
  Instant gap_at = Instant::min();       // when the peer last said that cells are missing
  uint64_t timed = 0;                    // behind the packet whose last cell, sent at timed_at, is timed
  Instant timed_at{};
  Duration rtt{};  // smoothed
  Duration rtt_spread{};
  Duration timeout{};        // current retransmission timeout, with back-off
  uint64_t failed_end = 0;   // behind the newest packet that was given up here, though it may have arrived
  uint64_t repaired_to = 0;  // packets before it were looked at since repair_round
  Instant repair_round = Instant::min();
};

/// Requester side. Written by requester and completer. A start begins with a fresh SendProgress.
struct SendSide : SendProgress {
  PacketWindow<TxPacket> packets;  // of those in flight

  void start(const SendProgress& begin) noexcept { static_cast<SendProgress&>(*this) = begin; }
  [[nodiscard]] TxPacket& at(uint64_t number) noexcept { return packets.at(number); }
  [[nodiscard]] Psn psn_of(uint64_t number) const noexcept {
    return first_psn.plus(static_cast<uint32_t>(number & Psn::kMask));
  }
};

/// kFree: no cell seen. kWaiting: cells seen, place unknown (stash). kOpen: cells are placed on arrival.
/// kPlaced: all cells placed. kRefused: a check failed; answered when its turn comes.
enum class RxState : uint8_t { kFree, kWaiting, kOpen, kPlaced, kRefused };

/// Why the responder refuses a packet; table in responder_faults.h.
enum class ResponderFault : uint8_t {
  kNone,
  kUnsupported,   // the service does not offer the operation
  kNotGranted,    // the QP or the endnode does not grant it
  kWrongQkey,     // datagram with another Q_Key
  kWrongSrq,      // XRC: the target's domain has no shared receive queue of that number
  kNoRecvWqe,     // no receive request is posted
  kRemoteAccess,  // key, bounds or right
  kTooLong,       // longer than the receive WQE, or than a message may be
  kLocalAccess,   // the receive WQE names memory that is not ours
  kPacketCrc,
  kViolation,  // cells that contradict each other
  kCount,
};

/// One packet of the responder. A new one is all zeros: it is made twice for each packet, and a compiler puts
/// other values together in memory first, where a load then waits for them (base/registers.h).
struct RxPacket {
  uint64_t seen = 0;    // cells that count as received
  uint64_t placed = 0;  // cells whose data lies in memory
  uint64_t idata_cells = 0;
  uint64_t va = 0;
  RecvSlot wqe = 0;         // Send: its receive WQE
  uint32_t offset = 0;      // Send: of its first byte in the message
  uint32_t last_bytes = 0;  // payload of the last cell
  uint32_t imm = 0;
  uint32_t packet_crc = 0;
  uint32_t body_sum = 0;  // with a packet CRC: of the cells that were placed (Placement::sum_up)
  RemoteGrant grant{};    // of byte 0; good while `revision` is the table's
  uint64_t revision = 0;
  Rkey rkey{};
  uint32_t srq = 0;  // XRC
  Opcode opcode{};
  RxState state = RxState::kFree;
  ResponderFault fault = ResponderFault::kNone;
  uint8_t flags2 = 0;
  uint8_t cells = 0;         // 0 until the last cell was seen
  uint8_t behind_final = 0;  // one more than the cell placed last: its ACK waits for the execution
  bool fills_wqe = false;    // a Send: its data goes to a receive WQE
  bool waits_turn = false;   // its key serves one operation: placed when it is the expected packet
  bool has_wqe = false;      // a receive WQE is set aside for it
  bool has_imm = false;
  bool invalidates = false;
  bool has_packet_crc = false;

  [[nodiscard]] bool more() const noexcept { return (flags2 & kCell2More) != 0; }
};

/// An RDMA read, or the answer to an atomic operation, that waits for its response cells to be sent.
struct ReadJob {
  Psn psn{};
  bool is_atomic = false;  // executed: `old_value` is all there is to be sent
  bool repeated = false;   // served once already
  RemoteGrant grant{};     // of its first byte; good while `revision` is the table's
  uint64_t revision = 0;
  uint64_t source_va = 0;
  uint64_t sink_va = 0;
  uint64_t old_value = 0;
  Rkey source_key{};
  uint32_t sink_key = 0;
  uint32_t srq = 0;  // XRC
  uint32_t bytes = 0;
  uint8_t cells = 0;
  uint8_t next = 0;
};

/// An RDMA read or atomic operation that was executed, as its request named it: what a repeated request is
/// compared with. A read is served again; of an atomic operation the answer is sent again.
struct ExecutedRead {
  Psn psn{};
  Rkey key{};
  uint64_t va = 0;
  uint32_t bytes = 0;
  bool is_atomic = false;
  uint64_t old_value = 0;

  [[nodiscard]] bool same_request(const ExecutedRead& other) const noexcept {
    return psn == other.psn && key == other.key && va == other.va && bytes == other.bytes &&
           is_atomic == other.is_atomic;
  }
};

/// A cell that is owed an acknowledgement of its own: there are many, so in one word.
class StrictAck {
 public:
  StrictAck() = default;
  StrictAck(Psn psn, uint16_t cell) noexcept : word_(uint32_t{cell} << 24 | psn.value()) {}
  [[nodiscard]] Psn psn() const noexcept { return Psn(word_ & Psn::kMask); }
  [[nodiscard]] uint16_t cell() const noexcept { return static_cast<uint16_t>(word_ >> 24); }

 private:
  uint32_t word_ = 0;
};
static_assert(sizeof(StrictAck) == 4 && kCellsPerPacketMax <= 256);

using StrictAckPool = ChunkPool<StrictAck, kStrictAcksMax, 4>;

/// Strict mode: cells whose acknowledgements wait to be sent, oldest first. Their memory comes with the first
/// and goes with the last.
class StrictAcks {
 public:
  void use(StrictAckPool& pool) noexcept { pool_ = &pool; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == kStrictAcksMax; }
  [[nodiscard]] StrictAck front() const noexcept { return cells_[head_]; }
  /// False when it is full, or there is no memory: the cell will come again.
  bool push(StrictAck ack) noexcept {
    if (full()) return false;
    if (cells_ == nullptr) cells_ = pool_->take(false);
    if (cells_ == nullptr) [[unlikely]]
      return false;
    cells_[(head_ + count_++) % kStrictAcksMax] = ack;
    return true;
  }
  void pop() noexcept {
    head_ = static_cast<uint16_t>((head_ + 1U) % kStrictAcksMax);
    if (--count_ == 0) clear();
  }
  void clear() noexcept {
    if (cells_ != nullptr) pool_->give_back(std::exchange(cells_, nullptr), false);
    head_ = count_ = 0;
  }

 private:
  StrictAckPool* pool_ = nullptr;
  StrictAck* cells_ = nullptr;
  uint16_t head_ = 0;
  uint16_t count_ = 0;
};

/// What a responder owes its peer: Engine::want_ack() puts it there, the acknowledger pays. Only they and
/// set_nak() change it.
class AckDebt {
 public:
  /// Something is to be acknowledged, at once or `by` then, unless it was due before that.
  void want(bool at_once, Instant by) noexcept {
    due_ = true;
    now_ |= at_once;
    if (by_ == kNever) by_ = by;
  }
  /// What is owed is owed now.
  void hurry() noexcept { now_ = true; }
  /// One more cell has come for which no acknowledgement was asked; true when they are enough for one.
  [[nodiscard]] bool count_cell() noexcept { return ++cells_ >= kCellsPerAck; }
  /// AckCode::kAck: there is none to be sent.
  void set_nak(AckCode code, Psn psn, uint16_t cell) noexcept {
    nak_ = code;
    nak_psn_ = psn;
    nak_cell_ = cell;
  }
  void drop_nak() noexcept { nak_ = AckCode::kAck; }
  /// A NAK has left that acknowledges everything before it, or `also` something more is owed.
  void nak_sent(bool also) noexcept { due_ = also; }
  /// Everything has been said.
  void settle() noexcept {
    due_ = now_ = false;
    by_ = kNever;
    cells_ = 0;
  }
  /// Nothing will be said.
  void drop() noexcept {
    due_ = now_ = false;
    nak_ = AckCode::kAck;
  }

  [[nodiscard]] bool due() const noexcept { return due_; }
  [[nodiscard]] bool due_now() const noexcept { return now_; }
  [[nodiscard]] Instant by() const noexcept { return by_; }
  [[nodiscard]] AckCode nak() const noexcept { return nak_; }
  [[nodiscard]] bool has_nak() const noexcept { return nak_ != AckCode::kAck; }
  [[nodiscard]] Psn nak_psn() const noexcept { return nak_psn_; }
  [[nodiscard]] uint16_t nak_cell() const noexcept { return nak_cell_; }

 private:
  uint32_t cells_ = 0;
  bool due_ = false;
  bool now_ = false;
  AckCode nak_ = AckCode::kAck;
  Psn nak_psn_{};
  uint16_t nak_cell_ = 0;
  Instant by_ = kNever;
};

/// The message whose packets are being executed. Placement writes it.
class MessageUnderWay {
 public:
  /// The next packet belongs to it.
  [[nodiscard]] bool goes_on() const noexcept { return goes_on_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  /// Where an RDMA write began.
  [[nodiscard]] uint64_t va() const noexcept { return va_; }
  /// The rest of it will not come: what comes is dropped until a message begins anew.
  void give_up() noexcept {
    goes_on_ = false;
    lost_ = true;
  }
  [[nodiscard]] bool is_lost() const noexcept { return lost_; }
  void begin_anew() noexcept { lost_ = false; }

 private:
  friend class Placement;
  bool goes_on_ = false;
  bool lost_ = false;
  Opcode opcode_{};
  uint32_t srq_ = 0;
  uint64_t bytes_ = 0;
  uint64_t va_ = 0;
  Rkey key_{};
};

/// How far the responder has got since it began to receive.
struct ReceiveProgress {
  Psn expected{};  // oldest packet not executed
  Psn base_psn{};  // oldest packet whose place may be unknown
  Psn next_psn{};  // where the next cell in turn would be
  uint32_t next_cell = 0;
  uint64_t highest = 0;   // distance from `expected` of the newest packet seen, plus one
  RecvSlot base_wqe = 0;  // Send being assigned
  uint32_t base_offset = 0;
  bool in_message = false;  // base_psn continues a Send
  bool untold = false;      // ArrivalOrder::untold may have a bit
  uint32_t stash_count = 0;
  MessageUnderWay message{};
  uint32_t messages_completed = 0;
  bool blocked = false;       // base_psn waits for a receive WQE
  uint8_t executed_cell = 0;  // last cell of the packet before `expected`
  uint16_t told = 0;          // unacknowledged: faults that people were told of, by ResponderFault
  AckDebt debt{};
};

/// What a responder knows of cells that come in any order; and the ranges that were used last each way.
struct ArrivalOrder {
  KnownRange target;          // where its peer has written lately
  KnownRange source;          // where its own messages have come from
  WindowBits untold;          // packets of which something is new that no ACK has told yet
  uintptr_t ahead_begin = 0;  // where bytes lie that were placed before their packet's turn; all between
  uintptr_t ahead_end = 0;
};

/// Responder side. Written by the responder. A start begins with a fresh ReceiveProgress, no packets, and
/// empty queues.
struct ReceiveSide : ReceiveProgress {
  PacketWindow<RxPacket> packets;          // RC: of which cells have come; UC: the one under way
  std::unique_ptr<ArrivalOrder> order;     // RC; XRC targets
  FixedRing<ReadJob> reads;                // RC
  FixedRing<ExecutedRead> executed_reads;  // RC: the newest; a requester has no older one in flight
  StrictAcks strict_acks;
  uint32_t stash_head = 0;  // list of stashed cells, 0 = none

  /// Something of a packet is new that no ACK has told yet.
  void note_untold(Psn psn) noexcept {
    untold = true;
    order->untold.set(psn);
  }
  void start(const ReceiveProgress& begin) noexcept { static_cast<ReceiveProgress&>(*this) = begin; }
  /// `expected` has gone one further. When it passes 0 or half of all PSNs, executed reads of the half before
  /// the last one are forgotten: a new request may soon have the PSN of one of them.
  void moved_on() noexcept {
    constexpr uint32_t kHalf = (Psn::kMask + 1) / 2;
    if (expected.value() % kHalf == 0) [[unlikely]]
      forget_old_reads();
  }
  [[gnu::cold]] void forget_old_reads() noexcept {
    while (!executed_reads.empty() && !executed_reads.front().psn.before(expected)) executed_reads.pop();
  }
  /// A packet that has memory.
  [[nodiscard]] RxPacket& at(Psn psn) noexcept { return packets.at(psn.value()); }
  /// Null when nothing of the packet is kept, nor of its neighbours.
  [[nodiscard]] RxPacket* find(Psn psn) noexcept { return packets.find(psn.value()); }
};

/// A QP's place in one list (qp_list.h); `list` is null while it stands in none.
struct QpLink {
  QueuePair* next = nullptr;
  QueuePair* before = nullptr;
  void* list = nullptr;
};

/// What QueuePair::watch waits for: RTR, the first cell; kRearm, a peer that is ready to migrate, too; one
/// that has migrated, a peer that has followed.
enum QpWatch : uint8_t { kWatchFirstCell = 1 << 0, kWatchPeerArmed = 1 << 1, kWatchPeerFollows = 1 << 2 };

/// What a message needs stands in few lines of cache, each of which begins with what is asked for together:
/// with thousands of QPs they come from far away, and are asked for before their cell has its turn.
class alignas(kCacheLineBytes) QueuePair {
 public:
  /// In no adapter yet: its number and its place come with ChannelAdapter::create_qp().
  QueuePair(const QpConfig& wanted, const ServiceRow& service_row, const Engine* adapter,
            uint32_t inline_bytes);

  [[nodiscard]] const QpAbilities& abilities() const noexcept { return qp_abilities(state); }
  [[nodiscard]] bool acknowledged() const noexcept { return row->acknowledged; }
  [[nodiscard]] bool connected() const noexcept { return row->connected; }
  /// It takes requests whose packets come in any order, and acknowledges each.
  [[nodiscard]] bool serves_window() const noexcept { return row->receive_window > 1; }
  [[nodiscard]] bool owes_ack() const noexcept { return ack_link.list != nullptr; }

  /// A message will be cut into packets soon, or an acknowledgement of one comes.
  void prefetch_to_send() const noexcept {
    prefetch_lines(this, &config, &attr, &path, &send_link, &sq, &tx, &tx.progress_at, &tx.timeout,
                   &counters);
  }
  /// A request under this PSN comes soon.
  void prefetch_to_receive(uint32_t psn) const noexcept {
    prefetch_lines(this, &config, &attr, &path, &ack_link, &rx, &rx.messages_completed,
                   rx.packets.place_of(psn), &counters);
  }

  // Read for every cell.
  Qpn qpn{};
  QpState state = QpState::kReset;
  uint8_t port = 1;
  uint16_t pkey = kPkeyDefault;  // what the port's table has at attr.pkey_index
  bool other_cells = false;      // its packets in flight were cut for cells of another size: it cannot go on
  uint8_t watch = 0;             // QpWatch: what the next cell of its peer says beside what it brings
  bool answers = false;          // rx.reads has some
  bool other_psn = false;        // the peer has answered packets that were never sent, and no other
  uint32_t timer = 0;            // its place in TimerHeap
  Lid peer_lid{};
  Reason failed_by = Reason::kNone;  // what has ended it
  Qpn peer_qpn{};
  uint32_t live_index = 0;  // place among all QPs
  uint32_t port_seen = 0;   // AdapterPort::change() that it has been told of
  const Engine* owner;      // the adapter that made it
  const ServiceRow* row;    // what its service is
  RecvQueue* rq;            // where messages take their receive WQEs
  SharedReceiveQueue* srq;  // whose `rq` is. An XRC target goes from one to another

  alignas(kCacheLineBytes) QpConfig config;
  QpAttr attr;
  alignas(kCacheLineBytes) QpPath path{};
  Service* service = nullptr;                   // what runs it
  std::unique_ptr<ServiceState> kept;           // what that keeps of it
  alignas(kCacheLineBytes) QpLink send_link{};  // lists of QPs that have something to send
  QpLink ack_link{};                            // and of those that owe an acknowledgement
  RecvSlots taken;  // of messages that have begun to arrive, in the order they will complete
  alignas(kCacheLineBytes) SendQueue sq;
  RecvQueue own_rq;
  EventBox events{*this};
  alignas(kCacheLineBytes) SendSide tx;
  alignas(kCacheLineBytes) ReceiveSide rx;
  alignas(kCacheLineBytes) CounterSet<QpCounter> counters;

 private:
  template <class... At>
  static void prefetch_lines(const At*... at) noexcept {
    (__builtin_prefetch(at), ...);
  }
};

}  // namespace weft::adapter
