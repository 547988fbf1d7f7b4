// Devices with their helper threads, over shared memory to a switch in another thread. Run under the thread
// sanitizer too.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "hca/helper_thread.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/live_consumer.h"

namespace weft::test {
using adapter::WcStatus;
using hca::Answer;
using hca::EventKind;
namespace {

class LiveDevices : public ::testing::Test {
 protected:
  explicit LiveDevices(LinkKind kind = LinkKind::kShm) : fabric(kind) {}
  std::array<hca::Qp*, 2> connected() {
    const std::array<hca::Qp*, 2> qps{a.make_qp(), b.make_qp()};
    connect(*qps[0], Lid(1), *qps[1], Lid(2));
    return qps;
  }
  /// Waits in get_event() until the CQ of `at` has an entry, and takes it.
  static adapter::WorkCompletion wait_for_one(Consumer& at) {
    adapter::WorkCompletion out{.status = WcStatus::kGeneral};
    for (;;) {
      if (at.cq->poll(std::span(&out, 1)) != 0) return out;
      EXPECT_EQ(at.cq->arm(false), Answer::kOk);
      if (at.cq->poll(std::span(&out, 1)) != 0) return out;
      hca::Cq* told = nullptr;
      EXPECT_EQ(at.channel->get_event(told), Answer::kOk);
      told->ack_events(1);
    }
  }

  LiveFabric fabric;
  LiveConsumer a{1, fabric};
  LiveConsumer b{2, fabric};
};

/// Threads that have taken memory, in the order in which they did.
struct Takers {
  static constexpr size_t kMax = 4096;
  std::array<pthread_t, kMax> threads{};
  std::atomic<size_t> count{0};
} g_takers;

void note_taker(uint64_t /*bytes*/) {
  const size_t at = g_takers.count++;
  if (at < Takers::kMax) g_takers.threads[at] = pthread_self();
}

/// How often threads of this name have; they still run.
size_t taken_by(std::string_view name) {
  const size_t count = std::min(g_takers.count.load(), Takers::kMax);
  return static_cast<size_t>(
      std::count_if(g_takers.threads.begin(), g_takers.threads.begin() + count, [name](pthread_t thread) {
        std::array<char, 16> called{};
        return pthread_getname_np(thread, called.data(), called.size()) == 0 && name == called.data();
      }));
}

/// From its first turn on: what a program's libraries do to the functions that map memory, they do meanwhile.
TEST_F(LiveDevices, their_helper_takes_no_memory) {
  const auto qps = connected();
  watch_allocations(note_taker);
  for (Consumer* side : {static_cast<Consumer*>(&a), static_cast<Consumer*>(&b)})
    ASSERT_EQ(side->cq->arm(false), Answer::kOk);
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(b.recv(*qps[1], i), Answer::kOk);
    ASSERT_EQ(a.send(*qps[0], i), Answer::kOk);
    EXPECT_EQ(wait_for_one(b).status, WcStatus::kSuccess);
    EXPECT_EQ(wait_for_one(a).status, WcStatus::kSuccess);
  }
  watch_allocations(nullptr);
  ASSERT_TRUE(a.thread->running() && b.thread->running());
  ASSERT_LT(g_takers.count, Takers::kMax);
  EXPECT_EQ(taken_by("weft-helper"), 0U);
}

TEST_F(LiveDevices, two_threads_that_sleep_between_messages_wake_each_other) {
  const auto qps = connected();
  constexpr uint64_t kMessages = 100;
  ASSERT_EQ(b.recv(*qps[1], 0), Answer::kOk);
  std::thread far([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      const adapter::WorkCompletion got = wait_for_one(b);
      EXPECT_EQ(got.status, WcStatus::kSuccess);
      EXPECT_EQ(got.opcode, adapter::WcOpcode::kRecv);
      EXPECT_EQ(b.recv(*qps[1], i + 1), Answer::kOk);
      EXPECT_EQ(b.send(*qps[1], i), Answer::kOk);
      EXPECT_EQ(wait_for_one(b).opcode, adapter::WcOpcode::kSend);
    }
  });
  for (uint64_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(a.recv(*qps[0], i), Answer::kOk);
    EXPECT_EQ(a.send(*qps[0], i), Answer::kOk);
    for (int entries = 0; entries < 2; ++entries) EXPECT_EQ(wait_for_one(a).status, WcStatus::kSuccess);
  }
  far.join();
}

