// adapter/queues/queue_pair.h -- a QP as the adapter's parts see it: queues, attributes, and the state of
// requester and responder. Users have only a pointer and access a QP through ChannelAdapter.
//
// Packets in flight are numbered by 64-bit counts, from the first packet after RTR or RTS. The PSN of packet
// n is the initial PSN plus n.
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
#include "messages/transport_headers.h"

namespace weft::adapter {

struct Engine;

/// A mask with bits 0..cells-1 set.
[[nodiscard]] constexpr uint64_t cell_mask(uint32_t cells) noexcept {
  return cells >= kCellsPerPacketMax ? ~uint64_t{0} : (uint64_t{1} << cells) - 1;
}

/// One packet of the requester: a part of a WQE under one PSN.
struct TxPacket {
  uint64_t pending = 0;   // cells to send now; read: bit 0, the request
  uint64_t arrived = 0;   // cells that the peer has; read: response cells that have arrived
  Instant sent_at{};      // when its last pending cell was sent
  Instant repaired_at{};  // when cells were last marked for repetition
  uint32_t wqe = 0;       // low bits of the WQE's position in the SQ
  uint32_t offset = 0;    // of its first byte within the message
  uint32_t bytes = 0;
  uint32_t packet_crc = 0;
  uint8_t hashed_cells = 0;  // cells that packet_crc covers
  uint8_t crc_naks = 0;      // times the peer found the packet CRC wrong
  Opcode opcode{};
  uint8_t cells = 0;  // cells of the packet; read: of the response
  uint8_t flags2 = 0;
  bool last = false;  // last packet of its message
  bool ack_wanted = false;
  bool sent = false;      // every cell was sent at least once
  bool repeated = false;  // its round trip is not measured
  bool is_read = false;
  bool probed = false;     // its last cell asked for an acknowledgement of its execution
  bool has_idata = false;  // its last cell carries immediate data or the key to invalidate
  bool invalidates = false;
};

/// Progress of the requester since it began to send. Fields that change with each message come first, in two
/// cache lines and the beginning of a third.
struct SendProgress {
  Psn first_psn{};  // PSN of packet 0
  uint32_t reads_in_flight = 0;
  uint64_t first = 0;            // oldest packet that is not retired
  uint64_t end = 0;              // next packet to be made
  uint64_t cursor = 0;           // no packet before it has pending cells
  uint64_t cumulative = 0;       // packets before it are acknowledged
  uint64_t newest_acked = 0;     // one behind the newest packet of which a cell was acknowledged
  uint32_t bytes_in_flight = 0;  // at most kByteWindow and one packet
  uint32_t lane_mark = 0;        // low bits of the flits sent on the lane at the last look; 0: no look
  uint8_t retries = 0;
  uint8_t rnr_retries = 0;
  uint8_t repairs = 0;       // requests for an answer since the last new acknowledgement
  uint8_t head_repeats = 0;  // of the oldest packet, while others were acknowledged
  bool halted : 1 = false;   // a WQE has failed: no new WQE is started
  bool drain_reported : 1 = false;
  bool rtt_known : 1 = false;
  uint16_t still_ms = 0;  // ms forgiven since the last acknowledgement: peer stands still, cells wait
  Instant progress_at{};  // last acknowledgement of something new
  Instant retransmit_at = kNever;
  Instant rnr_until = Instant::min();    // paused by RNR NAK
  Instant delay_until = Instant::min();  // paused by a delay WQE
  Instant gap_at = Instant::min();       // when the peer last reported missing cells
  uint64_t timed = 0;                    // one behind the packet whose round trip is measured
  Instant timed_at{};
  Duration rtt{};  // smoothed
  Duration rtt_spread{};
  Duration timeout{};        // current retransmission timeout, with back-off
  uint64_t failed_end = 0;   // one behind the newest packet given up here; it may have arrived
  uint32_t repaired_to = 0;  // low bits; packets before it were searched since repair_round
  uint32_t head_clock = 0;   // low bits of the 2^10 ns when something of the oldest packet was acknowledged
  Instant repair_round = Instant::min();
};

/// Requester side. Written by requester and completer. A start resets the SendProgress.
struct SendSide : SendProgress {
  PacketWindow<TxPacket> packets;  // packets in flight

