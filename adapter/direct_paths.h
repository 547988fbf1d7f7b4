// adapter/direct_paths.h -- memory windows to peer processes on the same machine, as an adapter gets them
// from its owner. docs/window.md.
#pragma once

#include <cstdint>

#include "fabric/window/window_end.h"
#include "messages/ids.h"

namespace weft::adapter {

/// The way to one peer process. Owner: DirectPaths.
class DirectPath {
 public:
  enum class State : uint8_t {
    kJoining,
    kOpen,     // end() may be used; WindowEnd::state() tells the rest
    kRefused,  // the peer reaches this process through a switch
  };
  virtual ~DirectPath() = default;
  [[nodiscard]] virtual State state() const noexcept = 0;
  /// Only when kOpen. The adapter polls it, and publishes keys in its table.
  [[nodiscard]] virtual fabric::WindowEnd& end() noexcept = 0;
};

/// Makes and ends the ways. Called by the adapter's thread; no call waits.
class DirectPaths {
 public:
  virtual ~DirectPaths() = default;
  /// A QP needs the way to the endnode `peer`. Null: there is none, its cells pass through a switch. Each
  /// claim of one peer gets the same way until that way's window has ended; each needs a release().
  [[nodiscard]] virtual DirectPath* claim(Lid peer) noexcept = 0;
  /// With the last release() the window ends.
  virtual void release(DirectPath& path) noexcept = 0;
  /// A way that a peer process has opened and no QP here has claimed: claimed for the caller, with the LID
  /// of the peer. Null when there is none.
  virtual DirectPath* arrived(Lid& peer) noexcept = 0;
};

}  // namespace weft::adapter
