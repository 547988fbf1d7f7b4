// hca/direct_windows.h -- the memory windows between this process and others of its machine: makes them, ends
// them, and lets the helper sleep at them. Internal to hca/. docs/window.md, "How two processes meet".
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "adapter/direct_paths.h"
#include "base/clock.h"
#include "base/guarded_fd.h"
#include "base/rng.h"
#include "base/unique_fd.h"
#include "fabric/link/cell_port.h"
#include "fabric/window/process_device.h"
#include "fabric/window/window_door.h"
#include "fabric/window/window_end.h"
#include "hca/file_window.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::hca {

/// A window that has not come up after this is given up: the queue pairs use the switch.
inline constexpr Duration kWindowJoinMax = 1s;
/// Windows of one process, those that its peers have opened included.
inline constexpr size_t kWindowsMax = 4096;
/// Of these, with one other process. Two need one, or a second while the first one ends.
inline constexpr size_t kWindowsPerPeerMax = 16;

struct DirectWindowsConfig {
  std::string directory;  // where the processes meet; empty: only in a file
  /// A file that this process shares with one other, for those that do not meet in the directory.
  std::string file{};
  uint32_t file_side = 0;      // 0 or 1; the peer has the other
  bool file_locks = true;      // see fabric::FileDeviceConfig
  bool process_copies = true;  // see fabric::ProcessDeviceConfig
  size_t windows_max = kWindowsMax;
  /// A slot holds a message of 8 KiB with a header of 64 bytes in one record: UCX cuts its messages so.
  fabric::OwnWindowConfig own{.slots = 64, .slot_bytes = 8320, .table_entries = 4096};
  fabric::OwnWindowConfig in_file{.slots = 128, .slot_bytes = 4352, .table_entries = 4096};
};

/// Calls of the adapter and those that say so: under the device's lock. The other calls: one thread at a
/// time. A window is made and ended in steps: begin(), work() without the lock, settle(), clear().
class DirectWindows final : public adapter::DirectPaths {
 public:
  /// Sets `wants_tending` when windows have to be made or ended. Both outlive this. `random` is drawn from
  /// in work() alone.
  DirectWindows(DirectWindowsConfig config, RandomSource& random, bool& wants_tending);
  ~DirectWindows() override;

  // ---- under the lock --------------------
  adapter::DirectPath* claim(Lid peer) noexcept override;
  void release(adapter::DirectPath& path) noexcept override;
  adapter::DirectPath* arrived(Lid& peer) noexcept override;
  /// First step: takes the orders. `port`: of the adapter, null while it is down.
  void begin(const fabric::CellPortInfo* port) noexcept;
  /// Third step: hands over windows that are up, and refusals; carries out orders of faults. True when there
  /// were any.
  bool settle() noexcept;
  /// See Sleeper; of all windows that are up.
  [[nodiscard]] bool prepare_sleep() noexcept;
  void finish_sleep() noexcept;
  /// Shows the faults of the windows on a page, as `prefix.N.*`. False when the page is full. The page
  /// outlives this.
  [[nodiscard]] bool publish(StatsPage& page, std::string_view prefix);

  // ---- without the lock --------------------
  /// Second step: listens, calls, answers, and joins. What finds no memory is tried again.
  void work(Instant now) noexcept;
  /// The process is about to end: no further peer finds it.
  void leave() noexcept { door_.hide(); }
  /// Last step: frees what has ended, and answers orders.
  void clear() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  /// Descriptors of windows that are being made.
  void join_fds(std::vector<pollfd>& out) const;
  /// The descriptor that is ready when one of the windows that are up is; -1 once the program has taken its
  /// number.
  [[nodiscard]] int sleep_fd() const noexcept { return sleepers_.can_wake() ? sleepers_.get() : -1; }

 private:
  /// A way of the adapter. In `ways_` from the claim, or from the arrival, to the last release.
  struct Way final : adapter::DirectPath {
    Lid peer{};
    State now = State::kJoining;
    uint32_t claims = 0;
    bool arriving = false;               // arrived() has not given it yet
    bool in_file = false;                // the window of `file_`
    pid_t process = 0;                   // of the peer; 0: unknown, as in a file
    std::array<int, 2> watched{-1, -1};  // its descriptors among the sleepers
    std::unique_ptr<fabric::WindowEnd> window;

    [[nodiscard]] State state() const noexcept override { return now; }
    [[nodiscard]] fabric::WindowEnd& end() noexcept override { return *window; }
    /// A new claim may use it.
    [[nodiscard]] bool lives() const noexcept;
  };
  using Ways = std::list<Way>;
  /// A window that is being made.
  struct Join {
    Lid peer{};
    pid_t process = 0;
    bool called = false;  // by this process
    Instant until{};
    std::unique_ptr<fabric::WindowEnd> window;
    fabric::ProcessDevice* device = nullptr;  // that of `window`
  };
  /// What came of an order or of a peer's call.
  struct Outcome {
    Lid peer{};
    std::unique_ptr<fabric::WindowEnd> window;  // null: refused
    pid_t process = 0;
    std::array<int, 2> watched{-1, -1};
    Ways spare;  // one, for a way that no queue pair has claimed
    bool in_file = false;
  };
  /// An order that waits for the peer in the file.
  struct FileOrder {
    Lid peer{};
    Instant until{};
  };

  /// The answer to an order of faults.
  struct Answer {
    UniqueFd socket;
    WindowOrderReply reply;
  };

  void listen(Instant now);
  void answer(Instant now);
  void call(Lid peer, Instant now);
  void join(Instant now);
  [[nodiscard]] Status add_join(Lid peer, UniqueFd socket, bool called, Instant now);
  void meet_in_file(Instant now);
  void refuse(Lid peer, const std::string& why);
  [[nodiscard]] bool has_room_for(pid_t process) const noexcept;
  [[nodiscard]] std::array<int, 2> watch(const fabric::WindowEnd& window);
  void unwatch(Way& way) noexcept;
  [[nodiscard]] bool obey() noexcept;
  [[nodiscard]] WindowOrderReply carry_out(const WindowOrder& order);
  [[nodiscard]] Way* waiting_for(Lid peer) noexcept;

  const DirectWindowsConfig config_;
  RandomSource& random_;

  // Under the lock.
  fabric::WindowFaults faults_;  // declared before the windows, which use it
  Ways ways_;
  Ways ended_;
  std::vector<Lid> wanted_;
  uint32_t arrivals_ = 0;  // ways that arrived() has not given
  bool& wants_tending_;

  // Of the thread that makes and ends windows; port and address are written under the lock.
  fabric::WindowDoor door_;
  bool port_up_ = false;
  fabric::CellPortInfo port_{};
  size_t ways_count_ = 0;  // as of begin()
  Instant listen_again_ = Instant::min();
  Instant worked_at_ = Instant::min();
  std::vector<Lid> orders_;
  std::list<Join> joins_;
  std::vector<pid_t> processes_;      // of the peers of all windows that were made and are not dead
  std::unique_ptr<FileWindow> file_;  // null without a file
  std::vector<FileOrder> file_orders_;
  std::list<Outcome> outcomes_;
  std::vector<fabric::WindowCaller> callers_;
  std::vector<fabric::WindowOrderCaller> order_callers_;
  std::vector<Answer> answers_;
  Ways dead_;
  GuardedFd sleepers_;  // epoll
};

}  // namespace weft::hca
