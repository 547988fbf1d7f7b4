// How it works: FabricSetup makes everything that needs rights and keeps the descriptors; each process gets
// its own copies at every start. All children share one pipe whose write end only the launcher has: if the
// launcher dies, they read end of file and end. turn() is one round of a run: reap and restart processes that
// died, ask a process for its state over its control endpoint, redraw the table. All waiting happens in one
// poll() on the signal descriptor and those of interfaces and users.
#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "tools/fault/fault_control.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTurn = 50ms;  // with a live table or a step function
constexpr Duration kTurnTimeout = 100ms;
constexpr Duration kAskWhileStarting = 20ms;
constexpr Duration kAskLive = 1s;
constexpr Duration kAskWhenReady = 30s;  // without a live table; each question wakes the process
constexpr Duration kPoliteEnd = 2s;
constexpr Duration kUnusedLinger = 1s;  // so that the next program of a script finds the fabric

}  // namespace

void Launcher::say(const NodeProcess& node, const std::string& text) const {
  node.note(text);
  print(text);
}

void Launcher::print(const std::string& text) const {
  if (options_.quiet || options_.live) return;
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
}

Status Launcher::catch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGHUP}) sigaddset(&set, number);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error("cannot block signals", errno);
  // nohup(1) leaves SIGHUP ignored. A blocked signal reaches the signal descriptor even if it is ignored.
  struct sigaction hang_up {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN) options_.detached = true;
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return errno_error("cannot open a signal descriptor", errno);
  signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("cannot open a pipe", errno);
  lifeline_in_.reset(ends[0]);
  lifeline_out_.reset(ends[1]);
  return {};
}

Status Launcher::start() {
  if (Status claimed = setup_.claim(); !claimed.ok()) return claimed;
  if (Status caught = catch_signals(); !caught.ok()) return caught;
  if (Status made = setup_.make(lifeline_in_.get(), options_.log_level, nodes_); !made.ok()) return made;
  if (options_.ends_unused) {
    Result<FabricUsers> users = FabricUsers::create(setup_.dir());
    if (!users.ok()) return users.error();
    users_.emplace(std::move(*users));
  }
  const Instant now = MonotonicClock().now();
  for (NodeProcess& node : nodes_) {
    if (Status started = node.start(now); !started.ok()) return started;
    save();
  }
  return {};
}

void Launcher::reap() {
  for (NodeProcess& node : nodes_) {
    int status = 0;
    if (!node.running() || waitpid(node.pid(), &status, WNOHANG) != node.pid()) continue;
    const Instant now = MonotonicClock().now();
    node.ended(status, now);
    save();
    const std::string death = fmt::format("{} {}", node.command().name, node.last_exit());
    if (stop_requested_ || (starting_ && !node.ever_ready())) {
      node.note(death);
      continue;
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(node.next_start() - now).count();
    say(node, fmt::format("{}: {}", death,
                          options_.restart ? fmt::format("starts again in {} ms", wait) : "stays down"));
  }
}

void Launcher::mend_interfaces(Instant now) {
  const std::vector<InterfaceNews> news = setup_.interfaces().look(now);
  for (const InterfaceNews& one : news) {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&one](const NodeProcess& process) {
      return process.command().name == one.node;
    });
    if (node != nodes_.end()) say(*node, fmt::format("{}: {}", one.node, one.text));
  }
  if (!news.empty()) save();
}

void Launcher::restart_due(Instant now) {
  if (!options_.restart || stop_requested_) return;
  for (NodeProcess& node : nodes_) {
    if (node.running() || now < node.next_start() || (starting_ && !node.ever_ready())) continue;
    if (!setup_.interfaces().whole(node.command().name)) {  // without its TAP the process would end at once
      node.postpone(now);
      continue;
    }
    if (Status started = node.start(now); !started.ok()) say(node, started.error().text);
    save();
  }
}

/// True when a switch still has a program on a spare port. A program that closes all inherited descriptors,
/// as daemons do, is only seen this way.
bool Launcher::has_guests() {
  for (NodeProcess& node : nodes_) {
    if (node.command().role != NodeRole::kSwitch || !node.running()) continue;
    node.info.ports.clear();  // a switch that does not answer counts as empty
    ask(node, MonotonicClock().now());
    for (const control::PortInfo& port : node.info.ports)
      if (port.peer.starts_with("guest ")) return true;
  }
  return false;
}

