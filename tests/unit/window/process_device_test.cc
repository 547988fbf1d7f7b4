// A window between two processes: a forked child as the peer, which is killed or stopped in the middle.
#include "fabric/window/process_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "fabric/carrier/unix_socket.h"
#include "fabric/window/window_end.h"
#include "fabric/window/window_words.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/temp_dir.h"
#include "tests/support/window_process.h"

namespace weft::test {
using namespace fabric;
namespace {

[[noreturn]] void serve(UniqueFd socket, bool process_copies) {
  MonotonicClock clock;
  SystemRandom random;
  ShownMemory memory;
  auto device = ProcessDevice::create(std::move(socket), device_config(process_copies, &memory), random);
  if (!device) _exit(1);
  WindowEnd end(std::move(*device), kChildWindow);
  const WindowEntry entry{reinterpret_cast<uint64_t>(memory.bytes.data()), kShownBytes,
                          kTableRead | kTableWrite, kShownKey};
  if (end.own().publish(entry) != PublishResult::kOk) _exit(2);
  for (;;) {
    end.poll(clock.now());
    if (end.state() == WindowState::kGone) _exit(0);
    if (end.state() == WindowState::kFaulty) _exit(3);
    FifoRecord record;
    if (end.take(record) == FifoTake::kRecord && end.send(1, 2, record.data, 0) == FifoPost::kOk)
      end.release();
    for (FifoDone done; end.next_sent(done);) {
    }
    if (end.prepare_sleep()) {
      std::vector<pollfd> fds;
      end.wait_fds(fds);
      ::poll(fds.data(), fds.size(), 1);
    }
    end.finish_sleep();
  }
}

class TwoProcessWindow : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::string path = dir.path() + "/window.sock";
    UniqueFd listener = std::move(listen_unix(path, 1).value());
    child = fork();
    if (child == 0) {
      listener.reset();
      Result<UniqueFd> socket = connect_unix(path);
      if (!socket) _exit(9);
      serve(std::move(*socket), GetParam());
    }
    UniqueFd socket;
    for (int i = 0; i < 1000 && !socket.valid(); ++i) {
      socket.reset(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) std::this_thread::sleep_for(1ms);
    }
    ASSERT_TRUE(socket.valid());
    auto made = ProcessDevice::create(std::move(socket), device_config(GetParam()), random);
    ASSERT_TRUE(made.ok());
    device = made->get();
    end = std::make_unique<WindowEnd>(std::move(*made), kChildWindow);
    ASSERT_TRUE(wait([&] { return end->state() == WindowState::kUp && !end->peer().entries().empty(); }));
  }
  ~TwoProcessWindow() override {
    end.reset();
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  /// Polls until `done()`, a generous time.
  template <class Done>
  bool wait(Done done) {
    for (const Instant limit = clock.now() + 20s; clock.now() < limit;) {
      end->poll(clock.now());
      if (done()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  [[nodiscard]] uint64_t shown() const { return end->peer().entries().at(0).start; }
  AccessPost access(const WindowAccess& request) {
    AccessPost post = AccessPost::kWait;
    EXPECT_TRUE(wait([&] {
      post = end->access(request);
      return post != AccessPost::kWait;
    }));
    end->flush();
    return post;
  }
  bool wait_access(AccessDone& done) {
    return wait([&] { return end->next_access(done); });
  }

  TempDir dir;
  MonotonicClock clock;
  SystemRandom random;
  pid_t child = 0;
  ProcessDevice* device = nullptr;
  std::unique_ptr<WindowEnd> end;
};
std::string way_name(const ::testing::TestParamInfo<bool>& kind) {
  return kind.param ? "direct" : "pieces";
}
INSTANTIATE_TEST_SUITE_P(Ways, TwoProcessWindow, ::testing::Bool(), way_name);

TEST_P(TwoProcessWindow, reaches_memory_anywhere_in_the_other_process) {
  EXPECT_EQ(device->in_pieces(), !GetParam()) << device->way();
  EXPECT_FALSE(device->way().empty());
  std::vector<std::byte> local(kShownBytes);
  ASSERT_EQ(access({DmaKind::kRead, kShownKey, shown(), local.data(), local.size(), 1}), AccessPost::kPosted);
  AccessDone done;
  ASSERT_TRUE(wait_access(done));
  EXPECT_EQ(done.status, DmaStatus::kGood);
  EXPECT_EQ(local, std::vector<std::byte>(kShownBytes, std::byte{0x33}));
  for (size_t i = 0; i < local.size(); ++i) local[i] = std::byte(static_cast<uint8_t>(i * 11));
  ASSERT_EQ(access({DmaKind::kWrite, kShownKey, shown(), local.data(), local.size(), 2}),
            AccessPost::kPosted);
  ASSERT_TRUE(wait_access(done));
  EXPECT_EQ(done.status, DmaStatus::kGood);
  std::vector<std::byte> again(kShownBytes);
  ASSERT_EQ(access({DmaKind::kRead, kShownKey, shown(), again.data(), again.size(), 3}), AccessPost::kPosted);
  ASSERT_TRUE(wait_access(done));
  EXPECT_EQ(again, local);
}

TEST_P(TwoProcessWindow, records_are_answered_by_a_peer_that_sleeps) {
  for (uint64_t i = 0; i < 200; ++i) {
    const std::string text = "record " + std::to_string(i);
    ASSERT_EQ(end->send(2, 1, std::as_bytes(std::span(text)), i), FifoPost::kOk);
    end->flush();
    FifoRecord record;
    ASSERT_TRUE(wait([&] { return end->take(record) == FifoTake::kRecord; })) << i;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(record.data.data()), record.data.size()), text);
    end->release();
    for (FifoDone done; end->next_sent(done);) EXPECT_TRUE(done.good);
  }
}

TEST_P(TwoProcessWindow, a_killed_peer_fails_accesses_and_is_gone) {
  const uint64_t at = shown();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  child = 0;
  std::byte local{};
  bool failed = false;
  EXPECT_TRUE(wait([&] {
    if (end->access({DmaKind::kWrite, kShownKey, at, &local, 1, 1}) == AccessPost::kPosted) end->flush();
    for (AccessDone done; end->next_access(done);) failed |= done.status != DmaStatus::kGood;
    return end->state() == WindowState::kGone;
  }));
  end->poll(clock.now());
  for (AccessDone done; end->next_access(done);) failed |= done.status != DmaStatus::kGood;
  EXPECT_EQ(end->accesses_under_way(), 0U);
  EXPECT_TRUE(device->peer_ended());
  EXPECT_EQ(device->fault(), "");
  EXPECT_EQ(end->access({DmaKind::kWrite, kShownKey, at, &local, 1, 1}), AccessPost::kDown);
  EXPECT_TRUE(end->own().settled(UINT64_MAX));
}

TEST_P(TwoProcessWindow, a_peer_killed_with_pieces_under_way_ends_each_access_once) {
  if (GetParam()) return;  // direct accesses end within flush()
  kill(child, SIGSTOP);
  std::vector<std::byte> local(kShownBytes);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(access({DmaKind::kWrite, kShownKey, shown(), local.data(), local.size(), i}),
              AccessPost::kPosted);
  }
  kill(child, SIGKILL);
  uint64_t seen = 0;
  for (int i = 0; i < 8; ++i) {
    AccessDone done;
    ASSERT_TRUE(wait_access(done));
    EXPECT_EQ(done.status, DmaStatus::kPeerGone);
    EXPECT_EQ(seen & (uint64_t{1} << done.cookie), 0U);
    seen |= uint64_t{1} << done.cookie;
  }
  EXPECT_EQ(seen, 0xFFU);
}

/// A stopped peer blocks nothing here: records wait, and all goes on when it does.
TEST_P(TwoProcessWindow, a_stopped_peer_costs_nothing_but_waiting) {
  kill(child, SIGSTOP);
  std::array<std::byte, 8> local{};
  ASSERT_EQ(access({DmaKind::kWrite, kShownKey, shown(), local.data(), local.size(), 1}),
            AccessPost::kPosted);
  AccessDone done;
  if (GetParam()) {
    ASSERT_TRUE(wait_access(done)) << "the kernel copies into a stopped process";
    EXPECT_EQ(done.status, DmaStatus::kGood);
  } else {
    for (int i = 0; i < 1000; ++i) end->poll(clock.now());
    EXPECT_FALSE(end->next_access(done));
  }
  uint64_t posted = 0;
  while (end->send(2, 1, {}, posted) == FifoPost::kOk) {
    end->flush();
    for (FifoDone one; end->next_sent(one);) EXPECT_TRUE(one.good);
    ++posted;
    ASSERT_LE(posted, 8U);
  }
  EXPECT_EQ(posted, 8U);
  EXPECT_EQ(end->state(), WindowState::kUp);
  kill(child, SIGCONT);
  uint64_t answers = 0;
  EXPECT_TRUE(wait([&] {
    FifoRecord record;
    while (end->take(record) == FifoTake::kRecord) {
      end->release();
      ++answers;
    }
    return answers == posted;
  }));
  if (!GetParam()) {
    ASSERT_TRUE(wait_access(done));
    EXPECT_EQ(done.status, DmaStatus::kGood);
  }
}

/// A peer stopped inside a use: the owner sees it until the peer goes on.
TEST_P(TwoProcessWindow, the_owner_waits_for_a_requester_inside_a_use) {
  std::vector<std::byte> mine(64);
  ASSERT_EQ(end->own().publish({reinterpret_cast<uint64_t>(mine.data()), mine.size(), kTableWrite, 5}),
            PublishResult::kOk);
  const uint64_t before = end->own().generation();
  // As the peer would: it announces the table that it knows, and is stopped there.
  store_window_word(end->own().fifo().data() + kFifoTableUseAt, before);
  kill(child, SIGSTOP);
  const uint64_t generation = end->own().withdraw(5);
  EXPECT_FALSE(end->own().settled(generation));
  EXPECT_TRUE(end->own().settled(before));
  kill(child, SIGKILL);
  EXPECT_TRUE(wait([&] { return end->own().settled(generation); })) << "its death ends the use";
}

// ---- process_vm refused

int refuse_process_copies(int error) {
  std::array<sock_filter, 5> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return filter_system_calls(code) ? 0 : 1;
}

/// Both ends in one process, under a filter from the beginning or from the middle on.
int run_filtered(int error, bool later) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) != 0) return 10;
  ManualClock clock;
  SeededRandom random(1);
  ShownMemory memory;
  if (!later && refuse_process_copies(error) != 0) return 11;
  auto a = ProcessDevice::create(UniqueFd(sockets[0]), device_config(true, &memory), random);
  auto b = ProcessDevice::create(UniqueFd(sockets[1]), device_config(true, &memory), random);
  if (!a || !b) return 12;
  ProcessDevice& mine = **a;
  mine.poll(clock.now());
  (*b)->poll(clock.now());
  if (mine.peer() != PeerState::kUp || mine.in_pieces() == later) return 13;
  if (later && refuse_process_copies(error) != 0) return 14;
  std::vector<std::byte> local(10'000, std::byte{0x77});
  const auto at = reinterpret_cast<uint64_t>(memory.bytes.data());
  if (!mine.post({DmaKind::kWrite, DmaSpace::kMemory, at, local.data(), local.size(), 1})) return 15;
  if (!mine.post({DmaKind::kWrite, DmaSpace::kMemory, 16, local.data(), local.size(), 2})) return 16;
  mine.flush();
  for (int i = 0; i < 50; ++i) {
    (*b)->poll(clock.now());
    mine.poll(clock.now());
  }
  std::array<DmaCompletion, 4> done;
  if (mine.completions(done) != 2) return 17;
  if (done[0].token != 1 || done[0].status != DmaStatus::kGood) return 18;
  if (done[1].token != 2 || done[1].status != DmaStatus::kNoMemory) return 19;
  if (memory.bytes[9'999] != std::byte{0x77} || memory.bytes[10'000] != std::byte{0x33}) return 20;
  if (!mine.in_pieces() || mine.way().find("in pieces") == std::string::npos) return 21;
  return mine.way().find(error == EPERM ? "ptrace_scope" : "filter") == std::string::npos ? 22 : 0;
}

