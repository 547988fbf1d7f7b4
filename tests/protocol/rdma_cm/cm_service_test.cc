// Connection management of a process with its thread; the switch runs in another thread.
#include "rdma_cm/cm_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/stats_page.h"
#include "base/unique_fd.h"
#include "hca/helper_thread.h"
#include "rdma_cm/command_parts.h"
#include "tests/support/live_fabric.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_devices.h"

namespace weft::rdma_cm {
namespace {

constexpr int kLong = 10'000;  // milliseconds

uint64_t at(const void* where) {
  return reinterpret_cast<uintptr_t>(where);
}

/// A device with its helper thread and its service, and a program that issues librdmacm's commands.
class Program {
 public:
  Program(uint16_t lid, test::LiveFabric& fabric) : consumer_(lid, fabric.clock) {
    EXPECT_TRUE(consumer_.device.add_link(fabric.endpoint_of(0x1000U + lid)).ok());
    thread_ = std::make_unique<hca::HelperThread>(consumer_.device, fabric.clock);
    EXPECT_TRUE(consumer_.device.wait_for_ports(std::chrono::seconds(30)));
    const CmServiceConfig config{.identity = {.guid = Guid(0x1000U + lid), .lid = Lid(lid), .mtu = 5},
                                 .reader_wait = std::chrono::milliseconds(kLong),
                                 .sleep_max = std::chrono::hours(1)};  // no wake-up may be missing
    service_ = std::move(CmService::start(consumer_.device, consumer_.link_random, config).value());
    EXPECT_TRUE(service_->publish(page_));
    descriptor_ = service_->open();
    EXPECT_GE(descriptor_, 0);
  }
  ~Program() {
    service_.reset();
    thread_.reset();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Connection management of the process ends; its device stays.
  void end() { service_.reset(); }
  [[nodiscard]] uint64_t counter(const std::string& name) const {
    const auto entries = read_stats_page(dir_.path() + "/page").value();
    for (const auto& [label, value] : entries)
      if (label == name) return value;
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  [[nodiscard]] CmService& service() { return *service_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  template <class Body>
  [[nodiscard]] bool command(uint32_t number, const Body& body) {
    std::vector<std::byte> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof body);
    const rdma_ucm_cmd_hdr header{.cmd = number, .in = sizeof body, .out = 1024};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(&bytes[sizeof header], &body, sizeof body);
    return service_->write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }
  uint32_t create() {
    rdma_ucm_create_id_resp made{};
    rdma_ucm_create_id body{};
    body.response = at(&made);
    body.uid = 1;  // an identifier without uid gets no events
    body.ps = RDMA_PS_TCP;
    EXPECT_TRUE(command(RDMA_USER_CM_CMD_CREATE_ID, body));
    return made.id;
  }
  /// @return the next event; none after kLong without one
  rdma_ucm_event_resp event() {
    rdma_ucm_event_resp out{};
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, kLong) != 1) {
      ADD_FAILURE() << "no event";
      return out;
    }
    EXPECT_TRUE(command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = at(&out)}));
    return out;
  }
  void expect(CmEvent kind) { EXPECT_EQ(event().event, static_cast<uint32_t>(kind)); }

 private:
  test::TempDir dir_;
  StatsPage page_ = StatsPage::create(dir_.path() + "/page").value();
  test::Consumer consumer_;
  std::unique_ptr<hca::HelperThread> thread_;
  std::unique_ptr<CmService> service_;
  int descriptor_ = -1;
};

rdma_ucm_conn_param param(uint32_t qpn) {
  rdma_ucm_conn_param out{};
  out.qp_num = qpn;
  out.valid = 1;
  return out;
}

