// base/shared_region.h -- memory shared by two processes: a sealed memfd. The seals fix its size for ever, so
// that a peer cannot truncate it while we use it (SIGBUS). A descriptor that is no memfd is refused before it
// is mapped, because a foreign file system could block us (decisions section 4); so is a memfd of huge pages,
// of which the machine may have none left when we touch one (SIGBUS). docs/shared_memory.md.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Owner: the object that created or adopted it. Move-only; unmaps and closes.
class SharedRegion {
 public:
  /// A new region of zero bytes, rounded up to pages, sealed against shrinking, growing and further seals.
  /// `name` shows in /proc/PID/maps.
  static Result<SharedRegion> create(const char* name, size_t bytes);
  /// Maps a descriptor a peer sent. Refused unless it is a memfd of ordinary pages with those three seals and
  /// of exactly that size.
  static Result<SharedRegion> adopt(UniqueFd fd, size_t bytes);

  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The descriptor to send to the peer; -1 if the region was adopted.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Size of a region for `bytes` bytes.
  [[nodiscard]] static size_t rounded(size_t bytes) noexcept;

 private:
  SharedRegion(UniqueFd fd, std::span<std::byte> bytes) noexcept : fd_(std::move(fd)), bytes_(bytes) {}

  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace weft