TEST(ProcessCopies, refused_copies_go_in_pieces_from_then_on) {
  for (const int error : {EPERM, ENOSYS}) {
    for (const bool later : {false, true}) {
      const pid_t child = fork();
      if (child == 0) _exit(run_filtered(error, later));
      EXPECT_EQ(outcome_of(child), 0) << error << (later ? " later" : " at once");
    }
  }
}

// ---- the number of a dead process

/// The kernel gives the next process this number, if no other process is started meanwhile. Needs root.
bool ask_for_number(pid_t number) {
  std::ofstream last("/proc/sys/kernel/ns_last_pid");
  last << number - 1;
  return static_cast<bool>(last.flush());
}

/// A process that gets the number of the dead peer, and whose memory has the same addresses, is not written.
TEST(ProcessNumbers, another_process_with_the_number_of_the_peer_is_not_touched) {
  if (!ask_for_number(getpid())) GTEST_SKIP() << "needs root to choose the number of a process";
  const TempDir dir;
  const std::string path = dir.path() + "/window.sock";
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &told, &before);
  std::vector<uint64_t> shared_address(1, 0x1111);  // the same address in every child
  for (int attempt = 0; attempt < 50; ++attempt) {
    UniqueFd listener = std::move(listen_unix(path, 1).value());
    ManualClock clock;
    SeededRandom random(1);
    const pid_t peer = fork();
    if (peer == 0) {
      listener.reset();
      auto device = ProcessDevice::create(std::move(connect_unix(path).value()), device_config(), random);
      pause();
      _exit(device.ok() ? 0 : 1);
    }
    UniqueFd socket;
    while (!socket.valid())
      socket.reset(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    auto device = std::move(ProcessDevice::create(std::move(socket), device_config(), random).value());
    while (device->peer() == PeerState::kJoining) device->poll(clock.now());
    ASSERT_FALSE(device->in_pieces()) << device->way();
    kill(peer, SIGKILL);
    waitpid(peer, nullptr, 0);
    static_cast<void>(ask_for_number(peer));
    const pid_t stranger = fork();
    if (stranger == 0) {
      // Ends when it is told, and says whether its word is as it was.
      int signal = 0;
      sigwait(&told, &signal);
      _exit(*const_cast<volatile uint64_t*>(shared_address.data()) == 0x1111 ? 0 : 1);
    }
    const bool same = stranger == peer;
    if (same) {
      clock.advance(kPeerAliveFor);
      device->poll(clock.now());
      uint64_t word = 0x2222;
      ASSERT_TRUE(
          device->post({DmaKind::kWrite, DmaSpace::kMemory, reinterpret_cast<uint64_t>(shared_address.data()),
                        reinterpret_cast<std::byte*>(&word), sizeof word, 1}));
      device->flush();
      std::array<DmaCompletion, 1> done;
      ASSERT_EQ(device->completions(done), 1U);
      EXPECT_EQ(done[0].status, DmaStatus::kPeerGone);
      EXPECT_EQ(device->peer(), PeerState::kGone);
    }
    kill(stranger, SIGUSR1);
    EXPECT_EQ(outcome_of(stranger), 0) << "the stranger was written";
    if (same) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  GTEST_SKIP() << "other processes took the number each time";
}

// ---- the end of a peer whose number lives on

/// Two ends in one process.
struct TwoEnds {
  TwoEnds() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    ours = std::move(ProcessDevice::create(UniqueFd(sockets[0]), device_config(), random).value());
    theirs = std::move(ProcessDevice::create(UniqueFd(sockets[1]), device_config(), random).value());
    ours->poll(clock.now());
    theirs->poll(clock.now());
    EXPECT_FALSE(ours->in_pieces()) << ours->way();
  }
  DmaStatus write(uint64_t& to) {
    uint64_t word = 0x2222;
    EXPECT_TRUE(ours->post({DmaKind::kWrite, DmaSpace::kMemory, reinterpret_cast<uint64_t>(&to),
                            reinterpret_cast<std::byte*>(&word), sizeof word, 1}));
    ours->flush();
    std::array<DmaCompletion, 1> done;
    EXPECT_EQ(ours->completions(done), 1U);
    return done[0].status;
  }
  ManualClock clock;
  SeededRandom random{1};
  std::unique_ptr<ProcessDevice> ours;
  std::unique_ptr<ProcessDevice> theirs;
};