class CmServices : public ::testing::Test {
 protected:
  void listen() {
    rdma_ucm_bind_ip bind{};
    bind.id = server.create();
    bind.addr = to_sockaddr(address);
    ASSERT_TRUE(server.command(RDMA_USER_CM_CMD_BIND_IP, bind));
    ASSERT_TRUE(server.command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = bind.id, .backlog = 1}));
  }
  /// The client asks for a connection, beginning with its address.
  void ask(uint32_t id) {
    resolve(id);
    request(id);
  }
  void resolve(uint32_t id) {
    rdma_ucm_resolve_ip resolve{};
    resolve.id = id;
    resolve.dst_addr = to_sockaddr(address);
    resolve.timeout_ms = 2000;
    ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve));
    client.expect(CmEvent::kAddressResolved);
    const rdma_ucm_resolve_route route{.id = id, .timeout_ms = 2000};
    ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route));
    client.expect(CmEvent::kRouteResolved);
  }
  void request(uint32_t id) {
    rdma_ucm_connect request{};
    request.id = id;
    request.conn_param = param(0x111);
    ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_CONNECT, request));
  }
  void connect() {
    const uint32_t id = client.create();
    ask(id);
    const rdma_ucm_event_resp request = server.event();
    ASSERT_EQ(request.event, static_cast<uint32_t>(CmEvent::kConnectRequest));
    rdma_ucm_accept accept{};
    accept.id = request.id;
    accept.uid = 2;
    accept.conn_param = param(0x222);
    ASSERT_TRUE(server.command(RDMA_USER_CM_CMD_ACCEPT, accept));
    client.expect(CmEvent::kConnectResponse);
    accept = {};
    accept.id = id;
    ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_ACCEPT, accept));
    server.expect(CmEvent::kEstablished);
  }

  test::LiveFabric fabric;
  Program client{1, fabric};
  Program server{2, fabric};
  IpAddress address = [] {
    IpAddress out = ipv4_of(Lid(2));
    out.port = 5000;
    return out;
  }();
};

/// The process stays alive, so the peer learns of the end from these messages only.
TEST_F(CmServices, at_the_end_of_a_process_the_peers_of_its_connections_are_told) {
  listen();
  connect();
  server.service().end_all();
  client.expect(CmEvent::kDisconnected);
}

TEST_F(CmServices, at_the_end_of_a_process_its_listeners_end) {
  listen();
  server.service().end_all();
  ask(client.create());
  client.expect(CmEvent::kRejected);
}

/// The service's thread sleeps without a deadline when the command sets one, and no datagram wakes it.
TEST_F(CmServices, a_command_wakes_the_thread_for_the_deadline_that_it_sets) {
  listen();
  const uint32_t id = client.create();
  resolve(id);
  server.end();
  request(id);
  const Instant end = MonotonicClock().now() + std::chrono::milliseconds(kLong);
  while (client.counter("cm.repeats") == 0 && MonotonicClock().now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(client.counter("cm.repeats"), 0U) << "the request is repeated";
}

/// As in rping: the main thread closes the channel while another thread returns to wait for the next event.
TEST_F(CmServices, a_thread_on_its_way_to_the_next_event_finds_its_channel) {
  const UniqueFd bell(dup(client.descriptor()));
  std::atomic<bool> has_event{false};
  std::atomic<bool> is_closing{false};
  std::atomic<bool> closed{false};
  std::atomic<bool> woken{false};
  bool woke_first = false;
  std::thread reader([&] {
    rdma_ucm_event_resp out{};
    const rdma_ucm_get_event next{.response = at(&out)};
    EXPECT_TRUE(client.command(RDMA_USER_CM_CMD_GET_EVENT, next));
    has_event = true;
    has_event.notify_one();
    is_closing.wait(false);
    for (int nap = 0; nap < 50 && !closed; ++nap) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(client.command(RDMA_USER_CM_CMD_GET_EVENT, next)) << "there is no further event";
    woke_first = woken;
  });
  rdma_ucm_resolve_ip resolve{};
  resolve.id = client.create();
  resolve.dst_addr = to_sockaddr(address);
  resolve.timeout_ms = 1;
  ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve));
  has_event.wait(false);
  is_closing = true;
  is_closing.notify_one();
  client.service().await_reader(client.descriptor());
  EXPECT_EQ(client.service().close(client.descriptor()), 0);
  closed = true;
  woken = true;
  ASSERT_EQ(eventfd_write(bell.get(), 1), 0);
  reader.join();
  EXPECT_TRUE(woke_first) << "the wait ended with the channel";
}

