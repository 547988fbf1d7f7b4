#include "hca/memory.h"

#include <optional>

#include "hca/device_core.h"

namespace weft::hca {

Answer ProtectionDomain::release() noexcept {
  return core().adapter.dealloc_pd(id_) ? Answer::kOk : Answer::kBusy;
}

Answer MemoryRegion::release() noexcept {
  if (!core().adapter.memory().dereg_mr(region_.lkey)) return Answer::kBusy;
  --pd_->books.users;
  return Answer::kOk;
}

Answer MemoryRegion::rereg(const adapter::RegionChange& given, ProtectionDomain* pd) {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  if (pd != nullptr && &pd->context() != &context()) return Answer::kInvalid;
  const HoldToMake hold(device);
  adapter::MemoryTable& table = device.adapter.memory();
  const std::optional<adapter::TptEntry> entry = table.query(region_.lkey.value());
  if (entry && entry->bound_windows != 0) return Answer::kBusy;
  adapter::RegionChange change = given;
  if (pd != nullptr) change.pd = pd->id();
  Refusable<adapter::MemoryRegion> renewed = table.rereg_mr(region_.lkey, change);
  if (!renewed) return Answer::kInvalid;
  region_ = *renewed;
  if (pd == nullptr) return Answer::kOk;
  --pd_->books.users;
  pd_ = pd;
  ++pd_->books.users;
  return Answer::kOk;
}

Answer MemoryRegion::stage(std::span<std::byte> memory) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  const Hold hold(device);
  const Refusable<adapter::MemoryRegion> staged = device.adapter.memory().stage(region_.lkey, memory);
  if (!staged) return Answer::kInvalid;
  region_ = staged.value();
  staged_addr_ = reinterpret_cast<uintptr_t>(memory.data());
  return Answer::kOk;
}

Answer Window::release() noexcept {
  // Fails if an unbind request has already destroyed the key (TPT-WQE-02); that is no error.
  static_cast<void>(core().adapter.memory().dealloc_rkey(key_));
  --pd_.books.users;
  return Answer::kOk;
}

Answer AddressHandle::release() noexcept {
  --pd_.books.users;
  return Answer::kOk;
}

}  // namespace weft::hca