/// Its socket closes, its number stays: as a process that executes another program.
TEST(PeerExec, the_memory_of_the_next_program_is_not_written) {
  TwoEnds ends;
  uint64_t word = 0x1111;
  EXPECT_EQ(ends.write(word), DmaStatus::kGood);
  ends.theirs.reset();
  word = 0x1111;
  ends.clock.advance(kPeerAliveFor);
  ends.ours->poll(ends.clock.now());
  EXPECT_EQ(ends.write(word), DmaStatus::kPeerGone);
  EXPECT_EQ(word, 0x1111U);
  EXPECT_EQ(ends.ours->peer(), PeerState::kGone);
}

/// A child of the peer holds the socket, and the peer is killed.
TEST(PeerChild, the_end_of_the_peer_is_seen_beside_its_child) {
  const TempDir dir;
  UniqueFd listener = std::move(listen_unix(dir.path() + "/window.sock", 1).value());
  ManualClock clock;
  SeededRandom random(1);
  std::array<int, 2> children{};
  ASSERT_EQ(pipe2(children.data(), O_CLOEXEC), 0);
  const pid_t peer = fork();
  if (peer == 0) {
    auto device = ProcessDevice::create(std::move(connect_unix(dir.path() + "/window.sock").value()),
                                        device_config(), random);
    const pid_t child = fork();
    if (child != 0 && write(children[1], &child, sizeof child) != sizeof child) _exit(1);
    pause();
    _exit(device.ok() ? 0 : 1);
  }
  UniqueFd socket;
  while (!socket.valid())
    socket.reset(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  auto device = std::move(ProcessDevice::create(std::move(socket), device_config(), random).value());
  while (device->peer() == PeerState::kJoining) device->poll(clock.now());
  pid_t child = 0;
  ASSERT_EQ(read(children[0], &child, sizeof child), ssize_t{sizeof child});
  std::vector<pollfd> fds;
  device->wait_fds(fds);
  ASSERT_EQ(fds.size(), 2U);
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 0);
  kill(peer, SIGKILL);
  waitpid(peer, nullptr, 0);
  EXPECT_EQ(poll(fds.data(), fds.size(), 10'000), 1) << "a sleeper is woken";
  clock.advance(1s);
  device->poll(clock.now());
  EXPECT_EQ(device->peer(), PeerState::kGone);
  EXPECT_TRUE(device->peer_ended());
  kill(child, SIGKILL);
  close(children[0]);
  close(children[1]);
}

// ---- copies

TEST(ProcessCopies, a_list_ends_each_request_by_itself) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
  ManualClock clock;
  SeededRandom random(1);
  auto a = std::move(ProcessDevice::create(UniqueFd(sockets[0]), device_config(), random).value());
  auto b = std::move(ProcessDevice::create(UniqueFd(sockets[1]), device_config(), random).value());
  a->poll(clock.now());
  ASSERT_EQ(a->peer(), PeerState::kUp);
  ASSERT_FALSE(a->in_pieces()) << a->way();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(mapped);
  ASSERT_EQ(munmap(memory + page, page), 0);  // a hole behind the first page
  std::vector<std::byte> from(2 * page, std::byte{9});
  const auto at = reinterpret_cast<uint64_t>(memory);
  const auto post = [&](uint64_t remote, uint64_t bytes, uint64_t token) {
    return a->post({DmaKind::kWrite, DmaSpace::kMemory, remote, from.data(), bytes, token});
  };
  ASSERT_TRUE(post(at, 8, 0));
  ASSERT_TRUE(post(at + page, 8, 1));  // no memory
  ASSERT_TRUE(post(at + 64, 0, 2));    // nothing
  ASSERT_TRUE(post(at + 16, 100, 3));
  ASSERT_TRUE(post(at + page - 8, 16, 4));  // half
  ASSERT_TRUE(post(at + 200, 1, 5));
  a->flush();
  std::array<DmaCompletion, 8> done;
  ASSERT_EQ(a->completions(done), 6U);
  for (const DmaCompletion& one : std::span(done).first(6)) {
    const bool bad = one.token == 1 || one.token == 4;
    EXPECT_EQ(one.status, bad ? DmaStatus::kNoMemory : DmaStatus::kGood) << one.token;
  }
  EXPECT_EQ(memory[7], std::byte{9});
  EXPECT_EQ(memory[8], std::byte{0});
  EXPECT_EQ(memory[115], std::byte{9});
  EXPECT_EQ(memory[200], std::byte{9});
  EXPECT_EQ(memory[201], std::byte{0});
  munmap(memory, page);
}

TEST(ProcessCopies, large_requests_arrive_whole) {
  constexpr size_t kLarge = 3 << 20;
  std::vector<std::byte> from(kLarge, std::byte{5});
  std::vector<std::byte> to(kLarge);
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
  ManualClock clock;
  SeededRandom random(1);
  auto a = std::move(ProcessDevice::create(UniqueFd(sockets[0]), device_config(), random).value());
  auto b = std::move(ProcessDevice::create(UniqueFd(sockets[1]), device_config(), random).value());
  a->poll(clock.now());
  for (const DmaKind kind : {DmaKind::kWrite, DmaKind::kRead}) {
    ASSERT_TRUE(
        a->post({kind, DmaSpace::kMemory, reinterpret_cast<uint64_t>(to.data()), from.data(), kLarge, 1}));
    a->flush();
    std::array<DmaCompletion, 1> done;
    ASSERT_EQ(a->completions(done), 1U);
    EXPECT_EQ(done[0].status, DmaStatus::kGood);
    EXPECT_EQ(from, to);
    std::fill(to.begin(), to.end(), std::byte{6});
  }
}

}  // namespace
}  // namespace weft::test
