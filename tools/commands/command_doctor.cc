// weft doctor: finds what may keep a program from running on a fabric, and tells the remedy.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/command_line.h"
#include "base/environment.h"
#include "base/process_limits.h"
#include "base/shared_region.h"
#include "fabric/window/process_copy.h"
#include "tools/commands/command.h"
#include "tools/launch/child_process.h"
#include "tools/launch/fabric_setup.h"
#include "tools/launch/run_environment.h"
#include "tools/launch/used_fabric.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

/// What a fabric of one switch with 64 spare ports, and a program on each, needs.
constexpr rlim_t kDescriptorsWanted = 64 + 4 * 65;
constexpr size_t kThreads = 4;
constexpr size_t kLinkBytes = 4 * 1024 * 1024;

struct Finding {
  std::string what;
  bool good = true;
  std::string text;  // the result, and the remedy if it is bad
};

Finding good(std::string what, std::string text) {
  return {std::move(what), true, std::move(text)};
}
Finding bad(std::string what, std::string text) {
  return {std::move(what), false, std::move(text)};
}

Finding state_directory() {
  const std::string name = "state directory";
  const std::string base = StateDir::base();
  struct stat info {};
  if (lstat(base.c_str(), &info) != 0) {
    const std::string parent = std::filesystem::path(base).parent_path();
    std::error_code ignored;
    if (std::filesystem::is_directory(parent, ignored) && access(parent.c_str(), W_OK) == 0)
      return good(name, base + " (is made when needed)");
    return bad(name, fmt::format("{} cannot be made in {}; set WEFT_STATE_DIR to a directory of yours", base,
                                 parent));
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
    return bad(name, fmt::format(
                         "{} is not a directory of yours with mode 0700; chmod 700 it, or set WEFT_STATE_DIR",
                         base));
  Result<Topology> topology = parse_topology(default_topology(), "(built in)");
  const uint64_t needed = topology.ok() ? state_bytes_needed(*topology) : 0;
  struct statvfs room {};
  if (statvfs(base.c_str(), &room) == 0 && uint64_t{room.f_bavail} * room.f_frsize < needed)
    return bad(name,
               fmt::format("{} has {} KiB free, the default fabric needs {} KiB; make room or set "
                           "WEFT_STATE_DIR to another",
                           base, uint64_t{room.f_bavail} * room.f_frsize / 1024, (needed + 1023) / 1024));
  return good(name, base);
}

Finding libraries() {
  const std::string name = "libraries";
  Result<ProgramLibraries> found = find_libraries();
  if (!found.ok()) return bad(name, found.error().text);
  if (found->preload.empty())
    return bad(name, found->verbs +
                         "; libweft_preload.so is missing beside it: librdmacm finds no device; build it");
  return good(name, found->verbs);
}

Finding programs() {
  const std::string path = find_program("weft-switch");
  if (path.empty())
    return bad("programs", "weft-switch is neither beside weft nor in PATH; build or install it");
  return good("programs", path);
}

/// Links are sealed memory files. They count against memory limits, not against the size of /dev/shm.
Finding shared_memory() {
  const Result<SharedRegion> region = SharedRegion::create("weft-doctor", kLinkBytes);
  if (region.ok()) return good("shared memory", "sealed memory files work");
  return bad("shared memory",
             region.error().text + "; raise the memory limit of this user, container or unit");
}

Finding descriptors() {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kDescriptorsWanted)
    return good("descriptors", fmt::format("up to {}", limit.rlim_max));
  return bad("descriptors",
             fmt::format("this user may have {}, a fabric of 64 programs needs {}; raise ulimit -Hn",
                         limit.rlim_max, kDescriptorsWanted));
}

Finding threads() {
  if (const Status started = check_spare_threads(kThreads); !started.ok())
    return bad("threads", started.error().text);
  return good("threads", "can be started");
}

/// Threads whose memory faults do not reach our handler copy by these calls (docs/memory.md).
Finding memory_calls() {
  const std::string name = "memory calls";
  std::byte from{1};
  std::byte to{};
  const iovec target{&to, 1};
  const iovec source{&from, 1};
  if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1 &&
      process_vm_writev(getpid(), &source, 1, &target, 1, 0) == 1)
    return good(name, "process_vm_readv and process_vm_writev work");
  return bad(name,
             errno_error("process_vm_readv", errno).text +
                 "; a program that blocks SIGSEGV or has its own handler may end when it unmaps "
                 "registered memory; allow process_vm_readv and process_vm_writev in the seccomp profile");
}

/// Two programs with --direct copy into each other's memory if the kernel lets them (docs/window.md). Two
/// children try, because the kernel may let a parent at its child where it refuses programs of the same user.
/// Either way such programs work.
Finding memory_windows() {
  const std::string name = "memory windows";
  uint64_t word = 1;
  const pid_t owner = fork();
  if (owner == 0) {
    pause();
    _exit(0);
  }
  const pid_t peer = owner > 0 ? fork() : -1;
  if (peer == 0) {
    uint64_t copy = 0;
    _exit(fabric::read_process_word(owner, reinterpret_cast<uint64_t>(&word), copy) ? 0 : errno);
  }
  int status = 0;
  if (peer > 0) waitpid(peer, &status, 0);
  if (owner > 0) {
    kill(owner, SIGKILL);
    waitpid(owner, nullptr, 0);
  }
  if (peer < 0) return good(name, "not tried: no process could be started");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return good(name, "the kernel copies between programs");
  return good(name, "in pieces, which is slower: " + fabric::refusal_text(WEXITSTATUS(status)));
}

