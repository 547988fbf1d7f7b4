#include "fabric/window/window_door.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fabric/carrier/unix_socket.h"
#include "messages/window_call.h"

namespace weft::fabric {
namespace {

constexpr int kCallersWaiting = 128;
constexpr int kCallersPerLook = 32;
constexpr Duration kTakeAgain = 100ms;

/// The inode of a socket file; 0 when there is none.
[[nodiscard]] ino_t inode_of(const std::string& path) noexcept {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

/// A process that binds its socket while this runs is not in danger: the kernel shows a socket file in its
/// directory after the socket is bound.
void remove_dead_doors(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code fault;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, fault)) {
    const std::string path = entry.path();
    const ino_t inode = inode_of(path);
    if (is_dead_socket(path) && inode_of(path) == inode) unlink(path.c_str());
  }
}

std::string WindowDoor::path_of(Lid lid) const {
  return fmt::format("{}/{}-{}.sock", directory_, subnet_.value(), lid.value());
}

Status WindowDoor::open(SubnetId subnet, Lid lid) {
  close();
  subnet_ = subnet;
  lid_ = lid;
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error("cannot make " + directory_, errno);
  const std::string path = path_of(lid);
  Result<UniqueFd> listener = listen_unix(path, kCallersWaiting);
  if (!listener) return listener.error();
  listener_ = GuardedFd(std::move(*listener));
  inode_ = inode_of(path);
  return {};
}

void WindowDoor::close() noexcept {
  if (!listener_.valid()) return;
  silent_.clear();
  listener_.reset();
  hide();
}

void WindowDoor::hide() noexcept {
  const ino_t own = std::exchange(inode_, 0);
  const std::string path = path_of(lid_);
  if (own != 0 && inode_of(path) == own) unlink(path.c_str());
}

Result<UniqueFd> WindowDoor::call(Lid peer) const {
  Result<UniqueFd> socket = connect_unix(path_of(peer));
  if (!socket) return socket;
  if (!peer_is_our_user(socket->get())) {
    return Error{"the other process belongs to another user: run both as one user, or use the switch"};
  }
  if (!send_packet(socket->get(), encode_window_call({subnet_, lid_, peer}), {}))
    return errno_error("cannot call the other process", errno);
  return socket;
}

void WindowDoor::take_callers(Instant now) {
  if (now < takes_again_) return;
  takes_ = true;
  for (int taken = 0; taken < kCallersPerLook; ++taken) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      takes_ = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
      if (!takes_) takes_again_ = now + kTakeAgain;
      return;
    }
    if (silent_.size() == kSilentCallersMax || !peer_is_our_user(socket.get())) continue;
    silent_.push_back({std::move(socket), now + kCallerSilenceMax});
  }
}

void WindowDoor::look(Instant now, std::vector<WindowCaller>& out, std::vector<WindowOrderCaller>* orders) {
  if (!listener_.valid() || !listener_.is_ours()) return;
  take_callers(now);
  std::erase_if(silent_, [&](Silent& caller) {
    std::array<std::byte, kWindowOrderBytes + 1> bytes;
    Packet packet;
    switch (receive_packet(caller.socket.get(), bytes, packet)) {
      case PacketIo::kEmpty:
        return now >= caller.until;
      case PacketIo::kClosed:
        return true;
      case PacketIo::kOk:
        break;
    }
    if (const auto order = decode_window_order(std::span(bytes).first(packet.bytes)); order) {
      if (orders != nullptr && packet.fd_count == 0) orders->push_back({*order, std::move(caller.socket)});
      return true;
    }
    WindowCall call;
    const WindowCallFault fault = decode_window_call(std::span(bytes).first(packet.bytes), call);
    const bool good = fault == WindowCallFault::kNone && call.subnet == subnet_ && call.to == lid_ &&
                      call.from != lid_ && packet.fd_count == 0;
    if (good) out.push_back({call.from, std::move(caller.socket)});
    return true;
  });
}

void WindowDoor::wait_fds(std::vector<pollfd>& out) const {
  if (listener_.valid() && takes_) out.push_back({listener_.get(), POLLIN, 0});
  for (const Silent& caller : silent_) out.push_back({caller.socket.get(), POLLIN, 0});
}

Instant WindowDoor::deadline() const noexcept {
  Instant at = takes_ || !listener_.valid() ? kNever : takes_again_;
  for (const Silent& caller : silent_) at = std::min(at, caller.until);
  return at;
}

}  // namespace weft::fabric
