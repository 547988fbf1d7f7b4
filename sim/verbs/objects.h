// sim/verbs/objects.h -- what a program of verbs holds, as the program and the reference model know it: plain
// records, beside the adapter's own objects and never fed from them.
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

/// A key that peers use, and what it opens.
struct Key {
  enum class State : uint8_t { kBinding, kGood, kEnding, kDead };
  Rkey rkey{};
  Region* region = nullptr;
  uint64_t begin = 0;
  uint64_t length = 0;
  adapter::Access rights = adapter::Access::kNone;
  State state = State::kGood;
  bool window = false;       // else the region's own
  Window* typed = nullptr;   // of a window of type 1 or 2
  const Qp* only = nullptr;  // of type 2: who may be asked for it

  /// A request that names it may end well: for certain, or as far as anybody can know.
  [[nodiscard]] bool opens() const noexcept { return state == State::kGood || state == State::kEnding; }
};
using KeyPtr = std::shared_ptr<Key>;

/// A window of libibverbs, which has another key with each bind.
struct Window {
  adapter::PdId pd;
  adapter::WindowKind kind = adapter::WindowKind::kType1;
  Rkey name;     // some key of its own
  KeyPtr bound;  // the newest bind
  bool gone = false;

  [[nodiscard]] bool under_way() const noexcept {
    return bound != nullptr && bound->state == Key::State::kBinding;
  }
};

/// Part of a region that one work request has for itself.
struct Piece {
  Region* region = nullptr;
  uint64_t offset = 0;
  uint32_t length = 0;
};

/// Zeroed memory that costs nothing until it is touched.
struct FreeBytes {
  void operator()(std::byte* bytes) const noexcept;
};
using LazyBytes = std::unique_ptr<std::byte, FreeBytes>;

/// A region: the first half belongs to work requests one by one, in the rest peers meet.
struct Region {
  Region(Node& owner, adapter::PdId domain, uint64_t size, adapter::Access access);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] std::byte* at(uint64_t offset) noexcept { return actual.get() + offset; }
  /// What these bytes are is what they should be.
  void accept(uint64_t offset, uint64_t length) noexcept;
  [[nodiscard]] bool as_expected(uint64_t offset, uint64_t length) const noexcept;
  /// Checks all bytes that are not lent and in no patch; the first byte that is wrong, or an empty text.
  [[nodiscard]] std::string sweep() const;

  Node& node;
  adapter::PdId pd;
  uint64_t bytes;
  adapter::Access rights;
  uint64_t own = 0;  // bytes that belong to work requests
  LazyBytes actual;
  LazyBytes expected;
  adapter::MemoryRegion mr;
  bool registered = false;
  bool reserved = false;   // filled by work requests, not by calls (fast registration)
  bool pages = false;      // reserved: made of pages, else one range
  bool doubtful = false;   // reserved: whether the last work request on it was executed is unknown
  bool under_way = false;  // reserved: a registration is
  uint32_t registrations = 0;
  std::map<uint64_t, std::pair<uint64_t, bool>> lent;  // by offset: length, and whether it may change
  std::vector<std::pair<uint64_t, Patch>> patches;     // by offset
  std::vector<std::pair<uint64_t, Word>> words;
  KeyPtr key;
};

/// A way from a QP to its peer. It is of no use any more when one of the two ports has another LID.
struct Route {
  uint8_t port = 1;
  Lid own;            // the LID of the port
  Lid peer;           // and of its peer's
  uint32_t link = 0;  // of the port
  uint32_t peer_link = 0;
};

/// A work request in a send queue.
struct Send {
  uint64_t wr_id = 0;
  adapter::SendOpcode opcode = adapter::SendOpcode::kSend;
  bool signaled = true;
  bool executes_here = false;  // bind, invalidate, delay
  bool partly = false;  // refused, but some of its packets lie within what its key opens, patch_from below
  uint32_t flags = 0;
  Qp* from = nullptr;
  Qp* to = nullptr;  // null: no QP takes it
  uint64_t to_epoch = 0;
  Lid to_lid;  // datagrams: where it was sent
  Instant posted_at{};
  FlowPlace place;
  Tick begin = 0;
  std::vector<Piece> pieces;
  uint64_t length = 0;
  std::vector<std::byte> data;  // what leaves; empty for messages that are very long
  uint64_t remote_addr = 0;
  KeyPtr key;           // used, bound, registered or invalidated
  KeyPtr replaces;      // what a bind ends
  Srq* srq = nullptr;   // XRC: where it is received
  uint32_t lawful = 0;  // bit_of() each status it may end in
  uint32_t imm = 0;
  Patch* patch = nullptr;
  Word* word = nullptr;
  uint64_t patch_at = 0;
  uint64_t patch_from = 0;  // partly: these bytes of it
  uint64_t patch_bytes = 0;
  std::array<Duration, 2> silence{};     // of each way to its target, when it was posted
  std::array<Duration, 2> unanswered{};  // the same, but only while its own port was up
  uint64_t name = 0;                     // in patch or word
  bool refused = false;                  // by its target: it has no effect there, whatever its sender is told
  bool saw_switch_die = false;           // on its way
  bool delivered = false;
  bool may_be_gone = false;  // delivered already, perhaps: into a queue that was emptied, or as another
  bool done = false;         // completed, or known to be
  bool succeeded = false;

