// bench/limits/bare_tap_loop.cc -- the yardstick for the LAN path: one process that copies frames between two
// TAP interfaces in different network namespaces, with vnet headers and segmentation offload as Weft uses
// them.
//
// It makes both interfaces (they disappear with the process), prints "ready" and copies until SIGTERM.
// --spin-us is the time for which it polls for frames before it sleeps in poll(); 0 is the blocking loop.
// --processes 3: one process at each interface and one between them, joined by sockets. So a frame wakes as
// many processes as in a fabric in which host, switch and unit are processes.
// With --no-offload frames have at most 1500 bytes.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "base/net/frame_port.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

constexpr size_t kFrameBytesMax = 128 * 1024;
constexpr int kFramesPerTurn = 4;
constexpr unsigned kSecondsMax = 600;  // of a process, should its parent not end it

volatile std::sig_atomic_t g_stop = 0;

struct Options {
  std::string first;  // NETNS:INTERFACE
  std::string second;
  int spin_us = 0;
  int processes = 1;
  bool no_offload = false;
};

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "bare_tap_loop: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

/// Opens a TAP in the namespace named before the colon.
int open_tap(const std::string& where, bool offload) {
  const size_t colon = where.find(':');
  const std::string space = "/run/netns/" + where.substr(0, colon);
  const int netns = open(space.c_str(), O_RDONLY | O_CLOEXEC);
  if (netns < 0) fail(space);
  if (setns(netns, CLONE_NEWNET) != 0) fail("setns " + space);
  close(netns);
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | (offload ? IFF_VNET_HDR : 0));
  where.substr(colon + 1).copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(tap, TUNSETIFF, &request) != 0) fail("TUNSETIFF " + where);
  if (offload) {
    int header = kVnetBytes;
    if (ioctl(tap, TUNSETVNETHDRSZ, &header) != 0) fail("TUNSETVNETHDRSZ");
    const unsigned long features = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (ioctl(tap, TUNSETOFFLOAD, features) != 0) fail("TUNSETOFFLOAD");
  }
  return tap;
}

/// Copies up to kFramesPerTurn frames. @return their number
int copy_frames(int from, int to, std::vector<std::byte>& frame) {
  int moved = 0;
  for (; moved < kFramesPerTurn; ++moved) {
    const ssize_t bytes = read(from, frame.data(), frame.size());
    if (bytes <= 0) break;
    if (write(to, frame.data(), static_cast<size_t>(bytes)) < 0 && errno != EAGAIN && errno != EIO) break;
  }
  return moved;
}

void copy_until_stopped(int first, int second, int spin_us) {
  std::vector<std::byte> frame(kFrameBytesMax);
  double last_work = seconds_now();
  while (g_stop == 0) {
    const int moved = copy_frames(first, second, frame) + copy_frames(second, first, frame);
    if (moved > 0) {
      last_work = seconds_now();
    } else if (spin_us > 0 && (seconds_now() - last_work) * 1e6 < spin_us) {
      yield_core();
    } else {
      pollfd items[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
      poll(items, 2, 1000);
      last_work = seconds_now();
    }
  }
}

/// A pair of sockets that keep the bounds of frames.
std::array<int, 2> joined() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail("socketpair");
  const int room = 4 * static_cast<int>(kFrameBytesMax);
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return ends;
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("bare_tap_loop: copies frames between two TAPs");
  known.add_options()("first", po::value(&options.first)->required(), "NETNS:INTERFACE");
  known.add_options()("second", po::value(&options.second)->required(), "NETNS:INTERFACE");
  known.add_options()("spin-us", po::value(&options.spin_us)->default_value(0),
                      "time to look before sleeping");
  known.add_options()("processes", po::value(&options.processes)->default_value(1), "1 or 3");
  known.add_options()("no-offload", po::bool_switch(&options.no_offload),
                      "1500-byte frames, checksums filled in");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  const int first = open_tap(options.first, !options.no_offload);
  const int second = open_tap(options.second, !options.no_offload);
  Children children;
  int last = second;
  if (options.processes == 3) {
    const std::array<int, 2> near = joined();
    const std::array<int, 2> far = joined();
    children.start([&] { copy_until_stopped(near[1], far[0], options.spin_us); }, kSecondsMax);
    children.start([&] { copy_until_stopped(far[1], second, options.spin_us); }, kSecondsMax);
    last = near[0];
  } else if (options.processes != 1) {
    fmt::print(stderr, "bare_tap_loop: --processes is 1 or 3\n");
    return 2;
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  copy_until_stopped(first, last, options.spin_us);
  children.stop();
  return 0;
}

}  // namespace weft::bench
