// adapter/transport/direct/direct_state.h -- what RC over memory windows keeps per QP, and what RC and UD
// keep per peer process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "adapter/direct_paths.h"
#include "adapter/queues/queue_pair.h"
#include "messages/window_record.h"

namespace weft::adapter {

/// How the request in a place of the send queue goes. DMA waits until all earlier records are answered, and a
/// record waits until all earlier DMA has ended. So a QP has one kind under way, and its requests take effect
/// in order. A write of at most kDirectFollowBytes that would wait becomes records.
enum class DirectWay : uint8_t { kNone, kDma, kRecords };

/// Progress of one request beyond SendWqe.
struct DirectMessage {
  uint32_t number = 0;    // kRecords: of the message, once `numbered`
  uint32_t accesses = 0;  // kDma: accesses under way
  uint32_t arrived = 0;   // bytes of the response
  DirectWay way = DirectWay::kNone;
  uint8_t dma_failures = 0;
  bool numbered = false;
  bool refused = false;   // a write that the copy of the peer's table refuses: its data stay here
  bool moved = false;     // the device has moved the data; the immediate data follow as a record
  bool posted = false;    // all its parts have left
  bool answered = false;  // the peer has executed it; a read: its data are here
};

struct DirectPeer;

/// State of a QP whose peer is on the same machine.
struct DirectQp final : ServiceState {
  DirectPeer* peer = nullptr;
  uint32_t id = 0;         // names this life of the QP, from 1
  uint32_t peer_life = 0;  // that of the peer's QP; 0: not heard of
  bool named = false;      // by the peer's QP, so peer_life is that of the QP that answers to this life

  // Requester.
  std::vector<DirectMessage> messages;  // by place in the send queue; a power of two
  bool ready = false;                   // the peer's QP receives, and has said so to this life
  bool gone = false;                    // it did, and does no more
  uint8_t grants = 0;                   // WindowGrant of the peer's QP
  uint32_t next_number = 0;
  uint32_t unanswered = 0;   // messages under way as records
  uint32_t reads = 0;        // reads and atomic operations among them
  uint32_t accesses = 0;     // DMA under way
  uint64_t next = 0;         // place to send next; before sq.started: a repetition
  uint64_t answered_to = 0;  // no message before this place waits for an acknowledgement
  bool waits = false;        // in DirectPeer::waiting

  // Responder.
  uint32_t expected = 0;    // number of the next message; all before it are executed
  uint64_t filled = 0;      // bytes of the expected message that have come
  bool in_message = false;  // `packet` is the message in progress
  // What the first record of the message in progress said, without kRecordLast.
  WindowRecordKind kind{};
  uint8_t flags = 0;
  uint32_t total = 0;
  bool pausing = false;  // RNR: what comes is dropped until `expected` comes again
  RxPacket packet;
  uint8_t granted = 0;                           // WindowGrant that this life has given
  uint8_t taken_back = 0;                        // those of them that it gives no more
  KnownRange sink;                               // range into which a Send went last
  ResponderFault fault = ResponderFault::kNone;  // refusal that waits until earlier reads are answered
  uint32_t response_at = 0;                      // bytes of the oldest response that have left

  // Records that are owed to the peer.
  bool owes_ready = false;
  bool owes_ack = false;  // an acknowledgement, if no other record leaves in this turn
  bool owes_nak = false;
  bool told_gone = false;  // the peer knows that the QP receives no more
  AckCode nak{};
  uint8_t nak_timer = 0;

  /// Its kReady asks for the peer's.
  [[nodiscard]] bool asks() const noexcept { return !ready && !gone; }
  [[nodiscard]] DirectMessage& message(uint64_t place) noexcept {
    return messages[place & (messages.size() - 1)];
  }
};

[[nodiscard]] inline DirectQp& direct_of(const QueuePair& qp) noexcept {
  return static_cast<DirectQp&>(*qp.kept);
}

inline constexpr uint64_t kNotSaid = ~uint64_t{0};
/// Numbers of farewells; those above name other records (direct_outlet.h).
inline constexpr uint32_t kFarewellNumbers = (uint32_t{1} << 24) - 1;

/// A QP that has ended and whose peer must hear it.
struct DirectFarewell {
  Qpn to{};
  Qpn from{};
  WindowRecord record;
  uint32_t number = 0;          // in the cookie of its record
  uint64_t said_at = kNotSaid;  // WindowEnd::posted() behind its record
};

/// The QPs that reach one peer process through one window.
struct DirectPeer {
  DirectPath* path = nullptr;
  fabric::WindowEnd* window = nullptr;  // its end(), once it is open
  std::vector<Lid> lids;                // of its ports that QPs have named
  std::vector<QueuePair*> qps;
  std::vector<QueuePair*> waiting;        // for room in the FIFO or in the device, or for the table
  std::vector<DirectFarewell> farewells;  // until they have arrived
  std::vector<QueuePair*> datagrams;  // UD QPs that send through it, once for each of its LIDs that they name
  std::vector<QueuePair*> datagrams_waiting;  // those that wait for room in the FIFO
  Instant full_since = kNever;  // a datagram has found the FIFO full, and the peer has taken nothing since
  uint64_t full_at = 0;         // what the peer had taken then
  Lid own_lid{};                // by which the peer knows this adapter
  PdId pd{};                    // of all its QPs, unless mixed
  uint8_t taken_back = 0;       // of all its QPs here: WindowGrant that one has taken back
  bool mixed = false;   // QPs of several domains: keys of either must not open to the other's peer QPs
  size_t place = 0;     // among the peers of the service
  bool up = false;      // the window has come up
  bool cut = false;     // a fault on demand cuts it off, here or at the peer
  bool more = false;    // its FIFO has records that its last turn has not taken
  bool visits = false;  // the peer has opened the window, and no QP here has used it
  bool waits_for_table = false;       // a QP waits for the next turn of the window
  bool takes_datagrams = false;       // the peer has said so
  bool datagrams_were_first = false;  // at the last room in the FIFO
  uint32_t last_farewell = 0;
  bool ended = false;  // the window has failed or the peer has died, and the QPs have heard it
  std::unordered_map<uint32_t, uint64_t> shown;  // key -> 0, or the generation since which it is withdrawn

  [[nodiscard]] bool unused() const noexcept { return qps.empty() && datagrams.empty(); }
  [[nodiscard]] bool has(Lid lid) const noexcept {
    return std::find(lids.begin(), lids.end(), lid) != lids.end();
  }
  /// The window is made; it may have ended since.
  [[nodiscard]] bool made() noexcept {
    if (window == nullptr && path->state() == DirectPath::State::kOpen) window = &path->end();
    return window != nullptr;
  }
  [[nodiscard]] bool open() noexcept {
    return made() && !ended && window->state() == fabric::WindowState::kUp;
  }
};

}  // namespace weft::adapter
