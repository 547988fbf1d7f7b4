// sim/saboteur.h -- lets a test plant a bug in a simulated world to show that an invariant finds it. A
// saboteur acts between parts of the product, never inside: it changes what one part passes to the next, or
// what an invariant reads. Without a saboteur a world is unchanged.
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

/// What happens to a frame or message between the fabric and its receiver.
enum class FrameFate : uint8_t { kArrives, kLost, kTwice, kAfterNext, kShortened, kDamaged };

/// Cells of a switch since it was started.
struct SwitchCells {
  uint64_t in = 0;
  uint64_t out_or_dropped = 0;
  uint64_t held = 0;
};

/// Owner: the test. One per world, because it may have state.
class Saboteur {
 public:
  virtual ~Saboteur() = default;

  // ---- faults of the plan
  /// False: the event is skipped.
  virtual bool lets_happen(WorldFault /*kind*/) noexcept { return true; }
  /// The rates that are about to apply.
  virtual void change_rates(WorldFault /*layer*/, fabric::FaultRates& /*rates*/) noexcept {}

  // ---- requests to the adapters
  /// Seed of the secret numbers of an adapter that is about to begin at this place.
  virtual void on_birth(uint32_t /*place*/, uint64_t& /*secret*/) noexcept {}
  /// Work requests that are about to be posted.
  virtual void on_requests(std::vector<adapter::SendRequest>& /*list*/) noexcept {}
  /// Attributes that a QP is about to get; `mask` names them.
  virtual void on_attributes(adapter::QpAttr& /*attr*/, uint32_t /*mask*/) noexcept {}
  /// The LID with which a port is about to come back, and its previous one.
  virtual void on_rename(Lid /*before*/, Lid /*lid*/) noexcept {}
  /// The number of entries that a completion queue is about to get.
  virtual void on_resize(uint32_t& /*entries*/) noexcept {}

  // ---- data
  /// A flit that the other end of its link is about to see, from its header on.
  virtual void on_flit(uint32_t /*link*/, uint32_t /*from_end*/, std::span<std::byte> /*flit*/) noexcept {}
  /// A cell that endnode `node` is about to get. False: the cell is lost.
  virtual bool on_cell(uint32_t /*node*/, Instant /*now*/, std::span<std::byte> /*cell*/) noexcept {
    return true;
  }
  /// A frame or message that has left the fabric.
  virtual FrameFate on_frame(uint32_t /*flow*/, Instant /*now*/) noexcept { return FrameFate::kArrives; }
  /// Completions from the adapter: the first `count` of `wcs`. @return their number afterwards
  virtual uint32_t on_completions(bool /*of_sends*/, std::span<adapter::WorkCompletion> /*wcs*/,
                                  uint32_t count) noexcept {
    return count;
  }
  /// An event from the adapter. False: the event is lost.
  virtual bool on_event(adapter::AsyncEvent& /*event*/) noexcept { return true; }
  /// Whether an armed completion queue has reported its entry.
  virtual void on_notification(bool& /*told*/) noexcept {}

  // ---- values that invariants read
  virtual void on_switch_cells(SwitchCells& /*cells*/) noexcept {}
  virtual void on_session_sums(session::SessionRole /*role*/, Instant /*now*/,
                               session::SessionConservation& /*sums*/) noexcept {}
};

}  // namespace weft::sim
