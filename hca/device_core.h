// hca/device_core.h -- the object behind Device: the lock, the adapter, and the errands noted during a turn.
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
#include "hca/direct_windows.h"
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
  /// Why a call of the data path may not take the lock: kForked, kReentered; kOk when it may.
  [[nodiscard]] Answer refusal() const noexcept {
    if (forked()) return Answer::kForked;
    return lock.is_mine() ? Answer::kReentered : Answer::kOk;
  }
  /// Releases the lock and runs the errands noted under it.
  void leave() noexcept {
    if (errands.empty()) [[likely]] {
      lock.unlock();
    } else {
      run_errands();
    }
  }

  // ---- under the lock --------------------
  /// Runs one bounded turn of the adapter and delivers its events. @return units of work done
  int turn(Instant now) noexcept;
  /// A turn by a caller, which then counts as driving the adapter.
  void caller_turn(Instant now) noexcept;
  void caller_polls(Instant now) noexcept;
  /// A caller is about to wait: arms the links so that a peer's next flit wakes the helper. If cells keep
  /// arriving, kicks the helper to drive at once.
  void caller_waits(Instant now) noexcept;
  void deliver_events() noexcept;
  /// Starts the helper, once a QP has left RESET or a call waits.
  void need_helper() noexcept;
  void acknowledge(Object& object, uint32_t events) noexcept;
  /// Prepares all ports and windows for sleeping. True when nothing waits at any of them; then a peer's next
  /// flit or record wakes the helper.
  [[nodiscard]] bool prepare_ports() noexcept;
  void finish_ports() noexcept;
  void add(ContextBase& context) noexcept;
  void forget(ContextBase& context) noexcept;
  /// The QP with this number; null when there is none.
  [[nodiscard]] Object* find_qp(Qpn number) const noexcept;
  void raise(const AsyncEvent& event) noexcept;

  /// What objects are made from and what must be fetched without the lock: memory for tables, and random
  /// numbers.
  struct Stock {
    adapter::Supplies supplies;
    std::optional<RandomStock::Draw> drawn;
  };
  /// Bits of the kinds that run short (adapter::SupplyKind, kStockRandom); 0: a call may make an object.
  [[nodiscard]] uint32_t lacks() const noexcept;
  void take(Stock& stock) noexcept;

  // ---- without the lock --------------------
  /// Fetches at least as much of each kind as one call takes.
  [[nodiscard]] Stock fetch(uint32_t kinds);
  /// Runs a turn and caller_waits() before a call waits for an event. False in a child after fork().
  [[nodiscard]] bool prepare_to_wait() noexcept;
  /// Waits until the program has acknowledged all events of `object` that it took.
  void wait_for_acknowledgements(const Object& object) noexcept;
  [[nodiscard]] Helped help(bool links_ready, bool stays) noexcept;
  /// Joins, watches peers and frees dead links and windows, if that is due or `now_due` is set. @return when
  /// it is due again
  Instant tend_links(Instant now, bool now_due) noexcept;
  [[nodiscard]] MissingPort missing_port();
  void wait_fds(std::vector<pollfd>& out);
  /// Shows new failures on the page and passes them to the sink. One thread does so at a time; it also takes
  /// the failures that happen meanwhile.
  [[gnu::cold]] void tell_failures() noexcept;
  /// Call before the process ends: sends last acknowledgements, passes on failures, and waits for cells that
  /// would be lost. Waits twice for at most `limit`. False when cells may be lost.
  [[nodiscard]] bool finish(Duration limit) noexcept;
  /// Drives the adapter until no link holds cells that would be lost with the process. False at the time
  /// `until`.
  [[nodiscard]] bool pass_on(Instant until) noexcept;

  EngineLock lock;
  const Clock& clock;
  RandomStock random;  // for the adapter
  RandomSource& link_random;
  ForkGuard fork_guard;
  fabric::WakeList wakes;
  // Declared before the adapter, which uses them.
  std::vector<std::unique_ptr<KeptLink>> links;
  Errands errands;
  std::unique_ptr<DirectWindows> windows;  // null: all queue pairs use the ports
  adapter::ChannelAdapter adapter;
  Drive drive;
  Helper* helper = nullptr;
  QpTable table;
  FailureSink* failure_sink = nullptr;
  FailureTable shown_failures;

  std::vector<fabric::CellPort*> ports;
  // The ports without LinkUpkeep, which are polled on the path.
  std::vector<fabric::CellPort*> path_ports;
  adapter::AddressSpaces* spaces = nullptr;  // the adapter's; null without a memory manager
  SharedXrcds xrcds;                         // domains that were opened by a file
  ContextBase* contexts = nullptr;           // newest first
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
  [[nodiscard]] Instant tend_windows(Instant now) noexcept;

  bool helper_wanted_ = false;
  bool ports_prepared_ = false;
  uint32_t destroyers_ = 0;                    // threads in wait_for_acknowledgements()
  std::atomic<uint32_t> acknowledgements_{0};  // steps with each acknowledgement while a destroyer waits

  std::atomic<bool> tend_now_{false};  // a faulty link must be taken out, or windows be made or ended

  bool gone_said_ = false;  // used by the helper only

  bool telling_ = false;  // a thread passes failures on

  std::mutex upkeep_;  // lock for tending the links; calls of the data path never take it
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

/// Like Hold, for a call that makes an object: the tables have what an object takes.
class HoldToMake {
 public:
  explicit HoldToMake(DeviceCore& core);
  ~HoldToMake() { core_.leave(); }
  HoldToMake(const HoldToMake&) = delete;
  HoldToMake& operator=(const HoldToMake&) = delete;

 private:
  DeviceCore& core_;
  std::optional<DeviceCore::Stock> left_;  // fetched but not needed: freed after the lock is released
};

}  // namespace weft::hca