/// Nobody calls the far side but to count its entries, which drives nothing.
TEST_F(LiveDevices, the_helper_serves_a_program_that_makes_no_calls) {
  const auto qps = connected();
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(b.recv(*qps[1], i), Answer::kOk);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(a.send(*qps[0], i), Answer::kOk);
    EXPECT_EQ(wait_for_one(a).status, WcStatus::kSuccess) << "the far side acknowledged it";
  }
  EXPECT_EQ(b.cq->query().fill, 8U);
  EXPECT_GT(b.device.count(hca::DeviceCounter::kHelperTurns), 0U);
}

TEST_F(LiveDevices, a_switch_that_goes_and_comes_is_noticed_and_nothing_is_lost) {
  const auto qps = connected();
  ASSERT_EQ(b.recv(*qps[1], 1), Answer::kOk);
  fabric.stop();
  fabric.box.admission.engine(0).take_down();
  fabric.start();
  ASSERT_EQ(a.send(*qps[0], 1), Answer::kOk);
  std::vector<EventKind> kinds;
  while (kinds.empty() || kinds.back() != EventKind::kPortActive || kinds.size() < 2) {
    hca::AsyncEvent event;
    ASSERT_EQ(a.context->get_async_event(event), Answer::kOk);
    if (event.kind == EventKind::kPortActive && kinds.empty()) continue;  // of the first time
    kinds.push_back(event.kind);
  }
  EXPECT_EQ(kinds, (std::vector<EventKind>{EventKind::kPortError, EventKind::kClientReregister,
                                           EventKind::kPortActive}));
  EXPECT_EQ(wait_for_one(b).status, WcStatus::kSuccess);
}

/// A link that is supervised on its path: its carrier makes system calls there anyhow.
class ZmqDevices : public LiveDevices {
 protected:
  ZmqDevices() : LiveDevices(LinkKind::kZmq) {}
};

TEST_F(ZmqDevices, sleepers_wake_each_other_over_zeromq_too) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  const auto qps = connected();
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(b.recv(*qps[1], i), Answer::kOk);
    ASSERT_EQ(a.send(*qps[0], i), Answer::kOk);
    EXPECT_EQ(wait_for_one(b).wr_id, i);
    EXPECT_EQ(wait_for_one(a).wr_id, i);
  }
}

TEST_F(ZmqDevices, a_process_that_ends_waits_until_the_switch_has_its_last_cells) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  const auto qps = connected();
  ASSERT_EQ(b.recv(*qps[1], 1), Answer::kOk);
  fabric.stop();
  const auto& arrivals = fabric.box.admission.engine(0).lane(VirtualLane(0));
  const uint64_t before = arrivals.arrived();
  ASSERT_EQ(a.send(*qps[0], 1), Answer::kOk);
  EXPECT_FALSE(a.device.finish()) << "not for ever";
  fabric.start();
  while (!a.device.finish()) std::this_thread::yield();
  fabric.stop();
  EXPECT_GT(arrivals.arrived(), before);
  fabric.start();
  EXPECT_EQ(wait_for_one(b).wr_id, 1U);
}

/// Whoever closes its device may go on by _exit() or exec().
TEST_F(ZmqDevices, closing_the_last_context_waits_for_a_switch_that_stands_still) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  const auto qps = connected();
  hca::Context* other = a.device.open().object;
  ASSERT_EQ(b.recv(*qps[1], 1), Answer::kOk);
  fabric.stop();
  ASSERT_EQ(a.send(*qps[0], 1), Answer::kOk);
  a.device.close(other);
  const Instant before = fabric.clock.now();
  a.device.close(std::exchange(a.context, nullptr));
  EXPECT_GE(fabric.clock.now() - before, hca::kFinishMax);
  fabric.start();
  EXPECT_EQ(wait_for_one(b).wr_id, 1U);
}

