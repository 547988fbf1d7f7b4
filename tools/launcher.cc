// How it works: start() prepares everything that needs rights and keeps the descriptors; each process gets
// copies of its own at every start. The children share one pipe whose write end only the launcher has: when
// it dies, they read end of file and go. turn() is the whole life of a run: reap and restart what died, ask
// those that are not ready yet on their control endpoints, redraw. All waiting happens in one ppoll() on the
// signal descriptor.
#include "tools/launcher.h"

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
#include <fstream>
#include <map>
#include <optional>

#include "base/process_limits.h"
#include "control/control_client.h"
#include "tools/child_process.h"
#include "tools/interface_keeper.h"
#include "tools/live_view.h"
#include "tools/net_setup.h"
#include "tools/node_process.h"
#include "tools/state_dir.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTurn = 50ms;  // while somebody looks: the live table, the caller's step
constexpr Duration kAnswerTimeout = 100ms;
constexpr Duration kAskWhileStarting = 20ms;
constexpr Duration kAskLive = 1s;
constexpr Duration kAskWhenReady = 30s;  // nobody looks, and a question wakes the process that is asked
constexpr Duration kPoliteEnd = 2s;
constexpr size_t kOwnDescriptors = 64;
constexpr size_t kStateBytes = 64 * 1024;
constexpr size_t kStateBytesPerNode = 320 * 1024;  // stats page, sockets, the beginning of a log

}  // namespace

class Launcher::Impl {
 public:
  Impl(Topology topology, LauncherOptions options)
      : topology_(std::move(topology)), options_(std::move(options)) {}
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status start();
  Status wait_ready();
  void watch(const std::function<bool()>& step);
  void stop();
  [[nodiscard]] bool stop_requested() const { return stop_requested_; }
  [[nodiscard]] const std::string& state_path() const { return dir_->path(); }
  [[nodiscard]] int pid_of(const std::string& node) const;

 private:
  Status catch_signals();
  Status check_room() const;
  Status write_lids();
  Status write_allow_files() const;
  Status prepare(NodeCommand command);
  Result<int> netns_fd(const std::string& name);
  void turn(Duration wait);
  void reap();
  void restart_due(Instant now);
  void ask_due(Instant now);
  void ask(NodeProcess& node, Instant now);
  void end_role(NodeRole role);
  void save_record();
  [[nodiscard]] bool all_ready() const;
  [[nodiscard]] const NodeProcess* first_failure() const;
  [[nodiscard]] std::string laggards() const;
  void say(const std::string& text) const;

  Topology topology_;
  LauncherOptions options_;
  std::optional<StateDir> dir_;
  std::map<std::string, std::unique_ptr<NetNamespace>> namespaces_;
  std::optional<InterfaceKeeper> keeper_;
  std::vector<RecordedInterface> interfaces_;
  std::vector<NodeProcess> nodes_;
  std::map<std::string, Lid> lids_;
  UniqueFd signals_;
  UniqueFd lifeline_in_;
  UniqueFd lifeline_out_;
  control::ControlClient client_;
  LiveView view_;
  size_t next_asked_ = 0;
  bool stop_requested_ = false;
  bool starting_ = true;
  bool unsaved_ = false;  // the record on the disk is behind: no space for it
};

void Launcher::Impl::say(const std::string& text) const {
  if (options_.quiet || options_.live) return;
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
}

Status Launcher::Impl::catch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGHUP}) sigaddset(&set, number);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error("cannot block signals", errno);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return errno_error("cannot open a signal descriptor", errno);
  signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("cannot open a pipe", errno);
  lifeline_in_.reset(ends[0]);
  lifeline_out_.reset(ends[1]);
  return {};
}

/// Whether the fabric fits into what the user and the disk have left, before anything is started.
Status Launcher::Impl::check_room() const {
  const size_t nodes = topology_.hosts.size() + topology_.units.size() + topology_.switches.size();
  // Ours: two for each process, and the interfaces; a process of ours has the same limit, and a switch needs
  // the most, four for each port.
  const size_t own = kOwnDescriptors + 4 * nodes;
  if (Status allowed = allow_descriptors(own); !allowed.ok()) return allowed;
  return dir_->check_space(kStateBytes + nodes * kStateBytesPerNode);
}

Status Launcher::Impl::write_lids() {
  lids_ = assign_lids(topology_, load_lids(dir_->file("lids")));
  std::ofstream out(dir_->file("lids"), std::ios::trunc);
  for (const auto& [name, lid] : lids_)
    out << fmt::format("{:016x} {} {}\n", stable_guid(topology_.fabric, name).value(), lid.value(), name);
  if (!out.flush()) return errno_error("cannot write " + dir_->file("lids"), errno);
  return dir_->note_start();
}

Status Launcher::Impl::write_allow_files() const {
  if (topology_.curve_dir.empty()) return {};
  if (Status keys = check_curve_keys(topology_); !keys.ok()) return keys;
  for (uint32_t i = 0; i < topology_.switches.size(); ++i) {
    Result<std::string> text = curve_allow_text(topology_, i);
    if (!text.ok()) return text.error();
    if (text.value().empty()) continue;
    std::ofstream out(dir_->file(topology_.switches[i].name + ".allow"), std::ios::trunc);
    if (!(out << text.value()) || !out.flush()) return errno_error("cannot write key list", errno);
  }
  return {};
}