  void start(const SendProgress& begin) noexcept { static_cast<SendProgress&>(*this) = begin; }
  [[nodiscard]] TxPacket& at(uint64_t number) noexcept { return packets.at(number); }
  [[nodiscard]] Psn psn_of(uint64_t number) const noexcept {
    return first_psn.plus(static_cast<uint32_t>(number & Psn::kMask));
  }
};

/// kFree: no cell seen. kWaiting: cells seen, their place unknown (stash). kOpen: cells are placed on
/// arrival. kPlaced: all cells placed. kRefused: a check failed; the answer is sent in the packet's turn.
enum class RxState : uint8_t { kFree, kWaiting, kOpen, kPlaced, kRefused };

/// Why the responder refuses a packet; see the table in responder_faults.h.
enum class ResponderFault : uint8_t {
  kNone,
  kUnsupported,   // the service does not offer the operation
  kNotGranted,    // the QP or the endnode does not grant it
  kWrongQkey,     // datagram with another Q_Key
  kWrongSrq,      // XRC: the target's domain has no shared receive queue with that number
  kNoRecvWqe,     // no receive request is posted
  kRemoteAccess,  // key, bounds or right
  kTooLong,       // longer than the receive WQE or than a message may be
  kLocalAccess,   // the receive WQE names memory that may not be used
  kPacketCrc,
  kViolation,  // cells that contradict each other
  kAwaitsKey,  // no refusal: the key may be another NIC's, and the cell is taken again when that is known
  kCount,
};

/// One packet of the responder. A new one is all zeros, because it is constructed twice per packet: a
/// compiler builds other values in memory first, and a load then waits for them (base/registers.h).
struct RxPacket {
  uint64_t seen = 0;    // cells that count as received
  uint64_t placed = 0;  // cells whose data are in memory
  uint64_t idata_cells = 0;
  uint64_t va = 0;
  RecvSlot wqe = 0;         // Send: its receive WQE
  uint32_t offset = 0;      // Send: of its first byte within the message
  uint32_t last_bytes = 0;  // payload of the last cell
  uint32_t imm = 0;
  uint32_t packet_crc = 0;
  uint32_t body_sum = 0;  // with a packet CRC: sum of the placed cells (Placement::sum_up)
  RemoteGrant grant{};    // for byte 0; valid while `revision` equals the table's
  uint64_t revision = 0;
  Rkey rkey{};
  uint32_t srq = 0;  // XRC
  Opcode opcode{};
  RxState state = RxState::kFree;
  ResponderFault fault = ResponderFault::kNone;
  uint8_t flags2 = 0;
  uint8_t cells = 0;         // 0 until the last cell has been seen
  uint8_t behind_final = 0;  // 1 + number of the cell placed last, whose ACK waits for the execution
  bool fills_wqe = false;    // Send: its data go to a receive WQE
  bool waits_turn = false;   // its key serves one operation: placed when it is the expected packet
  bool has_wqe = false;      // a receive WQE is reserved for it
  bool has_imm = false;
  bool invalidates = false;
  bool has_packet_crc = false;

