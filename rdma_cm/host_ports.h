// rdma_cm/host_ports.h -- ports of addresses that all endnodes of a host share. As among the processes of one
// kernel, a port that one endnode holds is taken for the others. The holder locks the part of a file that
// stands for the port. The kernel releases the lock when the process ends, in whatever way.
#pragma once

#include <cstdint>
#include <string>

#include "base/guarded_fd.h"
#include "rdma_cm/ip_address.h"

namespace weft::rdma_cm {

/// Any thread.
class HostPorts {
 public:
  HostPorts() = default;
  /// Without a file, or if it cannot be opened, every port is free.
  explicit HostPorts(const std::string& file);

  /// Takes the port at this address; the wildcard address stands for every one. `shared`: other endnodes that
  /// also share the port may hold it too. @return 0; EADDRINUSE when another endnode has the port
  [[nodiscard]] int take(uint16_t port_space, const IpAddress& address, bool shared) noexcept;
  /// True when another endnode has the port at this address or at the wildcard address.
  [[nodiscard]] bool taken(uint16_t port_space, const IpAddress& address) const noexcept;
  void give_back(uint16_t port_space, const IpAddress& address) noexcept;

 private:
  GuardedFd file_{};
};

}  // namespace weft::rdma_cm
