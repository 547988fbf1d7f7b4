// fabric/window/window_door.h -- where processes of one machine meet to make memory windows: a Unix socket
// per LID, in a directory that they share. docs/window.md, "How two processes meet".
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/guarded_fd.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "messages/ids.h"
#include "messages/window_order.h"

namespace weft::fabric {

/// Callers that have connected and not told their LID yet: their number, and the time that each has. Others
/// are hung up on.
inline constexpr size_t kSilentCallersMax = 64;
inline constexpr Duration kCallerSilenceMax = 1s;

/// A process that wants a window with this one.
struct WindowCaller {
  Lid lid{};
  UniqueFd socket;
};

/// A tool that orders faults of this process's windows, and waits for the answer.
struct WindowOrderCaller {
  WindowOrder order;
  UniqueFd socket;
};

/// The directory of the doors of a fabric's programs, whose files are in `programs`.
[[nodiscard]] inline std::string doors_of(const std::string& programs) {
  return programs + "/direct";
}

/// Removes the sockets of killed processes from a directory of doors. Does nothing if there is no directory.
void remove_dead_doors(const std::string& directory);

/// Owner: one thread at a time. No call waits.
class WindowDoor {
 public:
  /// `directory` belongs to this user and is closed to others; open() makes it.
  explicit WindowDoor(std::string directory) : directory_(std::move(directory)) {}
  ~WindowDoor() { close(); }
  WindowDoor(const WindowDoor&) = delete;
  WindowDoor& operator=(const WindowDoor&) = delete;

  /// Listens under this address. An error when another process does so, or the directory is not private.
  Status open(SubnetId subnet, Lid lid);
  void close() noexcept;
  /// Removes the socket from the directory: no further process finds this one. Those that have called are
  /// answered.
  void hide() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return listener_.valid(); }
  /// The own address, once open.
  [[nodiscard]] SubnetId subnet() const noexcept { return subnet_; }
  [[nodiscard]] Lid lid() const noexcept { return lid_; }

  /// Calls the process that listens under `peer` in the own subnet. An error when there is none, or it is
  /// another user's.
  [[nodiscard]] Result<UniqueFd> call(Lid peer) const;
  /// Appends callers that have told their LID, and orders. With null, who orders is hung up on.
  void look(Instant now, std::vector<WindowCaller>& out, std::vector<WindowOrderCaller>* orders = nullptr);

  /// Without the listener while no caller can be taken for want of descriptors: it would stay ready.
  void wait_fds(std::vector<pollfd>& out) const;
  /// When a silent caller is hung up on, or callers are taken again.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  struct Silent {
    UniqueFd socket;
    Instant until;
  };
  [[nodiscard]] std::string path_of(Lid lid) const;
  void take_callers(Instant now);

  std::string directory_;
  SubnetId subnet_{};
  Lid lid_{};
  GuardedFd listener_;
  ino_t inode_ = 0;                       // of the socket file
  Instant takes_again_ = Instant::min();  // later than now after a call that could not be taken
  bool takes_ = true;
  std::vector<Silent> silent_;
};

}  // namespace weft::fabric
