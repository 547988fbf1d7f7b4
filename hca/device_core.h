// hca/device_core.h -- the device behind device.h: the lock, the adapter and what is noted during a turn.
// Internal to hca/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/memory/fault_handler.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/supplies.h"
#include "base/clock.h"
#include "fabric/link/wake_list.h"
#include "hca/device_config.h"
#include "hca/drive.h"
#include "hca/engine_lock.h"
#include "hca/event_fd.h"
#include "hca/events.h"
#include "hca/failure_table.h"
#include "hca/fork_guard.h"
#include "hca/kept_link.h"
#include "hca/object.h"
#include "hca/qp_table.h"
#include "hca/random_stock.h"
#include "hca/xrc_file.h"

namespace weft::hca {

class DeviceCore final : private adapter::GoneMemory {
 public:
  DeviceCore(const DeviceConfig& config, const Clock& clock, RandomSource& random, RandomSource& link_random);

  [[nodiscard]] bool forked() const noexcept { return fork_guard.forked(); }
  /// Gives the lock back and does what was noted under it.
  void leave() noexcept {
    if (errands.empty()) [[likely]] {
      lock.unlock();
    } else {
      run_errands();
    }
  }

  // ---- under the lock --------------------
  /// One bounded turn of the adapter; its events go to their objects.
  int turn(Instant now) noexcept;
  /// A turn of a caller, who drives from now on.
  void caller_turn(Instant now) noexcept;
  void caller_polls(Instant now) noexcept;
  /// A caller is about to wait: the links are told to wake the helper, or it drives at once.
  void caller_waits(Instant now) noexcept;
  void deliver_events() noexcept;
  /// A QP has left RESET.
  void need_helper() noexcept;
  void acknowledge(Object& object, uint32_t events) noexcept;
  /// True when nothing waits at any port; then a peer's next flit wakes the helper.
  [[nodiscard]] bool prepare_ports() noexcept;
  void finish_ports() noexcept;
  void add(ContextBase& context) noexcept;
  void forget(ContextBase& context) noexcept;
  /// The QP of a number; null when there is none.
  [[nodiscard]] Object* find_qp(Qpn number) const noexcept;
  void raise(const AsyncEvent& event) noexcept;

  /// What calls take of the tables, to be had without the lock: memory, and random numbers.
  struct Stock {
    adapter::Supplies supplies;
    std::optional<RandomStock::Draw> drawn;
  };
  /// Kinds of what there is little of; 0: a call may make an object.
  [[nodiscard]] uint32_t lacks() const noexcept;
  void take(Stock& stock) noexcept;

  // ---- without the lock --------------------
  /// At least what one call takes.
  [[nodiscard]] Stock fetch(uint32_t kinds);
  /// Before a call waits for an event: a turn, and caller_waits(). False in a child after fork().
  [[nodiscard]] bool prepare_to_wait() noexcept;
  /// Waits until every event of `object` that was taken is acknowledged.
  void wait_for_acknowledgements(const Object& object) noexcept;
  [[nodiscard]] Helped help(bool links_ready, bool stays) noexcept;
  /// Joins, looks for peers and frees dead links, if that is due or `now_due`. @return when it is due again
  Instant tend_links(Instant now, bool now_due) noexcept;
  [[nodiscard]] MissingPort missing_port();
  void wait_fds(std::vector<pollfd>& out);
  /// Shows what has failed and tells the sink of it. One thread does so at a time, and takes what fails
  /// meanwhile, too.
  [[gnu::cold]] void tell_failures() noexcept;
  /// Before the process ends: last words, failures that people have not been told of, cells that would be
  /// lost. Two waits of `limit` at most. False when cells may be lost.
  [[nodiscard]] bool finish(Duration limit) noexcept;
  /// Drives until no link has anything that would be lost with the process. False when it is `until`.
  [[nodiscard]] bool pass_on(Instant until) noexcept;

  EngineLock lock;
  const Clock& clock;
  RandomStock random;  // of the adapter
  RandomSource& link_random;
  ForkGuard fork_guard;
  fabric::WakeList wakes;
  std::vector<std::unique_ptr<KeptLink>> links;  // before the adapter, which uses them
  adapter::ChannelAdapter adapter;
  Errands errands;
  Drive drive;
  Helper* helper = nullptr;
  QpTable table;
  FailureSink* failure_sink = nullptr;
  FailureTable shown_failures;

  std::vector<fabric::CellPort*> ports;
  std::vector<fabric::CellPort*> path_ports;  // of those, the ones without a supervisor
  adapter::AddressSpaces* spaces = nullptr;   // the adapter's; null without a memory manager
  SharedXrcds xrcds;                          // those that are opened by a file
  ContextBase* contexts = nullptr;            // newest first
  CounterSet<DeviceCounter> counters;

 private:
  void missed() noexcept override;
  void say_once_what_is_gone() noexcept;
  void run_errands() noexcept;
  [[nodiscard]] bool run_bag() noexcept;
  void restock() noexcept;
  void deliver_notifications() noexcept;
  void deliver(const adapter::AsyncEvent& event) noexcept;
  void helper_failed() noexcept;

  bool helper_wanted_ = false;
  bool ports_prepared_ = false;
  uint32_t destroyers_ = 0;                    // threads in wait_for_acknowledgements()
  std::atomic<uint32_t> acknowledgements_{0};  // steps with each that a destroyer may wait for

  std::atomic<bool> link_broken_{false};  // one must be taken out

  bool gone_said_ = false;  // the helper's

  bool telling_ = false;  // a thread tells failures

  std::mutex upkeep_;  // of the links; never taken by a call of the data path
  Instant tend_at_ = Instant::min();
};

/// Holds the lock of a device for one call.
class Hold {
 public:
  explicit Hold(DeviceCore& core) noexcept : core_(core), now_(core.clock.now()) {
    adapter::refresh_guard(now_);
    core_.lock.lock();
  }
  ~Hold() { core_.leave(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  [[nodiscard]] Instant now() const noexcept { return now_; }

 private:
  DeviceCore& core_;
  Instant now_;
};

/// The same for a call that makes an object: what that takes of the tables is in stock.
class HoldToMake {
 public:
  explicit HoldToMake(DeviceCore& core);
  ~HoldToMake() { core_.leave(); }
  HoldToMake(const HoldToMake&) = delete;
  HoldToMake& operator=(const HoldToMake&) = delete;

 private:
  DeviceCore& core_;
  std::optional<DeviceCore::Stock> left_;  // fetched, and others have done so too: given back behind the lock
};

}  // namespace weft::hca
