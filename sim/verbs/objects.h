// sim/verbs/objects.h -- the objects of a program of verbs as the program and the reference model know them:
// plain records beside the adapter's own objects, never updated from those.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "base/clock.h"
#include "sim/verbs/patch.h"

namespace weft::sim::verbs {

constexpr uint32_t kWordBytes = 8;    // of an atomic operation
constexpr uint64_t kGuardBytes = 16;  // around each range that is lent, never written

struct Node;
struct Qp;
struct Region;
struct Srq;
struct Window;

[[nodiscard]] constexpr uint32_t bit_of(adapter::WcStatus status) noexcept {
  return 1U << static_cast<uint32_t>(status);
}

/// A key for peers and the range that it permits.
struct Key {
  enum class State : uint8_t { kBinding, kGood, kEnding, kDead };
  Rkey rkey{};
  Region* region = nullptr;
  uint64_t begin = 0;
  uint64_t length = 0;
  adapter::Access rights = adapter::Access::kNone;
  State state = State::kGood;
  bool window = false;       // true: of a window; false: of the region itself
  Window* typed = nullptr;   // the window, if it is of type 1 or 2
  const Qp* only = nullptr;  // type 2: the only QP with which the key may be used

  /// True if a request with this key may succeed, certainly or possibly.
  [[nodiscard]] bool opens() const noexcept { return state == State::kGood || state == State::kEnding; }
};
using KeyPtr = std::shared_ptr<Key>;

/// A window of libibverbs, which gets another key with each bind.
struct Window {
  adapter::PdId pd;
  adapter::WindowKind kind = adapter::WindowKind::kType1;
  Rkey name;     // one of its keys
  KeyPtr bound;  // key of the newest bind
  bool gone = false;

  [[nodiscard]] bool under_way() const noexcept {
    return bound != nullptr && bound->state == Key::State::kBinding;
  }
};

/// Part of a region that is reserved for one work request.
struct Piece {
  Region* region = nullptr;
  uint64_t offset = 0;
  uint32_t length = 0;
};

/// Zeroed memory that uses no pages until it is touched.
struct FreeBytes {
  void operator()(std::byte* bytes) const noexcept;
};
using LazyBytes = std::unique_ptr<std::byte, FreeBytes>;

/// A region: its first half is reserved in pieces for single work requests, in the rest requests of peers
/// meet.
struct Region {
  Region(Node& owner, adapter::PdId domain, uint64_t size, adapter::Access access);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] std::byte* at(uint64_t offset) noexcept { return actual.get() + offset; }
  /// Takes the present bytes as the expected ones.
  void accept(uint64_t offset, uint64_t length) noexcept;
  [[nodiscard]] bool as_expected(uint64_t offset, uint64_t length) const noexcept;
  /// Checks all bytes that are neither lent nor in a patch. @return the first wrong byte as text; empty when
  /// there is none
  [[nodiscard]] std::string sweep() const;

  Node& node;
  adapter::PdId pd;
  uint64_t bytes;
  adapter::Access rights;
  uint64_t own = 0;  // bytes reserved for single work requests
  LazyBytes actual;
  LazyBytes expected;
  adapter::MemoryRegion mr;
  bool registered = false;
  bool reserved = false;   // filled by work requests (fast registration), not by calls
  bool pages = false;      // reserved: made of pages; false: of one range
  bool doubtful = false;   // reserved: it is unknown whether the last work request was executed
  bool under_way = false;  // reserved: a registration request is under way
  uint32_t registrations = 0;
  std::map<uint64_t, std::pair<uint64_t, bool>> lent;  // by offset: length, and whether the bytes may change
  std::vector<std::pair<uint64_t, Patch>> patches;     // by offset
  std::vector<std::pair<uint64_t, Word>> words;
  KeyPtr key;
};

/// A route from a QP to its peer. It becomes useless when one of the two ports gets another LID.
struct Route {
  uint8_t port = 1;
  Lid own;            // LID of the QP's port
  Lid peer;           // LID of the peer's port
  uint32_t link = 0;  // link of the QP's port
  uint32_t peer_link = 0;
};

