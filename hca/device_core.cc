// How it works: a call takes the lock, works on the adapter and runs a turn. Events and notifications of the
// turn go to the lists of their objects under the lock. System calls that they need (wake-ups, writes to
// event descriptors) are only noted as errands under the lock and are made after it is released
// (run_errands()). The helper takes the same lock. It alone tends the links, under a lock of its own.
#include "hca/device_core.h"

#include <algorithm>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/cancel_shield.h"
#include "base/log.h"

namespace weft::hca {
namespace {

/// A caller that is about to wait runs up to this many turns while cells keep arriving; then the helper takes
/// over.
constexpr int kLooksBeforeWaiting = 4;
constexpr size_t kLinksMax = 255;
// Upper limit; room for them is reserved before the lock is taken.
constexpr size_t kFdsPerPort = 4;
constexpr uint32_t kStockRandom = 1U << 31;  // a bit beside those of adapter::SupplyKind
// A switch on this machine answers within some tens of microseconds.
constexpr Duration kPassOnPause = 50us;

[[nodiscard]] std::unique_ptr<DirectWindows> windows_of(const DeviceConfig& config, RandomSource& random,
                                                        bool& wants_tending) {
  if (config.direct_directory.empty()) return nullptr;
  return std::make_unique<DirectWindows>(DirectWindowsConfig{.directory = config.direct_directory}, random,
                                         wants_tending);
}

}  // namespace

DeviceCore::DeviceCore(const DeviceConfig& config, const Clock& given_clock, RandomSource& given_random,
                       RandomSource& given_link_random)
    : clock(given_clock),
      random(given_random),
      link_random(given_link_random),
      wakes(kLinksMax),
      errands(wakes),
      windows(windows_of(config, given_link_random, errands.tend_windows)),
      adapter({.guid = config.guid, .limits = config.limits, .direct = windows.get()}, random) {
  random.report_to(errands.restock);
  adapter.report_lack(errands.restock);
  adapter.report_failures(errands.tell_failures);
  if (!config.strict_memory) adapter.memory().tolerate_gone_memory(this);
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
  const int work = adapter.poll(now);
  deliver_events();
  deliver_notifications();
  return work;
}

void DeviceCore::caller_turn(Instant now) noexcept {
  turn(now);
  counters.add(DeviceCounter::kCallerTurns);
  drive.caller_turned(now);
  if (drive.sleeps_long(now) && adapter.deadline() < drive.rests_until()) errands.kick_helper = true;
}

void DeviceCore::caller_polls(Instant now) noexcept {
  caller_turn(now);
  drive.caller_polled(now);
}

void DeviceCore::caller_waits(Instant now) noexcept {
  drive.caller_waits();
  for (int look = 0; !prepare_ports() && look < kLooksBeforeWaiting; ++look) turn(now);
  if (!ports_prepared_ || adapter.deadline() < drive.rests_until()) errands.kick_helper = true;
}

bool DeviceCore::prepare_ports() noexcept {
  ports_prepared_ = true;
  for (fabric::CellPort* port : ports) ports_prepared_ &= port->prepare_sleep();
  if (windows != nullptr) ports_prepared_ &= windows->prepare_sleep();
  return ports_prepared_;
}

void DeviceCore::finish_ports() noexcept {
  if (!ports_prepared_) return;
  ports_prepared_ = false;
  for (fabric::CellPort* port : ports) port->finish_sleep();
  if (windows != nullptr) windows->finish_sleep();
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
      if (std::none_of(links.begin(), links.end(),
                       [](const auto& link) { return link->engine().loses_at_end(); }))
        return true;
    }
    if (clock.now() >= until) return false;
    std::this_thread::sleep_for(kPassOnPause);
  }
}

// ---- events --------------------

void DeviceCore::deliver_events() noexcept {
  adapter::AsyncEvent event;
  while (adapter.next_event(event)) deliver(event);
}

void DeviceCore::deliver(const adapter::AsyncEvent& event) noexcept {
  const std::optional<EventKind> kind = kind_of(event.kind);
  // The QP fatal event is only for errors that no completion reports (InfiniBand).
  if (!kind || (event.kind == adapter::AsyncEventKind::kQpFatal && event.completed)) return;
  const bool of_object = event.cq != nullptr || event.srq != nullptr || event.qpn != Qpn(0);
  if (of_object && event.user == nullptr) return;
  raise({.kind = *kind,
         .object = Object::of_user(event.user),
         .port = event.qpn == Qpn(0) ? event.port : uint8_t{0}});
}

