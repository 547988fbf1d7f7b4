// Bursts of the ZeroMQ carrier and the buffers they leave in, without sockets: messages stay where a test
// sees them, virtual time stands still.
#include "fabric/carrier/zmq_carrier.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/endian.h"
#include "fabric/carrier/link_connect.h"
#include "messages/flit.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint64_t kNonce = kZmqNonceBit | 7;
constexpr uint32_t kZmqPayloadBytes = 4096;
constexpr uint32_t kZmqFlitBytes = kFlitHeaderBytes + kZmqPayloadBytes;
constexpr uint32_t kFlitsPerBurst = 64;

/// Keeps every message, as ZeroMQ does until it is sent.
class Held final : public BurstChannel {
 public:
  bool send_burst(ZmqMessage& message) noexcept override {
    messages.push_back(std::move(message));
    return true;
  }
  void pump() noexcept override {}
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool quiet() noexcept override { return true; }
  bool gone() const noexcept override { return false; }
  void detach() noexcept override {}
  std::vector<ZmqMessage> messages;
};

class Bursts : public ::testing::Test {
 protected:
  std::shared_ptr<Held> held = std::make_shared<Held>();
  std::unique_ptr<ZmqCarrier> carrier =
      std::make_unique<ZmqCarrier>(held, kNonce, kZmqPayloadBytes, kZmqSilenceIpc, Instant{});
  uint8_t next = 1;  // fills the next burst

  void send(uint32_t flits) {
    for (uint32_t i = 0; i < flits; ++i) {
      const TxRun run = carrier->claim(0);
      ASSERT_NE(run.count, 0U);
      std::memset(run.first, next, kZmqFlitBytes);
      run.first[0] = static_cast<std::byte>(static_cast<int>(FlitKind::kData) << 4);
      carrier->commit(1, kZmqFlitBytes);
    }
    carrier->publish(Instant{});
    ++next;
  }
  /// The burst has this many flits filled with `value`.
  static void expect_burst(const ZmqMessage& message, uint32_t flits, uint8_t value) {
    const std::span<const std::byte> bytes = message.bytes();
    ASSERT_EQ(bytes.size(), 8 + size_t{flits} * kZmqFlitBytes);
    EXPECT_EQ(load_be<uint64_t>(bytes.data()), kNonce);
    for (uint32_t i = 0; i < flits; ++i) {
      EXPECT_EQ(bytes[8 + size_t{i} * kZmqFlitBytes + 1], std::byte{value});
      EXPECT_EQ(bytes[8 + size_t{i + 1} * kZmqFlitBytes - 1], std::byte{value});
    }
  }
};

// ---- silence --------------------

/// One end in virtual time; `heard` is when the peer's last sign of life came.
struct SilentPeer {
  explicit SilentPeer(Duration limit)
      : carrier(std::make_unique<ZmqCarrier>(held, kNonce, kZmqPayloadBytes, limit, Instant{})) {}
  void hear(Duration at) {
    static_cast<void>(carrier->poll(Instant{} + at));
    std::array<std::byte, 8> nonce{};
    store_be(nonce.data(), kNonce);
    ZmqMessage sign;
    ASSERT_TRUE(sign.assign(nonce));
    EXPECT_TRUE(carrier->deliver(sign));
  }
  CarrierState at(Duration time) { return carrier->poll(Instant{} + time); }

  std::shared_ptr<Held> held = std::make_shared<Held>();
  std::unique_ptr<ZmqCarrier> carrier;
};

TEST(Silence, a_link_lives_through_less_than_its_limit_and_ends_after_it) {
  for (const Duration limit :
       {kZmqSilenceMin, kZmqSilenceIpc, kZmqSilenceTcp, Duration(7s), kZmqSilenceMax}) {
    SilentPeer peer(limit);
    peer.hear(3s);
    EXPECT_EQ(peer.at(3s + limit - 1ms), CarrierState::kUp);
    peer.hear(3s + limit - 1ms);
    EXPECT_EQ(peer.at(3s + 2 * limit - 2ms), CarrierState::kUp) << "each sign of life begins anew";
    EXPECT_LE(peer.carrier->deadline(), Instant{} + 3s + 2 * limit - 1ms) << "the loop wakes for it";
    EXPECT_EQ(peer.at(3s + 2 * limit - 1ms), CarrierState::kPeerGone);
  }
}

/// Ends may have different limits: a program of another machine knows nothing of the topology file.
TEST(Silence, an_end_speaks_often_enough_for_every_limit_of_its_peer) {
  for (const Duration own : {kZmqSilenceMin, kZmqSilenceTcp, kZmqSilenceMax}) {
    SilentPeer peer(own);
    Duration spoke{};
    size_t messages = 0;
    for (Duration now{}; now < 10s; now += 10ms) {
      if (now % 500ms == 0ns) peer.hear(now);
      ASSERT_EQ(peer.at(now), CarrierState::kUp);
      if (peer.held->messages.size() != messages) spoke = now;
      messages = peer.held->messages.size();
      ASSERT_LT(now - spoke, kZmqSilenceMin / 2) << "and one of two may be lost";
    }
  }
}

