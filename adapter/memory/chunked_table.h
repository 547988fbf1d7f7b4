// adapter/memory/chunked_table.h -- an array that grows by chunks and never moves its entries.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weft::adapter {

/// A chunk is allocated at its first use and stays. A look-up takes two loads for any size.
template <class T>
class ChunkedTable {
 public:
  static constexpr uint32_t kChunk = 512;
  static_assert((kChunk & (kChunk - 1)) == 0);

  [[nodiscard]] T& operator[](uint32_t index) noexcept { return chunks_[index / kChunk][index % kChunk]; }
  [[nodiscard]] const T& operator[](uint32_t index) const noexcept {
    return chunks_[index / kChunk][index % kChunk];
  }
  /// Number of entries with memory: a multiple of kChunk.
  [[nodiscard]] uint32_t size() const noexcept { return static_cast<uint32_t>(chunks_.size()) * kChunk; }
  /// Reserves the list of chunks for `entries` entries, so that grow() allocates nothing.
  void expect(uint32_t entries) { chunks_.reserve((entries + kChunk - 1) / kChunk); }
  using Chunk = std::unique_ptr<T[]>;
  /// A chunk of new entries. May be called by any thread at any time.
  [[nodiscard]] static Chunk make() { return std::make_unique<T[]>(kChunk); }
  /// Adds a chunk.
  void grow(Chunk chunk) { chunks_.push_back(std::move(chunk)); }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
};

}  // namespace weft::adapter
