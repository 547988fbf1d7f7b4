#include "base/guarded_fd.h"

#include <sys/stat.h>

#include <atomic>

namespace weft {
namespace {

// Process-wide, as the table of descriptors is.
std::atomic<bool> guarding{false};
std::atomic<decltype(DescriptorKeeper::keep)> keeper_keep{nullptr};
std::atomic<decltype(DescriptorKeeper::keeps)> keeper_keeps{nullptr};

bool tell(int descriptor, bool ours) noexcept {
  const auto keep = keeper_keep.load(std::memory_order_acquire);
  if (keep != nullptr) keep(descriptor, ours ? 1 : 0);
  return keep != nullptr && ours;
}

}  // namespace

void guard_descriptors(DescriptorKeeper keeper) noexcept {
  keeper_keep.store(keeper.keep, std::memory_order_release);
  keeper_keeps.store(keeper.keeps, std::memory_order_release);
  guarding.store(true, std::memory_order_release);
}

GuardedFd::GuardedFd(UniqueFd fd, bool kept) noexcept : fd_(std::move(fd)) {
  struct stat info {};
  if (!fd_.valid() || fstat(fd_.get(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  if (kept) kept_ = tell(fd_.get(), true);
}

GuardedFd& GuardedFd::operator=(GuardedFd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::move(other.fd_);
  device_ = other.device_;
  inode_ = other.inode_;
  kept_ = other.kept_;
  return *this;
}

bool GuardedFd::is_ours() const noexcept {
  if (!fd_.valid() || !guarding.load(std::memory_order_acquire)) return fd_.valid();
  struct stat info {};
  return fstat(fd_.get(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

bool GuardedFd::is_still_kept() const noexcept {
  const auto keeps = keeper_keeps.load(std::memory_order_acquire);
  return fd_.valid() && keeps != nullptr && keeps(fd_.get()) != 0;
}

void GuardedFd::reset() noexcept {
  if (!fd_.valid()) return;
  const bool ours = is_ours();
  tell(fd_.get(), false);
  if (ours) fd_.reset();
  static_cast<void>(fd_.release());
}

}  // namespace weft
