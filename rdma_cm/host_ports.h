// rdma_cm/host_ports.h -- ports of addresses that all endnodes of a host have in common: a port that one of
// them holds is taken for the others, as among the processes of one kernel. Each holds a lock on a part of a
// file that stands for the port; the kernel gives it back when the process ends, however it ends.
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
  /// Without a file, or where it cannot be opened, every port is free.
  explicit HostPorts(const std::string& file);

  /// Takes the port at that address, or at every one. `shared`: together with others that share it.
  /// @return 0; EADDRINUSE when another endnode has it
  [[nodiscard]] int take(uint16_t port_space, const IpAddress& address, bool shared) noexcept;
  /// Another endnode has the port, at that address or at every one.
  [[nodiscard]] bool taken(uint16_t port_space, const IpAddress& address) const noexcept;
  void give_back(uint16_t port_space, const IpAddress& address) noexcept;

 private:
  GuardedFd file_{};
};

}  // namespace weft::rdma_cm