Result<int> Launcher::Impl::netns_fd(const std::string& name) {
  if (name.empty()) return -1;
  auto& entry = namespaces_[name];
  if (entry == nullptr) {
    Result<std::unique_ptr<NetNamespace>> opened = NetNamespace::open(name);
    if (!opened.ok()) return opened.error();
    entry = std::move(opened).value();
    save_record();
  }
  return entry->fd();
}

Status Launcher::Impl::prepare(NodeCommand command) {
  const std::string path = find_program(command.program());
  if (path.empty())
    return Error{fmt::format("program {} is not there; build it or install Weft", command.program())};
  const std::string fault = std::visit([](const auto& spec) { return node::spec_fault(spec); }, command.spec);
  if (!fault.empty()) return Error{fmt::format("node '{}': {}", command.name, fault)};
  Result<int> ns_fd = netns_fd(command.netns);
  if (!ns_fd.ok()) return Error{fmt::format("node '{}': {}", command.name, ns_fd.error().text)};
  std::vector<UniqueFd> descriptors;
  for (const HandedDescriptor& wanted : command.descriptors) {
    Result<UniqueFd> fd = keeper_->open(command.name, wanted, command.netns, ns_fd.value());
    if (!fd.ok()) return Error{fmt::format("node '{}': {}", command.name, fd.error().text)};
    if (wanted.kind == node::PortDescriptor::kTap)
      interfaces_.push_back({wanted.interface.name, command.netns});
    descriptors.push_back(std::move(fd).value());
  }
  nodes_.emplace_back(std::move(command), path, *dir_, ns_fd.value(), lifeline_in_.get(),
                      std::move(descriptors));
  return {};
}

Status Launcher::Impl::start() {
  Result<StateDir> dir = StateDir::create(topology_.fabric);
  if (!dir.ok()) return dir.error();
  if (Status locked = dir.value().lock(); !locked.ok()) return locked;
  dir_ = std::move(dir).value();
  clean_up_leftovers(*dir_, dir_->load());
  if (Status room = check_room(); !room.ok()) return room;
  if (Status caught = catch_signals(); !caught.ok()) return caught;
  if (Status written = write_lids(); !written.ok()) return written;
  if (Status written = write_allow_files(); !written.ok()) return written;
  keeper_.emplace(interface_tag(topology_.fabric));
  for (NodeCommand& command : node_commands(topology_, lids_, dir_->path(), options_.log_level))
    if (Status prepared = prepare(std::move(command)); !prepared.ok()) return prepared;
  const Instant now = MonotonicClock().now();
  for (NodeProcess& node : nodes_) {
    if (Status started = node.start(now); !started.ok()) return started;
    save_record();
  }
  return {};
}

void Launcher::Impl::save_record() {
  RunRecord record{
      getpid(), process_start_ticks(getpid()), options_.topology_path, !starting_, {}, interfaces_, {}, {}};
  if (keeper_.has_value()) record.borrowed = keeper_->borrowed();
  for (const auto& [name, netns] : namespaces_)
    if (netns != nullptr && netns->holder() != 0)
      record.processes.push_back(
          {"netns-" + name, "holder", netns->holder(), process_start_ticks(netns->holder()), 0});
  for (const NodeProcess& node : nodes_) {
    const NodeCommand& command = node.command();
    record.processes.push_back(node.record());
    for (uint32_t i = 0; i < command.peers.size(); ++i)
      record.ports.push_back({command.name, i + 1, command.peers[i]});
  }
  unsaved_ = !dir_->save(record).ok();
}

void Launcher::Impl::reap() {
  for (NodeProcess& node : nodes_) {
    int status = 0;
    if (!node.running() || waitpid(node.pid(), &status, WNOHANG) != node.pid()) continue;
    const Instant now = MonotonicClock().now();
    node.ended(status, now);
    save_record();
    const std::string death = fmt::format("{} {}", node.command().name, node.last_exit());
    if (stop_requested_ || (starting_ && !node.ever_ready)) {
      node.note(death);
      continue;
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(node.next_start() - now).count();
    const std::string line = fmt::format(
        "{}: {}", death, options_.restart ? fmt::format("starts again in {} ms", wait) : "stays down");
    node.note(line);
    say(line);
  }
}

void Launcher::Impl::restart_due(Instant now) {
  if (!options_.restart || stop_requested_) return;
  for (NodeProcess& node : nodes_) {
    if (node.running() || now < node.next_start() || (starting_ && !node.ever_ready)) continue;
    if (!keeper_->whole(node.command().name)) {  // it would end at once, again and again
      node.postpone(now);
      continue;
    }
    if (Status started = node.start(now); !started.ok()) say(started.error().text);
    save_record();
  }
}

/// One question per turn and node: a frozen process costs at most kAnswerTimeout.
void Launcher::Impl::ask_due(Instant now) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProcess& node = nodes_[next_asked_++ % nodes_.size()];
    if (!node.running() || now < node.next_question) continue;
    ask(node, now);
    return;
  }
}

