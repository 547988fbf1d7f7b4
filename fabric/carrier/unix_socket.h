// fabric/carrier/unix_socket.h -- Unix SOCK_SEQPACKET sockets by path. One message is one packet, descriptors
// travel with it, and the kernel reports the peer's death. Abstract addresses are never used, because they
// have no permissions (decisions section 4).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::fabric {

inline constexpr size_t kPassedFdsMax = 4;

/// The directory of a socket `path` must belong to our user and be closed to others (0700).
Status check_private_directory(const std::string& path);
/// Listens at `path`, mode 0600; see check_private_directory(). Replaces a socket file without a listener;
/// fails if a process listens there. Non-blocking.
Result<UniqueFd> listen_unix(const std::string& path, int backlog);
/// Non-blocking connect.
Result<UniqueFd> connect_unix(const std::string& path);
/// True for a socket file whose process has ended or has closed the socket. A process that listens there
/// notices nothing.
[[nodiscard]] bool is_dead_socket(const std::string& path);
/// True when the process at the other end runs under our user.
[[nodiscard]] bool peer_is_our_user(int socket) noexcept;
/// The process that connected; 0 when unknown.
[[nodiscard]] int peer_process(int socket) noexcept;
/// True once the peer has hung up.
[[nodiscard]] bool peer_hung_up(int socket) noexcept;

/// Takes at most 32 waiting packets and drops the descriptors that came with them. False once the peer has
/// hung up. peer_hung_up() leaves waiting packets in the socket, which keep it ready; this call does not.
[[nodiscard]] bool drain_packets(int socket) noexcept;

/// Sends one packet with descriptors, which stay ours. False if the packet was not sent whole.
[[nodiscard]] bool send_packet(int socket, std::span<const std::byte> data,
                               std::span<const int> fds) noexcept;

enum class PacketIo : uint8_t { kOk, kEmpty, kClosed };
struct Packet {
  size_t bytes = 0;
  bool truncated = false;                   // longer than the buffer, or too many descriptors
  std::array<UniqueFd, kPassedFdsMax> fds;  // the first fd_count are valid
  size_t fd_count = 0;
};
/// Receives one packet without waiting.
[[nodiscard]] PacketIo receive_packet(int socket, std::span<std::byte> into, Packet& out) noexcept;

}  // namespace weft::fabric
