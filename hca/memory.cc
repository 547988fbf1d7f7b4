#include "hca/memory.h"

#include <thread>

#include "base/cancel_shield.h"
#include "hca/device_core.h"

namespace weft::hca {
namespace {

constexpr Duration kTransferPause = 50us;

}  // namespace

void pause_for_transfer() noexcept {
  const CancelShield shield;
  std::this_thread::sleep_for(kTransferPause);
}

Answer ProtectionDomain::release() noexcept {
  return reason_of(core().adapter.dealloc_pd(id_));
}

Answer MemoryRegion::release() noexcept {
  if (const auto ended = core().adapter.memory().regions.dereg_mr(region_.lkey, &ended_); !ended)
    return reason_of(ended);
  --pd_->refs.users;
  return Answer::kOk;
}

Answer MemoryRegion::rereg(const adapter::RegionChange& given, ProtectionDomain* pd) {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  if (pd != nullptr && &pd->context() != &context()) return Answer::kForeignObject;
  return after_transfers([&] { return rereg_now(given, pd); });
}

Answer MemoryRegion::rereg_now(const adapter::RegionChange& given, ProtectionDomain* pd) {
  DeviceCore& device = core();
  std::unique_ptr<adapter::Translation> unused;  // freed without the lock
  const HoldToMake hold(device);
  adapter::RegionChange change = given;
  if (pd != nullptr) change.pd = pd->id();
  Refusable<adapter::MemoryRegion> renewed =
      device.adapter.memory().regions.rereg_mr(region_.lkey, change, &unused);
  if (!renewed) return reason_of(renewed);
  region_ = *renewed;
  if (pd == nullptr) return Answer::kOk;
  --pd_->refs.users;
  pd_ = pd;
  ++pd_->refs.users;
  return Answer::kOk;
}

Answer MemoryRegion::stage(std::span<std::byte> memory) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  const Hold hold(device);
  const Refusable<adapter::MemoryRegion> staged = device.adapter.memory().regions.stage(region_.lkey, memory);
  if (!staged) return reason_of(staged);
  region_ = staged.value();
  staged_addr_ = reinterpret_cast<uintptr_t>(memory.data());
  return Answer::kOk;
}

Answer Window::release() noexcept {
  // Fails if an unbind request has already destroyed the key (TPT-WQE-02); that is no error.
  static_cast<void>(core().adapter.memory().windows.dealloc_rkey(key_));
  --pd_.refs.users;
  return Answer::kOk;
}

Answer AddressHandle::release() noexcept {
  --pd_.refs.users;
  return Answer::kOk;
}

}  // namespace weft::hca
