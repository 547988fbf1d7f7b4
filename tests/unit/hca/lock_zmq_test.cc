// A link over ZeroMQ makes system calls while the lock of its device is held. None of them waits: which calls
// there are, and with what arguments, is seen in a child process to which the kernel shows each of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bitset>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "fabric/switch/admission.h"
#include "fabric/switch/zmq_acceptor.h"
#include "hca/device_core.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/system_call_watch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

using namespace std::chrono_literals;

/// What the child has seen, in memory that both processes have.
struct Report {
  uint64_t calls = 0;        // under the lock
  int64_t unknown = -1;      // one that is not known not to wait
  int64_t waits = -1;        // one that was made to wait
  int64_t blocks = -1;       // a descriptor that was read or written and is not O_NONBLOCK
  std::bitset<1024> used{};  // descriptors that were read or written
};

Report* g_report = nullptr;
std::array<hca::DeviceLock*, 2> g_locks{};

bool held() {
  for (hca::DeviceLock* lock : g_locks) {
    if (lock == nullptr) continue;
    if (!lock->try_lock()) return true;
    lock->unlock();
  }
  return false;
}

void look(long number, const long long* arguments) {  // NOLINT(google-runtime-int)
  if (!held()) return;
  ++g_report->calls;
  switch (number) {
    case SYS_getpid:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_brk:
    case SYS_write:  // of a log line as well, to standard error
      break;
    case SYS_poll:
      if (arguments[2] != 0) g_report->waits = number;
      break;
    case SYS_futex:  // of a queue of commands, which nobody holds over a system call
    case SYS_read:
    case SYS_recvfrom:
    case SYS_sendto:
      break;
    default:
      g_report->unknown = number;
  }
  const bool moves =
      number == SYS_read || number == SYS_write || number == SYS_recvfrom || number == SYS_sendto;
  if (moves && arguments[0] > STDERR_FILENO && arguments[0] < 1024)
    g_report->used.set(static_cast<size_t>(arguments[0]));
}

/// Two devices over ZeroMQ to a switch in the same thread. ZeroMQ's own threads are there before anybody
/// watches this one.
struct World {
  explicit World(const std::string& path)
      : core(small_switch()), admission(core, {{"a", Guid(0x1001), Lid(1)}, {"b", Guid(0x1002), Lid(2)}}) {
    fabric::ZmqAcceptorConfig config;
    config.endpoints = {"ipc://" + path};
    acceptor = std::move(fabric::ZmqAcceptor::create(config, admission).value());
    for (Consumer* at : {&a, &b}) {
      fabric::LinkEndpointConfig link;
      link.link = small_switch().link;
      link.link.guid = Guid(at == &a ? 0x1001 : 0x1002);
      link.endpoint = "ipc://" + path;
      EXPECT_TRUE(at->device.add_link(link).ok());
      at->open();
    }
    g_locks = {&a.pd->context().core().lock, &b.pd->context().core().lock};
  }
  void turn() {
    clock.advance(100us);
    acceptor->poll(clock.now());
    core.poll(clock.now());
    static_cast<void>(a.device.help(true));
    static_cast<void>(b.device.help(true));
  }
  bool join() {
    hca::PortState state[2];
    for (int i = 0; i < 20000 && !(state[0].up && state[1].up); ++i) {
      turn();
      static_cast<void>(a.device.query_port(1, state[0]));
      static_cast<void>(b.device.query_port(1, state[1]));
      std::this_thread::sleep_for(1ms);  // ZeroMQ connects in its own time
    }
    if (!state[0].up || !state[1].up) return false;
    return make_connected(a, b, qps);
  }
  bool transfer(uint64_t count) {
    uint64_t posted = 0;
    for (uint64_t done = 0; done < count;) {
      for (; posted < count && posted < done + 16; ++posted) {
        if (!post_one(a, b, qps, posted)) return false;
      }
      turn();
      const int arrived = poll_both(a, b);
      if (arrived < 0) return false;
      done += static_cast<uint64_t>(arrived);
    }
    return true;
  }

  ManualClock clock;
  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<fabric::ZmqAcceptor> acceptor;
  Consumer a{1, clock};
  Consumer b{2, clock};
  std::array<hca::Qp*, 2> qps{};
};

/// Nobody takes what is sent, so every queue on the way fills. The calls come back nevertheless.
bool send_to_nobody(World& world) {
  for (int turns = 0; turns < 500; ++turns) {
    const Answer posted = world.a.send(*world.qps[0], 1, 4096);
    if (posted != Answer::kOk && posted != Answer::kWouldBlock) return false;
    std::array<adapter::WorkCompletion, 16> got;
    static_cast<void>(world.a.cq->poll(got));
    if (world.a.cq->arm(false) != Answer::kOk) return false;
    world.clock.advance(100us);
  }
  return true;
}

TEST(LockZmq, no_call_waits_while_the_lock_is_held) {
#if defined(WEFT_DEEP_CHECKS)  // the sanitizer builds set it
  GTEST_SKIP() << "a sanitizer's runtime enters the kernel by itself; the release build runs it";
#elif !defined(__x86_64__)
  GTEST_SKIP() << "no watch over system calls here";
#endif
  void* shared = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  g_report = new (shared) Report();
  const TempDir dir;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    World world(dir.path() + "/s");
    if (!world.join() || !world.transfer(10)) _exit(1);
    if (!watch_system_calls(look)) _exit(2);
    if (!world.transfer(200) || !send_to_nobody(world)) _exit(3);
    g_locks = {};
    for (size_t fd = 0; fd < g_report->used.size(); ++fd) {
      if (g_report->used[fd] && (fcntl(static_cast<int>(fd), F_GETFL) & O_NONBLOCK) == 0)
        g_report->blocks = static_cast<int64_t>(fd);
    }
    _exit(0);
  }
  EXPECT_EQ(outcome_of(child), 0) << "1: no link; 2: no watch; 3: a call failed";
  EXPECT_GT(g_report->calls, 0U) << "there are some, as docs/consumer.md says";
  EXPECT_EQ(g_report->unknown, -1) << "a system call that may wait";
  EXPECT_EQ(g_report->waits, -1) << "a system call that was made to wait";
  EXPECT_GT(g_report->used.count(), 0U);
  EXPECT_EQ(g_report->blocks, -1) << "a descriptor that makes its reader or writer wait";
  munmap(std::exchange(g_report, nullptr), sizeof(Report));
}

}  // namespace
}  // namespace weft::test
