// weft exec: runs a command in the network namespace of a node. A fabric inside `unshare -Urn` also has its
// own user namespace, in which its owner has the rights for entering.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/command_line.h"
#include "base/unique_fd.h"
#include "tools/commands/command.h"

namespace weft::tools {
namespace {

bool same_namespace(int a, int b) {
  struct stat left {};
  struct stat right {};
  return fstat(a, &left) == 0 && fstat(b, &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino;
}

UniqueFd open_namespace(const std::string& process, const char* kind) {
  return UniqueFd(open(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), O_RDONLY | O_CLOEXEC));
}

/// Mounts a new /sys for this process that shows its present network namespace; the inherited /sys shows the
/// interfaces outside. No other process sees the mount.
Status renew_sys() {
  struct statvfs before {};
  const bool read_only = statvfs("/sys", &before) == 0 && (before.f_flag & ST_RDONLY) != 0;
  const unsigned long flags =
      MS_NOSUID | MS_NODEV | MS_NOEXEC | (read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL);
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0 ||
      mount("sysfs", "/sys", "sysfs", flags, nullptr) != 0)
    return errno_error("/sys still shows the interfaces of outside: cannot mount it anew", errno);
  return {};
}

/// Moves this process into the namespaces of the node; does nothing if it is already there.
Status enter(const RecordedProcess& node) {
  if (!is_running(node.pid, node.start_ticks))
    return Error{fmt::format("node '{}' does not run (weft status)", node.name)};
  const std::string process = std::to_string(node.pid);
  const UniqueFd network = open_namespace(process, "net");
  if (!network.valid())
    return errno_error(
        fmt::format("cannot open the namespace of node '{}' (is it up? weft status)", node.name), errno);
  if (same_namespace(network.get(), open_namespace("self", "net").get())) return {};
  const UniqueFd user = open_namespace(process, "user");
  if (user.valid() && !same_namespace(user.get(), open_namespace("self", "user").get()))
    (void)setns(user.get(), CLONE_NEWUSER);  // if this fails, the next step reports the missing right
  if (setns(network.get(), CLONE_NEWNET) == 0) {
    if (Status renewed = renew_sys(); !renewed) (void)failure("exec", renewed.error().text);
    return {};
  }
  return errno_error(
      fmt::format("cannot enter the namespace of node '{}' (needs CAP_SYS_ADMIN, as weft up did)", node.name),
      errno);
}

}  // namespace

int command_exec(const Arguments& arguments) {
  std::string fabric;
  Arguments words;
  CommandLine line("weft exec", "weft exec [options] NODE [--] COMMAND [ARGUMENTS]",
                   "Runs a command in the network namespace of a node, which has its interface, with a /sys "
                   "of that namespace. Needs the rights\nthat weft up had. The exit code is the command's; "
                   "126 when it cannot be run, 127 when it is not found.");
  line.text("fabric,f", "NAME", fabric, "which fabric, when several run");
  line.words("NODE or COMMAND", words, 2, 4096);
  if (std::optional<int> code = line.parse(shielded(arguments, {"--fabric", "-f", "--config"}, 1)))
    return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("exec", dir.error().text);
  Result<RecordedProcess> node = chosen_node(dir.value().load(), words[0]);
  if (!node.ok()) return failure("exec", node.error().text);
  if (Status entered = enter(node.value()); !entered.ok()) return failure("exec", entered.error().text);
  std::vector<char*> argv;
  for (size_t i = 1; i < words.size(); ++i) argv.push_back(words[i].data());
  argv.push_back(nullptr);
  restore_signals();
  execvp(argv[0], argv.data());
  const int fault = errno;
  const std::string what =
      fmt::format("cannot run '{}' in the network namespace of node '{}'", words[1], node.value().name);
  (void)failure("exec", errno_error(what, fault).text);
  return fault == ENOENT ? kExitNotFound : kExitCannotRun;
}

}  // namespace weft::tools
