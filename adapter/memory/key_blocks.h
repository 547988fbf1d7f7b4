// adapter/memory/key_blocks.h -- which index has which block of 256 keys: a table of two levels over all
// block numbers, so that a look-up is two loads whatever there is in it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace weft::adapter {

/// Numbers of blocks, one for each value of the upper 20 of the permuted bits.
inline constexpr uint32_t kKeyBlockNumbers = 1U << 20;

class KeyBlocks {
  static constexpr uint32_t kPage = 1024;
  struct PageOf {
    std::array<uint32_t, kPage> owners;  // index + 1; 0: free
  };

 public:
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

  using Page = std::unique_ptr<PageOf>;
  /// Memory for put(). Anybody may take it, at any time.
  [[nodiscard]] static Page make_page() { return std::make_unique<PageOf>(); }

  [[nodiscard]] uint32_t size() const noexcept { return size_; }
  /// The index that has the block; kNobody.
  [[nodiscard]] uint32_t owner(uint32_t block) const noexcept {
    const Page& page = pages_[block / kPage];
    return page != nullptr ? page->owners[block % kPage] - 1 : kNobody;
  }
  /// A free block becomes `index`'s. `spare` is taken where the block is the first of its page;
  /// the page stays.
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
