// The control endpoint over a real socket in a private directory.
#include "control/control_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "control/control_client.h"
#include "tests/support/temp_dir.h"

namespace weft::control {
namespace {

using namespace std::chrono_literals;

class Handler final : public ControlHandler {
 public:
  [[nodiscard]] NodeInfo info() override {
    NodeInfo info;
    info.name = "h1";
    info.ready = true;
    return info;
  }
  Status traffic_start(const TrafficRun& run) override {
    if (run.bulk_frames == 0) throw std::runtime_error("no frames");
    return {};
  }
  Result<NicReport> nic_ask(const NicWish& wish) override {
    NicReport report;
    report.interface = wish.interface;
    return report;
  }
};

class ControlServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(dir_.path().empty());
    path_ = dir_.path() + "/n.ctl";
  }
  void TearDown() override {
    stop();
    server_.reset();
  }
  void start() {
    auto opened = ControlServer::open(path_, handler_);
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    server_ = std::move(opened).value();
    thread_ = std::thread([this] {
      while (!stop_) {
        server_->poll(MonotonicClock().now());
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Handler handler_;
  test::TempDir dir_;
  std::string path_;
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
};

TEST_F(ControlServerTest, answers_and_refuses) {
  start();
  ControlClient client;
  const Result<ControlReply> info = client.ask(path_, {}, 5s);
  ASSERT_TRUE(info.ok()) << info.error().text;
  EXPECT_EQ(info.value().info.name, "h1");
  EXPECT_NE(info.value().id, 0U) << "it says what it answers";
  ControlRequest request;
  request.action = ControlAction::kTrafficStart;
  request.traffic.bulk_frames = 0;
  const Result<ControlReply> thrown = client.ask(path_, request, 5s);
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.error().text, "no frames");
  request.traffic.bulk_frames = 1;
  EXPECT_TRUE(client.ask(path_, request, 5s).ok());
  request.action = ControlAction::kCaptureStop;
  EXPECT_FALSE(client.ask(path_, request, 5s).ok());
  request.action = ControlAction::kNicAsk;
  request.nic.interface = "eth0";
  const Result<ControlReply> nic = client.ask(path_, request, 5s);
  ASSERT_TRUE(nic.ok()) << nic.error().text;
  EXPECT_EQ(nic.value().nic.interface, "eth0");
  request.action = ControlAction::kNicReport;
  EXPECT_EQ(client.ask(path_, request, 5s).error().text, "only a host has the NIC of a unit");
  stop();
  EXPECT_EQ(server_->counters().get(ControlCounter::kRequests), 6U);
  EXPECT_EQ(server_->counters().get(ControlCounter::kRefused), 3U);
}

/// The test's own server sends the answer to another request first.
TEST_F(ControlServerTest, a_client_passes_over_the_answer_to_another_request) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_ROUTER);
  ASSERT_EQ(zmq_bind(socket, ("ipc://" + path_).c_str()), 0);
  std::thread server([socket] {
    std::array<std::array<std::byte, 4096>, 3> parts{};
    std::array<size_t, 3> bytes{};
    for (size_t i = 0; i < parts.size(); ++i)
      bytes[i] = static_cast<size_t>(zmq_recv(socket, parts[i].data(), parts[i].size(), 0));
    const auto request = decode_control_request(std::span(parts[2]).first(bytes[2]));
    ASSERT_TRUE(request.ok());
    for (const uint64_t other : {uint64_t{1}, uint64_t{0}}) {
      ControlReply reply;
      reply.id = request.value().id + other;
      reply.answer = ControlAnswer::kInfo;
      reply.info.name = other != 0 ? "of another" : "of this one";
      const std::vector<std::byte> message = encode_control_reply(reply);
      zmq_send(socket, parts[0].data(), bytes[0], ZMQ_SNDMORE);
      zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
      zmq_send(socket, message.data(), message.size(), 0);
    }
  });
  ControlClient client;
  const Result<ControlReply> reply = client.ask(path_, {}, 5s);
  server.join();
  zmq_close(socket);
  zmq_ctx_term(context);
  ASSERT_TRUE(reply.ok()) << reply.error().text;
  EXPECT_EQ(reply.value().info.name, "of this one");
}

TEST_F(ControlServerTest, malformed_is_counted_and_harmless) {
  start();
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  ASSERT_EQ(zmq_connect(socket, ("ipc://" + path_).c_str()), 0);
  zmq_send(socket, "garbage", 7, 0);  // no empty part
  zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
  zmq_send(socket, "garbage!", 8, 0);  // not a message
  const std::vector<std::byte> question = encode_control_request({});
  zmq_send(socket, "x", 1, ZMQ_SNDMORE);  // a part that should be empty
  zmq_send(socket, question.data(), question.size(), 0);
  zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
  zmq_send(socket, question.data(), question.size(), ZMQ_SNDMORE);
  zmq_send(socket, "x", 1, 0);  // a part too many
  ControlClient client;
  for (int i = 0; i < 5'000 && server_->counters().get(ControlCounter::kMalformed) < 4; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(client.ask(path_, {}, 5s).ok());
  zmq_close(socket);
  zmq_ctx_term(context);
  stop();
  EXPECT_EQ(server_->counters().get(ControlCounter::kMalformed), 4U);
}

TEST_F(ControlServerTest, a_client_that_reads_nothing_loses_its_own_replies_only) {
  auto opened = ControlServer::open(path_, handler_);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  server_ = std::move(opened).value();
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const int one = 1;
  const int zero = 0;
  ASSERT_EQ(zmq_setsockopt(socket, ZMQ_RCVHWM, &one, sizeof one), 0);
  ASSERT_EQ(zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero), 0);
  ASSERT_EQ(zmq_connect(socket, ("ipc://" + path_).c_str()), 0);
  const MonotonicClock clock;
  Instant turn{1s};
  const auto lost = [&] { return server_->counters().get(ControlCounter::kReplyLost); };
  for (const Instant end = clock.now() + 20s; lost() == 0 && clock.now() < end; turn += 10ms) {
    if (zmq_send(socket, nullptr, 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) == 0)
      zmq_send(socket, "garbage!", 8, ZMQ_DONTWAIT);
    server_->poll(turn);
  }
  EXPECT_GT(lost(), 0U);
  thread_ = std::thread([&] {
    for (; !stop_; turn += 10ms) server_->poll(turn);
  });
  ControlClient client;
  EXPECT_TRUE(client.ask(path_, {}, 5s).ok());
  stop();
  zmq_close(socket);
  zmq_ctx_term(context);
}

/// Whoever asks much does not keep the process from its work.
TEST_F(ControlServerTest, a_turn_serves_a_few_requests_and_nobody_sleeps_while_some_wait) {
  auto opened = ControlServer::open(path_, handler_);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  server_ = std::move(opened).value();
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  ASSERT_EQ(zmq_connect(socket, ("ipc://" + path_).c_str()), 0);
  constexpr int kRequests = 10;
  for (int i = 0; i < kRequests; ++i) {
    zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
    zmq_send(socket, "garbage!", 8, 0);
  }
  for (int i = 0; i < 5'000 && server_->prepare_sleep(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(server_->prepare_sleep());
  std::this_thread::sleep_for(100ms);  // the others will be there, too
  int served = 0;
  for (Instant now{1s}; served < kRequests; now += 10ms) {
    const int work = server_->poll(now);
    EXPECT_LE(work, 4);
    served += work;
  }
  EXPECT_TRUE(server_->prepare_sleep());
  zmq_close(socket);
  zmq_ctx_term(context);
}

/// Without a wake-up it looks at its socket once in a millisecond.
TEST_F(ControlServerTest, a_process_that_was_woken_looks_at_its_requests_at_once) {
  auto opened = ControlServer::open(path_, handler_);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  server_ = std::move(opened).value();
  const Instant now{1s};
  EXPECT_EQ(server_->poll(now), 0);
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  ASSERT_EQ(zmq_connect(socket, ("ipc://" + path_).c_str()), 0);
  zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
  zmq_send(socket, "garbage!", 8, 0);
  for (int i = 0; i < 5'000 && server_->prepare_sleep(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(server_->poll(now), 0);
  server_->finish_sleep();
  EXPECT_EQ(server_->poll(now), 1);
  zmq_close(socket);
  zmq_ctx_term(context);
}

TEST_F(ControlServerTest, the_longest_identity_of_a_client_is_answered) {
  auto opened = ControlServer::open(path_, handler_);
  ASSERT_TRUE(opened.ok()) << opened.error().text;
  server_ = std::move(opened).value();
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const std::string identity(255, 'i');
  ASSERT_EQ(zmq_setsockopt(socket, ZMQ_ROUTING_ID, identity.data(), identity.size()), 0);
  ASSERT_EQ(zmq_connect(socket, ("ipc://" + path_).c_str()), 0);
  ControlRequest question;
  question.id = 5;
  const std::vector<std::byte> request = encode_control_request(question);
  zmq_send(socket, nullptr, 0, ZMQ_SNDMORE);
  zmq_send(socket, request.data(), request.size(), 0);
  for (int i = 0; i < 5'000 && server_->prepare_sleep(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(server_->poll(Instant{1s}), 1);
  EXPECT_EQ(server_->counters().get(ControlCounter::kMalformed), 0U);
  EXPECT_EQ(server_->counters().get(ControlCounter::kReplyLost), 0U);
  zmq_close(socket);
  zmq_ctx_term(context);
}

TEST_F(ControlServerTest, private_directory_and_one_owner) {
  start();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U);
  Result<std::unique_ptr<ControlServer>> second = ControlServer::open(path_, handler_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find("in use"), std::string::npos);
  chmod(dir_.path().c_str(), 0755);
  second = ControlServer::open(dir_.path() + "/m.ctl", handler_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find("0700"), std::string::npos);
}

/// sockaddr_un holds a path and its final zero.
TEST_F(ControlServerTest, a_path_has_the_length_of_a_unix_socket_at_most) {
  const std::string start = dir_.path() + "/";
  const std::string longest = start + std::string(107 - start.size(), 'n');
  EXPECT_TRUE(ControlServer::open(longest, handler_).ok());
  const auto refused = ControlServer::open(longest + "n", handler_);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("Unix socket"), std::string::npos) << refused.error().text;
}

/// Any user may put a file or a link there if the directory is open to them.
TEST_F(ControlServerTest, what_is_no_socket_is_not_asked) {
  start();
  ControlClient client;
  ASSERT_TRUE(client.ask(path_, {}, 5s).ok());
  const std::string link = dir_.path() + "/link.ctl";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  const std::string file = dir_.path() + "/file.ctl";
  std::ofstream(file) << "no socket";
  for (const std::string& other : {link, file}) {
    const Result<ControlReply> answer = client.ask(other, {}, 5s);
    ASSERT_FALSE(answer.ok());
    EXPECT_NE(answer.error().text.find("no socket of this user"), std::string::npos) << answer.error().text;
  }
}

TEST_F(ControlServerTest, nobody_there_is_told_within_the_timeout) {
  ControlClient client;
  EXPECT_FALSE(client.ask(path_, {}, 50ms).ok());
}

}  // namespace
}  // namespace weft::control