TEST_F(CmServices, a_channel_whose_reader_has_ended_closes_at_once) {
  rdma_ucm_resolve_ip resolve{};
  resolve.id = client.create();
  resolve.dst_addr = to_sockaddr(address);
  resolve.timeout_ms = 1;
  ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve));
  std::thread([&] { static_cast<void>(client.event()); }).join();
  const Instant start = MonotonicClock().now();
  client.service().await_reader(client.descriptor());
  EXPECT_LT(MonotonicClock().now() - start, std::chrono::milliseconds(kLong));
}

/// The thread that took the last event is alive and does not wait for another event.
TEST_F(CmServices, a_channel_that_is_nonblocking_closes_at_once) {
  ASSERT_EQ(fcntl(client.descriptor(), F_SETFL, O_RDWR | O_NONBLOCK), 0);
  rdma_ucm_resolve_ip resolve{};
  resolve.id = client.create();
  resolve.dst_addr = to_sockaddr(address);
  resolve.timeout_ms = 1;
  ASSERT_TRUE(client.command(RDMA_USER_CM_CMD_RESOLVE_IP, resolve));
  std::atomic<bool> has_event{false};
  std::atomic<bool> ends{false};
  std::thread reader([&] {
    static_cast<void>(client.event());
    has_event = true;
    has_event.notify_one();
    ends.wait(false);
  });
  has_event.wait(false);
  const Instant start = MonotonicClock().now();
  client.service().await_reader(client.descriptor());
  EXPECT_LT(MonotonicClock().now() - start, std::chrono::milliseconds(kLong));
  ends = true;
  ends.notify_one();
  reader.join();
}

/// Programs do cancel a thread that waits for an event; the state it shares with other threads stays usable.
TEST_F(CmServices, a_wait_for_an_event_may_be_cancelled) {
  const auto wait = [](void* program) -> void* {
    rdma_ucm_event_resp out{};
    static_cast<void>(static_cast<Program*>(program)->command(RDMA_USER_CM_CMD_GET_EVENT,
                                                              rdma_ucm_get_event{.response = at(&out)}));
    return nullptr;
  };
  pthread_t reader{};
  ASSERT_EQ(pthread_create(&reader, nullptr, wait, &client), 0);
  ASSERT_EQ(pthread_cancel(reader), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(reader, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  listen();
  connect();
}

/// A child after fork() has no service: its close is that of the descriptor, which the parent keeps.
TEST_F(CmServices, a_child_closes_its_copy_of_a_channel) {
  const int descriptor = client.descriptor();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool closed = client.service().close(descriptor) == 0;
    _exit(closed && fcntl(descriptor, F_GETFD) == -1 && errno == EBADF ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_NE(client.create(), client.create()) << "the channel goes on";
}

TEST_F(CmServices, another_lid_has_another_address) {
  const auto can_bind = [this](Lid lid) {
    rdma_ucm_bind_ip bind{};
    bind.id = client.create();
    bind.addr = to_sockaddr(ipv4_of(lid));
    return client.command(RDMA_USER_CM_CMD_BIND_IP, bind);
  };
  EXPECT_TRUE(can_bind(Lid(1)));  // an identifier at the device hears of the change
  EXPECT_FALSE(can_bind(Lid(2)));
  fabric.exchange({Guid(0x1002), Guid(0x1001)});
  client.expect(CmEvent::kAddressChange);
  EXPECT_FALSE(can_bind(Lid(1)));
  EXPECT_TRUE(can_bind(Lid(2)));
}

}  // namespace
}  // namespace weft::rdma_cm
