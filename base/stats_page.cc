#include "base/stats_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/private_files.h"
#include "base/process_limits.h"

namespace weft {
namespace {

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  std::atomic<uint32_t> entries;
  uint32_t capacity;
  uint32_t pid;
  std::array<std::byte, 40> zero;
};
static_assert(sizeof(Header) == 64);
constexpr std::array<char, 8> kPageMagic{'W', 'E', 'F', 'T', 'S', 'T', 'A', 'T'};

size_t page_bytes(uint32_t capacity) noexcept {
  return sizeof(Header) + size_t{capacity} * (kStatsNameBytes + sizeof(CounterCell));
}

char* name_at(std::byte* base, uint32_t index) noexcept {
  return reinterpret_cast<char*>(base + sizeof(Header) + size_t{index} * kStatsNameBytes);
}

CounterCell* cell_at(std::byte* base, uint32_t capacity, uint32_t index) noexcept {
  std::byte* values = base + sizeof(Header) + size_t{capacity} * kStatsNameBytes;
  return reinterpret_cast<CounterCell*>(values) + index;
}

/// A lock of the whole file that belongs to the process: the kernel drops it when the process ends, and a
/// child does not inherit it.
struct flock whole_file(int16_t type) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool same_file(int fd, const std::string& path) noexcept {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Locks the abandoned page of this name, so that only one process replaces it. Not valid if there is no such
/// page or a process holds it.
UniqueFd take_old_page(const std::string& path) noexcept {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct flock lock = whole_file(F_WRLCK);
  if (fd.valid() && (fcntl(fd.get(), F_SETLK, &lock) != 0 || !same_file(fd.get(), path))) fd.reset();
  return fd;
}

}  // namespace

Result<StatsPage> StatsPage::create(const std::string& path, uint32_t capacity) {
  unlink(path.c_str());
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return errno_error("cannot create stats page " + path, errno);
  return map(fd.get(), path, capacity);
}

/// Creates the page under another name, locks it and renames it into place. Readers that have mapped the old
/// page keep that one. The lock comes first, so that no process takes the new page for that of an ended one.
Result<StatsPage> StatsPage::create_held(const std::string& path, uint32_t capacity) {
  const std::string fresh = path + "." + std::to_string(getpid());
  unlink(fresh.c_str());
  UniqueFd fd(open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return errno_error("cannot create stats page " + fresh, errno);
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(fd.get(), F_SETLK, &lock) != 0) {
    const int fault = errno;
    unlink(fresh.c_str());
    return errno_error("cannot lock stats page " + fresh, fault);
  }
  Result<StatsPage> page = map(fd.get(), fresh, capacity);
  if (!page) return page;
  const UniqueFd old = take_old_page(path);
  const bool placed =
      old.valid() ? rename(fresh.c_str(), path.c_str()) == 0 : link(fresh.c_str(), path.c_str()) == 0;
  const int fault = errno;
  if (!placed || !old.valid()) unlink(fresh.c_str());
  if (!placed) return errno_error("cannot put stats page in place at " + path, fault);
  page->hold_ = GuardedFd(std::move(fd));
  return page;
}

std::optional<pid_t> stats_page_holder(const std::string& path) {
  const UniqueFd fd = open_own_file(AT_FDCWD, path, O_RDONLY);
  struct flock lock = whole_file(F_WRLCK);
  if (!fd.valid() || fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  return std::max<pid_t>(lock.l_pid, 0);
}

Result<StatsPage> StatsPage::map(int fd, const std::string& path, uint32_t capacity) {
  const size_t bytes = page_bytes(capacity);
  // Allocates the blocks, so that a full disk fails here and not by SIGBUS at a later write.
  if (Status allocated = allocate_file(fd, bytes, "stats page " + path); !allocated) {
    unlink(path.c_str());
    return allocated.error();
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return errno_error("cannot map stats page " + path, errno);
  StatsPage page;
  page.base_ = static_cast<std::byte*>(mapped);
  page.bytes_ = bytes;
  page.capacity_ = capacity;
  auto* header = reinterpret_cast<Header*>(page.base_);
  header->version = kStatsPageVersion;
  header->capacity = capacity;
  header->pid = static_cast<uint32_t>(getpid());
  header->magic = kPageMagic;
  return page;
}

StatsPage::StatsPage(StatsPage&& other) noexcept {
  *this = std::move(other);
}

StatsPage& StatsPage::operator=(StatsPage&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(entries_, other.entries_);
  std::swap(capacity_, other.capacity_);
  std::swap(hold_, other.hold_);
  return *this;
}

StatsPage::~StatsPage() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

CounterCell* StatsPage::append(std::string_view prefix, std::span<const std::string_view> labels) {
  if (base_ == nullptr || labels.size() > capacity_ - entries_) return nullptr;
  const uint32_t first = entries_;
  for (const std::string_view label : labels) {
    std::string name(prefix);
    if (!prefix.empty() && !label.empty()) name += '.';
    name += label;
    name.resize(std::min(name.size(), kStatsNameBytes - 1));
    std::memcpy(name_at(base_, entries_++), name.data(), name.size());
  }
  reinterpret_cast<Header*>(base_)->entries.store(entries_, std::memory_order_release);
  return cell_at(base_, capacity_, first);
}

CounterCell* StatsPage::add(std::string_view name) {
  const std::array<std::string_view, 1> one{std::string_view{}};
  return append(name, one);
}

Result<std::vector<std::pair<std::string, uint64_t>>> read_stats_page(const std::string& path) {
  const UniqueFd fd = open_own_file(AT_FDCWD, path, O_RDONLY);
  if (!fd.valid()) return errno_error("cannot open stats page " + path, errno);
  struct stat info {};
  const bool sized = fstat(fd.get(), &info) == 0 && info.st_size >= static_cast<off_t>(sizeof(Header));
  const size_t bytes = sized ? static_cast<size_t>(info.st_size) : 0;
  void* mapped = sized ? mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0) : MAP_FAILED;
  if (mapped == MAP_FAILED) return Error{path + " is not a stats page: too short"};
  auto* base = static_cast<std::byte*>(mapped);
  const auto* header = reinterpret_cast<const Header*>(base);
  const uint32_t capacity = header->capacity;
  std::vector<std::pair<std::string, uint64_t>> out;
  const bool good =
      header->magic == kPageMagic && header->version == kStatsPageVersion && page_bytes(capacity) <= bytes;
  if (good) {
    const uint32_t entries = std::min(header->entries.load(std::memory_order_acquire), capacity);
    for (uint32_t i = 0; i < entries; ++i) {
      const char* name = name_at(base, i);
      out.emplace_back(std::string(name, strnlen(name, kStatsNameBytes)),
                       cell_at(base, capacity, i)->load(std::memory_order_relaxed));
    }
  }
  munmap(mapped, bytes);
  if (!good) return Error{path + " is not a stats page of version " + std::to_string(kStatsPageVersion)};
  return out;
}

}  // namespace weft