void Launcher::Impl::ask(NodeProcess& node, Instant now) {
  const bool was_ready = node.ready;
  if (access(node.control_path().c_str(), F_OK) == 0) {
    Result<control::ControlReply> reply = client_.ask(node.control_path(), {}, kAnswerTimeout);
    node.ready =
        reply.ok() && reply.value().answer == control::ControlAnswer::kInfo && reply.value().info.ready;
    if (reply.ok()) node.info = reply.value().info;
  }
  if (node.ready && !was_ready)
    say(fmt::format("{} {}", node.command().name, node.info.state.empty() ? "is ready" : node.info.state));
  node.ever_ready = node.ever_ready || node.ready;
  const bool waits = node.ever_ready && !node.info.fault.empty();  // for an interface, say: no need to hurry
  if (!node.ready && !waits) {
    node.next_question = now + (node.age(now) < options_.ready_timeout ? kAskWhileStarting : kAskLive);
  } else {
    node.next_question = now + (options_.live ? kAskLive : kAskWhenReady);
  }
}

void Launcher::Impl::turn(Duration wait) {
  Instant now = MonotonicClock().now();
  if (keeper_->next_look() != kNever)
    wait = std::min(wait, std::max(keeper_->next_look() - now, Duration(1ms)));
  for (const NodeProcess& node : nodes_) {
    if (!node.running() && !options_.restart) continue;
    const Instant due = node.running() ? node.next_question : node.next_start();
    wait = std::min(wait, std::max(due > now ? due - now : Duration{0}, Duration(1ms)));
  }
  std::vector<pollfd> items{{signals_.get(), POLLIN, 0}};
  keeper_->wait_fds(items);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  if (::poll(items.data(), items.size(), static_cast<int>(std::max<int64_t>(milliseconds, 1))) > 0) {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info)
      if (info.ssi_signo != static_cast<unsigned>(SIGCHLD)) stop_requested_ = true;
  }
  reap();
  if (unsaved_) save_record();
  now = MonotonicClock().now();
  const std::vector<std::string> mended = keeper_->look(now);
  for (const std::string& line : mended) say(line);
  if (!mended.empty()) save_record();
  restart_due(now);
  ask_due(now);
  if (options_.live) view_.draw(topology_.fabric, nodes_, now);
}

bool Launcher::Impl::all_ready() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const NodeProcess& node) { return node.ready; });
}

/// A process that ended before it was ever ready: its complaint is the launcher's.
const NodeProcess* Launcher::Impl::first_failure() const {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [](const NodeProcess& node) {
    return !node.running() && !node.ever_ready && !node.last_exit().empty();
  });
  return at == nodes_.end() ? nullptr : &*at;
}

std::string Launcher::Impl::laggards() const {
  std::string text;
  for (const NodeProcess& node : nodes_) {
    if (node.ready) continue;
    const std::string state = !node.running()            ? node.last_exit()
                              : !node.info.fault.empty() ? node.info.fault
                              : !node.info.state.empty() ? node.info.state
                                                         : std::string("does not answer");
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", node.command().name, state);
  }
  return text;
}

Status Launcher::Impl::wait_ready() {
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
  save_record();
  return {};
}

void Launcher::Impl::watch(const std::function<bool()>& step) {
  starting_ = false;
  const Duration wait = options_.live || step ? kTurn : kAskWhenReady;
  while (!stop_requested_ && (!step || step())) turn(unsaved_ ? std::min(wait, kAskLive) : wait);
}

void Launcher::Impl::end_role(NodeRole role) {
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

void Launcher::Impl::stop() {
  if (!dir_.has_value()) return;
  stop_requested_ = true;
  for (const NodeRole role : {NodeRole::kHost, NodeRole::kUnit, NodeRole::kSwitch}) end_role(role);
  nodes_.clear();
  keeper_.reset();  // with the last copies of the descriptors the TAPs are gone
  namespaces_.clear();
  if (options_.live) view_.finish();
  dir_->remove_runtime_files();
  dir_.reset();
}

int Launcher::Impl::pid_of(const std::string& node) const {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&node](const NodeProcess& process) {
    return process.command().name == node;
  });
  return at == nodes_.end() ? 0 : at->pid();
}

Launcher::Launcher(Topology topology, LauncherOptions options)
    : impl_(std::make_unique<Impl>(std::move(topology), std::move(options))) {}
Launcher::~Launcher() = default;
Status Launcher::start() {
  return impl_->start();
}
Status Launcher::wait_ready() {
  return impl_->wait_ready();
}
void Launcher::watch(const std::function<bool()>& step) {
  impl_->watch(step);
}
void Launcher::stop() {
  impl_->stop();
}
bool Launcher::stop_requested() const {
  return impl_->stop_requested();
}
const std::string& Launcher::state_path() const {
  return impl_->state_path();
}
int Launcher::pid_of(const std::string& node) const {
  return impl_->pid_of(node);
}

}  // namespace weft::tools