/// A work request in a send queue.
struct Send {
  uint64_t wr_id = 0;
  adapter::SendOpcode opcode = adapter::SendOpcode::kSend;
  bool signaled = true;
  bool executes_here = false;  // bind, invalidate, delay
  // Refused, but some of its packets lie within the key's range (patch_from, patch_bytes).
  bool partly = false;
  uint32_t flags = 0;
  Qp* from = nullptr;
  Qp* to = nullptr;  // null: no QP receives it
  uint64_t to_epoch = 0;
  Lid to_lid;  // datagrams: LID to which it was sent
  Instant posted_at{};
  FlowPlace place;
  Tick begin = 0;
  std::vector<Piece> pieces;
  uint64_t length = 0;
  std::vector<std::byte> data;  // bytes sent; empty for very long messages
  uint64_t remote_addr = 0;
  KeyPtr key;           // key that is used, bound, registered or invalidated
  KeyPtr replaces;      // key that a bind ends
  Srq* srq = nullptr;   // XRC: queue that receives it
  uint32_t lawful = 0;  // bit_of() each status in which it may end
  uint32_t imm = 0;
  Patch* patch = nullptr;
  Word* word = nullptr;
  uint64_t patch_at = 0;
  uint64_t patch_from = 0;  // partly: offset and length within the patch that it may write
  uint64_t patch_bytes = 0;
  // Silence of each route to its target, when it was posted. If its QP finds ways: the time for which one of
  // them was useless, and the time for which all were.
  std::array<Duration, 2> silence{};
  std::array<Duration, 2> unanswered{};  // the same, only while its own port was up
  uint64_t name = 0;                     // name in the patch or word
  // By its target: it has no effect there, in spite of the status at its sender.
  bool refused = false;
  bool saw_switch_die = false;  // a switch on its path died
  bool delivered = false;
  bool may_be_gone = false;  // perhaps delivered: to a queue that was emptied, or in place of another message
  bool done = false;         // completed, or known to be over
  bool succeeded = false;

  void allow(adapter::WcStatus status) noexcept { lawful |= bit_of(status); }
  /// A fault of the request and a missing receive are both possible; either may be found first.
  void allow_only(adapter::WcStatus status) noexcept {
    lawful = bit_of(status) | (lawful & bit_of(adapter::WcStatus::kRnrRetryExceeded));
  }
  void forbid(adapter::WcStatus status) noexcept { lawful &= ~bit_of(status); }
  [[nodiscard]] bool may(adapter::WcStatus status) const noexcept { return (lawful & bit_of(status)) != 0; }
  [[nodiscard]] bool is_send() const noexcept;
  [[nodiscard]] bool is_write() const noexcept;
  [[nodiscard]] bool is_atomic() const noexcept;
  [[nodiscard]] bool has_imm() const noexcept;
  /// True if it takes a receive WQE of its target.
  [[nodiscard]] bool takes_receive() const noexcept;
};
using SendPtr = std::shared_ptr<Send>;

struct Receive {
  uint64_t wr_id = 0;
  std::vector<Piece> pieces;
  uint64_t capacity = 0;
  const Srq* srq = nullptr;  // queue in which it stands; null: a queue of its QP
  bool unusable = false;     // its key is wrong or was deregistered
  bool untouched = true;     // no abandoned message has written to it
};
using ReceivePtr = std::shared_ptr<Receive>;

struct Cq {
  Node* node = nullptr;
  adapter::CompletionQueue* handle = nullptr;
  uint32_t depth = 0;
  adapter::CqNotify armed = adapter::CqNotify::kOff;
  bool must_tell = false;  // an entry came for which it was armed
};

struct Srq {
  adapter::SharedReceiveQueue* handle = nullptr;
  adapter::PdId pd;
  adapter::XrcdId xrcd;  // an XRC domain; peers of its targets name the queue by `number`
  uint32_t number = 0;
  Cq* cq = nullptr;  // its CQ, if it belongs to a domain
  uint32_t wqes = 0;
  uint32_t limit = 0;  // armed limit
  std::map<uint64_t, ReceivePtr> receives;
};

/// State of a QP as known to the program.
enum class Life : uint8_t { kReset, kReady, kDraining, kDrained, kSendError, kError };

