#include "hca/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "base/check.h"

namespace weft::hca {
namespace {

size_t page_bytes() noexcept {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ForkGuard::ForkGuard() {
  void* page = mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WEFT_CHECK(page != MAP_FAILED, "a page of memory");
  WEFT_CHECK(madvise(page, page_bytes(), MADV_WIPEONFORK) == 0, "Linux 4.14 or newer");
  mark_ = std::construct_at(static_cast<std::atomic<int>*>(page), 1);
}

ForkGuard::~ForkGuard() {
  munmap(mark_, page_bytes());
}

}  // namespace weft::hca
