// tools/launch/net_setup.h -- everything for which the launcher needs rights: network namespaces, TAPs with
// their addresses, raw sockets. The descriptors are handed to hosts and units, which then run without rights
// (decisions section 4).
//
// A TAP lives as long as a process holds its descriptor. The launcher holds it for the whole run, so the
// interface with its addresses outlives every host process (decisions 2.23). After kill -9 of the launcher it
// disappears with the last host, so nothing has to be cleaned up. Likewise, a namespace made here is held by
// a process that ends with the launcher.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/net/net_interface.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/topology/topology.h"

namespace weft::tools {

/// An interface of another owner whose settings were changed for the run: the settings that we made and those
/// before. Zeros: not changed.
struct BorrowedInterface {
  std::string name;
  std::string netns;  // empty: the launcher's own
  int index = 0;
  uint32_t mtu = 0, mtu_before = 0;
  MacAddress mac{}, mac_before{};
  GsoSizes sizes, sizes_before;
};

/// Text for an interface's alias that marks it as ours: "weft:FABRIC".
[[nodiscard]] std::string interface_tag(const std::string& fabric);
/// Deletes interface `name` in this process's namespace if its alias is `tag`.
void remove_tagged_interface(const std::string& name, const std::string& tag);

/// A network namespace by name: one of `ip netns`, or one made here.
class NetNamespace {
 public:
  /// Opens /run/netns/NAME if it exists, else makes a namespace. That needs CAP_SYS_ADMIN; the error says so.
  static Result<std::unique_ptr<NetNamespace>> open(const std::string& name);
  ~NetNamespace();
  NetNamespace(const NetNamespace&) = delete;
  NetNamespace& operator=(const NetNamespace&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Process that holds a namespace made here; 0 for a namespace that existed.
  [[nodiscard]] pid_t holder() const noexcept { return holder_; }

 private:
  NetNamespace() = default;

  UniqueFd fd_;
  UniqueFd lifeline_;  // closing it ends the holder
  pid_t holder_ = 0;
};

/// Moves the calling thread into a namespace, and back at the end of the scope.
class NetnsScope {
 public:
  /// `fd` -1: the thread stays where it is.
  explicit NetnsScope(int fd);
  ~NetnsScope();
  NetnsScope(const NetnsScope&) = delete;
  NetnsScope& operator=(const NetnsScope&) = delete;
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  UniqueFd home_;
  Status status_;
};

/// Creates a TAP in namespace `netns_fd` (-1: this process's own) with MAC, MTU, addresses, default route and
/// alias, and sets it up. Fails when the interface already exists or is busy, or without CAP_NET_ADMIN; the
/// error says what works without it.
Result<UniqueFd> create_tap(const InterfaceSettings& settings, const std::string& tag, int netns_fd);

/// Configures the existing TAP `settings.name` in the same way; create_tap() and repairs call it.
Status set_up_tap(const InterfaceSettings& settings, const std::string& tag, int netns_fd);
/// Makes the interface `name` a port of `bridge`.
Status join_bridge(const std::string& name, const std::string& bridge, int netns_fd);

/// Restores the settings of a borrowed interface, if it is still the same interface. Settings that were
/// changed by others meanwhile stay.
void give_back(const BorrowedInterface& borrowed, int netns_fd);

/// Opens a packet socket for interface `name` in namespace `netns_fd`. Needs CAP_NET_RAW. The interface must
/// exist.
Result<UniqueFd> open_packet_socket(const std::string& name, int netns_fd);

}  // namespace weft::tools