void DeviceCore::raise(const AsyncEvent& event) noexcept {
  for (ContextBase* context = contexts; context != nullptr; context = context->next) {
    if (event.object != nullptr && &event.object->context() != context) continue;
    context->add_event(event);
  }
}

void DeviceCore::deliver_notifications() noexcept {
  while (const adapter::CompletionQueue* queue = adapter.next_notified_cq())
    static_cast<NotifiedObject*>(Object::of_user(queue->events.user))->notify();
}

void DeviceCore::add(ContextBase& context) noexcept {
  context.next = std::exchange(contexts, &context);
}

void DeviceCore::forget(ContextBase& context) noexcept {
  ContextBase** at = &contexts;
  while (*at != &context) at = &(*at)->next;
  *at = context.next;
}

Object* DeviceCore::find_qp(Qpn number) const noexcept {
  const adapter::QueuePair* pair = adapter.find_qp(number);
  return pair != nullptr ? Object::of_user(adapter.user(*pair)) : nullptr;
}

void DeviceCore::acknowledge(Object& object, uint32_t events) noexcept {
  object.books.unacknowledged -= std::min(events, object.books.unacknowledged);
  acknowledgements_.fetch_add(1, std::memory_order_relaxed);
  if (destroyers_ != 0) errands.tell_destroyers = true;
}

void DeviceCore::wait_for_acknowledgements(const Object& object) noexcept {
  lock.lock();
  ++destroyers_;
  while (object.books.unacknowledged != 0) {
    const uint32_t seen = acknowledgements_.load(std::memory_order_relaxed);
    leave();
    acknowledgements_.wait(seen, std::memory_order_relaxed);
    lock.lock();
  }
  --destroyers_;
  leave();
}

// ---- errands --------------------

void DeviceCore::run_errands() noexcept {
  const CancelShield shield;
  while (run_bag()) lock.lock();
}

/// Runs one bag of errands after releasing the lock; destructors of what the bag kept alive also run here.
/// True when errands are left.
bool DeviceCore::run_bag() noexcept {
  Errands::Bag bag = errands.take();
  const bool more = !errands.empty();
  if (bag.tend_windows) {
    tend_now_ = true;
    bag.kick_helper = true;
  }
  if (bag.kick_helper) {
    counters.add(DeviceCounter::kHelperKicks);
    drive.helper_wakes();
  }
  counters.add(DeviceCounter::kPeerWakes, bag.peers());
  lock.unlock();
  bag.ring();
  if (bag.tell_destroyers) acknowledgements_.notify_all();
  if (bag.start_helper && helper != nullptr && !helper->start()) helper_failed();
  if (bag.kick_helper && helper != nullptr) helper->kick();
  if (bag.restock) restock();
  if (bag.tell_failures) [[unlikely]]
    tell_failures();
  return more;
}

void DeviceCore::tell_failures() noexcept {
  Failure failure;
  for (bool mine = false;; mine = true) {
    {
      const std::lock_guard guard(lock);
      if (telling_ && !mine) return;
      telling_ = adapter.next_failure(failure);
      if (!telling_) return;
      shown_failures.show(failure);
    }
    if (failure_sink != nullptr) failure_sink->failed(failure);
  }
}

bool DeviceCore::finish(Duration limit) noexcept {
  {
    const Hold hold(*this);
    adapter.say_last_words();
  }
  tell_failures();
  const auto told = [this] {
    const std::lock_guard guard(lock);
    return !telling_;
  };
  const Instant until = clock.now() + limit;
  while (!told() && clock.now() < until) std::this_thread::sleep_for(kPassOnPause);
  return pass_on(clock.now() + limit);
}

// ---- stock --------------------

uint32_t DeviceCore::lacks() const noexcept {
  return adapter.lacks() | (random.low() ? kStockRandom : 0U);
}

DeviceCore::Stock DeviceCore::fetch(uint32_t kinds) {
  Stock out{.supplies = adapter::Supplies(kinds), .drawn = {}};
  if ((kinds & kStockRandom) != 0) out.drawn = random.draw();
  return out;
}

void DeviceCore::take(Stock& stock) noexcept {
  adapter.supply(stock.supplies);
  if (stock.drawn) random.take(*stock.drawn);
}

/// Refills the tables before a turn finds them empty. A turn that found too little has deferred its work
/// until then.
void DeviceCore::restock() noexcept {
  std::unique_lock guard(lock);
  for (uint32_t kinds = lacks(); kinds != 0; kinds = lacks()) {
    guard.unlock();
    std::optional<Stock> stock;
    try {
      stock = fetch(kinds);
    } catch (const std::bad_alloc&) {
      const std::lock_guard again(lock);
      return adapter.go_without();  // tables that lack memory ask again later
    }
    guard.lock();
    take(*stock);
    guard.unlock();
    stock.reset();  // frees what was not needed because another thread fetched it too
    guard.lock();
  }
}

