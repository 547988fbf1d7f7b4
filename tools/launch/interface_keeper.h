// tools/launch/interface_keeper.h -- keeps the interfaces of a fabric present and configured as the topology
// says while the launcher runs, because only the launcher has the rights.
//
// If a TAP was deleted, it is made again on the same open descriptor (TUNSETIFF). The descriptor is shared
// with the process that uses the TAP, and with the next one after a restart, so both find it attached again.
// The TAP becomes a port of its bridge again. A LAN interface that a unit borrows (`nic = "packet"`) gets the
// MTU and address of the topology and a limit for GSO and GRO frames. If its owner recreates it, it gets
// these settings again. At the end its original settings are restored.
#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/net_interface.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/launch/state_dir.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {

/// A repair of a node's interface, done or failed, as text.
struct InterfaceNews {
  std::string node;
  std::string text;
};

/// Owner: the launcher's thread.
class InterfaceKeeper {
 public:
  /// `tag` marks TAPs as ours; see interface_tag().
  explicit InterfaceKeeper(std::string tag) : tag_(std::move(tag)) {}
  InterfaceKeeper(const InterfaceKeeper&) = delete;
  InterfaceKeeper& operator=(const InterfaceKeeper&) = delete;
  /// Restores the settings of borrowed interfaces.
  ~InterfaceKeeper();

  /// Makes or opens the interface that `node` wants, and keeps it from now on. `netns` and `netns_fd` name
  /// its namespace (-1: this process's own), which must outlive the keeper.
  Result<UniqueFd> open(const std::string& node, const HandedDescriptor& wanted, const std::string& netns,
                        int netns_fd);
  /// For the record on disk, so that the next launcher can restore the settings if this one is killed.
  [[nodiscard]] std::vector<BorrowedInterface> borrowed() const;
  /// Examines all interfaces and repairs them. Does so when the kernel has sent a notice, every 250 ms while
  /// an interface needs repair, and every 10 s otherwise. Returns a text for each repair, and for each
  /// failure unless the same failure was returned already.
  std::vector<InterfaceNews> look(Instant now);
  /// Latest time of the next look(); kNever when no interface is kept.
  [[nodiscard]] Instant next_look() const noexcept { return next_look_; }
  /// Appends the descriptors that become readable with the kernel's notices.
  void wait_fds(std::vector<pollfd>& out) const;
  /// False while a TAP of `node` is missing; its process could not start.
  [[nodiscard]] bool whole(const std::string& node) const;

 private:
  struct Kept {
    std::string node;
    node::PortDescriptor kind = node::PortDescriptor::kNone;
    InterfaceSettings settings;
    int netns_fd = -1;
    UniqueFd tap;            // shares the open file description of the descriptor handed out
    NetInterface interface;  // borrowed; its sockets belong to its namespace
    BorrowedInterface borrowed;
    std::string bridge;       // bridge of the TAP at the last look
    bool unfinished = false;  // a repair has begun and not succeeded
    std::string complaint;    // failure that was reported already
  };

  void listen(int netns_fd);
  [[nodiscard]] bool hears_news() const noexcept;
  [[nodiscard]] bool amiss() const noexcept;
  Result<UniqueFd> borrow(Kept& kept);
  static Status set_borrowed(Kept& kept);
  Status mend(Kept& kept, std::string& done);
  static std::string put_back(const Kept& kept);

  std::string tag_;
  std::vector<Kept> kept_;
  std::map<int, UniqueFd> news_;  // sockets for the kernel's notices, by namespace
  Instant next_look_ = kNever;
};

}  // namespace weft::tools
