// hca/memory.h -- protection domains and their objects for consumers: memory regions, windows and address
// handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "adapter/adapter.h"
#include "hca/object.h"

namespace weft::hca {

/// Any thread.
class ProtectionDomain final : public Object {
 public:
  explicit ProtectionDomain(ContextBase& context) noexcept : Object(context, nullptr) {}
  [[nodiscard]] adapter::PdId id() const noexcept { return id_; }

  // ---- hca/ alone, under the device's lock --------------------
  /// Connects this object with the adapter's domain `id`. Objects are allocated before the lock is taken and
  /// connected under it.
  void enter(adapter::PdId id) noexcept { id_ = id; }

 private:
  [[nodiscard]] Answer release() noexcept override;
  adapter::PdId id_{};
};

/// Any thread.
class MemoryRegion final : public Object {
 public:
  MemoryRegion(ContextBase& context, ProtectionDomain& pd) noexcept : Object(context, nullptr), pd_(&pd) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return *pd_; }
  [[nodiscard]] const adapter::MemoryRegion& region() const noexcept { return region_; }
  /// Registers the region again with new memory, new rights or, with `pd`, another domain. The keys change.
  /// kBusy while windows are bound to it; kBadRange, kBadRights; then nothing has changed.
  [[nodiscard]] Answer rereg(const adapter::RegionChange& change, ProtectionDomain* pd = nullptr);
  /// For a region made by Context::reserve_mr(): sets the memory for its next registration request. region()
  /// then has the new keys, which permit no access until that request has been carried out. The memory must
  /// outlive the registration. kNoSuchKey for other regions, kBadRange for empty memory, kWrongMoment while
  /// the region is registered; then nothing has changed. TPT-REG-03.
  [[nodiscard]] Answer stage(std::span<std::byte> memory) noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  /// Address of the staged memory.
  [[nodiscard]] uint64_t staged_addr() const noexcept { return staged_addr_; }
  /// Sets the address of the first byte that a registration request gives to the region.
  void begin_at(uint64_t addr) noexcept { region_.addr = addr; }
  void enter(const adapter::MemoryRegion& region) noexcept {
    region_ = region;
    ++pd_->refs.users;
  }

 private:
  /// kBusy while windows are bound to the region.
  [[nodiscard]] Answer release() noexcept override;
  Answer rereg_now(const adapter::RegionChange& given, ProtectionDomain* pd);

  ProtectionDomain* pd_;
  adapter::MemoryRegion region_{};
  uint64_t staged_addr_ = 0;
  std::unique_ptr<adapter::Translation> ended_;  // set by release(); freed without the lock
};

/// A key that bind requests tie to a memory range. Any thread; key() of a type 1 window must not be called
/// while another thread binds the window.
class Window final : public Object {
 public:
  Window(ContextBase& context, ProtectionDomain& pd, adapter::WindowKind kind) noexcept
      : Object(context, nullptr), pd_(pd), kind_(kind) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  /// Type 1: key of the newest posted bind. Type 2: the first key; all later keys have the same upper 24
  /// bits.
  [[nodiscard]] Rkey key() const noexcept { return key_; }
  [[nodiscard]] adapter::WindowKind kind() const noexcept { return kind_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(Rkey key) noexcept {
    key_ = key;
    ++pd_.refs.users;
  }
  void set_key(Rkey key) noexcept { key_ = key; }

 private:
  [[nodiscard]] Answer release() noexcept override;
  ProtectionDomain& pd_;
  Rkey key_{};
  adapter::WindowKind kind_;
};

/// Destination of datagrams; SendRequest::ah points to value(). Any thread.
class AddressHandle final : public Object {
 public:
  AddressHandle(ContextBase& context, ProtectionDomain& pd) noexcept : Object(context, nullptr), pd_(pd) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  [[nodiscard]] const adapter::AddressHandle& value() const noexcept { return value_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(const adapter::AddressHandle& value) noexcept {
    value_ = value;
    ++pd_.refs.users;
  }

 private:
  [[nodiscard]] Answer release() noexcept override;
  ProtectionDomain& pd_;
  adapter::AddressHandle value_{};
};

}  // namespace weft::hca
