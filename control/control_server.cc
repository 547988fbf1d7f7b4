// How it works: a request is [identity][empty][message], as a ZeroMQ REQ or DEALER sends it; the reply goes
// back to the identity. ZMQ_FD is edge-triggered, so every turn that looks at the socket drains it (up to its
// bound) and asks ZMQ_EVENTS again before a sleep.
#include "control/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/private_files.h"
#include "base/process_limits.h"

namespace weft::control {
namespace {

constexpr int kRequestsPerPollMax = 4;
constexpr int kQueuedMessagesMax = 16;
constexpr Duration kLookInterval = std::chrono::milliseconds(1);
constexpr size_t kIdentityBytesMax = 255;
// Descriptors of a ZeroMQ context with one bound socket and a few clients.
constexpr size_t kServerDescriptors = 16;
constexpr size_t kServerThreads = 2;

Status check_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : path.substr(0, slash);
  if (const Result<UniqueFd> ours = open_private_directory(AT_FDCWD, dir, "state directory"); !ours.ok())
    return ours.error();
  if (path.size() >= sizeof(sockaddr_un{}.sun_path))
    return Error{"control endpoint " + path +
                 " is too long for a Unix socket (107 bytes); choose a shorter directory"};
  return {};
}

/// True when a live process listens at `path`.
bool is_listened_to(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool alive = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return alive;
}

class ZmqControlServer final : public ControlServer {
 public:
  ZmqControlServer(void* context, void* socket, std::string path, ControlHandler& handler)
      : context_(context), socket_(socket), path_(std::move(path)), handler_(handler) {
    size_t size = sizeof fd_;
    zmq_getsockopt(socket_, ZMQ_FD, &fd_, &size);
  }
  ~ZmqControlServer() override {
    zmq_close(socket_);
    zmq_ctx_term(context_);
    unlink(path_.c_str());
  }
  ZmqControlServer(const ZmqControlServer&) = delete;
  ZmqControlServer& operator=(const ZmqControlServer&) = delete;

  int poll(Instant now) noexcept override {
    if (now < next_look_) return 0;
    next_look_ = now + kLookInterval;
    int work = 0;
    while (work < kRequestsPerPollMax && readable()) {
      try {
        serve_one();
      } catch (const std::exception&) {
        counters_.add(ControlCounter::kReplyLost);
      }
      ++work;
    }
    return work;
  }
  void wait_fds(std::vector<pollfd>& out) const override { out.push_back({fd_, POLLIN, 0}); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return !readable(); }
  void finish_sleep() noexcept override { next_look_ = Instant::min(); }
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }
  [[nodiscard]] CounterSet<ControlCounter>& counters() noexcept override { return counters_; }

 private:
  [[nodiscard]] bool readable() const noexcept {
    int events = 0;
    size_t size = sizeof events;
    return zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
  }
  void serve_one();
  ControlReply answer(const ControlRequest& request);
  ControlReply dispatch(const ControlRequest& request);

  void* context_;
  void* socket_;
  std::string path_;
  ControlHandler& handler_;
  int fd_ = -1;
  Instant next_look_ = Instant::min();
  CounterSet<ControlCounter> counters_;
};

/// Receives one part; returns its size, or -1 when there is none. `more` says whether another part follows.
int receive_part(void* socket, std::vector<std::byte>& into, bool& more) {
  zmq_msg_t part;
  zmq_msg_init(&part);
  const int bytes = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT);
  if (bytes >= 0) {
    const auto* data = static_cast<const std::byte*>(zmq_msg_data(&part));
    into.assign(data, data + bytes);
  }
  more = bytes >= 0 && zmq_msg_more(&part) != 0;
  zmq_msg_close(&part);
  return bytes;
}