TEST(Silence, the_kind_of_endpoint_decides_unless_a_limit_is_given) {
  EXPECT_EQ(silence_limit({}, "ipc:///d/s"), kZmqSilenceIpc);
  EXPECT_EQ(silence_limit({}, "tcp://127.0.0.1:7000"), kZmqSilenceTcp);
  EXPECT_EQ(silence_limit(9s, "ipc:///d/s"), Duration(9s));
  EXPECT_EQ(silence_limit(9s, "tcp://127.0.0.1:7000"), Duration(9s));
}

TEST(Silence, a_limit_outside_its_range_is_refused_with_the_range) {
  EXPECT_EQ(parse_silence("1s").value(), kZmqSilenceMin);
  EXPECT_EQ(parse_silence("60s").value(), kZmqSilenceMax);
  EXPECT_EQ(parse_silence("1m").value(), kZmqSilenceMax);
  EXPECT_EQ(parse_silence("1500ms").value(), Duration(1500ms));
  EXPECT_EQ(parse_silence("1234567us").value(), Duration(1234ms)) << "libzmq counts milliseconds";
  for (const char* wrong : {"999ms", "60001ms", "0s", "5", "", "soon", "-2s"}) {
    EXPECT_EQ(parse_silence(wrong).error().text,
              std::string("'") + wrong + "' is not a time from 1s to 1m, like 2s or 1500ms");
  }
}

// ---- bursts --------------------

TEST_F(Bursts, sixty_four_flits_leave_as_one_message) {
  send(kFlitsPerBurst);
  ASSERT_EQ(held->messages.size(), 1U);
  expect_burst(held->messages[0], kFlitsPerBurst, 1);
}

TEST_F(Bursts, a_burst_leaves_in_the_buffer_it_was_composed_in) {
  const std::byte* at = carrier->claim(0).first;
  send(kFlitsPerBurst);
  EXPECT_EQ(held->messages[0].bytes().data() + 8, at);
  send(1);  // short: copied
  EXPECT_NE(carrier->claim(0).first, at);
  expect_burst(held->messages[1], 1, 2);
}

TEST_F(Bursts, no_buffer_is_written_again_before_it_was_acknowledged_and_sent) {
  constexpr uint32_t kBursts = 20;  // more than there are buffers
  for (uint32_t i = 0; i < kBursts; ++i) send(kFlitsPerBurst);
  for (uint32_t i = 0; i < kBursts; ++i) {
    expect_burst(held->messages[i], kFlitsPerBurst, static_cast<uint8_t>(i + 1));
  }
  // All are acknowledged, but the last ten are not sent yet: they must stay as they are.
  carrier->retire(uint64_t{kBursts} * kFlitsPerBurst);
  held->messages.erase(held->messages.begin(), held->messages.begin() + 10);
  for (uint32_t i = 0; i < kBursts; ++i) send(kFlitsPerBurst);
  for (uint32_t i = 0; i < 30; ++i) {
    expect_burst(held->messages[i], kFlitsPerBurst, static_cast<uint8_t>(i + 11));
  }
}

TEST_F(Bursts, a_repeat_sends_what_was_sent) {
  for (int i = 0; i < 12; ++i) send(kFlitsPerBurst);
  held->messages.clear();  // sent, and lost
  carrier->retire(kFlitsPerBurst);
  send(kFlitsPerBurst);
  held->messages.clear();
  carrier->resend(kFlitsPerBurst);
  ASSERT_EQ(held->messages.size(), 12U);
  for (uint32_t i = 0; i < 12; ++i) {
    expect_burst(held->messages[i], kFlitsPerBurst, static_cast<uint8_t>(i + 2));
  }
}

TEST_F(Bursts, what_is_on_the_way_outlives_the_link) {
  send(kFlitsPerBurst);
  carrier.reset();
  expect_burst(held->messages[0], kFlitsPerBurst, 1);
}

/// What a peer sends: bursts of full length, or of one byte each.
class Unread : public Bursts {
 protected:
  bool arrive(size_t bytes) {
    std::vector<std::byte> burst(sizeof kNonce + bytes);
    store_be(burst.data(), kNonce);
    for (size_t at = sizeof kNonce; at + kZmqFlitBytes <= burst.size(); at += kZmqFlitBytes)
      store_be(burst.data() + at + 2, uint16_t{kZmqPayloadBytes});
    ZmqMessage message;
    return message.assign(burst) && carrier->deliver(message);
  }
  static constexpr uint32_t kBurstsOfAWindow = kUnacknowledgedFlitsMax / kFlitsPerBurst;
  static constexpr size_t kBurstBytes = size_t{kFlitsPerBurst} * kZmqFlitBytes;
};

