// How it works: a call takes the lock, works on the adapter and runs a turn. Events and notifications of the
// turn go to the lists of their objects under the lock. System calls that they need (wake-ups, writes to
// event descriptors) are only noted as deferred work under the lock and are made after it is released
// (do_deferred()). The helper takes the same lock. It alone tends links and windows, under a lock of its own.
#include "hca/device_core.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/cancel_shield.h"
#include "base/check.h"
#include "base/log.h"
#include "fabric/window/window_door.h"

namespace weft::hca {
namespace {

/// A caller that is about to wait runs up to this many turns while cells keep arriving; then the helper takes
/// over.
constexpr int kLooksBeforeWaiting = 4;
/// A caller that posts to memory windows runs a whole turn in one of these many calls. In the others it
/// serves the window alone, which takes about a third of the time.
constexpr uint32_t kPostsPerTurn = 16;
/// Of the polls that find nothing, one of these many runs a whole turn, and one of these many reads the clock
/// and looks at windows that are due. The others look at the words that peers step.
constexpr uint32_t kPollsPerTurn = 16;
constexpr uint32_t kPollsPerLook = 4;
constexpr size_t kLinksMax = 255;
// A switch on this machine answers within some tens of microseconds.
constexpr Duration kPassOnPause = 50us;

[[nodiscard]] std::unique_ptr<DirectWindows> windows_of(const DeviceConfig& config, RandomSource& random,
                                                        bool& wants_tending) {
  if (config.direct_programs.empty() && config.direct_file.empty()) return nullptr;
  const std::string& programs = config.direct_programs;
  return std::make_unique<DirectWindows>(
      DirectWindowsConfig{.directory = programs.empty() ? programs : fabric::doors_of(programs),
                          .file = config.direct_file,
                          .file_side = config.direct_file_side,
                          .file_locks = config.direct_file_locks},
      random, wants_tending);
}

}  // namespace

DeviceCore::DeviceCore(const DeviceConfig& config, const Clock& given_clock, RandomSource& given_random,
                       RandomSource& given_link_random)
    : clock(given_clock),
      random_(given_random),
      wakes_(kLinksMax),
      ports(wakes_, given_link_random),
      deferred(wakes_),
      windows_(windows_of(config, given_link_random, deferred.tend_windows)),
      adapter({.guid = config.guid,
               .nics = adapter::nics_in_turn(config.nics),
               .limits = config.limits,
               .direct = windows_.get()},
              random_),
      events(adapter, deferred),
      reserves(adapter, random_),
      failures(adapter, lock),
      several_nics_(config.nics > 1) {
  random_.report_to(deferred.refill);
  adapter.report_lack(deferred.refill);
  adapter.report_failures(deferred.tell_failures);
  if (config.strict_memory) return;
  adapter.memory().computer().tolerate_gone_memory(this);
}

void DeviceCore::attach(fabric::CellPort& port) {
  if (several_nics_) {
    adapter.ports().attach(port, static_cast<uint8_t>(ports.count() - 1));
  } else {
    adapter.ports().attach(port);
  }
}

adapter::NicKeys& DeviceCore::use_directory(adapter::KeyDirectory& directory) {
  adapter::NicKeys* const nics = adapter.use_directory(directory);
  WEFT_CHECK(nics != nullptr, "a directory of keys is for several NICs");
  keys_ = &directory;
  return *nics;
}

// ---- memory that has gone --------------------

void DeviceCore::missed() noexcept {
  counters.add(DeviceCounter::kGoneMemory);
}

void DeviceCore::say_once_what_is_gone() noexcept {
  if (gone_said_ || counters.get(DeviceCounter::kGoneMemory) == 0) return;
  gone_said_ = true;
  log(LogLevel::kWarn,
      "a transfer met registered memory that this program has unmapped: bytes for it are dropped, bytes read "
      "there are zero (WEFT_STRICT_MEMORY=1 makes it an error)");
}

// ---- turns --------------------

int DeviceCore::turn(Instant now) noexcept {
  int work = adapter.poll(now);
  if (keys_ != nullptr) [[unlikely]]
    work += adapter::answer_keys(*keys_, adapter, now);
  deliver();
  return work;
}

void DeviceCore::deliver() noexcept {
  if (!adapter.has_reports()) return;
  events.deliver_events();
  events.deliver_notifications();
}

void DeviceCore::caller_turn(Instant now) noexcept {
  turn(now);
  counters.add(DeviceCounter::kCallerTurns);
  caller_called(now);
}

void DeviceCore::caller_called(Instant now) noexcept {
  progress_.caller_turned(now);
  if (progress_.sleeps_long(now) && adapter.deadline() < progress_.rests_until()) deferred.kick_helper = true;
}

void DeviceCore::caller_polls(Instant now) noexcept {
  caller_turn(now);
  progress_.caller_polled(now);
}

EmptyPoll DeviceCore::empty_poll() noexcept {
  const adapter::WindowNews news = adapter.window_news();
  if (news == adapter::WindowNews::kNoWindows) return EmptyPoll::kTurns;
  ++empty_polls_;
  if (empty_polls_ % kPollsPerTurn == 0) return EmptyPoll::kTurns;
  const bool looks =
      news == adapter::WindowNews::kSome || empty_polls_ % kPollsPerLook == 0 || progress_.watches_callers();
  return looks ? EmptyPoll::kLooks : EmptyPoll::kEnds;
}

void DeviceCore::caller_polls_empty(Instant now) noexcept {
  caller_called(now);
  progress_.caller_polled(now);
}

/// Requests to windows start ahead of what a turn does for others.
void DeviceCore::caller_posts(adapter::QueuePair& pair, Instant now) noexcept {
  if (!adapter.send_by_window(pair, now) || ++posts_ % kPostsPerTurn == 0) return caller_turn(now);
  deliver();
  caller_called(now);
}

bool DeviceCore::caller_looks(Instant now) noexcept {
  if (adapter.look_at_windows(now) == 0) return false;
  deliver();
  caller_called(now);
  progress_.caller_polled(now);
  return true;
}

void DeviceCore::caller_waits(Instant now) noexcept {
  progress_.caller_waits();
  for (int look = 0; !prepare_ports() && look < kLooksBeforeWaiting; ++look) turn(now);
  const bool deaf = !hears_paths_ && ports.path_fds_max() != 0;
  if (!ports_prepared_ || deaf || adapter.deadline() < progress_.rests_until()) deferred.kick_helper = true;
}

bool DeviceCore::prepare_ports() noexcept {
  ports_marked_ = true;
  ports_prepared_ = ports.prepare_sleep();
  if (windows_ != nullptr) ports_prepared_ &= windows_->prepare_sleep();
  return ports_prepared_;
}

void DeviceCore::finish_ports() noexcept {
  if (!std::exchange(ports_marked_, false)) return;
  ports_prepared_ = false;
  ports.finish_sleep();
  if (windows_ != nullptr) windows_->finish_sleep();
}

bool DeviceCore::prepare_to_wait() noexcept {
  if (forked()) return false;
  const Hold hold(*this);
  caller_turn(hold.now());
  need_helper();
  caller_waits(hold.now());
  return true;
}

bool DeviceCore::pass_on(Instant until) noexcept {
  const CancelShield shield;
  for (;;) {
    {
      const Hold hold(*this);
      caller_turn(hold.now());
      if (!ports.loses_at_end()) return true;
    }
    if (clock.now() >= until) return false;
    std::this_thread::sleep_for(kPassOnPause);
  }
}

// ---- events --------------------

Object* DeviceCore::find_qp(Qpn number) const noexcept {
  const adapter::QueuePair* pair = adapter.find_qp(number);
  return pair != nullptr ? Object::of_user(adapter.user(*pair)) : nullptr;
}

void DeviceCore::wait_for_acknowledgements(const Object& object) noexcept {
  lock.lock();
  events.begin_wait();
  while (object.refs.unacknowledged != 0) {
    const uint32_t seen = events.acknowledged();
    leave();
    events.wait(seen);
    lock.lock();
  }
  events.end_wait();
  leave();
}

// ---- deferred work --------------------

void DeviceCore::do_deferred() noexcept {
  const CancelShield shield;
  while (do_batch()) lock.lock();
}

/// Does one batch after releasing the lock; destructors of what the batch kept alive also run here. True when
/// work is left.
bool DeviceCore::do_batch() noexcept {
  DeferredWork::Batch batch = deferred.take();
  const bool more = !deferred.empty();
  if (batch.tend_windows) {
    tend_now_ = true;
    batch.kick_helper = true;
  }
  if (batch.kick_helper) {
    counters.add(DeviceCounter::kHelperKicks);
    progress_.helper_wakes();
  }
  counters.add(DeviceCounter::kPeerWakes, batch.peers());
  lock.unlock();
  batch.ring();
  if (batch.tell_waiters) events.tell_waiters();
  if (batch.start_helper && helper_ != nullptr && !helper_->start()) helper_failed();
  if (batch.kick_helper && helper_ != nullptr) helper_->kick();
  if (batch.refill) reserves.refill(lock);
  if (batch.tell_failures) [[unlikely]]
    failures.tell();
  return more;
}

bool DeviceCore::finish(Duration limit) noexcept {
  {
    const Hold hold(*this);
    adapter.say_last_words();
  }
  failures.tell();
  const Instant until = clock.now() + limit;
  while (!failures.told() && clock.now() < until) std::this_thread::sleep_for(kPassOnPause);
  leave_windows(clock.now() + limit);
  return pass_on(clock.now() + limit);
}

/// A signal handler that ends the process may have interrupted a thread that has the lock.
void DeviceCore::leave_windows(Instant until) noexcept {
  if (windows_ == nullptr) return;
  std::unique_lock guard(upkeep_, std::try_to_lock);
  while (!guard.owns_lock() && clock.now() < until) {
    std::this_thread::sleep_for(kPassOnPause);
    static_cast<void>(guard.try_lock());
  }
  if (guard.owns_lock()) windows_->leave();
}

HoldToMake::HoldToMake(DeviceCore& core) : core_(core) {
  core.lock.lock();
  core.reserves.fill(core.lock, left_);
}

// ---- helper --------------------

void DeviceCore::need_helper() noexcept {
  if (!std::exchange(helper_wanted_, true)) deferred.start_helper = true;
}

/// The device is reported as failed because without a helper the adapter stands still while no caller drives
/// it.
void DeviceCore::helper_failed() noexcept {
  const Hold hold(*this);
  helper_wanted_ = false;  // the next call that needs the helper tries again
  events.raise({.kind = EventKind::kDeviceFatal});
}

Helped DeviceCore::help(bool links_ready, bool stays) noexcept {
  const Instant tend_at = tend(clock.now(), links_ready);
  say_once_what_is_gone();
  failures.looked();
  const Hold hold(*this);
  progress_.helper_wakes();
  hears_paths_ = false;
  finish_ports();
  Instant until = Instant::min();
  int work = 0;
  if (!progress_.helper_drives(hold.now())) {
    counters.add(DeviceCounter::kHelperLooks);
    if (links_ready && windows_ != nullptr) turn(hold.now());  // takes the wake-up
    until = progress_.look_again();
  } else {
    counters.add(DeviceCounter::kHelperTurns);
    work = turn(hold.now());
    if (work != 0) progress_.helper_found_work(hold.now());
    if (work == 0 && !stays && prepare_ports()) until = progress_.rest(hold.now(), adapter.deadline());
  }
  qps.look(adapter, hold.now());
  if (ports.has_faulty()) {
    tend_now_ = true;
    until = Instant::min();
  }
  until = std::min(until, tend_at);
  progress_.helper_rests(until);
  return {until, work};
}

Instant DeviceCore::tend(Instant now, bool now_due) noexcept {
  const std::lock_guard guard(upkeep_);
  if (!tend_now_.exchange(false) && !now_due && now < tend_at_) return tend_at_;
  ports.look(now);
  {
    const Hold hold(*this);
    if (ports.settle(now)) turn(now);
  }
  ports.clear();
  tend_at_ = ports.deadline();
  if (windows_ != nullptr) tend_at_ = std::min(tend_at_, tend_windows(now));
  return tend_at_;
}

Instant DeviceCore::tend_windows(Instant now) noexcept {
  {
    const Hold hold(*this);
    windows_->begin(adapter.ports().up(1) ? adapter.ports().info(1) : nullptr);
  }
  windows_->work(now);
  {
    const Hold hold(*this);
    if (windows_->settle()) turn(now);
  }
  windows_->clear();
  return windows_->deadline();
}

MissingPort DeviceCore::missing_port() {
  const std::lock_guard guard(upkeep_);
  const Hold hold(*this);
  return ports.missing();
}

void DeviceCore::wait_fds(std::vector<pollfd>& out) {
  {
    const std::lock_guard guard(upkeep_);
    ports.supervision_fds(out);
    if (windows_ != nullptr) windows_->join_fds(out);
  }
  // Silent while no thread has prepared to sleep. One may do so while the helper waits.
  if (windows_ != nullptr) out.push_back({windows_->sleep_fd(), POLLIN, 0});
  if (ports.path_fds_max() == 0) return;
  out.reserve(out.size() + ports.path_fds_max());  // no memory is allocated under the lock
  const Hold hold(*this);
  hears_paths_ = ports_prepared_;
  if (hears_paths_) ports.path_fds(out);  // while callers poll, each arrival would wake the helper
}

}  // namespace weft::hca
