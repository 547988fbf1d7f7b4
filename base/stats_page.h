// base/stats_page.h -- a file of named counters that one process writes and any process of the same user may
// map: `weft stat` reads it without the writer's help, so that it works on a frozen or dead process too.
//
//   0 magic "WEFTSTAT" · 8 version u32 · 12 entries u32 (grows, release) · 16 capacity u32 · 20 pid u32
//   64 names: capacity x 56 bytes, zero-padded      64 + 56 x capacity values: capacity x u64, native order
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/guarded_fd.h"
#include "base/result.h"

namespace weft {

inline constexpr uint32_t kStatsPageVersion = 1;
inline constexpr size_t kStatsNameBytes = 56;
inline constexpr uint32_t kStatsEntriesDefault = 4096;

/// The writer's side. Owner: the thread that created it. Names are dotted paths, "port.1.vl.0.credit_stalls".
class StatsPage {
 public:
  /// Creates or replaces the file at `path` with mode 0600.
  static Result<StatsPage> create(const std::string& path, uint32_t capacity = kStatsEntriesDefault);
  /// As create(), and locks the page until this process ends in any way; stats_page_holder() returns its PID.
  /// Fails, and leaves the file, while another process holds a page of this name.
  static Result<StatsPage> create_held(const std::string& path, uint32_t capacity = kStatsEntriesDefault);
  StatsPage(StatsPage&& other) noexcept;
  StatsPage& operator=(StatsPage&& other) noexcept;
  ~StatsPage();

  /// Moves a counter set onto the page as `prefix.label`, keeping its values. False when the page is full:
  /// the set then keeps its own storage. The page must outlive the set.
  template <class E>
  bool publish(std::string_view prefix, CounterSet<E>& counters) {
    CounterCell* cells = append(prefix, CounterSet<E>::kLabels);
    if (cells == nullptr) return false;
    counters.bind(cells);
    return true;
  }

  /// One gauge or counter by name; null when the page is full.
  [[nodiscard]] CounterCell* add(std::string_view name);

 private:
  StatsPage() = default;
  static Result<StatsPage> map(int fd, const std::string& path, uint32_t capacity);
  CounterCell* append(std::string_view prefix, std::span<const std::string_view> labels);

  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  uint32_t entries_ = 0;
  uint32_t capacity_ = 0;
  GuardedFd hold_;  // carries the lock of the process that holds the page
};

/// PID of the process that holds the page at `path`; 0 if that process runs in another PID namespace and has
/// no PID in ours. Empty if no process holds it.
[[nodiscard]] std::optional<pid_t> stats_page_holder(const std::string& path);

/// Reads all entries of a page; fails with a clear text when the file is not a stats page of this version.
Result<std::vector<std::pair<std::string, uint64_t>>> read_stats_page(const std::string& path);

}  // namespace weft