void ZmqControlServer::serve_one() {
  std::array<std::vector<std::byte>, 3> parts;
  size_t count = 0;
  bool more = true;
  for (; more; ++count) {
    std::vector<std::byte> surplus;
    if (receive_part(socket_, count < parts.size() ? parts[count] : surplus, more) < 0) return;
  }
  counters_.add(ControlCounter::kRequests);
  if (count != parts.size() || parts[0].size() > kIdentityBytesMax || !parts[1].empty()) {
    counters_.add(ControlCounter::kMalformed);
    return;
  }
  ControlReply reply;
  const Result<ControlRequest> request = decode_control_request(parts[2]);
  if (request.ok()) {
    reply = answer(request.value());
  } else {
    counters_.add(ControlCounter::kMalformed);
    reply.answer = ControlAnswer::kError;
    reply.error = request.error().text;
  }
  const std::vector<std::byte> bytes = encode_control_reply(reply);
  const bool sent = zmq_send(socket_, parts[0].data(), parts[0].size(), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
                    zmq_send(socket_, nullptr, 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
                    zmq_send(socket_, bytes.data(), bytes.size(), ZMQ_DONTWAIT) >= 0;
  if (!sent) counters_.add(ControlCounter::kReplyLost);
}

ControlReply ZmqControlServer::answer(const ControlRequest& request) {
  ControlReply reply;
  try {
    reply = dispatch(request);
  } catch (const std::exception& failure) {
    reply.answer = ControlAnswer::kError;
    reply.error = failure.what();
  }
  reply.id = request.id;
  if (reply.answer == ControlAnswer::kError) counters_.add(ControlCounter::kRefused);
  return reply;
}

ControlReply refusal(const Error& error) {
  ControlReply reply;
  reply.answer = ControlAnswer::kError;
  reply.error = error.text;
  return reply;
}

ControlReply reply_with(const Status& status) {
  return status.ok() ? ControlReply{} : refusal(status.error());
}

ControlReply reply_with(const Result<TrafficFigures>& report) {
  if (!report.ok()) return refusal(report.error());
  ControlReply reply;
  reply.answer = ControlAnswer::kTraffic;
  reply.traffic = report.value();
  return reply;
}

ControlReply reply_with(const Result<NicReport>& report) {
  if (!report.ok()) return refusal(report.error());
  ControlReply reply;
  reply.answer = ControlAnswer::kNic;
  reply.nic = report.value();
  return reply;
}

ControlReply reply_with(Result<std::vector<FaultInfo>> faults) {
  if (!faults.ok()) return refusal(faults.error());
  ControlReply reply;
  reply.answer = ControlAnswer::kFaults;
  reply.faults = std::move(faults).value();
  return reply;
}

ControlReply ZmqControlServer::dispatch(const ControlRequest& request) {
  switch (request.action) {
    case ControlAction::kInfo: {
      ControlReply reply;
      reply.answer = ControlAnswer::kInfo;
      reply.info = handler_.info();
      return reply;
    }
    case ControlAction::kTrafficStart:
      return reply_with(handler_.traffic_start(request.traffic));
    case ControlAction::kTrafficStop:
      return reply_with(handler_.traffic_stop());
    case ControlAction::kTrafficReport:
      return reply_with(handler_.traffic_report());
    case ControlAction::kCaptureStart:
      return reply_with(handler_.capture_start(request.capture));
    case ControlAction::kCaptureStop:
      return reply_with(handler_.capture_stop(request.capture.path));
    case ControlAction::kNicAsk:
      return reply_with(handler_.nic_ask(request.nic));
    case ControlAction::kNicReport:
      return reply_with(handler_.nic_report(request.nic.interface));
    case ControlAction::kFaultAdd:
      return reply_with(handler_.fault_add(request.fault));
    case ControlAction::kFaultClear:
      return reply_with(handler_.fault_clear(request.fault_id));
    case ControlAction::kFaultList:
      return reply_with(handler_.fault_list());
    case ControlAction::kUnknown:
      break;
  }
  return refusal(Error{"this process does not know the request: it is older than `weft`; restart it"});
}

}  // namespace

Status ControlHandler::traffic_start(const TrafficRun&) {
  return Error{"this process has no traffic generator"};
}
Result<TrafficFigures> ControlHandler::traffic_stop() {
  return Error{"this process has no traffic generator"};
}
Result<TrafficFigures> ControlHandler::traffic_report() {
  return Error{"this process has no traffic generator"};
}
Status ControlHandler::capture_start(const CaptureSpec&) {
  return Error{"no frames pass through this process"};
}
Status ControlHandler::capture_stop(const std::string&) {
  return Error{"no frames pass through this process"};
}

Result<NicReport> ControlHandler::nic_ask(const NicWish&) {
  return Error{"only a host has the NIC of a unit"};
}
Result<NicReport> ControlHandler::nic_report(const std::string&) {
  return Error{"only a host has the NIC of a unit"};
}

Result<std::vector<FaultInfo>> ControlHandler::fault_add(const FaultRule&) {
  return Error{"faults are set at a switch"};
}
Result<std::vector<FaultInfo>> ControlHandler::fault_clear(uint32_t) {
  return Error{"faults are set at a switch"};
}
Result<std::vector<FaultInfo>> ControlHandler::fault_list() {
  return Error{"faults are set at a switch"};
}

Result<std::unique_ptr<ControlServer>> ControlServer::open(const std::string& path, ControlHandler& handler) {
  if (Status checked = check_directory(path); !checked.ok()) return checked.error();
  if (is_listened_to(path))
    return Error{"control endpoint " + path + " is in use: a process of that name is already running here"};
  if (Status room = check_spare_descriptors(kServerDescriptors); !room) return room.error();
  if (Status room = check_spare_threads(kServerThreads); !room) return room.error();
  void* context = zmq_ctx_new();
  if (context == nullptr) return errno_error("cannot start ZeroMQ", zmq_errno());
  void* socket = zmq_socket(context, ZMQ_ROUTER);
  const int queued = kQueuedMessagesMax;
  const int zero = 0;
  const int told = 1;  // ROUTER_MANDATORY: a reply to a vanished client fails instead of being dropped
                       // silently
  const auto largest = static_cast<int64_t>(kControlMessageBytesMax);
  const std::string endpoint = "ipc://" + path;
  if (socket == nullptr || zmq_setsockopt(socket, ZMQ_RCVHWM, &queued, sizeof queued) != 0 ||
      zmq_setsockopt(socket, ZMQ_SNDHWM, &queued, sizeof queued) != 0 ||
      zmq_setsockopt(socket, ZMQ_ROUTER_MANDATORY, &told, sizeof told) != 0 ||
      zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero) != 0 ||
      zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) != 0 ||
      zmq_bind(socket, endpoint.c_str()) != 0) {
    const int saved = zmq_errno();
    if (socket != nullptr) zmq_close(socket);
    zmq_ctx_term(context);
    return Error{"cannot open control endpoint " + path + ": " + zmq_strerror(saved)};
  }
  chmod(path.c_str(), 0600);
  return std::unique_ptr<ControlServer>(std::make_unique<ZmqControlServer>(context, socket, path, handler));
}

}  // namespace weft::control