/// What stands in memory that the switch has as well is there when the process is not.
TEST_F(LiveDevices, a_process_that_ends_waits_for_nobody_over_shared_memory) {
  const auto qps = connected();
  ASSERT_EQ(b.recv(*qps[1], 1), Answer::kOk);
  fabric.stop();
  ASSERT_EQ(a.send(*qps[0], 1), Answer::kOk);
  EXPECT_TRUE(a.device.finish());
  fabric.start();
  EXPECT_EQ(wait_for_one(b).wr_id, 1U);
}

hca::Device* to_end = nullptr;
std::atomic<int> times_ended = 0;

/// exit() may be called by a signal handler, whatever that has interrupted.
TEST_F(LiveDevices, a_signal_handler_that_interrupts_a_call_can_end_the_process) {
  static_cast<void>(connected());
  to_end = &a.device;
  times_ended = 0;
  struct sigaction action {};
  action.sa_handler = [](int) {
    static_cast<void>(to_end->finish());
    ++times_ended;
  };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t caller = pthread_self();
  std::thread sender([&] {
    for (int i = 1; i <= 10; ++i) {
      pthread_kill(caller, SIGUSR1);
      while (times_ended < i) std::this_thread::sleep_for(1ms);
    }
  });
  std::array<adapter::WorkCompletion, 8> got;
  while (times_ended < 10) EXPECT_EQ(a.cq->poll(got), 0);
  sender.join();
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

/// The line of a thread's status file that begins with `key`, without it.
std::string status_line(const std::filesystem::path& task, const std::string& key) {
  std::ifstream file(task / "status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(key)) return line.substr(key.size() + 1);
  }
  return {};
}

TEST_F(LiveDevices, signals_are_blocked_in_the_helper_thread_and_not_in_its_maker) {
  static_cast<void>(connected());
  const std::string own = status_line("/proc/thread-self", "SigBlk:");
  int found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (status_line(task.path(), "Name:") != "weft-helper") continue;
    ++found;
    // A new thread blocks all signals until the C library has set its mask: one that sleeps is past that.
    while (!status_line(task.path(), "State:").starts_with('S')) std::this_thread::yield();
    const uint64_t blocked = std::stoull(status_line(task.path(), "SigBlk:"), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE})
      EXPECT_NE(blocked & (uint64_t{1} << (signal - 1)), 0U) << signal;
  }
  EXPECT_GE(found, 1);
  EXPECT_EQ(std::stoull(own, nullptr, 16) & (uint64_t{1} << (SIGUSR1 - 1)), 0U);
}

