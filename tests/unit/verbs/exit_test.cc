// What the library does when a program ends by exit() and leaves its objects as they are. The program is this
// one, started once more.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

constexpr const char* kEndpoint = "WEFT_TEST_ENDPOINT";  // of the program that ends: the fabric that it joins
constexpr int kTalk = STDIN_FILENO;                      // there, to whoever has started it
constexpr std::chrono::milliseconds kFinishMax{100};     // that long it waits at its end
constexpr uint32_t kMessages = 8;
constexpr uint32_t kMessageBytes = 1536;
constexpr uint32_t kFlits =
    kMessages * kMessageBytes / 256;  // one for each cell: more than a lane has credits for

void say(int to) {
  EXPECT_EQ(write(to, "!", 1), 1);
}
bool hears(int from) {
  char said = 0;
  return read(from, &said, 1) == 1;
}

bool ends = false;

/// The linker's order: after all of the program, and right before the libraries that it needs.
[[gnu::destructor]] void end_of_the_program() {
  if (ends) static_cast<void>(!write(kTalk, "!", 1));
}

/// This program once more.
class Program {
 public:
  explicit Program(const std::string& endpoint) {
    std::array<int, 2> talk{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(talk[1], kTalk);
      setenv(kEndpoint, endpoint.c_str(), 1);
      execl("/proc/self/exe", "the program that ends", "--gtest_filter=Exit.*", "--gtest_brief=1", nullptr);
      _exit(127);
    }
    close(talk[1]);
    talk_ = talk[0];
  }
  ~Program() {
    close(talk_);
    if (pid_ > 0) status();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] int talk() const { return talk_; }
  int status() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int talk_ = -1;
};

class Exit : public Verbs {
 protected:
  void SetUp() override {
    if (endpoint != nullptr) {
      ASSERT_EQ(setenv("WEFT_FABRIC", endpoint, 1), 0);
    }
    Verbs::SetUp();
  }
  /// Sends more than its link takes while the switch stands still, and ends.
  void be_the_program() {
    ibv_qp* qp = make_qp(IBV_QPT_RC);
    bring_up(qp, 1, 2);
    say(kTalk);
    ASSERT_TRUE(hears(kTalk));
    for (uint32_t i = 0; i < kMessages; ++i) {
      ibv_sge from = sge(0, kMessageBytes);
      ibv_send_wr wr{.wr_id = i, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND};
      ibv_send_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    }
    ends = true;
    std::exit(0);
  }

  const char* endpoint = std::getenv(kEndpoint);
};

TEST_F(Exit, waits_until_the_switch_has_what_was_sent_over_zeromq) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  if (endpoint != nullptr) return be_the_program();
  LiveFabric fabric(LinkKind::kZmq);
  const auto& counters = fabric.box.admission.engine(0).counters();
  uint64_t taken = 0;
  // It does not wait for ever: on a busy machine the switch may be back too late.
  for (int tries = 0; tries < 20 && taken < kFlits; ++tries) {
    Program program(fabric.endpoint());
    ASSERT_TRUE(hears(program.talk())) << "its QP is ready";
    fabric.stop();
    const uint64_t before = counters.get(fabric::LinkCounter::kFlitsReceived);
    say(program.talk());
    ASSERT_TRUE(hears(program.talk())) << "it has come to its end";
    std::this_thread::sleep_for(kFinishMax / 5);  // it would be gone by then, if it did not wait
    fabric.start();
    EXPECT_EQ(program.status(), 0);
    taken = counters.get(fabric::LinkCounter::kFlitsReceived) - before;
  }
  EXPECT_GE(taken, kFlits);
}

}  // namespace
}  // namespace weft::test
