// hca/device_core.h -- the object behind Device: the lock, the adapter, and the parts of the device that work
// with both. It runs turns and says which thread does what after them. Internal to hca/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/key_directory.h"
#include "adapter/memory/fault_handler.h"
#include "base/clock.h"
#include "fabric/link/wake_list.h"
#include "hca/deferred_work.h"
#include "hca/device_config.h"
#include "hca/device_lock.h"
#include "hca/device_ports.h"
#include "hca/direct_windows.h"
#include "hca/event_router.h"
#include "hca/failure_reports.h"
#include "hca/fork_guard.h"
#include "hca/object.h"
#include "hca/progress_policy.h"
#include "hca/qp_page.h"
#include "hca/random_reserve.h"
#include "hca/reserves.h"
#include "hca/xrc_file.h"

namespace weft::hca {

/// What a poll that found no entry does next.
enum class EmptyPoll : uint8_t {
  kEnds,
  kLooks,  // at the memory windows
  kTurns,  // the same, and runs a whole turn
};

class DeviceCore final : private adapter::GoneMemory {
 public:
  DeviceCore(const DeviceConfig& config, const Clock& clock, RandomSource& random, RandomSource& link_random);

  [[nodiscard]] bool forked() const noexcept { return fork_guard_.forked(); }
  /// Gives the newest port to the adapter.
  void attach(fabric::CellPort& port);
  /// Why a call of the data path may not take the lock: kForked, kReentered; kOk when it may.
  [[nodiscard]] Answer refusal() const noexcept {
    if (forked()) return Answer::kForked;
    return lock.is_mine() ? Answer::kReentered : Answer::kOk;
  }
  /// Releases the lock and does the work deferred under it.
  void leave() noexcept {
    if (deferred.empty()) [[likely]] {
      lock.unlock();
    } else {
      do_deferred();
    }
  }

  // ---- under the lock --------------------
  /// Moved keys are found by `directory`.
  [[nodiscard]] adapter::NicKeys& use_directory(adapter::KeyDirectory& directory);
  /// Runs one bounded turn of the adapter and delivers its events. @return units of work done
  int turn(Instant now) noexcept;
  /// A turn by a caller, which then counts as driving the adapter.
  void caller_turn(Instant now) noexcept;
  void caller_polls(Instant now) noexcept;
  /// What a poll that found nothing does, if the device serves windows.
  [[nodiscard]] EmptyPoll empty_poll() noexcept;
  /// A poll that looked at windows and found nothing; the caller counts as driving the adapter.
  void caller_polls_empty(Instant now) noexcept;
  /// False: all queue pairs use the ports, and the calls for windows below need not be made.
  [[nodiscard]] bool serves_windows() const noexcept { return windows_ != nullptr; }
  /// A caller has posted send requests.
  void caller_posts(adapter::QueuePair& pair, Instant now) noexcept;
  /// The same for memory windows alone, which costs little if they have nothing. True when there was work.
  [[nodiscard]] bool caller_looks(Instant now) noexcept;
  /// A caller is about to wait: arms the links so that a peer's next flit wakes the helper. If cells keep
  /// arriving, kicks the helper to drive at once.
  void caller_waits(Instant now) noexcept;
  /// Starts the helper, once a QP has left RESET or a call waits.
  void need_helper() noexcept;
  /// Prepares all ports and windows for sleeping. True when nothing waits at any of them; then a peer's next
  /// flit or record wakes the helper.
  [[nodiscard]] bool prepare_ports() noexcept;
  /// Shows the faults of the memory windows on a page. False when it is full. The page outlives this.
  [[nodiscard]] bool publish_windows(StatsPage& page) {
    return windows_ == nullptr || windows_->publish(page, "fault");
  }
  /// The QP with this number; null when there is none.
  [[nodiscard]] Object* find_qp(Qpn number) const noexcept;

