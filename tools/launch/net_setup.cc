#include "tools/launch/net_setup.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>

#include "base/net/net_interface.h"
#include "base/net/tap_port.h"
#include "tools/launch/child_process.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kCommandTimeout = 5s;

/// Runs `ip ARGUMENTS` in a namespace; the first line of its output becomes the error text.
Status run_ip(const std::vector<std::string>& arguments, int netns_fd) {
  std::vector<std::string> argv{"ip"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Result<CommandResult> done = run_command(argv, netns_fd, kCommandTimeout);
  if (!done.ok()) return done.error();
  if (done.value().exit_code == 0) return {};
  std::string complaint = done.value().output.substr(0, done.value().output.find('\n'));
  return Error{fmt::format("'{}' failed: {}", fmt::join(argv, " "), complaint)};
}

/// Body of the process that holds a namespace: makes it, reports the result, then waits until the lifeline
/// ends.
[[noreturn]] void hold_namespace(int lifeline, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "weft-netns");
  setpgid(0, 0);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  int failure = unshare(CLONE_NEWNET) == 0 ? 0 : errno;
  if (write(report, &failure, sizeof failure) != sizeof failure || failure != 0) _exit(1);
  close(report);
  char byte = 0;
  while (read(lifeline, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

Error namespace_error(const std::string& name, int error) {
  if (error == EPERM)
    return Error{
        fmt::format("cannot make network namespace '{}': needs CAP_SYS_ADMIN; run as root or inside "
                    "`unshare -Urn`, or leave out 'netns'",
                    name)};
  return errno_error("cannot make network namespace " + name, error);
}

}  // namespace

std::string interface_tag(const std::string& fabric) {
  return "weft:" + fabric;
}

void remove_tagged_interface(const std::string& name, const std::string& tag) {
  std::ifstream in("/sys/class/net/" + name + "/ifalias");
  std::string alias;
  if (!std::getline(in, alias) || alias != tag) return;
  (void)run_ip({"link", "delete", "dev", name}, -1).ok();
}

Result<std::unique_ptr<NetNamespace>> NetNamespace::open(const std::string& name) {
  std::unique_ptr<NetNamespace> made(new NetNamespace);  // tidy: the constructor is private
  made->fd_.reset(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (made->fd_.valid()) return made;

  std::array<int, 2> lifeline{};
  std::array<int, 2> report{};
  if (pipe2(lifeline.data(), O_CLOEXEC) != 0)
    return errno_error("cannot make network namespace " + name, errno);
  const UniqueFd lifeline_in(lifeline[0]);
  made->lifeline_.reset(lifeline[1]);
  if (pipe2(report.data(), O_CLOEXEC) != 0)
    return errno_error("cannot make network namespace " + name, errno);
  const UniqueFd report_in(report[0]);
  UniqueFd report_out(report[1]);
  const pid_t pid = fork();
  if (pid < 0) return errno_error("cannot make network namespace " + name, errno);
  if (pid == 0) {
    // Close the copies of all other descriptors: they would keep TAPs and pipes of the launcher open.
    const int keep_in = dup2(lifeline_in.get(), 0);
    const int keep_out = dup2(report_out.get(), 1);
    close_range(3, ~0U, 0);
    hold_namespace(keep_in, keep_out);
  }
  report_out.reset();
  made->holder_ = pid;
  int failure = EIO;
  if (read(report_in.get(), &failure, sizeof failure) != sizeof failure || failure != 0)
    return namespace_error(name, failure);
  made->fd_.reset(::open(fmt::format("/proc/{}/ns/net", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!made->fd_.valid()) return errno_error("cannot open network namespace " + name, errno);
  if (Status up = run_ip({"link", "set", "dev", "lo", "up"}, made->fd()); !up.ok()) return up.error();
  return made;
}

NetNamespace::~NetNamespace() {
  lifeline_.reset();
  if (holder_ <= 0) return;
  kill(holder_, SIGKILL);
  waitpid(holder_, nullptr, 0);
}

NetnsScope::NetnsScope(int fd) {
  if (fd < 0) return;
  home_.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!home_.valid() || setns(fd, CLONE_NEWNET) != 0) {
    status_ = errno_error("cannot enter network namespace (needs CAP_SYS_ADMIN)", errno);
    home_.reset();
  }
}

NetnsScope::~NetnsScope() {
  if (home_.valid() && setns(home_.get(), CLONE_NEWNET) != 0)
    std::abort();  // the thread must not continue in the wrong namespace
}

Result<UniqueFd> create_tap(const InterfaceSettings& settings, const std::string& tag, int netns_fd) {
  UniqueFd tap;
  {
    const NetnsScope scope(netns_fd);
    if (!scope.status().ok()) return scope.status().error();
    if (if_nametoindex(settings.name.c_str()) != 0)
      return Error{
          fmt::format("tap: interface {} exists already and may belong to another user; choose another "
                      "'interface' or remove it: ip link delete {}",
                      settings.name, settings.name)};
    Result<UniqueFd> opened = open_tap(settings.name);
    if (!opened.ok()) return opened.error();
    tap = std::move(opened).value();
  }
  if (Status set_up = set_up_tap(settings, tag, netns_fd); !set_up.ok()) return set_up.error();
  return tap;
}

Status set_up_tap(const InterfaceSettings& settings, const std::string& tag, int netns_fd) {
  {
    const NetnsScope scope(netns_fd);
    if (!scope.status().ok()) return scope.status().error();
    Result<NetInterface> interface = NetInterface::open(settings.name);
    if (!interface.ok()) return interface.error();
    if (Status sized = interface.value().limit_gso(kGsoBytesMax); !sized.ok()) return sized.error();
  }
  const std::string& name = settings.name;
  std::vector<std::vector<std::string>> steps;
  steps.push_back({"link", "set", "dev", name, "alias", tag, "address", weft::to_string(settings.mac)});
  if (settings.mtu != 0) steps.push_back({"link", "set", "dev", name, "mtu", std::to_string(settings.mtu)});
  steps.push_back({"link", "set", "dev", name, "up"});
  for (const std::string& address : settings.addresses) {
    steps.push_back({"address", "replace", address, "dev", name});
    // Duplicate address detection would wait for the carrier, which comes later.
    if (address.find(':') != std::string::npos) steps.back().emplace_back("nodad");
  }
  if (!settings.gateway.empty())
    steps.push_back({"route", "replace", "default", "via", settings.gateway, "dev", name});
  for (const std::vector<std::string>& step : steps)
    if (Status done = run_ip(step, netns_fd); !done.ok()) return done.error();
  return {};
}

Status join_bridge(const std::string& name, const std::string& bridge, int netns_fd) {
  return run_ip({"link", "set", "dev", name, "master", bridge}, netns_fd);
}

void give_back(const BorrowedInterface& borrowed, int netns_fd) {
  const NetnsScope scope(netns_fd);
  if (!scope.status().ok()) return;
  Result<NetInterface> interface = NetInterface::open(borrowed.name);
  if (!interface.ok() || interface.value().index() != borrowed.index) return;
  const NetInterface& its = interface.value();
  if (borrowed.mtu_before != 0 && its.mtu() == borrowed.mtu) (void)its.set_mtu(borrowed.mtu_before).ok();
  if (borrowed.mac_before != MacAddress{} && its.mac() == borrowed.mac)
    (void)its.set_mac(borrowed.mac_before).ok();
  if (borrowed.sizes_before == GsoSizes{}) return;
  Result<GsoSizes> sizes = its.gso_sizes();
  if (sizes.ok() && sizes.value() == borrowed.sizes) (void)its.set_gso_sizes(borrowed.sizes_before).ok();
}

Result<UniqueFd> open_packet_socket(const std::string& name, int netns_fd) {
  const NetnsScope scope(netns_fd);
  if (!scope.status().ok()) return scope.status().error();
  if (if_nametoindex(name.c_str()) == 0)
    return Error{fmt::format("packet: there is no interface {}; see ip link", name)};
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) return fd;
  if (errno == EPERM)
    return Error{
        "packet: not permitted: needs CAP_NET_RAW; nic = \"slirp\", \"pcap\" and \"echo\" work without"};
  return errno_error("packet: cannot open a packet socket", errno);
}

}  // namespace weft::tools
