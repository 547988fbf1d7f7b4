#include "host_driver/unix_port.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/endian.h"
#include "base/log.h"
#include "base/net/ethernet.h"

namespace weft::host {
namespace {

constexpr uint32_t kLengthBytes = 4;
constexpr uint32_t kFrameBytesMax = 9018 + kVlanTagBytes;
constexpr size_t kInBytes = 256 * 1024;

bool same_user(int fd) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return errno_error("unix: descriptor", errno);
  return {};
}

/// True when a process answers at `address`.
bool is_listened_to(const sockaddr_un& address) noexcept {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         errno == EAGAIN;
}

}  // namespace

UnixPort::UnixPort(const MacAddress& mac)
    : ModelPort("unix", mac, {}, kFrameBytesMax), in_(kInBytes), out_(kLengthBytes + kFrameBytesMax) {}

UnixPort::~UnixPort() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<std::unique_ptr<UnixPort>> UnixPort::listen(const std::string& path, const MacAddress& mac) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{"unix: path '" + path + "' is not 1..107 characters long"};
  }
  path.copy(address.sun_path, path.size());
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return Error{"unix: " + path + " exists and is no socket"};
    if (is_listened_to(address)) return Error{"unix: " + path + " is in use by another process"};
    ::unlink(path.c_str());
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const mode_t mask = ::umask(0177);
  const bool bound =
      fd.valid() && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  ::umask(mask);
  if (!bound) return errno_error("unix: " + path, error);
  if (::listen(fd.get(), 1) != 0) return errno_error("unix: " + path, errno);
  Result<std::unique_ptr<UnixPort>> port = adopt(std::move(fd), mac);
  if (port) {
    (*port)->path_ = path;
    (*port)->info_.name = path;
  }
  return port;
}

Result<std::unique_ptr<UnixPort>> UnixPort::adopt(UniqueFd fd, const MacAddress& mac) {
  int type = 0;
  int listens = 0;
  socklen_t bytes = sizeof type;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM) {
    return Error{"unix: descriptor is no stream socket"};
  }
  bytes = sizeof listens;
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes);
  if (Status set = set_nonblocking(fd.get()); !set) return set.error();
  std::unique_ptr<UnixPort> port(new UnixPort(mac));  // tidy: private constructor
  (listens != 0 ? port->listener_ : port->peer_) = std::move(fd);
  return port;
}

bool UnixPort::accept_peer() noexcept {
  if (peer_.valid() || !listener_.valid()) return peer_.valid();
  UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.valid()) return false;
  if (!same_user(peer.get())) {
    counters_.add(PortCounter::kForeignUser);
    return false;
  }
  counters_.add(PortCounter::kCarrierChanges);
  peer_ = std::move(peer);
  return true;
}

void UnixPort::hang_up() noexcept {
  counters_.add(PortCounter::kCarrierChanges);
  peer_.reset();
  in_from_ = in_to_ = out_from_ = out_to_ = 0;
}

int UnixPort::poll(Instant) noexcept {
  if (!accept_peer()) return 0;
  return out_from_ != out_to_ && send_left_over() ? 1 : 0;
}

/// Receives more; false when there was nothing.
bool UnixPort::fill() noexcept {
  if (in_from_ != 0) {
    std::memmove(in_.data(), in_.data() + in_from_, in_to_ - in_from_);
    in_to_ -= in_from_;
    in_from_ = 0;
  }
  const ssize_t got = ::recv(peer_.get(), in_.data() + in_to_, in_.size() - in_to_, MSG_DONTWAIT);
  if (got > 0) {
    in_to_ += static_cast<size_t>(got);
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) hang_up();
  return false;
}

FrameReadResult UnixPort::read_frame(std::span<std::byte> into) noexcept {
  if (!peer_.valid()) return {FrameIo::kEmpty, 0};
  uint32_t length = 0;
  for (int tries = 0;; ++tries) {
    const size_t have = in_to_ - in_from_;
    length = have >= kLengthBytes ? load_be<uint32_t>(in_.data() + in_from_) : 0;
    if (have >= kLengthBytes && (length < kEthernetHeaderBytes || length > kFrameBytesMax)) {
      counters_.add(PortCounter::kReadMalformed);  // frame boundaries are lost; the stream is useless
      hang_up();
      return {FrameIo::kDropped, 0};
    }
    if (have >= kLengthBytes && have - kLengthBytes >= length) break;
    if (tries != 0 || !fill()) return {FrameIo::kEmpty, 0};
  }
  const std::byte* frame = in_.data() + in_from_ + kLengthBytes;
  in_from_ += kLengthBytes + length;
  if (into.size() < kVnetBytes + length) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  std::memset(into.data(), 0, kVnetBytes);
  std::memcpy(into.data() + kVnetBytes, frame, length);
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, length);
  return {FrameIo::kOk, kVnetBytes + length};
}

bool UnixPort::send_left_over() noexcept {
  const ssize_t put =
      ::send(peer_.get(), out_.data() + out_from_, out_to_ - out_from_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put < 0) {
    if (errno != EAGAIN && errno != EINTR) hang_up();
    return false;
  }
  out_from_ += static_cast<size_t>(put);
  return out_from_ == out_to_;
}

FrameIo UnixPort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (!peer_.valid()) {
    counters_.add(PortCounter::kNoReceiver);
    return FrameIo::kDown;
  }
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  const size_t length = head.size() - kVnetBytes + rest.size();
  if (length > kFrameBytesMax) {
    counters_.add(PortCounter::kWriteTooLong);
    return FrameIo::kDropped;
  }
  if (out_from_ != out_to_ && !send_left_over()) {
    const bool there = peer_.valid();
    counters_.add(there ? PortCounter::kWriteBusy : PortCounter::kNoReceiver);
    return there ? FrameIo::kBusy : FrameIo::kDown;
  }
  store_be(out_.data(), static_cast<uint32_t>(length));
  std::memcpy(out_.data() + kLengthBytes, head.data() + kVnetBytes, head.size() - kVnetBytes);
  if (!rest.empty())
    std::memcpy(out_.data() + kLengthBytes + head.size() - kVnetBytes, rest.data(), rest.size());
  out_from_ = 0;
  out_to_ = kLengthBytes + length;
  (void)send_left_over();  // the rest is sent at the next poll
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, length);
  return FrameIo::kOk;
}

void UnixPort::wait_fds(std::vector<pollfd>& out) const {
  if (!peer_.valid()) {
    if (listener_.valid()) out.push_back({listener_.get(), POLLIN, 0});
    return;
  }
  const bool left = out_from_ != out_to_;
  out.push_back({peer_.get(), static_cast<short>(left ? POLLIN | POLLOUT : POLLIN), 0});
}

}  // namespace weft::host
