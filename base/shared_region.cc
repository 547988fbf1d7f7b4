#include "base/shared_region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/process_limits.h"

namespace weft {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<std::span<std::byte>> map_shared(int fd, size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) return errno_error("cannot map a shared region", errno);
  return std::span<std::byte>(static_cast<std::byte*>(at), bytes);
}

}  // namespace

size_t SharedRegion::rounded(size_t bytes) noexcept {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Result<SharedRegion> SharedRegion::create(const char* name, size_t bytes) {
  bytes = rounded(bytes);
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error("cannot create shared memory", errno);
  if (Status allocated = allocate_file(fd.get(), bytes, "shared memory"); !allocated)
    return allocated.error();
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return errno_error("cannot seal shared memory", errno);
  Result<std::span<std::byte>> mapped = map_shared(fd.get(), bytes);
  if (!mapped) return mapped.error();
  return SharedRegion(std::move(fd), *mapped);
}

Result<SharedRegion> SharedRegion::adopt(UniqueFd fd, size_t bytes) {
  bytes = rounded(bytes);
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return errno_error("peer's shared memory is no memfd", errno);
  if ((seals & kSeals) != kSeals) return Error{"peer's shared memory is not sealed against a change of size"};
  struct statfs system {};
  if (fstatfs(fd.get(), &system) != 0) return errno_error("cannot look at peer's shared memory", errno);
  if (system.f_type != TMPFS_MAGIC) return Error{"peer's shared memory has pages that may be missing"};
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return errno_error("cannot look at peer's shared memory", errno);
  if (info.st_size != static_cast<off_t>(bytes)) return Error{"peer's shared memory has the wrong size"};
  Result<std::span<std::byte>> mapped = map_shared(fd.get(), bytes);
  if (!mapped) return mapped.error();
  return SharedRegion(UniqueFd(), *mapped);  // the mapping is all that is needed
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedRegion::~SharedRegion() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace weft
