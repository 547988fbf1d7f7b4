#include "fabric/carrier/zmq_socket.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/cancel_shield.h"

namespace weft::fabric {
namespace {

constexpr int kQueuedBurstsMax =
    4096;  // above a link's window (1024 flits, at worst one per burst) plus its control flits
constexpr int64_t kMessageBytesMax = 1 << 20;

Error zmq_failure(const std::string& what) {
  return Error{what + ": " + zmq_strerror(zmq_errno())};
}

}  // namespace

bool ZmqMessage::assign(std::span<const std::byte> data) noexcept {
  zmq_msg_t fresh;
  if (zmq_msg_init_size(&fresh, data.size()) != 0) return false;
  if (!data.empty()) std::memcpy(zmq_msg_data(&fresh), data.data(), data.size());
  zmq_msg_move(&raw_, &fresh);
  zmq_msg_close(&fresh);
  return true;
}

bool ZmqMessage::lend(std::span<std::byte> data, zmq_free_fn* release, void* hint) noexcept {
  zmq_msg_t fresh;
  if (zmq_msg_init_data(&fresh, data.data(), data.size(), release, hint) != 0) return false;
  zmq_msg_move(&raw_, &fresh);
  zmq_msg_close(&fresh);
  return true;
}

ZmqMessage ZmqMessage::share() noexcept {
  ZmqMessage other;
  zmq_msg_copy(&other.raw_, &raw_);
  return other;
}

std::string_view ZmqMessage::property(const char* name) const noexcept {
  const char* value = zmq_msg_gets(&raw_, name);
  return value != nullptr ? std::string_view(value) : std::string_view{};
}

void ZmqMessage::widen_connection() const noexcept {
  const int fd = zmq_msg_get(&raw_, ZMQ_SRCFD);
  int family = AF_UNSPEC;
  socklen_t bytes = sizeof family;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) != 0 || family != AF_UNIX) return;
  static_cast<void>(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kIpcSendBytes, sizeof kIpcSendBytes));
}

void ZmqMessage::clear() noexcept {
  zmq_msg_close(&raw_);
  zmq_msg_init(&raw_);
}

Result<std::shared_ptr<ZmqContext>> ZmqContext::create() {
  void* raw = zmq_ctx_new();
  if (raw == nullptr) return zmq_failure("cannot start ZeroMQ");
  // Under another scheduling policy the kernel may refuse the change, and the library would abort.
  if (sched_getscheduler(0) == SCHED_OTHER) {
    static_cast<void>(zmq_ctx_set(raw, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH));
  }
  return std::make_shared<ZmqContext>(raw);
}

Result<std::unique_ptr<ZmqSocket>> ZmqSocket::create(std::shared_ptr<ZmqContext> context, int type) {
  void* raw = zmq_socket(context->raw(), type);
  if (raw == nullptr) return zmq_failure("cannot make a ZeroMQ socket");
  auto socket = std::make_unique<ZmqSocket>(std::move(context), raw);
  size_t bytes = sizeof socket->fd_;
  if (zmq_getsockopt(raw, ZMQ_FD, &socket->fd_, &bytes) != 0)
    return zmq_failure("ZeroMQ socket without descriptor");
  if (Status quick = socket->set(ZMQ_LINGER, 0); !quick) return quick.error();
  return socket;
}

Status ZmqSocket::set(int option, int value) {
  if (zmq_setsockopt(raw_, option, &value, sizeof value) == 0) return {};
  return zmq_failure("cannot set a ZeroMQ option");
}

Status ZmqSocket::set(int option, const std::string& value) {
  if (zmq_setsockopt(raw_, option, value.data(), value.size()) == 0) return {};
  return zmq_failure("cannot set a ZeroMQ option");
}

Status ZmqSocket::set_link_options(Duration silence) {
  const auto silence_ms = static_cast<int>(silence / std::chrono::milliseconds(1));
  const std::pair<int, int> options[] = {{ZMQ_SNDHWM, kQueuedBurstsMax},
                                         {ZMQ_RCVHWM, kQueuedBurstsMax},
                                         {ZMQ_IPV6, 1},
                                         {ZMQ_HEARTBEAT_IVL, silence_ms / 4},
                                         {ZMQ_HEARTBEAT_TIMEOUT, silence_ms},
                                         {ZMQ_HANDSHAKE_IVL, 2000},
                                         {ZMQ_RECONNECT_IVL, 50},
                                         {ZMQ_RECONNECT_IVL_MAX, 200}};
  for (const auto& [option, value] : options) {
    if (Status done = set(option, value); !done) return done;
  }
  if (zmq_setsockopt(raw_, ZMQ_MAXMSGSIZE, &kMessageBytesMax, sizeof kMessageBytesMax) != 0) {
    return zmq_failure("cannot bound ZeroMQ messages");
  }
  return {};
}

Status ZmqSocket::accept_own_user_only() {
  const uid_t user = geteuid();
  if (zmq_setsockopt(raw_, ZMQ_IPC_FILTER_UID, &user, sizeof user) == 0) return {};
  return zmq_failure("cannot limit an ipc endpoint to this user");
}

Status ZmqSocket::bind(const std::string& endpoint) {
  return zmq_bind(raw_, endpoint.c_str()) == 0 ? Status{} : zmq_failure("cannot listen on " + endpoint);
}

Status ZmqSocket::connect(const std::string& endpoint) {
  return zmq_connect(raw_, endpoint.c_str()) == 0 ? Status{} : zmq_failure("cannot connect to " + endpoint);
}

bool ZmqSocket::send(ZmqMessage& message, bool more) noexcept {
  const CancelShield shield;
  return zmq_msg_send(message.raw(), raw_, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

bool ZmqSocket::receive(ZmqMessage& message) noexcept {
  const CancelShield shield;
  return zmq_msg_recv(message.raw(), raw_, ZMQ_DONTWAIT) >= 0;
}

bool ZmqSocket::readable() const noexcept {
  const CancelShield shield;
  int events = 0;
  size_t bytes = sizeof events;
  return zmq_getsockopt(raw_, ZMQ_EVENTS, &events, &bytes) != 0 || (events & ZMQ_POLLIN) != 0;
}

}  // namespace weft::fabric
