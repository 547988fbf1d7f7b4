// bench/registration.cc -- time to register one 4 KiB region at an adapter that already has `--regions`
// others, in microseconds. scripts/bench compares a million with ten. The region gets remote rights, so a
// region and a window are made.
#include <fmt/core.h>

#include <vector>

#include "adapter/memory/key_table.h"
#include "adapter/memory/memory_table.h"
#include "base/check.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

constexpr uint32_t kBatch = 256;
constexpr uint32_t kRounds = 400;
constexpr size_t kRegionBytes = 4096;
constexpr adapter::PdId kPd{1};
constexpr adapter::Access kRights =
    adapter::Access::kLocalWrite | adapter::Access::kRemoteRead | adapter::Access::kRemoteWrite;

struct Times {
  std::vector<double> reg;
  std::vector<double> dereg;
};

Times measure(adapter::MemoryTable& table, std::span<std::byte> memory) {
  Times times;
  std::vector<adapter::MemoryRegion> batch(kBatch);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const double start = seconds_now();
    for (adapter::MemoryRegion& region : batch) region = table.regions.reg_mr(kPd, memory, kRights).value();
    const double middle = seconds_now();
    for (const adapter::MemoryRegion& region : batch)
      WEFT_CHECK(table.regions.dereg_mr(region.lkey).ok(), "a region does not end");
    times.reg.push_back((middle - start) * 1e6 / kBatch);
    times.dereg.push_back((seconds_now() - middle) * 1e6 / kBatch);
  }
  return times;
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  uint32_t others = 0;
  po::options_description known("registration: time to register one 4 KiB region beside others");
  known.add_options()("regions", po::value(&others)->default_value(10), "that are registered already");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  if (others > adapter::kKeysMax - 2 * kBatch) {
    fmt::print(stderr, "registration: --regions is at most {}\n", adapter::kKeysMax - 2 * kBatch);
    return 2;
  }
  SystemRandom random;
  adapter::MemoryTable table(adapter::kKeysMax, 0, random);
  std::vector<std::byte> memory(kRegionBytes);
  for (uint32_t i = 0; i < others; ++i)
    WEFT_CHECK(table.regions.reg_mr(kPd, memory, adapter::Access::kLocalWrite).ok(),
               "no room for the others");
  Times times = measure(table, memory);
  print_figure(fmt::format("deregistration_beside_{}", others), percentile(times.dereg, 0.5), "us");
  print_figure(fmt::format("registration_beside_{}", others), percentile(times.reg, 0.5), "us");
  return 0;
}

}  // namespace weft::bench
