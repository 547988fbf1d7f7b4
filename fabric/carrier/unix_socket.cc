#include "fabric/carrier/unix_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/private_files.h"

namespace weft::fabric {
namespace {

/// An honest peer leaves at most one wake-up. A peer that floods us is drained by this number per turn.
constexpr int kPacketsPerDrain = 32;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{
        fmt::format("socket path {} must have 1 to {} characters", path, sizeof address.sun_path - 1)};
  }
  path.copy(address.sun_path, path.size());
  return address;
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error("cannot make a Unix socket", errno);
  return fd;
}

const sockaddr* as_generic(const sockaddr_un& address) noexcept {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Status check_private_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Result<UniqueFd> ours = open_private_directory(AT_FDCWD, directory, "directory");
  return ours.ok() ? Status() : ours.error();
}

Result<UniqueFd> listen_unix(const std::string& path, int backlog) {
  const Status private_directory = check_private_directory(path);
  if (!private_directory) return private_directory.error();
  Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  if (Result<UniqueFd> other = connect_unix(path)) {
    return Error{fmt::format("another process listens on {}: stop it or choose another name", path)};
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path.c_str());
  Result<UniqueFd> fd = make_socket();
  if (!fd) return fd;
  const mode_t before = umask(0177);
  const int bound = bind(fd->get(), as_generic(*address), sizeof(sockaddr_un));
  const int saved = errno;
  umask(before);
  if (bound != 0) return errno_error("cannot listen on " + path, saved);
  if (listen(fd->get(), backlog) != 0) return errno_error("cannot listen on " + path, errno);
  return fd;
}

Result<UniqueFd> connect_unix(const std::string& path) {
  Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  Result<UniqueFd> fd = make_socket();
  if (!fd) return fd;
  if (connect(fd->get(), as_generic(*address), sizeof(sockaddr_un)) != 0) {
    return errno_error("cannot connect to " + path, errno);
  }
  return fd;
}

bool is_dead_socket(const std::string& path) {
  Result<sockaddr_un> address = address_of(path);
  struct stat info {};
  if (!address || lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  // The kernel finds the bound socket before it compares the types: EPROTOTYPE if there is one.
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.valid() && connect(fd.get(), as_generic(*address), sizeof(sockaddr_un)) != 0 &&
         errno == ECONNREFUSED;
}

bool peer_is_our_user(int socket) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

int peer_process(int socket) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

bool peer_hung_up(int socket) noexcept {
  std::byte one;
  const ssize_t got = recv(socket, &one, sizeof one, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool drain_packets(int socket) noexcept {
  std::byte one;
  for (int packet = 0; packet < kPacketsPerDrain; ++packet) {
    // The kernel drops the rest of a longer packet. It also closes passed descriptors, as recv() has no room
    // for them.
    const ssize_t got = recv(socket, &one, sizeof one, MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  }
  return true;
}

bool send_packet(int socket, std::span<const std::byte> data, std::span<const int> fds) noexcept {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kPassedFdsMax * sizeof(int))> control{};
  if (fds.size() > kPassedFdsMax) return false;
  iovec part{const_cast<std::byte*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(data.size());
}

PacketIo receive_packet(int socket, std::span<std::byte> into, Packet& out) noexcept {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kPassedFdsMax * sizeof(int))> control{};
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0)
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? PacketIo::kEmpty : PacketIo::kClosed;
  out = Packet{};
  out.bytes = static_cast<size_t>(got);
  out.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (out.fd_count < out.fds.size()) out.fds[out.fd_count++] = std::move(owned);
    }
  }
  return got == 0 ? PacketIo::kClosed : PacketIo::kOk;
}

}  // namespace weft::fabric
