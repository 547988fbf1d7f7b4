// How it works. The file stays empty, because bytes beyond its end can be locked too. Each port of a port
// space and family has a range of 2^20 bytes. The wildcard address locks the whole range. Another address
// locks one byte, chosen by its hash.
#include "rdma_cm/host_ports.h"

#include <fcntl.h>

#include <cerrno>
#include <string_view>

#include "base/fnv.h"
#include "base/private_files.h"

namespace weft::rdma_cm {
namespace {

constexpr int64_t kBytesPerPort = int64_t{1} << 20;

struct flock part_of(uint16_t port_space, const IpAddress& address, short kind) noexcept {
  const int64_t port = int64_t{address.family == 6} << 32 | int64_t{port_space} << 16 | address.port;
  struct flock out {};
  out.l_type = kind;
  out.l_whence = SEEK_SET;
  out.l_start = port * kBytesPerPort;
  out.l_len = kBytesPerPort;
  if (address.is_any()) return out;
  const std::string_view ip(reinterpret_cast<const char*>(address.ip.data()), address.ip.size());
  out.l_start += static_cast<int64_t>(fnv1a(ip) % uint64_t{kBytesPerPort});
  out.l_len = 1;
  return out;
}

}  // namespace

HostPorts::HostPorts(const std::string& file) {
  if (!file.empty()) file_ = GuardedFd(open_own_file(AT_FDCWD, file, O_RDWR | O_CREAT));
}

int HostPorts::take(uint16_t port_space, const IpAddress& address, bool shared) noexcept {
  if (!file_.is_ours()) return 0;
  struct flock part = part_of(port_space, address, shared ? F_RDLCK : F_WRLCK);
  if (fcntl(file_.get(), F_OFD_SETLK, &part) == 0) return 0;
  return errno == EAGAIN || errno == EACCES ? EADDRINUSE : 0;
}

bool HostPorts::taken(uint16_t port_space, const IpAddress& address) const noexcept {
  if (!file_.is_ours()) return false;
  struct flock part = part_of(port_space, address, F_WRLCK);
  return fcntl(file_.get(), F_OFD_GETLK, &part) == 0 && part.l_type != F_UNLCK;
}

void HostPorts::give_back(uint16_t port_space, const IpAddress& address) noexcept {
  if (!file_.is_ours()) return;
  struct flock part = part_of(port_space, address, F_UNLCK);
  static_cast<void>(fcntl(file_.get(), F_OFD_SETLK, &part));
}

}  // namespace weft::rdma_cm
