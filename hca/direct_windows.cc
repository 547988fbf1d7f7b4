// How it works: each process listens under its LID. A claim orders a window; the next work() calls the peer,
// or finds that the peer has called. Both may call at once: the call of the smaller LID stands. No process
// listens under a LID of another machine, of a switch-only program or of a dead one, so that order is refused
// at once. Where there is a file, the order first waits for the peer in the file.
#include "hca/direct_windows.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/stats_page.h"
#include "fabric/carrier/unix_socket.h"

namespace weft::hca {
namespace {

constexpr uint32_t kRequests = 256;
/// A joining peer may have to be looked at though its doorbell is silent.
constexpr Duration kJoinLook = 1ms;
constexpr Duration kListenAgain = 1s;

}  // namespace

bool DirectWindows::Way::lives() const noexcept {
  if (now == State::kJoining) return true;
  if (now == State::kRefused) return false;
  const fabric::WindowState state = window->state();
  return state == fabric::WindowState::kUp || state == fabric::WindowState::kJoining;
}

DirectWindows::DirectWindows(DirectWindowsConfig config, RandomSource& random, bool& wants_tending)
    : config_(std::move(config)),
      random_(random),
      wants_tending_(wants_tending),
      door_(config_.directory),
      sleepers_(UniqueFd(epoll_create1(EPOLL_CLOEXEC))) {
  if (config_.file.empty()) return;
  file_ = std::make_unique<FileWindow>(FileWindowConfig{.path = config_.file,
                                                        .side = config_.file_side,
                                                        .locks = config_.file_locks,
                                                        .own = config_.in_file},
                                       random_);
}
DirectWindows::~DirectWindows() = default;

// ---- under the lock --------------------

adapter::DirectPath* DirectWindows::claim(Lid peer) noexcept {
  for (Way& way : ways_) {
    if (way.peer != peer || !way.lives()) continue;
    if (std::exchange(way.arriving, false)) --arrivals_;
    ++way.claims;
    return &way;
  }
  if (!port_up_ || peer == port_.lid || ways_.size() >= config_.windows_max) return nullptr;
  try {
    wanted_.push_back(peer);
    Way& way = ways_.emplace_back();
    way.peer = peer;
    way.claims = 1;
    wants_tending_ = true;
    return &way;
  } catch (const std::bad_alloc&) {  // the switch needs no memory; an order without a way is harmless
    return nullptr;
  }
}

void DirectWindows::release(adapter::DirectPath& path) noexcept {
  auto& way = static_cast<Way&>(path);
  if (--way.claims != 0) return;
  const auto place =
      std::find_if(ways_.begin(), ways_.end(), [&way](const Way& kept) { return &kept == &way; });
  ended_.splice(ended_.end(), ways_, place);
  wants_tending_ = true;
}

adapter::DirectPath* DirectWindows::arrived(Lid& peer) noexcept {
  if (arrivals_ == 0) [[likely]]
    return nullptr;
  const auto place = std::find_if(ways_.begin(), ways_.end(), [](const Way& way) { return way.arriving; });
  --arrivals_;
  place->arriving = false;
  place->claims = 1;
  peer = place->peer;
  return &*place;
}

void DirectWindows::begin(const fabric::CellPortInfo* port) noexcept {
  port_up_ = port != nullptr;
  if (port != nullptr) port_ = *port;
  if (orders_.empty()) orders_.swap(wanted_);
  dead_.splice(dead_.end(), ended_);
  ways_count_ = ways_.size();
  for (Way& way : ways_) {
    if (!way.lives()) unwatch(way);  // the descriptor of an ended window stays ready
  }
}

bool DirectWindows::settle() noexcept {
  bool news = false;
  for (Outcome& outcome : outcomes_) {
    Way* way = waiting_for(outcome.peer);
    if (outcome.window == nullptr) {
      if (way != nullptr) way->now = adapter::DirectPath::State::kRefused;
      news |= way != nullptr;
      continue;
    }
    if (way == nullptr) {
      ways_.splice(ways_.end(), outcome.spare);
      way = &ways_.back();
      way->peer = outcome.peer;
      way->arriving = true;
      ++arrivals_;
    }
    way->window = std::move(outcome.window);
    way->now = adapter::DirectPath::State::kOpen;
    way->process = outcome.process;
    way->watched = outcome.watched;
    way->in_file = outcome.in_file;
    news = true;
  }
  news |= obey();
  if (faults_.rules().empty()) [[likely]]
    return news;
  for (Way& way : ways_) {
    if (way.now == adapter::DirectPath::State::kOpen) static_cast<void>(way.window->strike(faults_));
  }
  return news;
}

/// Carries out the orders that have come. False when there were none.
bool DirectWindows::obey() noexcept {
  if (order_callers_.empty()) [[likely]]
    return false;
  try {
    for (fabric::WindowOrderCaller& caller : order_callers_)
      answers_.push_back({std::move(caller.socket), carry_out(caller.order)});
  } catch (const std::bad_alloc&) {  // who ordered is hung up on
  }
  order_callers_.clear();
  return true;
}

WindowOrderReply DirectWindows::carry_out(const WindowOrder& order) {
  WindowOrderReply reply;
  switch (order.action) {
    case WindowOrderAction::kAdd:
      if (const Result<uint32_t> added = faults_.add(order.rule, worked_at_); !added)
        reply.error = added.error().text;
      break;
    case WindowOrderAction::kClear:
      if (!faults_.remove(order.id) && order.id != 0) reply.error = "there is no fault of this number";
      break;
    case WindowOrderAction::kList:
      break;
  }
  for (const fabric::WindowFault& one : faults_.rules())
    reply.rules.push_back({one.id, one.rule, one.matched, one.struck, one.left(worked_at_)});
  return reply;
}

bool DirectWindows::publish(StatsPage& page, std::string_view prefix) {
  bool room = true;
  for (size_t i = 0; i < fabric::kWindowFaultsMax; ++i)
    room = room && page.publish(fmt::format("{}.{}", prefix, i), faults_.shown(i));
  return room;
}

DirectWindows::Way* DirectWindows::waiting_for(Lid peer) noexcept {
  for (Way& way : ways_) {
    if (way.peer == peer && way.now == adapter::DirectPath::State::kJoining) return &way;
  }
  return nullptr;
}

bool DirectWindows::prepare_sleep() noexcept {
  bool sleeps = true;
  for (Way& way : ways_) {  // a peer may go on writing into a window that has ended
    if (way.now == adapter::DirectPath::State::kOpen && way.lives()) sleeps &= way.window->prepare_sleep();
  }
  return sleeps;
}

void DirectWindows::finish_sleep() noexcept {
  for (Way& way : ways_) {
    if (way.now == adapter::DirectPath::State::kOpen) way.window->finish_sleep();
  }
}

// ---- without the lock --------------------

void DirectWindows::work(Instant now) noexcept {
  worked_at_ = now;
  try {
    listen(now);
    answer(now);
    for (; !orders_.empty(); orders_.pop_back()) call(orders_.back(), now);
    join(now);
    if (file_ != nullptr) meet_in_file(now);
  } catch (const std::bad_alloc&) {  // what is left is tried again
  }
}

void DirectWindows::listen(Instant now) {
  const bool stands = door_.is_open() && door_.lid() == port_.lid && door_.subnet() == port_.subnet;
  if (config_.directory.empty() || !port_up_ || stands || now < listen_again_) return;
  listen_again_ = now + kListenAgain;
  if (const Status opened = door_.open(port_.subnet, port_.lid); !opened)
    log(LogLevel::kInfo, "no memory windows to this process: {}", opened.error().text);
}

/// Takes calls of peers. Of two calls of one pair the one of the smaller LID stands.
void DirectWindows::answer(Instant now) {
  callers_.clear();
  door_.look(now, callers_, &order_callers_);
  for (fabric::WindowCaller& caller : callers_) {
    const auto same =
        std::find_if(joins_.begin(), joins_.end(), [&](const Join& join) { return join.peer == caller.lid; });
    if (same != joins_.end() && same->called && door_.lid().value() < caller.lid.value()) continue;
    const bool full = joins_.size() + ways_count_ >= config_.windows_max ||
                      !has_room_for(fabric::peer_process(caller.socket.get()));
    if (full || !add_join(caller.lid, std::move(caller.socket), false, now)) continue;
    if (same != joins_.end()) joins_.erase(same);
  }
}

/// False for a process that has as many windows with this one as it may. The descriptors are this program's.
bool DirectWindows::has_room_for(pid_t process) const noexcept {
  if (process == 0) return true;
  const auto count = std::count(processes_.begin(), processes_.end(), process) +
                     std::count_if(joins_.begin(), joins_.end(),
                                   [process](const Join& join) { return join.process == process; });
  return static_cast<size_t>(count) < kWindowsPerPeerMax;
}

void DirectWindows::call(Lid peer, Instant now) {
  const auto joins = [peer](const Join& join) { return join.peer == peer; };
  if (std::any_of(joins_.begin(), joins_.end(), joins)) return;  // the peer has called
  Result<UniqueFd> socket =
      config_.directory.empty() ? Error{"there is no directory to meet in"} : door_.call(peer);
  if (!socket && file_ != nullptr && file_->expects_peer()) {
    file_orders_.push_back({peer, now + kWindowJoinMax});
    return;
  }
  if (!socket) return refuse(peer, socket.error().text);
  if (const Status added = add_join(peer, std::move(*socket), true, now); !added)
    refuse(peer, added.error().text);
}

Status DirectWindows::add_join(Lid peer, UniqueFd socket, bool called, Instant now) {
  const pid_t process = fabric::peer_process(socket.get());
  Result<std::unique_ptr<fabric::ProcessDevice>> made =
      fabric::ProcessDevice::create(std::move(socket),
                                    {.window_bytes = fabric::OwnWindow::bytes_for(config_.own),
                                     .requests = kRequests,
                                     .process_copies = config_.process_copies,
                                     .memory = nullptr,
                                     .pieces = false},
                                    random_);
  if (!made) return made.error();
  std::list<Join> join(1);
  join.front().peer = peer;
  join.front().process = process;
  join.front().called = called;
  join.front().until = now + kWindowJoinMax;
  join.front().device = made->get();
  join.front().window = std::make_unique<fabric::WindowEnd>(std::move(*made), config_.own);
  joins_.splice(joins_.end(), join);
  return {};
}

void DirectWindows::join(Instant now) {
  bool failed = false;
  for (Join& join : joins_) {
    join.window->poll(now);
    failed |= join.window->state() == fabric::WindowState::kGone;
  }
  if (failed) answer(now);  // a peer that hung up has called before it did
  for (auto at = joins_.begin(); at != joins_.end();) {
    Join& join = *at;
    const fabric::WindowState state = join.window->state();
    if (state == fabric::WindowState::kJoining && now < join.until) {
      ++at;
      continue;
    }
    if (state == fabric::WindowState::kUp) {
      log(LogLevel::kInfo, "memory window to LID {}: {}", join.peer.value(), join.device->way());
      std::list<Outcome> made(1);
      made.front().peer = join.peer;
      made.front().process = join.process;
      made.front().spare.emplace_back();
      if (join.process != 0) processes_.push_back(join.process);
      made.front().watched = watch(*join.window);
      made.front().window = std::move(join.window);
      outcomes_.splice(outcomes_.end(), made);
    } else {
      refuse(join.peer, state == fabric::WindowState::kFaulty    ? std::string(join.window->why())
                        : !join.device->fault().empty()          ? join.device->fault()
                        : state == fabric::WindowState::kJoining ? "the other process does not answer"
                                                                 : "the other process hung up");
    }
    at = joins_.erase(at);
  }
}

/// Makes and joins the window in the file. One peer stands there: orders for others are refused.
void DirectWindows::meet_in_file(Instant now) {
  file_->work(now, port_up_ ? &port_ : nullptr);
  const std::optional<Lid> found = file_->peer();
  if (found) {
    log(LogLevel::kInfo, "memory window to LID {}: through the file {}", found->value(), file_->path());
    std::list<Outcome> made(1);
    made.front().peer = *found;
    made.front().spare.emplace_back();
    made.front().in_file = true;
    made.front().window = file_->take();
    outcomes_.splice(outcomes_.end(), made);
  }
  const auto is_decided = [&](const FileOrder& order) {
    if (order.peer == found) return true;
    if (!found && file_->expects_peer() && now < order.until) return false;
    refuse(order.peer, found ? "another process stands in the file" : "no process has come to the file");
    return true;
  };
  file_orders_.erase(std::remove_if(file_orders_.begin(), file_orders_.end(), is_decided),
                     file_orders_.end());
}

void DirectWindows::refuse(Lid peer, const std::string& why) {
  log(LogLevel::kDebug, "no memory window to LID {}, the switch serves: {}", peer.value(), why);
  outcomes_.emplace_back().peer = peer;
}

std::array<int, 2> DirectWindows::watch(const fabric::WindowEnd& window) {
  std::vector<pollfd> fds;
  window.wait_fds(fds);
  std::array<int, 2> watched{-1, -1};
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {}};
  for (size_t i = 0; i < std::min(fds.size(), watched.size()); ++i)
    if (epoll_ctl(sleepers_.get(), EPOLL_CTL_ADD, fds[i].fd, &event) == 0) watched.at(i) = fds[i].fd;
  return watched;
}