HoldToMake::HoldToMake(DeviceCore& core) : core_(core) {
  core.lock.lock();
  for (uint32_t kinds = core.lacks(); kinds != 0; kinds = core.lacks()) {
    core.lock.unlock();
    left_ = core.fetch(kinds);
    core.lock.lock();
    core.take(*left_);
  }
}

// ---- helper --------------------

void DeviceCore::need_helper() noexcept {
  if (!std::exchange(helper_wanted_, true)) errands.start_helper = true;
}

/// The device is reported as failed because without a helper the adapter stands still while no caller drives
/// it.
void DeviceCore::helper_failed() noexcept {
  const Hold hold(*this);
  helper_wanted_ = false;  // the next call that needs the helper tries again
  raise({.kind = EventKind::kDeviceFatal});
}

Helped DeviceCore::help(bool links_ready, bool stays) noexcept {
  const Instant tend_at = tend_links(clock.now(), links_ready);
  say_once_what_is_gone();
  if (failure_sink != nullptr) [[unlikely]]
    failure_sink->looked();
  const Hold hold(*this);
  drive.helper_wakes();
  finish_ports();
  Instant until = Instant::min();
  int work = 0;
  if (!drive.helper_drives(hold.now())) {
    counters.add(DeviceCounter::kHelperLooks);
    until = drive.look_again();
  } else {
    counters.add(DeviceCounter::kHelperTurns);
    work = turn(hold.now());
    if (work != 0) drive.helper_found_work(hold.now());
    if (work == 0 && !stays && prepare_ports()) until = drive.rest(hold.now(), adapter.deadline());
  }
  table.look(adapter, hold.now());
  for (const auto& link : links) {
    if (link->upkeep() == nullptr || link->engine().state() != fabric::LinkState::kFaulty) continue;
    tend_now_ = true;
    until = Instant::min();
  }
  until = std::min(until, tend_at);
  drive.helper_rests(until);
  return {until, work};
}

Instant DeviceCore::tend_links(Instant now, bool now_due) noexcept {
  const std::lock_guard guard(upkeep_);
  if (!tend_now_.exchange(false) && !now_due && now < tend_at_) return tend_at_;
  tend_at_ = kNever;
  for (const auto& link : links) {
    if (link->upkeep() != nullptr) link->upkeep()->look(now);
  }
  {
    const Hold hold(*this);
    for (const auto& link : links) {
      if (link->upkeep() != nullptr && link->upkeep()->settle(now)) turn(now);
    }
  }
  for (const auto& link : links) {
    if (link->upkeep() == nullptr) continue;
    link->upkeep()->clear();
    tend_at_ = std::min(tend_at_, link->upkeep()->deadline());
  }
  if (windows != nullptr) tend_at_ = std::min(tend_at_, tend_windows(now));
  return tend_at_;
}

Instant DeviceCore::tend_windows(Instant now) noexcept {
  {
    const Hold hold(*this);
    windows->begin(adapter.port_up(1) ? adapter.port_info(1) : nullptr);
  }
  windows->work(now);
  {
    const Hold hold(*this);
    if (windows->settle()) turn(now);
  }
  windows->clear();
  return windows->deadline();
}

MissingPort DeviceCore::missing_port() {
  const std::lock_guard guard(upkeep_);
  const Hold hold(*this);
  for (const auto& link : links) {
    const fabric::JoinTrouble trouble = link->trouble();
    if (!trouble.why.empty() || trouble.later)
      return {std::string(trouble.why), trouble.refusal, trouble.later};
  }
  return {};
}

void DeviceCore::wait_fds(std::vector<pollfd>& out) {
  {
    const std::lock_guard guard(upkeep_);
    for (const auto& link : links) {
      if (link->upkeep() != nullptr) link->upkeep()->wait_fds(out);
    }
    if (windows != nullptr) windows->join_fds(out);
  }
  if (path_ports.empty() && windows == nullptr) return;
  out.reserve(out.size() + kFdsPerPort * path_ports.size());
  const Hold hold(*this);
  if (!ports_prepared_) return;  // descriptors signal arrivals only after prepare_ports()
  for (const fabric::CellPort* port : path_ports) port->wait_fds(out);
  if (windows != nullptr) out.push_back({windows->sleep_fd(), POLLIN, 0});
}

}  // namespace weft::hca