void Launcher::end_if_unused(Instant now) {
  if (now < unused_until_) return;
  unused_until_ = kNever;
  if (has_guests()) {
    unused_until_ = now + kUnusedLinger;
  } else if (users_->end_if_unused()) {
    stop_requested_ = true;
  }
}

/// Asks at most one node per turn, so that a frozen process delays the launcher by at most kTurnTimeout.
void Launcher::ask_due(Instant now) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProcess& node = nodes_[next_asked_++ % nodes_.size()];
    if (!node.running() || now < node.next_question) continue;
    ask(node, now);
    return;
  }
}

void Launcher::ask(NodeProcess& node, Instant now) {
  const bool was_ready = node.ready();
  if (access(node.control_path().c_str(), F_OK) == 0) {
    Result<control::ControlReply> reply = client_.ask(node.control_path(), {}, kTurnTimeout);
    node.answered(reply.ok() && reply.value().answer == control::ControlAnswer::kInfo &&
                  reply.value().info.ready);
    if (reply.ok()) node.info = reply.value().info;
  }
  if (node.ready() && node.command().role == NodeRole::kSwitch) {
    pid_t& known = switch_pids_[node.command().name];
    const bool anew = known != 0 && known != node.pid();
    known = node.pid();
    if (Status set = anew ? set_faults_again(node.command().name) : Status{}; !set)
      say(node, set.error().text);
  }
  if (node.ready() && !was_ready)
    print(fmt::format("{} {}", node.command().name, node.info.state.empty() ? "is ready" : node.info.state));
  // Waits for something outside, such as an interface: no need to ask often.
  const bool waits = node.ever_ready() && !node.info.fault.empty();
  if (!node.ready() && !waits) {
    node.next_question = now + (node.age(now) < options_.ready_timeout ? kAskWhileStarting : kAskLive);
  } else {
    node.next_question = now + (options_.live ? kAskLive : kAskWhenReady);
  }
}

/// The time until something is due, at most `wait`.
Duration Launcher::until_due(Instant now, Duration wait) {
  if (setup_.interfaces().next_look() != kNever)
    wait = std::min(wait, std::max(setup_.interfaces().next_look() - now, Duration(1ms)));
  if (unused_until_ != kNever) wait = std::min(wait, std::max(unused_until_ - now, Duration(1ms)));
  if (!starting_ && next_fault_ < setup_.faults().size())
    wait = std::min(wait, std::max(ready_at_ + setup_.faults()[next_fault_].at - now, Duration(1ms)));
  for (const NodeProcess& node : nodes_) {
    if (!node.running() && !options_.restart) continue;
    const Instant due = node.running() ? node.next_question : node.next_start();
    wait = std::min(wait, std::max(due > now ? due - now : Duration{0}, Duration(1ms)));
  }
  return wait;
}

bool Launcher::ends_us(int signal) const noexcept {
  return signal != SIGCHLD && (signal != SIGHUP || !options_.detached);
}

void Launcher::turn(Duration wait) {
  Instant now = MonotonicClock().now();
  wait = until_due(now, wait);
  std::vector<pollfd> items{{signals_.get(), POLLIN, 0}};
  setup_.interfaces().wait_fds(items);
  const bool watches_users = users_.has_value() && !starting_ && unused_until_ == kNever;
  if (watches_users) items.push_back({users_->fd(), 0, 0});
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  if (::poll(items.data(), items.size(), static_cast<int>(std::max<int64_t>(milliseconds, 1))) > 0) {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info)
      stop_requested_ = stop_requested_ || ends_us(static_cast<int>(info.ssi_signo));
  }
  reap();
  if (setup_.unsaved()) save();
  now = MonotonicClock().now();
  if (watches_users && (items.back().revents & POLLHUP) != 0) unused_until_ = now + kUnusedLinger;
  if (unused_until_ != kNever) end_if_unused(now);
  mend_interfaces(now);
  restart_due(now);
  ask_due(now);
  if (!starting_)
    if (Status set = set_faults(now); !set) print(set.error().text);
  if (options_.live) view_.draw(setup_.fabric(), nodes_, now);
}

