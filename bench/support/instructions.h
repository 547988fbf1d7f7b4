// bench/support/instructions.h -- instructions in user mode that parts of a program take: by the processor's
// counter, or by callgrind, which runs the program and charges each counted() call by its Part.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::bench {

/// The processor's counter of this thread. Without one, begin() and end() do nothing.
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

/// What is counted of one path: `Part` is a type that gives the path its name.
struct PathCount {
  uint64_t instructions = 0;
  uint64_t units = 0;  // cells, frames, work requests that went this way
};

/// Runs `work` as a function of its own, so that callgrind can tell what it costs.
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

/// One line of JSON: instructions per unit, or without a counter the number of units.
void print_path(std::string_view name, const InstructionCounter& counter, const PathCount& count);

}  // namespace weft::bench
