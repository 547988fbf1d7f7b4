// bench/support/measure.h -- common parts of the measurement programs: child processes that end with their
// parent, pinning, shared memory, and one line of JSON per figure for scripts/bench.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::bench {

/// Prints {"name": ..., "value": ..., "unit": ..., "build": ...} on one line.
void print_figure(std::string_view name, double value, std::string_view unit);

/// Restricts the calling process to one core; -1: no restriction. If the core does not exist, nothing
/// happens, and the figure is that of a smaller machine.
void pin_to_core(int core);

/// A zeroed mapping shared with children, until the process ends. Aborts when the kernel refuses it.
[[nodiscard]] std::byte* map_shared(size_t bytes);

/// Child processes. A child is killed when its parent dies; an alarm ends it after `seconds_max` in any case.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  /// Kills children that still run.
  ~Children();
  void start(const std::function<void()>& body, unsigned seconds_max = 60);
  /// Starts a program on `core` (-1: any); `arguments` begins with its path.
  void exec(const std::vector<std::string>& arguments, int core, unsigned seconds_max = 60);
  /// Sends SIGTERM to all children and waits for them.
  void stop();
  /// Waits until all children have ended; false if one failed.
  [[nodiscard]] bool wait();

 private:
  std::vector<pid_t> pids_;
};

/// Seconds since an arbitrary start.
[[nodiscard]] inline double seconds_now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The value at `fraction` of the sorted samples (0.5 = median); 0 when there are none.
[[nodiscard]] double percentile(std::vector<double>& samples, double fraction);

/// Lets the partner on the same core run, when a loop has found no work.
void yield_core() noexcept;

}  // namespace weft::bench
