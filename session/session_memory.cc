#include "session/session_memory.h"

namespace weft::session {

SessionMemory::~SessionMemory() {
  while (!regions_.empty()) remove(regions_.back());
  if (has_pd_) (void)adapter_.dealloc_pd(pd_);
}

Status SessionMemory::open() {
  const Refusable<adapter::PdId> pd = adapter_.alloc_pd();
  if (!pd) return pd.error();
  pd_ = pd.value();
  has_pd_ = true;
  return {};
}

Refusable<adapter::MemoryRegion> SessionMemory::add(std::span<std::byte> memory, bool remote) {
  adapter::RegisterOptions options;
  adapter::Access access = adapter::Access::kLocalWrite;
  if (remote) {
    access = access | adapter::Access::kRemoteWrite;
    options.base_addr = (random_.next() & 0x3FFF'FFFF'FFFF'F000) | uint64_t{1} << 62;
  }
  regions_.reserve(regions_.size() + 1);
  Refusable<adapter::MemoryRegion> region = adapter_.memory().regions.reg_mr(pd_, memory, access, options);
  if (region) regions_.push_back(region->lkey);
  return region;
}

void SessionMemory::remove(Lkey lkey) noexcept {
  (void)adapter_.memory().regions.dereg_mr(lkey);
  std::erase(regions_, lkey);
}

}  // namespace weft::session
