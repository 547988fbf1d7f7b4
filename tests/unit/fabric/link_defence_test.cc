// Rules of decisions section 4 at the doors of a switch and of an endnode: who may connect, how often, and
// what memory is taken from a peer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/shared_region.h"
#include "fabric/carrier/hello_limiter.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/carrier/shm_carrier.h"
#include "fabric/carrier/slot_ring.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/carrier/zmq_connector.h"
#include "fabric/switch/admission.h"
#include "tests/support/requirement.h"
#include "tests/support/rescue.h"
#include "tests/support/stranger.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

struct Door : SwitchBox {
  explicit Door(const std::string& where)
      : SwitchBox(where, small_switch(), nodes_with({Guid(0xA), Guid(0xB)})) {}
};

TEST(LinkDefence, a_unix_socket_tells_another_user_and_the_switch_counts_and_closes) {
  covers("DECISIONS-4");
  if (geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
  const TempDir dir;
  const std::string path = dir.path() + "/s.sock";
  Door door("shm:" + path);
  open_to_all(dir, path);
  LinkConfig link = small_switch().link;
  link.guid = Guid(0xA);
  const LinkHelloWire hello = encode_link_hello(make_hello(link, 7));
  UniqueFd guest;
  {
    const AsStranger stranger;
    guest = std::move(connect_unix(path).value());
  }
  ASSERT_TRUE(send_packet(guest.get(), bytes_of(hello), {}));
  ManualClock clock;
  for (int i = 0; i < 20; ++i) {
    clock.advance(10ms);
    door.acceptor->poll(clock.now());
  }
  EXPECT_EQ(door.admission.counters().get(AdmissionCounter::kForeignUser), 1U);
  EXPECT_EQ(door.admission.counters().get(AdmissionCounter::kHellos), 0U) << "what it says is not read";
  EXPECT_TRUE(peer_hung_up(guest.get()));
}

TEST(LinkDefence, an_endnode_does_not_join_a_switch_of_another_user) {
  covers("DECISIONS-4");
  if (geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
  const TempDir dir;
  const std::string path = dir.path() + "/s.sock";
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  {
    const AsStranger stranger;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener.get(), 4), 0);
  }
  SeededRandom random(1);
  LinkEndpointConfig config;
  config.link = small_switch().link;
  config.link.guid = Guid(0xA);
  config.endpoint = "shm:" + path;
  const auto node = std::move(connect_link(config, random).value());
  ManualClock clock;
  clock.advance(1s);
  node->link().poll(clock.now());
  const UniqueFd guest(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  ASSERT_TRUE(guest.valid());
  EXPECT_TRUE(peer_hung_up(guest.get())) << "connected, looked, left without a HELLO";
}

TEST(LinkDefence, an_ipc_endpoint_closes_connections_of_another_user) {
  covers("DECISIONS-4");
  if (geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  const TempDir dir;
  const std::string path = dir.path() + "/z";
  const Door door("ipc://" + path);
  open_to_all(dir, path);
  const auto first_bytes = [&] {
    const UniqueFd guest(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    EXPECT_EQ(connect(guest.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    pollfd wait{guest.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&wait, 1, 20'000), 1);
    std::array<char, 64> greeting;
    return recv(guest.get(), greeting.data(), greeting.size(), 0);
  };
  EXPECT_GT(first_bytes(), 0) << "our own user is greeted";
  const AsStranger stranger;
  EXPECT_EQ(first_bytes(), 0) << "a stranger is not";
}

TEST(LinkDefence, hellos_are_limited_for_each_address) {
  covers("DECISIONS-4");
  HelloLimiter limiter;
  Instant now = Instant{} + 100s;
  for (uint32_t i = 0; i < kHelloBurst; ++i) EXPECT_TRUE(limiter.allow("10.0.0.1", now));
  EXPECT_FALSE(limiter.allow("10.0.0.1", now));
  EXPECT_TRUE(limiter.allow("10.0.0.2", now)) << "another address has its own allowance";
  for (int second = 0; second < 5; ++second) {
    now += 1000ms / kHellosPerSecond - 1ms;
    EXPECT_FALSE(limiter.allow("10.0.0.1", now));
    now += 1ms;
    EXPECT_TRUE(limiter.allow("10.0.0.1", now));
  }
  // The table is bounded: the address heard longest ago makes room, the noisy one does not.
  for (size_t i = 0; i < 3 * kHelloOwnersMax; ++i) {
    EXPECT_TRUE(limiter.allow("10.1.0." + std::to_string(i), now));
    EXPECT_FALSE(limiter.allow("10.0.0.1", now));
    now += 1us;
  }
}

/// A switch made by hand that welcomes an endnode with memory of the test's choice.
class HostileSwitch : public ::testing::Test {
 protected:
  HostileSwitch() { listener = std::move(listen_unix(path(), 4).value()); }
  [[nodiscard]] std::string path() const { return dir.path() + "/s.sock"; }

  LinkState welcome_with(UniqueFd memory) {
    LinkEndpointConfig config;
    config.link = small_switch().link;
    config.link.guid = Guid(0xA);
    config.endpoint = "shm:" + path();
    const auto node = std::move(connect_link(config, random).value());
    clock.advance(10s);
    node->link().poll(clock.now());
    const UniqueFd guest(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    EXPECT_TRUE(guest.valid());
    LinkHelloWire wire;
    Packet packet;
    EXPECT_EQ(receive_packet(guest.get(), std::as_writable_bytes(std::span(&wire, 1)), packet),
              PacketIo::kOk);
    LinkHello hello;
    EXPECT_EQ(decode_link_hello(bytes_of(wire), hello), LinkHelloError::kNone);
    LinkHello answer;
    LinkParams params;
    EXPECT_EQ(answer_hello(small_switch().link, hello, {Lid(1), 1, SubnetId(1)}, answer, params),
              LinkRefusal::kNone);
    const LinkHelloWire said = encode_link_hello(answer);
    std::array<int, kShmWelcomeFds> fds;
    fds.fill(memory.get());
    EXPECT_TRUE(send_packet(guest.get(), bytes_of(said), fds));
    clock.advance(1ms);
    node->link().poll(clock.now());
    return node->link().state();
  }
  [[nodiscard]] static size_t region_bytes() {
    const uint32_t flit = make_hello(small_switch().link, 0).flit_payload_bytes;
    return SharedRegion::rounded(shm_region_bytes(ring_geometry(flit)));
  }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
  UniqueFd listener;
};

TEST_F(HostileSwitch, memory_that_could_shrink_or_is_no_memfd_is_not_mapped) {
  covers("DECISIONS-4");
  SharedRegion good = std::move(SharedRegion::create("good", region_bytes()).value());
  EXPECT_EQ(welcome_with(UniqueFd(dup(good.fd()))), LinkState::kUp) << "the harness itself works";
  // Each seal alone is needed.
  for (const unsigned seals : {0U, unsigned{F_SEAL_SHRINK}, unsigned{F_SEAL_SHRINK | F_SEAL_GROW},
                               unsigned{F_SEAL_GROW | F_SEAL_SEAL}}) {
    UniqueFd memory(memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(memory.get(), static_cast<off_t>(region_bytes())), 0);
    ASSERT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
    EXPECT_EQ(welcome_with(std::move(memory)), LinkState::kDown) << seals;
  }
  // A file (on FUSE it would hang us), a pipe: F_GET_SEALS is the first thing asked of it, and fails.
  FILE* file = fopen((dir.path() + "/file").c_str(), "w+");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(ftruncate(fileno(file), static_cast<off_t>(region_bytes())), 0);
  EXPECT_EQ(welcome_with(UniqueFd(dup(fileno(file)))), LinkState::kDown);
  static_cast<void>(fclose(file));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd other(ends[1]);
  EXPECT_EQ(welcome_with(UniqueFd(ends[0])), LinkState::kDown);
}

/// An endnode made by hand that has joined a switch, and its view of the memory of its link.
class HostileEndnode : public ::testing::Test {
 protected:
  void SetUp() override {
    socket = std::move(connect_unix(dir.path() + "/s.sock").value());
    LinkConfig link = small_switch().link;
    link.guid = Guid(0xA);
    const LinkHelloWire hello = encode_link_hello(make_hello(link, 77));
    ASSERT_TRUE(send_packet(socket.get(), bytes_of(hello), {}));
    run(10);
    LinkHelloWire answer;
    ASSERT_EQ(receive_packet(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), welcome),
              PacketIo::kOk);
    ASSERT_GE(welcome.fd_count, 1U);
    const uint32_t flit = make_hello(link, 0).flit_payload_bytes;
    Result<SharedRegion> shared = SharedRegion::adopt(
        UniqueFd(dup(welcome.fds[0].get())), SharedRegion::rounded(shm_region_bytes(ring_geometry(flit))));
    ASSERT_TRUE(shared.ok());
    region.emplace(std::move(*shared));
    ASSERT_EQ(end().state(), LinkState::kUp);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      clock.advance(10ms);
      door.poll(clock.now());
    }
  }
  [[nodiscard]] LinkEngine& end() { return door.admission.engine(0); }
  /// Ring 0 is the one the switch sends on.
  [[nodiscard]] RingControl& ring_to_us() { return *reinterpret_cast<RingControl*>(region->bytes().data()); }

  /// Makes every descriptor that both sides hold, and our own, one that waits.
  void let_descriptors_block() {
    for (size_t i = 0; i <= welcome.fd_count; ++i) {
      const int fd = i < welcome.fd_count ? welcome.fds[i].get() : socket.get();
      ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
    }
  }
  /// Ends a read() or write() of the switch on a descriptor that both sides hold.
  void free_the_switch() {
    for (size_t i = 0; i < welcome.fd_count; ++i) {
      uint64_t value = 1;
      const int fd = welcome.fds[i].get();
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
      static_cast<void>(!read(fd, &value, sizeof value));
      value = 1;
      static_cast<void>(!write(fd, &value, sizeof value));
    }
  }

  TempDir dir;
  ManualClock clock{};
  Door door{"shm:" + dir.path() + "/s.sock"};
  UniqueFd socket;
  Packet welcome;
  std::optional<SharedRegion> region;
};

TEST_F(HostileEndnode, cannot_make_the_switch_wait_for_a_wake_up) {
  covers("DECISIONS-4");
  let_descriptors_block();
  EXPECT_TRUE(returns_by_itself(
      [&] {
        static_cast<void>(door.core.prepare_sleep());
        door.core.finish_sleep();
        door.acceptor->finish_sleep();
        door.poll(clock.now());
      },
      [&] { free_the_switch(); }));
  EXPECT_EQ(end().state(), LinkState::kUp);
}

TEST_F(HostileEndnode, cannot_make_the_switch_wait_while_it_wakes_others) {
  covers("DECISIONS-4");
  let_descriptors_block();
  for (size_t i = 0; i < welcome.fd_count; ++i) {  // a counter that takes no more, if it is one
    const uint64_t most = UINT64_MAX - 1;
    const int fd = welcome.fds[i].get();
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct stat info {};
    ASSERT_EQ(fstat(fd, &info), 0);
    if (!S_ISREG(info.st_mode)) static_cast<void>(!write(fd, &most, sizeof most));
  }
  let_descriptors_block();
  const std::vector<std::byte> cell = make_cell({});
  EXPECT_TRUE(returns_by_itself(
      [&] {
        for (int i = 0; i < 20; ++i) {
          ring_to_us().sleeping.store(1);
          std::byte* to = end().claim(VirtualLane(0));
          if (to == nullptr) break;
          std::memcpy(to, cell.data(), cell.size());
          end().commit(
              {VirtualLane(0), kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
          end().flush(clock.now());
        }
      },
      [&] { free_the_switch(); }));
  EXPECT_EQ(ring_to_us().sleeping.load(), 0U) << "the switch did wake us";
  EXPECT_EQ(end().state(), LinkState::kUp);
}

/// Whatever else an endnode says on the socket of its link, the switch sleeps again.
TEST_F(HostileEndnode, cannot_keep_the_switch_awake_by_what_it_leaves_unread) {
  covers("DECISIONS-4");
  const std::array<std::byte, 100> junk{};
  for (int i = 0; i < 5; ++i) {
    const std::array fds{socket.get(), socket.get()};
    ASSERT_TRUE(send_packet(socket.get(), junk, fds));
  }
  run(10);
  std::vector<pollfd> fds;
  door.core.wait_fds(fds);
  ASSERT_FALSE(fds.empty());
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 0) << "the loop would never sleep";
  EXPECT_EQ(end().state(), LinkState::kUp);
  socket.reset();
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 1) << "the death of the endnode still wakes it";
  run(5);
  EXPECT_EQ(end().state(), LinkState::kDown);
}

/// More guests than are let in at once wait outside, without the loop spinning for them.
TEST(LinkDefence, guests_that_have_to_wait_do_not_keep_the_switch_awake) {
  covers("DECISIONS-4");
  const TempDir dir;
  Door door("shm:" + dir.path() + "/s.sock");
  std::vector<UniqueFd> guests;
  guests.reserve(17);
  for (int i = 0; i < 17; ++i) guests.push_back(std::move(connect_unix(dir.path() + "/s.sock").value()));
  ManualClock clock;
  clock.advance(10s);
  door.acceptor->poll(clock.now());
  std::vector<pollfd> fds;
  door.acceptor->wait_fds(fds);
  ASSERT_EQ(fds.size(), 17U) << "the links, the guests that were let in, who say nothing, and not the door";
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 0);
  EXPECT_LE(door.acceptor->deadline(), clock.now() + 200ms) << "and the switch looks again soon";
  clock.advance(1100ms);
  door.acceptor->poll(clock.now());
  clock.advance(10ms);
  door.acceptor->poll(clock.now());
  fds.clear();
  door.acceptor->wait_fds(fds);
  EXPECT_EQ(fds.size(), 3U) << "the door, the links, and the last guest";
}

}  // namespace
}  // namespace weft::test