  [[nodiscard]] bool more() const noexcept { return (flags2 & kCell2More) != 0; }
};

/// An RDMA read, or the answer to an atomic operation, whose response cells are to be sent.
struct ReadJob {
  Psn psn{};
  bool is_atomic = false;  // already executed; only `old_value` is sent
  bool repeated = false;   // it has been served before
  RemoteGrant grant{};     // for its first byte; valid while `revision` equals the table's
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

/// An executed RDMA read or atomic operation, with the values of its request, for comparison with repeated
/// requests. A read is served again. For an atomic operation the answer is sent again.
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

/// A cell that waits for its own acknowledgement. In one word, because there may be many.
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

/// Strict mode: cells whose acknowledgements are to be sent, oldest first. Memory is taken with the first
/// cell and returned with the last.
class StrictAcks {
 public:
  void use(StrictAckPool& pool) noexcept { pool_ = &pool; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == kStrictAcksMax; }
  [[nodiscard]] StrictAck front() const noexcept { return cells_[head_]; }
  /// False when it is full or there is no memory: the sender will repeat the cell.
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

/// Acknowledgements that a responder owes its peer. Schedule::want_ack() adds to it, the acknowledger sends.
/// Only these and set_nak() change it.
class AckDebt {
 public:
  /// Asks for an acknowledgement, at once or at time `by`. An earlier time stays.
  void want(bool at_once, Instant by) noexcept {
    due_ = true;
    now_ |= at_once;
    if (by_ == kNever) by_ = by;
  }
  /// True when want(at_once, ...) would change nothing.
  [[nodiscard]] bool covers(bool at_once) const noexcept {
    return due_ && by_ != kNever && (now_ || !at_once);
  }
  /// An owed acknowledgement becomes due now.
  void hurry() noexcept { now_ = true; }
  /// Counts a cell without a request for an acknowledgement. True when there are enough for one.
  [[nodiscard]] bool count_cell() noexcept { return ++cells_ >= kCellsPerAck; }
  /// Sets the NAK to send; AckCode::kAck: none.
  void set_nak(AckCode code, Psn psn, uint16_t cell) noexcept {
    nak_ = code;
    nak_psn_ = psn;
    nak_cell_ = cell;
  }
  void drop_nak() noexcept { nak_ = AckCode::kAck; }
  /// A NAK was sent, which acknowledges everything before it. `also`: another acknowledgement is owed.
  void nak_sent(bool also) noexcept { due_ = also; }
  /// All owed acknowledgements were sent.
  void settle() noexcept {
    due_ = now_ = false;
    by_ = kNever;
    cells_ = 0;
  }
  /// Drops all owed acknowledgements.
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

/// The message whose packets are being executed. Written by Placement.
class MessageUnderWay {
 public:
  /// True when the next packet belongs to this message.
  [[nodiscard]] bool goes_on() const noexcept { return goes_on_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  /// Address at which an RDMA write began.
  [[nodiscard]] uint64_t va() const noexcept { return va_; }
  /// The rest of the message will not come: packets are dropped until a new message begins.
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

/// Progress of the responder since it began to receive.
struct ReceiveProgress {
  Psn expected{};  // oldest packet not executed
  Psn base_psn{};  // oldest packet whose place may be unknown
  Psn next_psn{};  // place of the next cell in order
  uint32_t next_cell = 0;
  uint64_t highest = 0;   // distance from `expected` of the newest packet seen, plus one
  RecvSlot base_wqe = 0;  // WQE of the Send that is being assigned
  uint32_t base_offset = 0;
  bool in_message = false;  // base_psn continues a Send
  bool untold = false;      // ArrivalOrder::untold may have a bit
  uint32_t stash_count = 0;
  MessageUnderWay message{};
  uint32_t messages_completed = 0;
  bool blocked = false;       // base_psn waits for a receive WQE
  uint8_t executed_cell = 0;  // last cell of the packet before `expected`
  uint16_t told = 0;          // unacknowledged services: reported faults, one bit per ResponderFault
  AckDebt debt{};
};

/// State of a responder whose cells arrive in any order, and the memory ranges used last in each direction.
struct ArrivalOrder {
  KnownRange target;          // range that the peer wrote last
  KnownRange source;          // range from which this side sent last
  WindowBits untold;          // packets with news that no ACK has reported
  uintptr_t ahead_begin = 0;  // range with all bytes that were placed before their packet's turn
  uintptr_t ahead_end = 0;
};

/// Responder side. Written by the responder. A start resets the ReceiveProgress, drops the packets and
/// empties the queues.
struct ReceiveSide : ReceiveProgress {
  std::unique_ptr<ArrivalOrder> order;     // RC; XRC targets
  PacketWindow<RxPacket> packets;          // RC: packets with received cells; UC: the packet being received
  FixedRing<ReadJob> reads;                // RC
  FixedRing<ExecutedRead> executed_reads;  // RC: the newest ones; a requester has no older one in flight
  StrictAcks strict_acks;
  uint32_t stash_head = 0;  // list of stashed cells; 0: none

  /// A packet has news that no ACK has reported.
  void note_untold(Psn psn) noexcept {
    untold = true;
    order->untold.set(psn);
  }
  void start(const ReceiveProgress& begin) noexcept { static_cast<ReceiveProgress&>(*this) = begin; }
  /// `expected` has stepped. When it passes 0 or half of all PSNs, executed reads of the half before the last
  /// one are dropped, because a new request may soon have the PSN of one of them.
  void moved_on() noexcept {
    constexpr uint32_t kHalf = (Psn::kMask + 1) / 2;
    if (expected.value() % kHalf == 0) [[unlikely]]
      forget_old_reads();
  }
  [[gnu::cold]] void forget_old_reads() noexcept {
    while (!executed_reads.empty() && !executed_reads.front().psn.before(expected)) executed_reads.pop();
  }
  /// The packet must have memory.
  [[nodiscard]] RxPacket& at(Psn psn) noexcept { return packets.at(psn.value()); }
  /// Null when neither the packet nor its neighbours have memory.
  [[nodiscard]] RxPacket* find(Psn psn) noexcept { return packets.find(psn.value()); }
};

/// A QP's place in one list (qp_list.h). `list` is null while the QP is in none.
struct QpLink {
  QueuePair* next = nullptr;
  QueuePair* before = nullptr;
  void* list = nullptr;
};

/// Events that QueuePair::watch waits for. In RTR: the first cell. With kRearm: a peer that is ready to
/// migrate. After a migration: a peer that has followed.
/// While a packet waits for a key: every cell (KeyQuestions).
enum QpWatch : uint8_t {
  kWatchFirstCell = 1 << 0,
  kWatchPeerArmed = 1 << 1,
  kWatchPeerFollows = 1 << 2,
  kWatchKey = 1 << 3
};

/// What a QP of a computer with several NICs knows of its other ways to the peer. Owner: Ways.
struct WayState {
  enum class Doing : uint8_t { kNothing, kAsking, kSearching };
  std::array<Lid, kWaysLidsMax> peer{};  // LIDs of the peer's computer; kLidNone: none
  uint16_t moves = 0;                    // of this connection
  Doing doing = Doing::kNothing;
  bool listed = false;     // in the list of QPs that Ways looks at
  bool off = false;        // the program has an alternate path of its own
  uint8_t asked = 0;       // questions since it began to ask
  uint8_t other_port = 0;  // another way has answered: its port here, and the peer's LID; 0: none
  Lid other_lid{};
  Instant began{};
  Instant next_at{};
};

/// The fields that a message needs are in few cache lines. Each line begins with fields that are prefetched
/// together, because with thousands of QPs they come from memory.
class alignas(kCacheLineBytes) QueuePair {
 public:
  /// Constructs a QP that is in no adapter. ChannelAdapter::create_qp() gives it number and place.
  QueuePair(const QpConfig& wanted, const ServiceRow& service_row, const Engine* adapter,
            uint32_t inline_bytes);

  [[nodiscard]] const QpAbilities& abilities() const noexcept { return qp_abilities(state); }
  [[nodiscard]] bool acknowledged() const noexcept { return row->acknowledged; }
  [[nodiscard]] bool connected() const noexcept { return row->connected; }
  /// True when it takes requests whose packets arrive in any order, and acknowledges each.
  [[nodiscard]] bool serves_window() const noexcept { return row->receive_window > 1; }
  [[nodiscard]] bool owes_ack() const noexcept { return ack_link.list != nullptr; }

  /// Call when a message will be cut into packets soon, or an acknowledgement will arrive.
  void prefetch_to_send() const noexcept {
    prefetch_lines(this, &config, &attr, &path, &send_link, &sq, &tx, &tx.progress_at, &tx.timeout, &rx.order,
                   &counters);
  }
  /// Call after prefetch_to_send() or prefetch_to_receive(), shortly before the message or the request: what
  /// these lines point to.
  void prefetch_ranges() const noexcept {
    const auto* ranges = reinterpret_cast<const std::byte*>(rx.order.get());
    if (ranges != nullptr) prefetch_to_read(ranges, sizeof(KnownRange) * 2);
  }
  /// Call when a request with this PSN will arrive soon.
  void prefetch_to_receive(uint32_t psn) const noexcept {
    prefetch_lines(this, &config, &attr, &path, &ack_link, &rx, &rx.order, rx.packets.place_of(psn),
                   &counters);
  }

  // Read for every cell.
  Qpn qpn{};
  QpState state = QpState::kReset;
  uint8_t port = 1;
  uint16_t pkey = kPkeyDefault;  // entry attr.pkey_index of the port's table
  bool other_cells = false;      // packets in flight were cut for another cell size: the QP cannot continue
  uint8_t watch = 0;             // QpWatch: events that the peer's next cell may bring
  bool answers = false;          // rx.reads is not empty
  bool other_psn = false;        // the peer has only answered packets that were never sent
  uint32_t timer = 0;            // its place in TimerHeap
  Lid peer_lid{};
  Reason failed_by = Reason::kNone;  // the reason why it ended
  Qpn peer_qpn{};
  uint32_t live_index = 0;  // place among all QPs
  uint32_t port_seen = 0;   // AdapterPort::change() of which it was informed last
  const Engine* owner;      // the adapter of which it is; null once it has ended
  const ServiceRow* row;    // the row of its service
  RecvQueue* rq;            // queue from which messages take their receive WQEs
  SharedReceiveQueue* srq;  // owner of `rq`; an XRC target changes it from message to message

  alignas(kCacheLineBytes) QpConfig config;
  QpAttr attr;
  alignas(kCacheLineBytes) QpPath path{};
  Service* service = nullptr;                   // the object that runs it
  std::unique_ptr<ServiceState> kept;           // that object's state for this QP
  MemoryTable* memory = nullptr;                // valid keys of the NIC that its cells arrive at
  alignas(kCacheLineBytes) QpLink send_link{};  // in lists of QPs with something to send
  QpLink ack_link{};                            // in lists of QPs that owe an acknowledgement
  RecvSlots taken;  // WQEs of messages that have begun to arrive, in order of completion
  alignas(kCacheLineBytes) SendQueue sq;
  RecvQueue own_rq;
  EventBox events{*this};
  alignas(kCacheLineBytes) SendSide tx;
  alignas(kCacheLineBytes) ReceiveSide rx;
  alignas(kCacheLineBytes) CounterSet<QpCounter> counters;
  std::unique_ptr<WayState> ways;  // RC with several NICs: its other ways; else null

 private:
  template <class... At>
  static void prefetch_lines(const At*... at) noexcept {
    (__builtin_prefetch(at), ...);
  }
};

}  // namespace weft::adapter
