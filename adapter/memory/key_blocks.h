// adapter/memory/key_blocks.h -- maps blocks of 256 keys to their index: a two-level table over all block
// numbers, so that a look-up takes two loads for any number of blocks.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace weft::adapter {

/// Number of block numbers: one for each value of the upper 20 permuted bits.
inline constexpr uint32_t kKeyBlockNumbers = 1U << 20;

class KeyBlocks {
  static constexpr uint32_t kPage = 1024;
  struct PageOf {
    std::array<uint32_t, kPage> owners;  // index + 1; 0: free
  };

 public:
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

  using Page = std::unique_ptr<PageOf>;
  /// Memory for put(). May be called by any thread at any time.
  [[nodiscard]] static Page make_page() { return std::make_unique<PageOf>(); }

  [[nodiscard]] uint32_t size() const noexcept { return size_; }
  /// The index that has the block; kNobody when the block is free.
  [[nodiscard]] uint32_t owner(uint32_t block) const noexcept {
    const Page& page = pages_[block / kPage];
    return page != nullptr ? page->owners[block % kPage] - 1 : kNobody;
  }
  /// Assigns a free block to `index`. Uses `spare` when the block is the first of its page; the page is never
  /// freed.
  void put(uint32_t block, uint32_t index, Page& spare) {
    Page& page = pages_[block / kPage];
    if (page == nullptr) page = spare != nullptr ? std::move(spare) : make_page();
    page->owners[block % kPage] = index + 1;
    ++size_;
  }
  void erase(uint32_t block) noexcept {
    pages_[block / kPage]->owners[block % kPage] = 0;
    --size_;
  }

 private:
  std::vector<Page> pages_ = std::vector<Page>(kKeyBlockNumbers / kPage);
  uint32_t size_ = 0;
};

}  // namespace weft::adapter