TEST_F(LiveDevices, a_child_has_no_helper_and_ends_its_objects_without_touching_the_parents) {
  const auto qps = connected();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = a.send(*qps[0], 1) == Answer::kForked;
    const bool ended = a.context->destroy(qps[0]) == Answer::kOk;
    a.thread.reset();
    _exit(refused && ended ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_EQ(b.recv(*qps[1], 1), Answer::kOk);
  ASSERT_EQ(a.send(*qps[0], 1), Answer::kOk);
  EXPECT_EQ(wait_for_one(b).status, WcStatus::kSuccess);
}

// ---- eight threads, every call --------------------

constexpr int kThreads = 8;
constexpr int kRounds = 60;

/// What one of the threads does: its own objects come and go, and it shares a CQ, channel and context with
/// the others.
class Worker {
 public:
  Worker(Consumer& at, uint64_t seed) : at_(at), random_(seed) {}

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      make();
      for (int call = 0; call < 20; ++call) one_call();
      end();
    }
  }
  uint64_t sent = 0;

 private:
  void make() {
    hca::Context& context = *at_.context;
    pd_ = context.alloc_pd().object;
    ASSERT_NE(pd_, nullptr);
    region_ = context.reg_mr(*pd_, memory_, adapter::Access::kLocalWrite).object;
    window_ = context.alloc_window(*pd_).object;
    channel_ = context.create_channel().object;
    cq_ = context.create_cq(512, channel_).object;
    for (hca::Qp*& qp : qps_)
      qp = context.create_qp(*pd_, {.send_cq = cq_, .recv_cq = at_.cq, .config = {}, .user = this}).object;
    // To each other, within the adapter.
    ASSERT_EQ(bring_up(*qps_[0], qps_[1]->number(), Lid(1)), Answer::kOk);
    ASSERT_EQ(bring_up(*qps_[1], qps_[0]->number(), Lid(1)), Answer::kOk);
    ASSERT_EQ(fcntl(channel_->fd(), F_SETFL, O_NONBLOCK), 0);
  }
  void one_call() {
    hca::Qp& qp = *qps_[random_.below(2)];
    const adapter::Sge sge{.addr = region_->region().addr, .length = 32, .lkey = region_->region().lkey};
    std::array<adapter::WorkCompletion, 8> got;
    hca::Cq* told = nullptr;
    hca::AsyncEvent event;
    adapter::QpAttr attr;
    adapter::QpConfig config;
    hca::PortState port;
    size_t posted = 0;
    switch (random_.below(10)) {
      case 0:
      case 1: {
        const adapter::RecvRequest recv{.wr_id = 1, .sges = std::span(&sge, 1)};
        static_cast<void>(qp.post_recv(std::span(&recv, 1), posted));
        break;
      }
      case 2:
      case 3: {
        const adapter::SendRequest send{
            .wr_id = 2, .flags = adapter::kSendSignaled, .sges = std::span(&sge, 1)};
        static_cast<void>(qp.post_send(std::span(&send, 1), posted));
        sent += posted;
        break;
      }
      case 4:
        EXPECT_GE(cq_->poll(got), 0);
        EXPECT_GE(at_.cq->poll(got), 0);
        break;
      case 5:
        EXPECT_EQ(cq_->arm(random_.below(2) == 0), Answer::kOk);
        EXPECT_EQ(at_.cq->arm(false), Answer::kOk);
        break;
      case 6:
        for (hca::CompletionChannel* channel : {channel_, at_.channel}) {
          if (channel->get_event(told) == Answer::kOk) told->ack_events(1);
        }
        break;
      case 7:
        if (at_.context->get_async_event(event) == Answer::kOk) at_.context->ack_async_event(event);
        break;
      case 8:
        EXPECT_EQ(qp.query(attr, config), Answer::kOk);
        EXPECT_EQ(at_.device.query_port(1, port), Answer::kOk);
        EXPECT_LE(cq_->query().fill, 512U);
        break;
      default: {
        std::vector<std::byte> more(8192);
        hca::MemoryRegion* region = at_.context->reg_mr(*pd_, more, adapter::Access::kLocalWrite).object;
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(at_.context->destroy(region), Answer::kOk);
        break;
      }
    }
  }
  void end() {
    hca::Context& context = *at_.context;
    EXPECT_EQ(context.destroy(pd_), Answer::kBusy);
    EXPECT_EQ(qps_[0]->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
    EXPECT_EQ(qps_[1]->modify({.state = adapter::QpState::kReset}, adapter::kQpAttrState), Answer::kOk);
    for (hca::Object* object :
         std::initializer_list<hca::Object*>{qps_[0], qps_[1], cq_, channel_, window_, region_, pd_})
      EXPECT_EQ(context.destroy(object), Answer::kOk);
  }

  Consumer& at_;
  SeededRandom random_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(4096);
  hca::ProtectionDomain* pd_ = nullptr;
  hca::MemoryRegion* region_ = nullptr;
  hca::Window* window_ = nullptr;
  hca::CompletionChannel* channel_ = nullptr;
  hca::Cq* cq_ = nullptr;
  std::array<hca::Qp*, 2> qps_{};
};

TEST_F(LiveDevices, eight_threads_make_every_call_at_once) {
  ASSERT_EQ(fcntl(a.channel->fd(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(a.context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    workers.push_back(std::make_unique<Worker>(a, static_cast<uint64_t>(i) + 1));
    threads.emplace_back([worker = workers.back().get()] { worker->run(); });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t sent = 0;
  for (const auto& worker : workers) sent += worker->sent;
  EXPECT_GT(sent, 100U);
  // The device still works.
  const auto qps = connected();
  ASSERT_EQ(b.recv(*qps[1], 77), Answer::kOk);
  ASSERT_EQ(a.send(*qps[0], 78), Answer::kOk);
  EXPECT_EQ(wait_for_one(b).wr_id, 77U);
}

}  // namespace
}  // namespace weft::test
