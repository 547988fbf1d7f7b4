// sim/saboteur.h -- where a test plants a bug in a simulated world to see that an invariant finds it. A
// saboteur sits between the parts of the product, never inside: it changes what one part hands to the next,
// or what an invariant reads. Without one every world is as it was.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adapter/events.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "fabric/link/fault_config.h"
#include "session/netdev_session.h"
#include "sim/fault_effects.h"

namespace weft::sim {

/// The fate of a frame or message between the fabric and its receiver.
enum class FrameFate : uint8_t { kArrives, kLost, kTwice, kAfterNext, kShortened, kDamaged };

/// Cells of a switch since it came to life.
struct SwitchCells {
  uint64_t in = 0;
  uint64_t out_or_dropped = 0;
  uint64_t held = 0;
};

/// Owner: the test. One for each world: it may remember.
class Saboteur {
 public:
  virtual ~Saboteur() = default;

  // ---- faults of the plan
  /// False: the event is consumed and nothing happens.
  virtual bool lets_happen(WorldFault /*kind*/) noexcept { return true; }
  /// The rates that are about to apply.
  virtual void change_rates(WorldFault /*layer*/, fabric::FaultRates& /*rates*/) noexcept {}

  // ---- what is asked for
  /// The seed of the secret numbers of an adapter that begins in this place of the fabric.
  virtual void on_birth(uint32_t /*place*/, uint64_t& /*secret*/) noexcept {}
  /// Work requests on their way to an adapter.
  virtual void on_requests(std::vector<adapter::SendRequest>& /*list*/) noexcept {}
  /// Attributes that a QP is about to get; `mask` says which.
  virtual void on_attributes(adapter::QpAttr& /*attr*/, uint32_t /*mask*/) noexcept {}
  /// The LID that a port is about to come back with, instead of the one that it had.
  virtual void on_rename(Lid /*before*/, Lid /*lid*/) noexcept {}
  /// The number of entries that a completion queue is about to have.
  virtual void on_resize(uint32_t& /*entries*/) noexcept {}

  // ---- what moves
  /// A flit that the other end of its link is about to see, header first.
  virtual void on_flit(uint32_t /*link*/, uint32_t /*from_end*/, std::span<std::byte> /*flit*/) noexcept {}
  /// A cell that endnode `node` is about to be given. False: it never comes.
  virtual bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> /*cell*/) noexcept {
    return true;
  }
  /// A frame or message that has come out of the fabric.
  virtual FrameFate on_frame(uint32_t /*flow*/, Instant /*now*/) noexcept { return FrameFate::kArrives; }
  /// Completions as the adapter gave them: the first `count` of `wcs`. Returns how many there are now.
  virtual uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> /*wcs*/,
                                  uint32_t count) noexcept {
    return count;
  }
  /// An event as the adapter gave it. False: it is swallowed.
  virtual bool on_event(adapter::AsyncEvent& /*event*/) noexcept { return true; }
  /// Whether an armed completion queue has told of its entry.
  virtual void on_notification(bool& /*told*/) noexcept {}

  // ---- what invariants read
  virtual void on_switch_cells(SwitchCells& /*cells*/) noexcept {}
  virtual void on_session_sums(session::SessionRole /*role*/, Instant /*now*/,
                               session::SessionConservation& /*sums*/) noexcept {}
};

}  // namespace weft::sim
