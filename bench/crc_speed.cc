// bench/crc_speed.cc -- nanoseconds per call of the CRC32C functions at the lengths that the fabric uses,
// compared with a plain copy and with the single-chain loop. Used to choose the thresholds in base/crc32c.cc.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace {

using weft::crc32c_copy;
using weft::crc32c_copy_narrow;
using weft::crc32c_extend;
using weft::crc32c_words;

/// The fastest of `kRounds` rounds counts, because noise of the machine only adds time.
constexpr int kRounds = 9;

template <class Function>
double nanoseconds_per_call(Function&& function) {
  constexpr int kCalls = 20'000;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    uint32_t chain = 0;
    for (int i = 0; i < kCalls; ++i) chain = function(chain);
    asm volatile("" : : "r"(chain));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kCalls);
  }
  return best;
}

uint32_t one_chain(uint32_t crc, const std::byte* at, size_t bytes) {
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = crc32c_words(crc, word);
  }
  return crc;
}

void report(size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes + 64);
  const double chain = nanoseconds_per_call([&](uint32_t crc) { return one_chain(crc, from.data(), bytes); });
  const double extend =
      nanoseconds_per_call([&](uint32_t crc) { return crc32c_extend(crc, from.data(), bytes); });
  const double both =
      nanoseconds_per_call([&](uint32_t crc) { return crc32c_copy(crc, to.data(), from.data(), bytes); });
  const double narrow = nanoseconds_per_call(
      [&](uint32_t crc) { return crc32c_copy_narrow(crc, to.data(), from.data(), bytes); });
  const double copy = nanoseconds_per_call([&](uint32_t crc) {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    return crc;
  });
  fmt::print(
      "{:6} bytes: one chain {:7.1f}  extend {:7.1f}  copy+crc {:7.1f}  narrow {:7.1f}  memcpy {:7.1f} ns\n",
      bytes, chain, extend, both, narrow, copy);
}

}  // namespace

int main() {
  for (size_t bytes : {16U,  32U,  44U,  64U,  80U,  96U,  104U, 112U,  128U,  144U,  160U, 192U,
                       256U, 288U, 320U, 352U, 384U, 448U, 512U, 1056U, 2080U, 4128U, 8224U}) {
    report(bytes);
  }
  const double header = nanoseconds_per_call(
      [](uint32_t crc) { return crc32c_words(crc, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4}); });
  fmt::print("32-byte header in registers {:.1f} ns\n", header);
  return 0;
}
