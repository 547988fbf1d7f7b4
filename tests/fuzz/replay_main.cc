// tests/fuzz/replay_main.cc -- runs a fuzz target without libFuzzer: over its seed corpus, and over mutations
// of it from a fixed seed, so that g++ builds cover the decoders too.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

namespace {

constexpr int kMutationsPerInput = 2000;

std::vector<uint8_t> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Flips, cuts or overwrites a few bytes.
void mutate(std::vector<uint8_t>& data, weft::RandomSource& random) {
  if (random.chance_ppm(100'000)) data.resize(random.below(data.size() + 64));
  if (data.empty()) return;
  const uint64_t edits = 1 + random.below(4);
  for (uint64_t i = 0; i < edits; ++i) {
    uint8_t& byte = data[random.below(data.size())];
    byte = random.chance_ppm(500'000) ? static_cast<uint8_t>(byte ^ (1U << random.below(8)))
                                      : static_cast<uint8_t>(random.next());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::vector<uint8_t>> inputs{{}};
  if (argc > 1 && std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      inputs.push_back(read_file(entry.path()));
    }
  }
  weft::SeededRandom random(1);
  for (const auto& input : inputs) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    for (int i = 0; i < kMutationsPerInput; ++i) {
      auto copy = input;
      mutate(copy, random);
      LLVMFuzzerTestOneInput(copy.data(), copy.size());
    }
  }
  std::printf("%zu inputs, %d mutations each\n", inputs.size(), kMutationsPerInput);
  return 0;
}
