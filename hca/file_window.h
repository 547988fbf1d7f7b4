// hca/file_window.h -- the memory window of this process in a file that exactly one other process maps too:
// makes it, tells the peer who stands here, and makes the next one. Internal to hca/. docs/window.md, "Two
// programs that share a file".
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "fabric/window/file_device.h"
#include "fabric/window/window_end.h"

namespace weft::hca {

/// Bytes of a file that this process makes.
inline constexpr size_t kWindowFileBytes = size_t{4} << 20;

struct FileWindowConfig {
  std::string path;
  uint32_t side = 0;  // 0 or 1; the peer has the other
  /// False: the peer runs under another kernel, as in another guest. See fabric::FileDeviceConfig.
  bool locks = true;
  /// FIFO and table at most; the FIFO has as many of these slots as the file has room for.
  fabric::OwnWindowConfig own{};
};

/// Owner: one thread. A file has one window at a time, and each window serves one pair of processes.
class FileWindow {
 public:
  /// `random` outlives this.
  FileWindow(FileWindowConfig config, RandomSource& random) : config_(std::move(config)), random_(random) {}

  /// Makes the window if there is none, and joins the peer. `port`: the own one, null while it is not known.
  void work(Instant now, const fabric::CellPortInfo* port);
  /// The peer, when the window is up and the peer stands in the same subnet. Then take() gives the window.
  [[nodiscard]] std::optional<Lid> peer() const noexcept { return peer_; }
  [[nodiscard]] std::unique_ptr<fabric::WindowEnd> take() noexcept;
  /// The window that take() gave has ended.
  void ended() noexcept { taken_ = false; }
  /// A peer may still come.
  [[nodiscard]] bool expects_peer() const noexcept { return window_ != nullptr; }
  [[nodiscard]] const std::string& path() const noexcept { return config_.path; }
  /// `hurry`: a queue pair waits for the peer.
  [[nodiscard]] Instant deadline(bool hurry) const noexcept;

 private:
  [[nodiscard]] Status make();

  const FileWindowConfig config_;
  RandomSource& random_;
  std::unique_ptr<fabric::WindowEnd> window_;
  std::optional<Lid> peer_;
  bool taken_ = false;
  std::string said_;  // the last reason why there is no window
  Instant make_again_ = Instant::min();
  Instant worked_at_ = Instant::min();
};

}  // namespace weft::hca
