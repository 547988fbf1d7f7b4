// sim/verbs/objects.h -- what a program of verbs holds, as the program and the reference model know it: plain
// records, beside the adapter's own objects and never fed from them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "sim/verbs/patch.h"

namespace weft::sim::verbs {

struct Node;
struct Qp;
struct Region;

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
  bool window = false;  // else the region's own
};
using KeyPtr = std::shared_ptr<Key>;

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
  Region(Node& owner, adapter::PdId domain, uint64_t size, adapter::Access access, bool shared);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] std::byte* at(uint64_t offset) noexcept { return actual.get() + offset; }
  /// What these bytes are is what they should be.
  void accept(uint64_t offset, uint64_t length) noexcept;
  [[nodiscard]] bool as_expected(uint64_t offset, uint64_t length) const noexcept;
  /// Everything that is lent to nobody and in no patch; the first byte that is wrong, or an empty text.
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
  uint32_t registrations = 0;
  std::map<uint64_t, std::pair<uint64_t, bool>> lent;  // by offset: length, and whether it may change
  std::vector<std::pair<uint64_t, Patch>> patches;     // by offset
  std::vector<std::pair<uint64_t, Word>> words;
  KeyPtr key;
};

/// A work request in a send queue.
struct Send {
  uint64_t wr_id = 0;
  adapter::SendOpcode opcode = adapter::SendOpcode::kSend;
  uint32_t flags = 0;
  bool signaled = true;
  Qp* from = nullptr;
  Qp* to = nullptr;  // null: to nobody that listens
  uint64_t to_epoch = 0;
  FlowPlace place;
  Tick begin = 0;
  std::vector<Piece> pieces;
  uint64_t length = 0;
  std::vector<std::byte> data;  // what leaves; empty for messages that are very long
  uint32_t imm = 0;
  uint64_t remote_addr = 0;
  KeyPtr key;                  // used, bound or invalidated
  uint32_t lawful = 0;         // bit_of() each status it may end in
  bool executes_here = false;  // bind, invalidate, delay
  Patch* patch = nullptr;
  Word* word = nullptr;
  uint64_t patch_at = 0;
  bool partly = false;      // refused, but some of its packets lie within what its key opens:
  uint64_t patch_from = 0;  // these bytes of it
  uint64_t patch_bytes = 0;
  uint64_t name = 0;     // in patch or word
  bool refused = false;  // by its target: it has no effect there, whatever its sender is told
  bool delivered = false;
  bool may_be_gone = false;  // delivered into a queue that was emptied, perhaps
  bool done = false;         // completed, or known to be
  bool succeeded = false;

  void allow(adapter::WcStatus status) noexcept { lawful |= bit_of(status); }
  /// Of what is wrong with it and that nobody is ready for it, either may be found first.
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
  bool unusable = false;  // its key is wrong, or was deregistered meanwhile
  bool untouched = true;  // no message that was given up has been in it
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
  uint32_t wqes = 0;
  uint32_t limit = 0;  // armed
  std::map<uint64_t, ReceivePtr> receives;
};

/// What the program knows of the state of a QP.
enum class Life : uint8_t { kReset, kReady, kDraining, kDrained, kSendError, kError };

struct Qp {
  uint32_t id = 0;
  Node* node = nullptr;
  adapter::QueuePair* handle = nullptr;
  adapter::QpConfig config;
  Qpn qpn;
  uint8_t port = 1;
  Lid lid;
  uint32_t qkey = 0;
  adapter::Access rights = adapter::Access::kNone;  // that it grants its peer
  uint8_t rnr_retry = 7;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  Qp* peer = nullptr;
  Life life = Life::kReset;
  uint64_t epoch = 0;
  uint64_t posted = 0;
  bool failed = false;  // a send completion said so: only flushed ones follow
  bool receiving = false;
  bool broken = false;  // one of a connection's ends is: nothing new is asked of it
  uint32_t expects_last_wqe = 0;
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
};

/// One adapter and all that the program has there.
struct Node {
  uint32_t number = 0;
  adapter::ChannelAdapter* adapter = nullptr;
  std::vector<Lid> lids;  // by port - 1
  std::vector<adapter::PdId> pds;
  std::vector<std::unique_ptr<Region>> regions;
  std::vector<KeyPtr> windows;
  std::vector<std::unique_ptr<Cq>> cqs;
  std::vector<std::unique_ptr<Srq>> srqs;
  std::vector<std::unique_ptr<Qp>> qps;
};

}  // namespace weft::sim::verbs
