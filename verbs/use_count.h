// verbs/use_count.h -- what keeps an object of libibverbs from ending: the number of objects that use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace weft::verbs {

/// Shared by all handles of the used object and by its users, which may outlive a handle (ibv_unimport_pd).
using UseCount = std::shared_ptr<std::atomic<uint32_t>>;

/// One use; ends with its owner.
class Use {
 public:
  Use() noexcept = default;
  explicit Use(UseCount of) noexcept : of_(std::move(of)) {
    if (of_ != nullptr) ++*of_;
  }
  ~Use() { end(); }
  Use(Use&& from) noexcept : of_(std::move(from.of_)) {}
  Use& operator=(Use&& from) noexcept {
    if (this == &from) return *this;
    end();
    of_ = std::move(from.of_);
    return *this;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  [[nodiscard]] bool holds() const noexcept { return of_ != nullptr; }
  void end() noexcept {
    if (of_ != nullptr) --*of_;
    of_ = nullptr;
  }

 private:
  UseCount of_;
};

/// What a memory region uses besides its protection domain. All handles of the region share it, because
/// ibv_dereg_mr() of any of them ends the region.
struct RegionUses {
  Use domain;  // the parent domain through which the program registered the region
  Use memory;  // device memory
  Use dma;     // a DMA handle

  void end() noexcept {
    domain.end();
    memory.end();
    dma.end();
  }
};

}  // namespace weft::verbs