  void allow(adapter::WcStatus status) noexcept { lawful |= bit_of(status); }
  /// A fault of the request and a missing receive: either may be found first.
  void allow_only(adapter::WcStatus status) noexcept {
    lawful = bit_of(status) | (lawful & bit_of(adapter::WcStatus::kRnrRetryExceeded));
  }
  void forbid(adapter::WcStatus status) noexcept { lawful &= ~bit_of(status); }
  [[nodiscard]] bool may(adapter::WcStatus status) const noexcept { return (lawful & bit_of(status)) != 0; }
  [[nodiscard]] bool is_send() const noexcept;
  [[nodiscard]] bool is_write() const noexcept;
  [[nodiscard]] bool is_atomic() const noexcept;
  [[nodiscard]] bool has_imm() const noexcept;
  /// Takes a receive WQE of whom it goes to.
  [[nodiscard]] bool takes_receive() const noexcept;
};
using SendPtr = std::shared_ptr<Send>;

struct Receive {
  uint64_t wr_id = 0;
  std::vector<Piece> pieces;
  uint64_t capacity = 0;
  const Srq* srq = nullptr;  // where it stands; null: in a queue of its QP's own
  bool unusable = false;     // its key is wrong, or was deregistered meanwhile
  bool untouched = true;     // no message that was given up has been in it
};
using ReceivePtr = std::shared_ptr<Receive>;

struct Cq {
  Node* node = nullptr;
  adapter::CompletionQueue* handle = nullptr;
  uint32_t depth = 0;
  adapter::CqNotify armed = adapter::CqNotify::kOff;
  bool must_tell = false;  // an entry came that it was armed for
};

struct Srq {
  adapter::SharedReceiveQueue* handle = nullptr;
  adapter::PdId pd;
  adapter::XrcdId xrcd;  // of an XRC domain, whose targets' peers call it by number
  uint32_t number = 0;
  Cq* cq = nullptr;  // its own: with a domain
  uint32_t wqes = 0;
  uint32_t limit = 0;  // armed
  std::map<uint64_t, ReceivePtr> receives;
};

/// What the program knows of the state of a QP.
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
  adapter::Access rights = adapter::Access::kNone;  // that it grants its peer
  uint32_t expects_last_wqe = 0;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  Qp* peer = nullptr;
  uint64_t epoch = 0;
  uint64_t posted = 0;
  Life life = Life::kReset;
  bool failed = false;  // a send completion said so: only flushed ones follow
  bool receiving = false;
  bool was_in_error = false;  // once
  bool fills_early = false;   // a message was, or may be, refused when it had filled its receive (RD)
  bool broken = false;        // one of a connection's ends is: nothing new is asked of it
  bool must_fail = false;     // its port has expired
  Duration patience{};        // before that it does not give up
  // The way it takes, routes[on], and the other one, if there is any.
  std::array<Route, 2> routes{};
  uint8_t ways = 1;
  uint8_t on = 0;
  bool loaded = false;       // with the other way
  bool was_loaded = false;   // since it began
  bool asked = false;        // to take the other way
  bool must_move = false;    // its port is down, and it was ready
  bool unprotected = false;  // a failure of one way may be the end
  bool estranged = false;    // the ends stand on different ways, and one cannot follow
  bool has_refused = false;  // the other way, at refused_at: its port was down
  uint64_t cuts_before = 0;  // of its port's link, when it loaded the other way
  uint64_t other_cuts_before = 0;
  Duration unanswered_before{};  // by the way it takes, when it took it
  Instant refused_at{};
  uint64_t shortest_receive = ~uint64_t{0};  // ever posted, of its shared queue too
  bool unusable_receives = false;            // there were some
  uint32_t seen_by_peers = 0;       // bit_of() each status that a request of a peer may lawfully end in here
  std::deque<SendPtr> sends;        // posted and not known to be done
  std::deque<ReceivePtr> receives;  // of its own queue
  std::map<const Qp*, std::deque<SendPtr>> coming;  // messages that take a receive WQE, by sender
  std::vector<SendPtr> incoming;                    // operations on memory that may still happen

  [[nodiscard]] bool acknowledged() const noexcept { return adapter::is_acknowledged(config.type); }
  [[nodiscard]] bool connected() const noexcept { return adapter::is_connected(config.type); }
  [[nodiscard]] bool may_post() const noexcept { return handle != nullptr && life != Life::kReset; }
  [[nodiscard]] bool is_target() const noexcept { return config.type == adapter::QpType::kXrcRecv; }
  [[nodiscard]] bool is_initiator() const noexcept { return config.type == adapter::QpType::kXrcSend; }
  /// Its messages take receives of this shared queue, or may.
  [[nodiscard]] bool takes_from(const Srq& shared) const noexcept {
    return srq == &shared || (is_target() && shared.xrcd == config.xrcd);
  }
  /// The shared queues that it takes from.
  [[nodiscard]] std::vector<Srq*> shared_queues() const;
};

/// One adapter and all that the program has there.
struct Node {
  uint32_t number = 0;
  uint32_t place = 0;                          // in the fabric; another node's when it has ended
  bool succeeds = false;                       // another node had its place, and its LIDs
  adapter::ChannelAdapter* adapter = nullptr;  // null when it has ended
  std::vector<Lid> lids;                       // by port - 1
  std::vector<uint32_t> links;
  std::vector<adapter::PdId> pds;
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<adapter::XrcdId> xrcds;
  std::vector<KeyPtr> windows;                 // keys of windows, as they were bound
  std::vector<std::unique_ptr<Window>> typed;  // windows of types 1 and 2
  std::vector<KeyPtr> dead;                    // keys that open nothing any more, for certain
  std::vector<std::unique_ptr<Cq>> cqs;
  std::vector<std::unique_ptr<Srq>> srqs;
  std::vector<std::unique_ptr<Qp>> qps;
};

/// The protection domain in which a target looks up the key of a request.
[[nodiscard]] adapter::PdId domain_of(const Send& send) noexcept;

}  // namespace weft::sim::verbs