struct Qp {
  Node* node = nullptr;
  adapter::QueuePair* handle = nullptr;
  adapter::QpConfig config;
  uint32_t id = 0;
  Qpn qpn;
  Lid lid;
  uint8_t port = 1;
  uint8_t rnr_retry = 7;
  uint32_t qkey = 0;
  adapter::Access rights = adapter::Access::kNone;  // rights that it grants its peer
  uint32_t expects_last_wqe = 0;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  Qp* peer = nullptr;
  uint64_t epoch = 0;
  uint64_t posted = 0;
  Life life = Life::kReset;
  bool failed = false;  // a send completed with an error: only flushed ones may follow
  bool receiving = false;
  bool was_in_error = false;  // at least once
  bool fills_early = false;   // RD: a message was, or may be, refused after it had filled its receive
  bool broken = false;        // one end of the connection is broken: no new requests are posted
  bool must_fail = false;     // its port has expired
  Duration patience{};        // it must not give up earlier than this
  // routes[on] is the present route; the other one is the alternate, if `ways` is 2.
  std::array<Route, 2> routes{};
  uint8_t ways = 1;
  uint8_t on = 0;
  bool loaded = false;       // the other route is loaded
  bool was_loaded = false;   // at least once since it started
  bool asked = false;        // it was asked to migrate
  bool must_move = false;    // its port is down, and it was armed
  bool unprotected = false;  // the failure of one route may end the connection
  bool estranged = false;    // the ends use different routes, and one cannot follow
  bool finds_ways = false;   // it may leave its route for any other between the two nodes
  bool may_expire = false;   // its port has expired, and it may have had no other way
  bool has_refused = false;  // it refused to migrate at refused_at, because the other port was down
  uint64_t cuts_before = 0;  // cuts of its port's link before it loaded the other route
  uint64_t other_cuts_before = 0;
  Duration unanswered_before{};  // silence of the present route when it was taken
  Instant refused_at{};
  Instant started_at{};
  uint64_t shortest_receive = ~uint64_t{0};  // of all receives ever posted, also to its shared queue
  bool unusable_receives = false;            // there were unusable receives
  // Bit_of() each status in which a peer's request may end because of this QP.
  uint32_t seen_by_peers = 0;
  std::deque<SendPtr> sends;                        // posted and not known to be over
  std::deque<ReceivePtr> receives;                  // in its own queue
  std::map<const Qp*, std::deque<SendPtr>> coming;  // messages that take a receive WQE, by sender
  std::vector<SendPtr> incoming;                    // operations on memory that may still happen

  [[nodiscard]] bool acknowledged() const noexcept { return adapter::is_acknowledged(config.type); }
  [[nodiscard]] bool connected() const noexcept { return adapter::is_connected(config.type); }
  [[nodiscard]] bool may_post() const noexcept { return handle != nullptr && life != Life::kReset; }
  [[nodiscard]] bool is_target() const noexcept { return config.type == adapter::QpType::kXrcRecv; }
  [[nodiscard]] bool is_initiator() const noexcept { return config.type == adapter::QpType::kXrcSend; }
  /// True if its messages may take receives of this shared queue.
  [[nodiscard]] bool takes_from(const Srq& shared) const noexcept {
    return srq == &shared || (is_target() && shared.xrcd == config.xrcd);
  }
  /// The shared queues from which it takes receives.
  [[nodiscard]] std::vector<Srq*> shared_queues() const;
};

/// One adapter and the program's objects on it.
struct Node {
  uint32_t number = 0;
  uint32_t place = 0;                          // place in the fabric; another node may have it later
  bool succeeds = false;                       // another node had this place and its LIDs before
  adapter::ChannelAdapter* adapter = nullptr;  // null after its end
  std::vector<Lid> lids;                       // LIDs by port - 1
  std::vector<uint32_t> links;
  std::vector<adapter::PdId> pds;
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<adapter::XrcdId> xrcds;
  std::vector<KeyPtr> windows;                 // keys of bound windows
  std::vector<std::unique_ptr<Window>> typed;  // windows of types 1 and 2
  std::vector<KeyPtr> dead;                    // keys that are certainly invalid
  std::vector<std::unique_ptr<Cq>> cqs;
  std::vector<std::unique_ptr<Srq>> srqs;
  std::vector<std::unique_ptr<Qp>> qps;
};

/// The protection domain in which the target looks the key of a request up.
[[nodiscard]] adapter::PdId domain_of(const Send& send) noexcept;

}  // namespace weft::sim::verbs
