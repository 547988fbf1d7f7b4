// tools/interface_keeper.h -- keeps the interfaces of a fabric there and as its topology wants them, for as
// long as the launcher runs: it alone has the rights.
//
// A TAP that was deleted is made anew on the same open descriptor (TUNSETIFF), which the processes share: the
// one that uses it, and the next one after a restart, find it attached again. It becomes a port of its bridge
// again. An interface of the LAN that a
// unit borrows (`nic = "packet"`) gets the MTU and address of the topology and a limit for gathered frames;
// when it is made anew by its owner it gets them again, and at the end its own are restored.
#pragma once

#include <poll.h>

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net_interface.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/node_commands.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// Something that was done for a node's interface, or that failed.
struct InterfaceNews {
  std::string node;
  std::string text;
};

/// Owner: the launcher's thread.
class InterfaceKeeper {
 public:
  /// `tag` marks TAPs as ours, see interface_tag().
  explicit InterfaceKeeper(std::string tag) : tag_(std::move(tag)) {}
  InterfaceKeeper(const InterfaceKeeper&) = delete;
  InterfaceKeeper& operator=(const InterfaceKeeper&) = delete;
  /// Restores what was borrowed.
  ~InterfaceKeeper();

  /// Makes or opens what `node` wants, in the namespace of that name and descriptor (-1: ours), and keeps it
  /// from here on. The namespace outlives the keeper.
  Result<UniqueFd> open(const std::string& node, const HandedDescriptor& wanted, const std::string& netns,
                        int netns_fd);
  /// For the record, so that a launcher that is killed leaves nothing changed for ever.
  [[nodiscard]] std::vector<BorrowedInterface> borrowed() const;
  /// When the kernel tells of a change, and a few times a second while something is amiss: looks whether all
  /// are there and mends what is not. One for each thing done, and for each that failed unless it was told
  /// already.
  std::vector<InterfaceNews> look(Instant now);
  /// When look() has to be called next though nothing is told; kNever when nothing is kept.
  [[nodiscard]] Instant next_look() const noexcept { return next_look_; }
  /// Adds the descriptors on which the kernel tells.
  void wait_fds(std::vector<pollfd>& out) const;
  /// False while a TAP of `node` cannot be made: its process would not start.
  [[nodiscard]] bool whole(const std::string& node) const;

 private:
  struct Kept {
    std::string node;
    node::PortDescriptor kind = node::PortDescriptor::kNone;
    InterfaceSettings settings;
    int netns_fd = -1;
    UniqueFd tap;            // shares the description of the descriptor handed out
    NetInterface interface;  // borrowed; its sockets belong to the namespace
    BorrowedInterface borrowed;
    std::string bridge;       // that the TAP was a port of when it was last there
    bool unfinished = false;  // mending failed half-way
    std::string complaint;    // said already
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
  std::map<int, UniqueFd> news_;  // of links, by namespace
  Instant next_look_ = kNever;
};

}  // namespace weft::tools