bool Launcher::all_ready() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const NodeProcess& node) { return node.ready(); });
}

/// A process that ended before it was ready; the launcher reports its failure as its own.
const NodeProcess* Launcher::first_failure() const {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [](const NodeProcess& node) {
    return !node.running() && !node.ever_ready() && !node.last_exit().empty();
  });
  return at == nodes_.end() ? nullptr : &*at;
}

std::string Launcher::laggards() const {
  std::string text;
  for (const NodeProcess& node : nodes_) {
    if (node.ready()) continue;
    const std::string state = !node.running()            ? node.last_exit()
                              : !node.info.fault.empty() ? node.info.fault
                              : !node.info.state.empty() ? node.info.state
                                                         : std::string("does not answer");
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", node.command().name, state);
  }
  return text;
}

Status Launcher::wait_ready() {
  const Instant end = MonotonicClock().now() + options_.ready_timeout;
  while (!all_ready()) {
    if (stop_requested_) return Error{"stopped by a signal"};
    if (const NodeProcess* failed = first_failure(); failed != nullptr)
      return Error{
          fmt::format("node '{}' {}: {}", failed->command().name, failed->last_exit(), failed->last_words())};
    if (MonotonicClock().now() >= end) return Error{fmt::format("not ready in time: {}", laggards())};
    turn(2ms);
  }
  starting_ = false;
  save();
  ready_at_ = MonotonicClock().now();
  return set_faults(ready_at_);
}

Status Launcher::set_fault(const FaultOrder& order, const std::string& only) {
  Result<StateDir> dir = StateDir::open(setup_.fabric());
  if (!dir.ok()) return dir.error();
  FaultControl control(std::move(dir).value());
  if (Status looked = control.look(); !looked) return looked;
  Result<std::vector<SetFault>> set = control.set(order, only);
  if (!set.ok()) return Error{fmt::format("[[fault]] for {}: {}", order.target, set.error().text)};
  for (const SetFault& one : set.value()) print(control.describe(one));
  return {};
}

Status Launcher::set_faults(Instant now) {
  const std::vector<FaultOrder>& faults = setup_.faults();
  while (next_fault_ < faults.size() && now - ready_at_ >= faults[next_fault_].at)
    if (Status set = set_fault(faults[next_fault_++], {}); !set) return set;
  return {};
}

Status Launcher::set_faults_again(const std::string& node) {
  for (size_t i = 0; i < next_fault_; ++i)
    if (Status set = set_fault(setup_.faults()[i], node); !set) return set;
  return {};
}

void Launcher::watch(const std::function<bool()>& step) {
  starting_ = false;
  const Duration wait = options_.live || step ? kTurn : kAskWhenReady;
  while (!stop_requested_ && (!step || step())) turn(setup_.unsaved() ? std::min(wait, kAskLive) : wait);
}

void Launcher::end_role(NodeRole role) {
  const auto any = [this, role] {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [role](const NodeProcess& n) { return n.command().role == role && n.running(); });
  };
  const auto tell = [this, role](int number) {
    for (const NodeProcess& node : nodes_)
      if (node.command().role == role) node.signal(number);
  };
  for (const int number : {SIGTERM, SIGKILL}) {
    tell(number);
    tell(SIGCONT);
    const Instant end = MonotonicClock().now() + kPoliteEnd;
    while (any() && MonotonicClock().now() < end) {
      pollfd item{signals_.get(), POLLIN, 0};
      ::poll(&item, 1, 5);
      signalfd_siginfo info{};
      while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      }
      reap();
    }
  }
}

void Launcher::stop() {
  if (!setup_.claimed()) return;
  stop_requested_ = true;
  for (const NodeRole role : {NodeRole::kHost, NodeRole::kUnit, NodeRole::kSwitch}) end_role(role);
  nodes_.clear();
  if (options_.live) view_.finish();
  setup_.release();
}

int Launcher::pid_of(const std::string& node) const {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&node](const NodeProcess& process) {
    return process.command().name == node;
  });
  return at == nodes_.end() ? 0 : at->pid();
}

}  // namespace weft::tools
