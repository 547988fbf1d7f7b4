// bench/support/measure.h -- what the measurement programs share: child processes that die with their parent,
// pinning, memory both sides map, and the one line of JSON per figure that scripts/bench reads.
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

/// Runs the calling process on one core only; -1 leaves it free. A core that does not exist is ignored: the
/// figure is then one of a smaller machine.
void pin_to_core(int core);

/// A zeroed mapping shared with children; lives until the process ends. Aborts when the kernel refuses it.
[[nodiscard]] std::byte* map_shared(size_t bytes);

/// Child processes. A child is killed when its parent dies; an alarm ends it after `seconds_max` in any case.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  /// Kills what still runs.
  ~Children();
  void start(const std::function<void()>& body, unsigned seconds_max = 60);
  /// Starts a program on `core` (-1: any); `arguments` begins with its path.
  void exec(const std::vector<std::string>& arguments, int core, unsigned seconds_max = 60);
  /// Asks all to end (SIGTERM) and waits.
  void stop();
  /// Waits until all have ended by themselves; false if one failed.
  [[nodiscard]] bool wait();

 private:
  std::vector<pid_t> pids_;
};

/// Seconds since some start.
[[nodiscard]] inline double seconds_now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The sorted samples' value at `fraction` (0.5 = median); 0 when there are none.
[[nodiscard]] double percentile(std::vector<double>& samples, double fraction);

/// A pause for a loop that found nothing: lets the partner on the same core run.
void yield_core() noexcept;

}  // namespace weft::bench