TEST_F(Unread, is_a_window_sent_three_times_over_and_nothing_of_it_is_lost) {
  for (uint32_t i = 0; i < 3 * kBurstsOfAWindow; ++i) ASSERT_TRUE(arrive(kBurstBytes));
  EXPECT_EQ(carrier->poll(Instant{}), CarrierState::kUp);
  std::array<RxSlot, 64> slots;
  uint64_t read = 0;
  while (const uint32_t count = carrier->receive(slots)) read = slots[count - 1].position + 1;
  EXPECT_EQ(read, uint64_t{3} * kUnacknowledgedFlitsMax);
  carrier->release(read);
  for (uint32_t i = 0; i < 3 * kBurstsOfAWindow; ++i) ASSERT_TRUE(arrive(kBurstBytes));
  EXPECT_EQ(carrier->poll(Instant{}), CarrierState::kUp) << "what was released counts no more";
}

TEST_F(Unread, beyond_four_windows_of_bytes_ends_the_link) {
  for (uint32_t i = 0; i < 4 * kBurstsOfAWindow; ++i) static_cast<void>(arrive(kBurstBytes));
  EXPECT_EQ(carrier->poll(Instant{}), CarrierState::kOverrun);
}

TEST_F(Unread, beyond_two_windows_of_bursts_ends_the_link_however_short_they_are) {
  for (uint32_t i = 0; i < 2 * kUnacknowledgedFlitsMax; ++i) ASSERT_TRUE(arrive(1));
  EXPECT_EQ(carrier->poll(Instant{}), CarrierState::kUp);
  ASSERT_TRUE(arrive(1));
  EXPECT_EQ(carrier->poll(Instant{}), CarrierState::kOverrun);
}

/// What the connection that `message` came by takes before its writer waits.
int send_bytes(ZmqMessage& message) {
  int value = 0;
  socklen_t size = sizeof value;
  getsockopt(zmq_msg_get(message.raw(), ZMQ_SRCFD), SOL_SOCKET, SO_SNDBUF, &value, &size);
  return value;
}

/// Two sockets and a message that has come from one to the other over ipc.
struct IpcPair {
  IpcPair() {
    const std::string endpoint = "ipc://" + dir.path() + "/z";
    EXPECT_TRUE(listener->bind(endpoint).ok());
    EXPECT_TRUE(caller->connect(endpoint).ok());
    const std::array<std::byte, 4> word{};
    EXPECT_TRUE(message.assign(word));
    EXPECT_GE(zmq_msg_send(message.raw(), caller->raw(), 0), 0);
    EXPECT_GE(zmq_msg_recv(message.raw(), listener->raw(), 0), 0);
  }
  TempDir dir;
  std::shared_ptr<ZmqContext> context = ZmqContext::create().value();
  std::unique_ptr<ZmqSocket> listener = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  std::unique_ptr<ZmqSocket> caller = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  ZmqMessage message;
};

TEST(ZmqMessage, widens_the_ipc_connection_it_came_by) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  IpcPair pair;
  const int before = send_bytes(pair.message);
  pair.message.widen_connection();
  EXPECT_GT(send_bytes(pair.message), before);
}

TEST(ZmqContext, its_io_threads_run_as_batch_work) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  if (sched_getscheduler(0) != SCHED_OTHER)
    GTEST_SKIP() << "this process has a scheduling policy of its own, which is kept; needs chrt --other 0";
  const IpcPair pair;
  int found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.find("IO/") == std::string::npos) continue;
    ++found;
    EXPECT_EQ(sched_getscheduler(std::stoi(task.path().filename())), SCHED_BATCH) << name;
  }
  EXPECT_EQ(found, 1);
}

TEST(BurstPool, a_buffer_is_free_when_the_last_reference_is_gone) {
  BurstPool pool(1, 1024);
  std::byte* buffer = pool.take();
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  ZmqMessage message;
  ASSERT_TRUE(pool.lend(buffer, 100, message));
  EXPECT_EQ(message.bytes().size(), 100U);
  ZmqMessage second = message.share();
  message.clear();
  EXPECT_EQ(pool.take(), nullptr);
  second.clear();
  EXPECT_EQ(pool.take(), buffer);
}

TEST(BurstPool, buffers_come_back_from_another_thread) {
  BurstPool pool(2, 1024);
  for (uint8_t round = 0; round < 100; ++round) {
    std::vector<ZmqMessage> sent(2);
    for (ZmqMessage& message : sent) {
      std::byte* buffer = pool.take();
      ASSERT_NE(buffer, nullptr);
      std::memset(buffer, round, 1024);
      ASSERT_TRUE(pool.lend(buffer, 1024, message));
    }
    std::thread sender([&] { sent.clear(); });
    sender.join();
  }
}

}  // namespace
}  // namespace weft::test
