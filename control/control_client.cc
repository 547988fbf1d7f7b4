#include "control/control_client.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/process_limits.h"

namespace weft::control {
namespace {

using namespace std::chrono_literals;

constexpr size_t kClientDescriptors = 12;
constexpr size_t kClientThreads = 2;

/// A DEALER socket that closes itself.
class Socket {
 public:
  explicit Socket(void* context) : handle_(zmq_socket(context, ZMQ_DEALER)) {}
  ~Socket() {
    if (handle_ != nullptr) zmq_close(handle_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] void* get() const noexcept { return handle_; }

 private:
  void* handle_;
};

/// Reads one message of [empty][bytes]; false when it has another shape.
bool receive_reply(void* socket, std::vector<std::byte>& bytes) {
  bool more = true;
  int parts = 0;
  for (; more; ++parts) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const int size = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT);
    if (size >= 0) {
      const auto* data = static_cast<const std::byte*>(zmq_msg_data(&part));
      bytes.assign(data, data + size);
    }
    more = size >= 0 && zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
    if (size < 0) return false;
  }
  return parts == 2;
}

}  // namespace

ControlClient::ControlClient() : context_(zmq_ctx_new()) {}

ControlClient::~ControlClient() {
  if (context_ != nullptr) zmq_ctx_term(context_);
}

/// Checks for resources first, because libzmq aborts the process if it gets no descriptor or thread. Its
/// threads start with the first socket.
Status ControlClient::check_room() {
  if (Status room = check_spare_descriptors(kClientDescriptors); !room) return room;
  if (has_threads_) return {};
  if (Status room = check_spare_threads(kClientThreads); !room) return room;
  has_threads_ = true;
  return {};
}

Result<ControlReply> ControlClient::ask(const std::string& path, ControlRequest request, Duration timeout) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && (!S_ISSOCK(info.st_mode) || info.st_uid != geteuid()))
    return Error{path + " is no socket of this user: it is not asked; remove it"};
  if (Status room = check_room(); !room) return room.error();
  const Socket socket(context_);
  const int zero = 0;
  const auto largest = static_cast<int64_t>(kControlMessageBytesMax);
  const std::string endpoint = "ipc://" + path;
  if (socket.get() == nullptr || zmq_setsockopt(socket.get(), ZMQ_LINGER, &zero, sizeof zero) != 0 ||
      zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0 ||
      zmq_connect(socket.get(), endpoint.c_str()) != 0)
    return Error{"cannot ask " + path + ": " + zmq_strerror(zmq_errno())};
  request.id = next_id_++;
  const std::vector<std::byte> bytes = encode_control_request(request);
  if (zmq_send(socket.get(), nullptr, 0, ZMQ_SNDMORE) < 0 ||
      zmq_send(socket.get(), bytes.data(), bytes.size(), 0) < 0)
    return Error{"cannot ask " + path + ": " + zmq_strerror(zmq_errno())};

  const Instant end = MonotonicClock().now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - MonotonicClock().now());
    zmq_pollitem_t item{socket.get(), 0, ZMQ_POLLIN, 0};
    const int ready = left > 0ms ? zmq_poll(&item, 1, static_cast<long>(left.count())) : 0;
    if (ready < 0 && zmq_errno() == EINTR) continue;
    if (ready <= 0) return Error{"no answer from " + path + ": the process is gone, frozen or overloaded"};
    std::vector<std::byte> answer;
    if (!receive_reply(socket.get(), answer)) continue;
    Result<ControlReply> reply = decode_control_reply(answer);
    if (!reply.ok()) return reply.error();
    if (reply.value().id != 0 && reply.value().id != request.id)
      continue;  // a late reply to an earlier
                 // request
    if (reply.value().answer == ControlAnswer::kError) return Error{reply.value().error};
    return reply;
  }
}

}  // namespace weft::control
