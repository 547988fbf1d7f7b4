// bench/limits/process_copy.cc -- the yardstick for memory windows: what the kernel's copy into another
// process (process_vm_writev) costs by itself, without a notice to the other process. One process copies, the
// other sleeps.
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

constexpr uint32_t kMemoryBytes = 16 << 20;

struct Options {
  uint32_t bytes = 8;
  uint32_t list = 1;  // copies in one call
  double seconds = 0.5;
};

/// Microseconds per copy.
double time_copies(const Options& options, pid_t peer, std::byte* theirs) {
  std::vector<std::byte> ours(size_t{options.list} * options.bytes, std::byte{3});
  std::vector<iovec> from(options.list);
  std::vector<iovec> to(options.list);
  for (uint32_t i = 0; i < options.list; ++i) {
    const size_t at = size_t{i} * options.bytes;
    from[i] = {ours.data() + at, options.bytes};
    to[i] = {theirs + at, options.bytes};
  }
  const auto all = static_cast<ssize_t>(ours.size());
  uint64_t copies = 0;
  const double begin = seconds_now();
  double now = begin;
  for (; now < begin + options.seconds; now = seconds_now()) {
    for (int i = 0; i < 16; ++i) {
      WEFT_CHECK(process_vm_writev(peer, from.data(), options.list, to.data(), options.list, 0) == all,
                 "process_vm_writev");
    }
    copies += uint64_t{16} * options.list;
  }
  return (now - begin) * 1e6 / static_cast<double>(copies);
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("process_copy: the kernel's copies into another process");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(8), "of one copy");
  known.add_options()("list", po::value(&options.list)->default_value(1), "copies in one call");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.5, "0.5"), "measured time");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  WEFT_CHECK(uint64_t{options.bytes} * options.list <= kMemoryBytes, "at most 16 MiB in one call");
  std::vector<std::byte> theirs(kMemoryBytes);
  auto* const peer = reinterpret_cast<std::atomic<pid_t>*>(map_shared(4096));
  Children children;
  children.start([&] {
    std::memset(theirs.data(), 1, theirs.size());  // pages of its own
    peer->store(getpid());
    pause();
  });
  while (peer->load() == 0) yield_core();
  const double value = time_copies(options, peer->load(), theirs.data());
  print_figure(fmt::format("process_copy_{}_{}", options.bytes, options.list), value, "us");
  return 0;
}

}  // namespace weft::bench
