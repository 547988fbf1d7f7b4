// bench/support/instructions.h -- counts user-mode instructions of parts of a program, by the processor's
// counter or by callgrind, which runs the program and assigns the cost of each counted() call to its Part.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::bench {

/// The processor's counter for this thread. Without a counter, counts() is false and nothing is counted.
class InstructionCounter {
 public:
  /// @param wanted  false: the program runs under callgrind
  explicit InstructionCounter(bool wanted) noexcept;
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;
  [[nodiscard]] bool counts() const noexcept { return fd_ >= 0; }
  [[nodiscard]] uint64_t read() const noexcept;

 private:
  int fd_ = -1;
};

/// Counts of one path. The type `Part` names the path.
struct PathCount {
  uint64_t instructions = 0;
  uint64_t units = 0;  // cells, frames or work requests that took the path
};

/// Runs `work` in a separate function, so that callgrind can assign its cost.
template <class Part, class Work>
[[gnu::noipa]] void counted(Work& work) {
  work();
}

template <class Part, class Work>
void count(const InstructionCounter& counter, bool now, PathCount& count, Work work) {
  if (!now) return work();
  const uint64_t before = counter.read();
  counted<Part>(work);
  count.instructions += counter.read() - before;
}

/// Prints one line of JSON: instructions per unit, or without a counter the number of units.
void print_path(std::string_view name, const InstructionCounter& counter, const PathCount& count);

}  // namespace weft::bench
