// fabric/link/carrier.h -- the interface of everything that carries the flits of one link: shared memory,
// ZeroMQ, process memory (SAN-LAYER-01). A carrier moves slots in order and does not look into them. Its
// slots are the retry buffer (decisions P3): a sent slot stays intact until it is retired, so a repeat copies
// nothing.
//
// Positions count the slots of one direction, from 0 when the carrier is made. One virtual call moves a
// burst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/pollable.h"

namespace weft::fabric {

/// Free slots to fill in order: slot i begins at first + i * stride.
struct TxRun {
  std::byte* first = nullptr;
  uint32_t stride = 0;  // bytes
  uint32_t count = 0;   // 0: no slot is free
};

/// A slot that arrived. The peer may still write to it: read a value once, check the copy, use the copy.
struct RxSlot {
  const std::byte* bytes = nullptr;
  uint32_t size = 0;  // readable bytes
  uint64_t position = 0;
};

class WakeList;

enum class CarrierState : uint8_t {
  kUp,
  kPeerGone,  // hang-up or silence
  kFaulty,    // the peer broke the carrier's rules
  kOverrun,   // more data waits to be read than a peer that keeps its window can have sent
};

/// Owner: the link's thread. No call blocks or allocates.
class Carrier : public Sleeper {
 public:
  // ---- sending --------------------
  /// The next free slots, if more than `reserve` are free. Leaves the last `reserve` free. Otherwise an empty
  /// run.
  [[nodiscard]] virtual TxRun claim(uint32_t reserve) noexcept = 0;
  /// The first `slots` of the claimed run are filled, the last of them with `last_bytes` bytes. Ends the run:
  /// the next claim() begins behind them.
  virtual void commit(uint32_t slots, uint32_t last_bytes) noexcept = 0;
  /// Hands everything committed to the peer.
  virtual void publish(Instant now) noexcept = 0;
  /// As publish(), but does not wake the peer. The peer sees the slots when it wakes for another reason.
  virtual void publish_quietly(Instant now) noexcept { publish(now); }
  /// True when published slots are never lost and a sleeping peer finds them later, so that neither end has
  /// to ask again.
  [[nodiscard]] virtual bool keeps_all() const noexcept { return false; }
  /// Only if keeps_all(): the peer has taken the slots before this position. A hostile peer may report any
  /// number.
  [[nodiscard]] virtual uint64_t taken_before() const noexcept { return 0; }
  /// Number of flits after which a burst is published, although more may follow.
  [[nodiscard]] virtual uint32_t publish_every() const noexcept = 0;
  /// Slots before this position will not be resent; the carrier may reuse them.
  virtual void retire(uint64_t before) noexcept = 0;
  /// Sends again everything from this position on.
  virtual void resend(uint64_t from) noexcept = 0;

  // ---- receiving --------------------
  /// The next slots in order, at most out.size(). Returns their number. They stay valid until released.
  [[nodiscard]] virtual uint32_t receive(std::span<RxSlot> out) noexcept = 0;
  /// Gives back slots before this position.
  virtual void release(uint64_t before) noexcept = 0;
  /// Makes receive() continue at `from`, which is not yet released. False when this carrier cannot: the peer
  /// must resend.
  [[nodiscard]] virtual bool reread(uint64_t from) noexcept = 0;

  // ---- upkeep --------------------
  /// "mem", "shm", "zmq".
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
  [[nodiscard]] virtual CarrierState poll(Instant now) noexcept = 0;
  /// From now on only check_peer() makes system calls, if this kind of carrier can do without them elsewhere.
  /// poll() no longer looks whether the peer is there. publish() notes a sleeping peer in `wakes` instead of
  /// waking it. `wakes` must outlive the carrier.
  virtual void serve_apart(WakeList& /*wakes*/) noexcept {}
  /// Looks whether the peer is there and takes its wake-ups. A second thread may make this call, and no other
  /// one, while the link's thread makes other calls.
  [[nodiscard]] virtual CarrierState check_peer() noexcept { return CarrierState::kUp; }
};

}  // namespace weft::fabric