void DirectWindows::unwatch(Way& way) noexcept {
  for (int& watched : way.watched) {
    if (watched < 0) continue;
    epoll_event none{};
    static_cast<void>(epoll_ctl(sleepers_.get(), EPOLL_CTL_DEL, watched, &none));
    watched = -1;
  }
}

void DirectWindows::clear() noexcept {
  for (const Answer& answer : answers_) {
    try {
      static_cast<void>(
          fabric::send_packet(answer.socket.get(), encode_window_order_reply(answer.reply), {}));
    } catch (const std::bad_alloc&) {  // who ordered is hung up on
    }
  }
  answers_.clear();
  outcomes_.clear();
  bool file_is_free = false;
  for (Way& way : dead_) {
    unwatch(way);  // closing does not, while a child after fork() has the descriptor
    file_is_free |= way.in_file;
    const auto process = std::find(processes_.begin(), processes_.end(), way.process);
    if (way.process != 0 && process != processes_.end()) processes_.erase(process);
  }
  dead_.clear();
  if (file_is_free) file_->ended();
}

Instant DirectWindows::deadline() const noexcept {
  Instant at = door_.deadline();
  if (port_up_ && !door_.is_open() && !config_.directory.empty()) at = std::min(at, listen_again_);
  if (port_up_ && file_ != nullptr) at = std::min(at, file_->deadline(!file_orders_.empty()));
  if (!joins_.empty() || !orders_.empty()) at = std::min(at, worked_at_ + kJoinLook);
  return at;
}

void DirectWindows::join_fds(std::vector<pollfd>& out) const {
  door_.wait_fds(out);
  for (const Join& join : joins_) join.window->wait_fds(out);
}

}  // namespace weft::hca
