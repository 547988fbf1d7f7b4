#include "hca/memory.h"

#include "hca/device_core.h"

namespace weft::hca {

Answer ProtectionDomain::release() noexcept {
  return core().adapter.dealloc_pd(id_) ? Answer::kOk : Answer::kBusy;
}

Answer MemoryRegion::release() noexcept {
  if (!core().adapter.memory().dereg_mr(region_.lkey)) return Answer::kBusy;
  --pd_.books.users;
  return Answer::kOk;
}

Answer Window::release() noexcept {
  // An unbind request has destroyed it already if this fails (TPT-WQE-02).
  static_cast<void>(core().adapter.memory().dealloc_rkey(key_));
  --pd_.books.users;
  return Answer::kOk;
}

Answer AddressHandle::release() noexcept {
  --pd_.books.users;
  return Answer::kOk;
}

}  // namespace weft::hca
