#include "bench/support/instructions.h"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "bench/support/measure.h"

namespace weft::bench {

InstructionCounter::InstructionCounter(bool wanted) noexcept {
  if (!wanted) return;
  perf_event_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

InstructionCounter::~InstructionCounter() {
  if (fd_ >= 0) close(fd_);
}

uint64_t InstructionCounter::read() const noexcept {
  uint64_t value = 0;
  if (fd_ < 0 || ::read(fd_, &value, sizeof value) != sizeof value) return 0;
  return value;
}

void print_path(std::string_view name, const InstructionCounter& counter, const PathCount& count) {
  const double units = static_cast<double>(count.units);
  if (counter.counts())
    print_figure(name, static_cast<double>(count.instructions) / units, "instructions");
  else
    print_figure(name, units, "units");
}

}  // namespace weft::bench
