// A link over ZeroMQ makes system calls while the lock of its device is held. None of them waits: which calls
// there are, and with what arguments, is seen in a child process to which the kernel shows each of its own.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <bitset>
#include <chrono>

#include "tests/support/watched_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

using namespace std::chrono_literals;

/// What the child has seen, in memory that both processes have.
struct ZmqReport {
  uint64_t calls = 0;        // under the lock
  int64_t unknown = -1;      // one that is not known not to wait
  int64_t waits = -1;        // one that was made to wait
  int64_t blocks = -1;       // a descriptor that was read or written and is not O_NONBLOCK
  std::bitset<1024> used{};  // descriptors that were read or written
};

using LockZmq = WatchedDevices<ZmqReport>;
ZmqReport*& g_zmq_report = LockZmq::report;

void look_at_zmq(long number, const long long* arguments) {  // NOLINT(google-runtime-int)
  if (!LockZmq::held()) return;
  ++g_zmq_report->calls;
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
#ifdef SYS_poll
    case SYS_poll:
      if (arguments[2] != 0) g_zmq_report->waits = number;
      break;
#else  // aarch64: an endless wait has no time
    case SYS_ppoll:
      if (arguments[2] == 0) g_zmq_report->waits = number;
      break;
#endif
    case SYS_futex:  // of a queue of commands, which nobody holds over a system call
    case SYS_read:
    case SYS_recvfrom:
    case SYS_sendto:
      break;
    default:
      g_zmq_report->unknown = number;
  }
  const bool moves =
      number == SYS_read || number == SYS_write || number == SYS_recvfrom || number == SYS_sendto;
  if (moves && arguments[0] > STDERR_FILENO && arguments[0] < 1024)
    g_zmq_report->used.set(static_cast<size_t>(arguments[0]));
}

/// Nobody takes what is sent, so every queue on the way fills. The calls come back nevertheless.
bool send_to_nobody(LinkedDevices& world) {
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

TEST_F(LockZmq, no_call_waits_while_the_lock_is_held) {
  // ZeroMQ's own threads are there before anybody watches this one.
  const int outcome = in_child("ipc://", 0, look_at_zmq, [](LinkedDevices& world) {
    if (!world.transfer(200) || !send_to_nobody(world)) _exit(3);
    locks = {};
    for (size_t fd = 0; fd < report->used.size(); ++fd) {
      if (report->used[fd] && (fcntl(static_cast<int>(fd), F_GETFL) & O_NONBLOCK) == 0)
        report->blocks = static_cast<int64_t>(fd);
    }
  });
  EXPECT_EQ(outcome, 0) << "1: no link; 2: no watch; 3: a call failed";
  EXPECT_GT(g_zmq_report->calls, 0U) << "there are some, as docs/consumer.md says";
  EXPECT_EQ(g_zmq_report->unknown, -1) << "a system call that may wait";
  EXPECT_EQ(g_zmq_report->waits, -1) << "a system call that was made to wait";
  EXPECT_GT(g_zmq_report->used.count(), 0U);
  EXPECT_EQ(g_zmq_report->blocks, -1) << "a descriptor that makes its reader or writer wait";
}

}  // namespace
}  // namespace weft::test
