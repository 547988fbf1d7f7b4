// How it works: the lock is an open-file-description lock on DIR/lock, which the kernel releases when its
// holder ends, even if killed. Testing the lock does not take it, so tests never disturb other commands. The
// record is text, one item per line. It is replaced by rename(), so a reader never sees half of it.
#include "tools/launch/state_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/net/ethernet.h"
#include "base/private_files.h"
#include "base/process_stat.h"
#include "tools/launch/net_setup.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// Limit for the directory's path. A Unix socket's path has at most 107 characters; after the directory come
/// two slashes, a node's name and ".sock".
constexpr size_t kStatePathBytesMax = 107 - node::kNodeNameBytesMax - 7;

constexpr size_t kRecordGrowth = 4096;  // bytes reserved for growth of the next record

/// Files that survive the end of a run.
bool is_kept(const fs::path& file) {
  return file.extension() == ".log" || file.extension() == ".old" || file.filename() == "lids" ||
         file.extension() == ".leases" || file.filename() == "names" || file.filename() == "lock" ||
         file.filename() == "started";
}

struct flock whole_file() noexcept {
  struct flock out {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  return out;
}

/// Opens a directory that belongs only to this user; if `makes` is true, creates it when it is missing.
Result<UniqueFd> private_directory(int at, const std::string& path, bool makes) {
  if (makes && mkdirat(at, path.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error(fmt::format("cannot create state directory {} (set WEFT_STATE_DIR to another)", path),
                       errno);
  Result<UniqueFd> fd = open_private_directory(at, path, "state directory");
  if (fd.ok() || errno != EPERM) return fd;
  return Error{fd.error().text + ", or set WEFT_STATE_DIR to another"};
}

}  // namespace

uint64_t process_start_ticks(pid_t pid) {
  const ProcessStat stat = process_stat(pid);
  return stat.dead() ? 0 : stat.started;
}

bool is_stopped(pid_t pid) {
  const char state = process_stat(pid).state;
  return state == 'T' || state == 't';
}

bool is_running(pid_t pid, uint64_t start_ticks) {
  return pid > 0 && start_ticks != 0 && process_start_ticks(pid) == start_ticks && is_of_this_user(pid);
}

void signal_recorded(pid_t pid, uint64_t start_ticks, int signal) {
  if (pid <= 0) return;
  // Opened before the check: the descriptor refers to the same process even if its number is reused later.
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (process.valid() && is_running(pid, start_ticks))
    syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

std::string StateDir::not_running(const std::string& fabric) {
  return fmt::format("fabric '{}' is not running in {}; start it with weft up FILE", fabric, base());
}

Result<std::vector<std::string>> StateDir::fabrics() {
  std::vector<std::string> out;
  const Result<UniqueFd> all = private_directory(AT_FDCWD, base(), false);
  if (!all.ok() && errno != ENOENT) return all.error();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base(), ignored))
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.'))
      out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

Result<StateDir> StateDir::enter(const std::string& fabric, bool makes) {
  const std::string all = base();
  StateDir dir(fabric, all + "/" + fabric);
  Result<UniqueFd> outer = private_directory(AT_FDCWD, all, makes);
  if (!outer.ok()) return outer.error();
  dir.base_ = std::move(*outer);
  Result<UniqueFd> inner = private_directory(dir.base_.get(), fabric, makes);
  if (!inner.ok()) return Error{inner.error().text + fmt::format(" (in {})", all)};
  dir.at_ = std::move(*inner);
  return dir;
}

Result<StateDir> StateDir::create(const std::string& fabric) {
  const std::string all = base();
  if (all.size() + fabric.size() > kStatePathBytesMax)
    return Error{
        fmt::format("state directory {}/{} has more than {} characters, too many for the sockets in it; set "
                    "WEFT_STATE_DIR to a shorter one",
                    all, fabric, kStatePathBytesMax)};
  return enter(fabric, true);
}

Result<StateDir> StateDir::open(const std::string& fabric) {
  // A name that leaves the base directory would let the clean-up remove files of others.
  if (fabric.empty() || fabric.front() == '.' || fabric.find('/') != std::string::npos)
    return Error{fmt::format("'{}' is not the name of a fabric", fabric)};
  Result<StateDir> dir = enter(fabric, false);
  if (!dir.ok() && errno == ENOENT)
    return Error{fmt::format("no fabric '{}' has run here; start it with weft up FILE", fabric)};
  return dir;
}

Status StateDir::lock() {
  UniqueFd fd = open_own_file(at_.get(), "lock", O_RDWR | O_CREAT);
  if (!fd.valid()) return errno_error("cannot open " + file("lock"), errno);
  struct flock wanted = whole_file();
  if (fcntl(fd.get(), F_OFD_SETLK, &wanted) != 0)
    return Error{
        fmt::format("fabric '{}' is already running; end it with weft down --fabric {}", fabric_, fabric_)};
  lock_ = std::move(fd);
  return {};
}

bool StateDir::locked() const {
  const UniqueFd fd = open_own_file(at_.get(), "lock", O_RDONLY);
  struct flock held = whole_file();
  return fd.valid() && fcntl(fd.get(), F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK;
}

Status StateDir::save(const RunRecord& record) const {
  std::ostringstream text;
  text << "launcher " << record.launcher << ' ' << record.launcher_ticks << '\n';
  text << "ready " << record.ready << '\n';
  text << "topology " << record.topology << '\n';
  text << "links " << record.ends_unused << ' ' << record.cell_payload << ' ' << record.flit_payload << ' '
       << record.direct << '\n';
  for (const SpareRecord& s : record.spare)
    text << "spare " << s.node << ' ' << s.ports << ' ' << s.first_lid << ' ' << s.lids << '\n';
  for (const RecordedProcess& p : record.processes)
    text << "process " << p.name << ' ' << p.program << ' ' << p.pid << ' ' << p.start_ticks << ' '
         << p.restarts << '\n';
  for (const RecordedInterface& i : record.interfaces)
    text << "interface " << i.name << ' ' << (i.netns.empty() ? "-" : i.netns) << '\n';
  for (const RecordedPort& p : record.ports)
    text << "port " << p.node << ' ' << p.number << ' ' << p.peer << '\n';
  for (const BorrowedInterface& b : record.borrowed)
    text << "borrowed " << b.name << ' ' << (b.netns.empty() ? "-" : b.netns) << ' ' << b.index << ' '
         << b.mtu << ' ' << b.mtu_before << ' ' << weft::to_string(b.mac) << ' '
         << weft::to_string(b.mac_before) << ' ' << b.sizes.gso_bytes << ' ' << b.sizes.gro_bytes << ' '
         << b.sizes_before.gso_bytes << ' ' << b.sizes_before.gro_bytes << '\n';
  constexpr const char* kFresh = "run.new";
  const std::string bytes = text.str();
  {
    // Not truncated on opening, so that the space reserved by the previous save() is used.
    const UniqueFd out = open_own_file(at_.get(), kFresh, O_WRONLY | O_CREAT);
    if (!out.valid() ||
        pwrite(out.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()) ||
        ftruncate(out.get(), static_cast<off_t>(bytes.size())) != 0)
      return errno_error("cannot write " + file(kFresh), errno);
  }
  if (renameat(at_.get(), kFresh, at_.get(), "run") != 0)
    return errno_error("cannot write " + file("run"), errno);
  const UniqueFd next = open_own_file(at_.get(), kFresh, O_WRONLY | O_CREAT);
  if (next.valid())
    static_cast<void>(posix_fallocate(next.get(), 0, static_cast<off_t>(bytes.size() + kRecordGrowth)));
  return {};
}

Status StateDir::check_space(size_t bytes) const {
  struct statvfs info {};
  if (statvfs(path_.c_str(), &info) != 0) return errno_error("cannot use state directory " + path_, errno);
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= bytes) return {};
  return Error{
      fmt::format("state directory {} has {} KiB free, this fabric needs {} KiB: make room or set "
                  "WEFT_STATE_DIR to another",
                  path_, free / 1024, (bytes + 1023) / 1024)};
}

Status StateDir::note_start() const {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const std::string text =
      fmt::format("{}\n", std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  const UniqueFd out = open_own_file(at_.get(), "started", O_WRONLY | O_CREAT | O_TRUNC);
  if (out.valid() && write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return {};
  return errno_error("cannot write " + file("started"), errno);
}

uint64_t StateDir::started_us() const {
  std::istringstream in(text("started"));
  uint64_t since = 0;
  in >> since;
  return since;
}

RunRecord StateDir::load() const {
  RunRecord record;
  std::istringstream in(text("run"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "launcher") words >> record.launcher >> record.launcher_ticks;
    if (kind == "ready") words >> record.ready;
    if (kind == "topology") std::getline(words >> std::ws, record.topology);
    if (kind == "links")
      words >> record.ends_unused >> record.cell_payload >> record.flit_payload >> record.direct;
    SpareRecord spare;
    if (kind == "spare" && words >> spare.node >> spare.ports >> spare.first_lid >> spare.lids)
      record.spare.push_back(spare);
    RecordedProcess process;
    if (kind == "process" &&
        words >> process.name >> process.program >> process.pid >> process.start_ticks >> process.restarts)
      record.processes.push_back(process);
    RecordedPort port;
    if (kind == "port" && words >> port.node >> port.number >> port.peer) record.ports.push_back(port);
    BorrowedInterface borrowed;
    std::string mac;
    std::string mac_before;
    if (kind == "borrowed" && words >> borrowed.name >> borrowed.netns >> borrowed.index >> borrowed.mtu >>
                                  borrowed.mtu_before >> mac >> mac_before >> borrowed.sizes.gso_bytes >>
                                  borrowed.sizes.gro_bytes >> borrowed.sizes_before.gso_bytes >>
                                  borrowed.sizes_before.gro_bytes) {
      if (borrowed.netns == "-") borrowed.netns.clear();
      borrowed.mac = parse_mac(mac).value_or(MacAddress{});
      borrowed.mac_before = parse_mac(mac_before).value_or(MacAddress{});
      record.borrowed.push_back(borrowed);
    }
    RecordedInterface interface;
    if (kind == "interface" && words >> interface.name >> interface.netns) {
      if (interface.netns == "-") interface.netns.clear();
      record.interfaces.push_back(interface);
    }
  }
  return record;
}

std::string StateDir::text(const std::string& name) const {
  return own_file_text(at_.get(), name);
}

void StateDir::remove_runtime_files() const {
  std::error_code ignored;
  std::vector<std::string> names;
  // Lists by descriptor, because the path may meanwhile lead elsewhere.
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/self/fd/{}", at_.get()), ignored))
    if (!is_kept(entry.path())) names.push_back(entry.path().filename());
  for (const std::string& name : names) remove_tree(at_.get(), name);
}

void StateDir::remove_all() const {
  remove_tree(base_.get(), fabric_);
}

void clean_up_leftovers(const StateDir& dir, const RunRecord& record) {
  const auto any_running = [&record] {
    return std::any_of(record.processes.begin(), record.processes.end(),
                       [](const RecordedProcess& p) { return is_running(p.pid, p.start_ticks); });
  };
  const auto tell_all = [&record](int signal) {
    for (const RecordedProcess& p : record.processes) signal_recorded(p.pid, p.start_ticks, signal);
  };
  tell_all(SIGTERM);
  for (int i = 0; i < 100 && any_running(); ++i) std::this_thread::sleep_for(10ms);
  tell_all(SIGKILL);
  for (int i = 0; i < 100 && any_running(); ++i) std::this_thread::sleep_for(10ms);
  // Namespaces made by the launcher disappear with their holder, so only its own namespace may still have
  // interfaces.
  for (const RecordedInterface& interface : record.interfaces)
    if (interface.netns.empty()) remove_tagged_interface(interface.name, interface_tag(dir.fabric()));
  for (const BorrowedInterface& borrowed : record.borrowed) {
    const UniqueFd netns(
        borrowed.netns.empty() ? -1 : ::open(("/run/netns/" + borrowed.netns).c_str(), O_RDONLY | O_CLOEXEC));
    if (borrowed.netns.empty() || netns.valid()) give_back(borrowed, netns.get());
  }
  dir.remove_runtime_files();
}

}  // namespace weft::tools