/// Two polling programs and a switch share one core badly: each waits for the others' time slices.
Finding cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  if (count >= 2) return good("cores", std::to_string(count));
  return bad(
      "cores",
      "one: polling programs and the switch wait for each other; allow this process more cores (taskset)");
}

/// Programs load the libibverbs that comes first in the library path, so none may stand before ours.
Finding conflicts() {
  const std::string name = "other libibverbs";
  Result<ProgramLibraries> ours = find_libraries();
  for (const char* variable : {"LD_LIBRARY_PATH", "LD_PRELOAD"}) {
    std::istringstream words(environment_variable(variable));
    for (std::string word; std::getline(words, word, ':');) {
      const bool has_one = access((word + "/libibverbs.so.1").c_str(), F_OK) == 0 ||
                           word.find("libibverbs") != std::string::npos;
      if (!has_one || (ours.ok() && word == ours->verbs)) continue;
      return bad(name, fmt::format("{} names {}: unset it; weft run puts ours first, other launchers do not",
                                   variable, word));
    }
  }
  for (const char* variable : {"RDMAV_DRIVERS", "IBV_DRIVERS", "SYSFS_PATH"}) {
    if (std::getenv(variable) != nullptr)
      return bad(name, fmt::format("{} is set: it is for the kernel's devices; unset it", variable));
  }
  return good(name, "none");
}

/// True when the list in `variable`, whose words are separated by any of `separators`, contains `word`.
bool lists(const char* variable, const std::string& word, const std::string& separators) {
  const std::string text = environment_variable(variable);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (text.compare(at, end - at, word) == 0) return true;
    at = end + 1;
  }
  return false;
}

/// Checks an environment that joins a fabric without weft run, as in a Dockerfile, a batch job or mpirun -x.
Finding environment() {
  const std::string name = "environment";
  const std::string fabric = environment_variable("WEFT_FABRIC");
  if (fabric.empty()) return good(name, "WEFT_FABRIC is not set; weft run sets what a program needs");
  Result<ProgramLibraries> ours = find_libraries();
  if (!ours.ok()) return good(name, "WEFT_FABRIC=" + fabric);
  if (!lists("LD_LIBRARY_PATH", ours->verbs, ":"))
    return bad(
        name, fmt::format("WEFT_FABRIC is set and LD_LIBRARY_PATH lacks {}: programs get another libibverbs; "
                          "put it first",
                          ours->verbs));
  if (!ours->preload.empty() && !lists("LD_PRELOAD", ours->preload, ": "))
    return bad(name,
               fmt::format("WEFT_FABRIC is set and LD_PRELOAD lacks {}: librdmacm, and programs that look "
                           "into /sys, find no device; add it",
                           ours->preload));
  const std::string socket = fabric.starts_with("shm:") ? fabric.substr(4) : std::string();
  if (!socket.empty() && access(socket.c_str(), F_OK) != 0)
    return bad(
        name,
        fmt::format("WEFT_FABRIC names {}, where no switch is; start its fabric with weft up, or unset it",
                    socket));
  return good(name, "WEFT_FABRIC=" + fabric);
}

/// A program built with the address sanitizer refuses to start with a preloaded object unless an option
/// allows it.
Finding sanitizers() {
  const std::string name = "sanitizers";
  Result<ProgramLibraries> ours = find_libraries();
  if (ours.ok() && ours->suppressions.empty())
    return bad(name, "share/weft/tsan.supp is missing: sanitizers report false errors; install it");
  if (environment_variable("WEFT_FABRIC").empty())
    return good(name, "weft run tells them of our libraries (ASAN_OPTIONS, TSAN_OPTIONS, VALGRIND_OPTS)");
  if (lists("ASAN_OPTIONS", "verify_asan_link_order=0", ":, "))
    return good(name, "programs with the address sanitizer start");
  return good(name, "programs with the address sanitizer need ASAN_OPTIONS=verify_asan_link_order=0");
}

}  // namespace

int command_doctor(const Arguments& arguments) {
  bool json = false;
  Arguments none;
  CommandLine line("weft doctor", "weft doctor [options]",
                   "Checks directories, libraries, limits and environment for anything that keeps programs "
                   "from running on a fabric, and tells\nthe remedy. Exit code 0 if everything is good.");
  line.flag("json", json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  const std::vector<Finding> findings{programs(),    libraries(), state_directory(), shared_memory(),
                                      descriptors(), threads(),   memory_calls(),    memory_windows(),
                                      cores(),       conflicts(), environment(),     sanitizers()};
  const bool all_good =
      std::all_of(findings.begin(), findings.end(), [](const Finding& one) { return one.good; });
  std::string list;
  for (const Finding& one : findings) {
    if (json) {
      list += fmt::format("{}{{\"what\":{},\"good\":{},\"text\":{}}}", list.empty() ? "" : ",",
                          json_text(one.what), one.good, json_text(one.text));
    } else {
      print_line(fmt::format("{:<5} {:<17} {}", one.good ? "ok" : "BAD", one.what, one.text));
    }
  }
  if (json) print_line(fmt::format("{{\"good\":{},\"findings\":[{}]}}", all_good, list));
  return all_good ? kExitDone : kExitFailed;
}

}  // namespace weft::tools
