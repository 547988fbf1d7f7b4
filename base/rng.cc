#include "base/rng.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace weft {

uint64_t RandomSource::below(uint64_t bound) noexcept {
  if (bound == 0) return 0;
  // Lemire's multiply-shift; the rejection keeps it exactly uniform. The threshold is below the bound, so the
  // division that gives it is hardly ever made.
  auto wide = static_cast<unsigned __int128>(next()) * bound;
  if (static_cast<uint64_t>(wide) < bound) [[unlikely]] {
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(wide) < threshold) wide = static_cast<unsigned __int128>(next()) * bound;
  }
  return static_cast<uint64_t>(wide >> 64);
}

void RandomSource::fill(std::span<std::byte> out) noexcept {
  while (!out.empty()) {
    const uint64_t value = next();
    const size_t bytes = out.size() < sizeof value ? out.size() : sizeof value;
    std::memcpy(out.data(), &value, bytes);
    out = out.subspan(bytes);
  }
}

SeededRandom::SeededRandom(uint64_t seed) noexcept : state_{} {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15ULL;
    uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    word = mixed ^ (mixed >> 31);
  }
}

uint64_t SeededRandom::next() noexcept {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t SystemRandom::next() noexcept {
  if (used_ == block_.size()) {
    ssize_t got;
    do {
      got = getrandom(block_.data(), sizeof block_, 0);
    } while (got < 0 && errno == EINTR);
    WEFT_CHECK(got == static_cast<ssize_t>(sizeof block_), "getrandom gave no entropy");
    used_ = 0;
  }
  return block_[used_++];
}

}  // namespace weft
