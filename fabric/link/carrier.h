// fabric/link/carrier.h -- what carries the flits of one link: shared memory, ZeroMQ, process memory
// (SAN-LAYER-01). A carrier moves slots in order and knows nothing of their content. Its slots are the retry
// buffer (decisions P3): a sent slot stays intact until it is retired, so a repeat copies nothing.
//
// Positions count the slots of one direction from 0 since the carrier was made. One virtual call moves a
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

/// A slot that arrived. A peer may still write to it: read what is checked once.
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
  kOverrun,   // more of the peer's waits to be read than a peer that keeps the window sends
};

/// Owner: the link's thread. No call blocks or allocates.
class Carrier : public Sleeper {
 public:
  // ---- sending --------------------
  /// The next free slots, as long as more than `reserve` are free; else an empty run.
  [[nodiscard]] virtual TxRun claim(uint32_t reserve) noexcept = 0;
  /// The first `slots` of the claimed run are filled, the last one with `last_bytes` bytes. Ends the run: the
  /// next claim() begins behind them.
  virtual void commit(uint32_t slots, uint32_t last_bytes) noexcept = 0;
  /// Hands everything committed to the peer.
  virtual void publish(Instant now) noexcept = 0;
  /// As publish(), for what the peer need not be woken for: it looks when it wakes for another reason.
  virtual void publish_quietly(Instant now) noexcept { publish(now); }
  /// True when what is published is never lost and a peer that sleeps finds it later, so that no end has to
  /// ask again.
  [[nodiscard]] virtual bool keeps_all() const noexcept { return false; }
  /// Of one that keeps all: the peer has taken the slots before it. A hostile peer says any number.
  [[nodiscard]] virtual uint64_t taken_before() const noexcept { return 0; }
  /// Flits after which a burst is worth publishing though more may follow.
  [[nodiscard]] virtual uint32_t publish_every() const noexcept = 0;
  /// Slots before this position will not be asked for again.
  virtual void retire(uint64_t before) noexcept = 0;
  /// Sends again everything from this position on.
  virtual void resend(uint64_t from) noexcept = 0;

  // ---- receiving --------------------
  /// The next slots in order, at most out.size(); returns how many. They stay valid until released.
  [[nodiscard]] virtual uint32_t receive(std::span<RxSlot> out) noexcept = 0;
  /// Gives back slots before this position.
  virtual void release(uint64_t before) noexcept = 0;
  /// Makes receive() go on at `from`, which was not yet released. False when this carrier cannot: the peer
  /// must resend.
  [[nodiscard]] virtual bool reread(uint64_t from) noexcept = 0;

  // ---- upkeep --------------------
  /// "mem", "shm", "zmq".
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
  [[nodiscard]] virtual CarrierState poll(Instant now) noexcept = 0;
  /// From now on no other call makes a system call, if this kind of carrier can do without: poll() leaves it
  /// to check_peer() whether the peer is there, and publish() notes in `wakes`, which outlives the carrier,
  /// that it sleeps.
  virtual void serve_apart(WakeList& /*wakes*/) noexcept {}
  /// Looks whether the peer is there and takes its wake-ups. The one call that a second thread may make while
  /// the link's thread makes others.
  [[nodiscard]] virtual CarrierState check_peer() noexcept { return CarrierState::kUp; }
};

}  // namespace weft::fabric