  // ---- without the lock --------------------
  /// Runs a turn and caller_waits() before a call waits for an event. False in a child after fork().
  [[nodiscard]] bool prepare_to_wait() noexcept;
  /// Waits until the program has acknowledged all events of `object` that it took.
  void wait_for_acknowledgements(const Object& object) noexcept;
  /// Null: no thread drives the adapter while no caller does.
  void set_helper(Helper* helper) noexcept { helper_ = helper; }
  [[nodiscard]] Helped help(bool links_ready, bool stays) noexcept;
  /// Joins, watches peers, frees dead links, makes and ends windows, if that is due or `now_due` is set.
  /// @return when it is due again
  Instant tend(Instant now, bool now_due) noexcept;
  [[nodiscard]] MissingPort missing_port();
  void wait_fds(std::vector<pollfd>& out);
  /// Call before the process ends: sends last acknowledgements, passes on failures, hides from processes that
  /// look for a memory window, and waits for cells that would be lost. Waits three times for at most `limit`.
  /// False when cells may be lost.
  [[nodiscard]] bool finish(Duration limit) noexcept;
  /// Drives the adapter until no link holds cells that would be lost with the process. False at the time
  /// `until`.
  [[nodiscard]] bool pass_on(Instant until) noexcept;

  DeviceLock lock;
  const Clock& clock;

 private:
  // These three are declared before the adapter, which uses them.
  RandomReserve random_;
  fabric::WakeList wakes_;

 public:
  DevicePorts ports;
  DeferredWork deferred;

 private:
  std::unique_ptr<DirectWindows> windows_;  // null: all queue pairs use the ports

 public:
  adapter::ChannelAdapter adapter;
  EventRouter events;
  Reserves reserves;
  FailureReports failures;
  QpPage qps;
  adapter::AddressSpaces* spaces = nullptr;  // the adapter's; null without a memory manager
  SharedXrcds xrcds;                         // domains that were opened by a file
  CounterSet<DeviceCounter> counters;

 private:
  void deliver() noexcept;
  void caller_called(Instant now) noexcept;
  void missed() noexcept override;
  void say_once_what_is_gone() noexcept;
  void finish_ports() noexcept;
  void do_deferred() noexcept;
  [[nodiscard]] bool do_batch() noexcept;
  void helper_failed() noexcept;
  void leave_windows(Instant until) noexcept;
  [[nodiscard]] Instant tend_windows(Instant now) noexcept;

  const bool several_nics_;
  ForkGuard fork_guard_;
  ProgressPolicy progress_;
  adapter::KeyDirectory* keys_ = nullptr;  // null with one NIC
  Helper* helper_ = nullptr;
  bool helper_wanted_ = false;
  bool ports_prepared_ = false;
  bool ports_marked_ = false;  // peers may send wake-ups, though a port may have had arrivals
  bool hears_paths_ = false;   // the helper waits, or is about to, for the descriptors of ports as well
  bool gone_said_ = false;     // used by the helper only
  uint32_t posts_ = 0;         // to windows
  uint32_t empty_polls_ = 0;   // beside windows
  std::atomic<bool> tend_now_{false};  // a faulty link must be taken out, or windows be made or ended

  std::mutex upkeep_;  // lock for tend(); calls of the data path never take it
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

/// Like Hold, for a call that needs the time seldom or never.
class HoldUntimed {
 public:
  explicit HoldUntimed(DeviceCore& core) noexcept : core_(core) { core_.lock.lock(); }
  ~HoldUntimed() { core_.leave(); }
  HoldUntimed(const HoldUntimed&) = delete;
  HoldUntimed& operator=(const HoldUntimed&) = delete;
  /// The time of its first call, which reads the clock. Every 250 us (kGuardPeriod) that call releases the
  /// lock in between, because the thread asks the kernel how its faults are handled.
  [[nodiscard]] Instant now() noexcept {
    if (now_ == kNever) read_clock();
    return now_;
  }
  /// kNever when the clock was not read.
  [[nodiscard]] Instant time() const noexcept { return now_; }

 private:
  void read_clock() noexcept {
    now_ = core_.clock.now();
    if (!adapter::guard_is_old(now_)) [[likely]]
      return;
    core_.leave();
    adapter::refresh_guard(now_);
    core_.lock.lock();
  }

  DeviceCore& core_;
  Instant now_ = kNever;
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
  std::optional<Reserves::Fetched> left_;  // fetched but not needed: freed after the lock is released
};

}  // namespace weft::hca
