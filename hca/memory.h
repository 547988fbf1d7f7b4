// hca/memory.h -- protection domains and what belongs to one: memory regions, windows and address handles,
// as a consumer has them.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// It is the adapter's domain `id` from now on; objects are made before the lock and get what they stand
  /// for under it.
  void enter(adapter::PdId id) noexcept { id_ = id; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  adapter::PdId id_{};
};

/// Any thread.
class MemoryRegion final : public Object {
 public:
  MemoryRegion(ContextBase& context, ProtectionDomain& pd) noexcept : Object(context, nullptr), pd_(&pd) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return *pd_; }
  [[nodiscard]] const adapter::MemoryRegion& region() const noexcept { return region_; }
  /// Registers anew what is given: memory, rights, or with `pd` the domain. The keys are new. kBusy while
  /// windows are bound to it, kInvalid for memory or rights that cannot be; nothing has changed then.
  [[nodiscard]] Answer rereg(const adapter::RegionChange& change, ProtectionDomain* pd = nullptr);
  /// Of a region made by Context::reserve_mr(): sets memory aside for its next registration request. region()
  /// has the keys from now on; they open nothing before that request has been carried out. The memory
  /// outlives the registration. kInvalid for other regions, without memory, and while it is registered;
  /// nothing has changed then. TPT-REG-03.
  [[nodiscard]] Answer stage(std::span<std::byte> memory) noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  /// The address of what is staged.
  [[nodiscard]] uint64_t staged_addr() const noexcept { return staged_addr_; }
  /// A registration request names its first byte so.
  void begin_at(uint64_t addr) noexcept { region_.addr = addr; }
  void enter(const adapter::MemoryRegion& region) noexcept {
    region_ = region;
    ++pd_->books.users;
  }
  /// kBusy while windows are bound to it.
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain* pd_;
  adapter::MemoryRegion region_{};
  uint64_t staged_addr_ = 0;
};

/// A key that bind requests tie to ranges. Any thread; key() of one of type 1 not while another thread binds
/// it.
class Window final : public Object {
 public:
  Window(ContextBase& context, ProtectionDomain& pd, adapter::WindowKind kind) noexcept
      : Object(context, nullptr), pd_(pd), kind_(kind) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  /// Type 1: of the newest bind that was posted. Type 2: the first one, whose upper 24 bits all of its keys
  /// have.
  [[nodiscard]] Rkey key() const noexcept { return key_; }
  [[nodiscard]] adapter::WindowKind kind() const noexcept { return kind_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(Rkey key) noexcept {
    key_ = key;
    ++pd_.books.users;
  }
  void set_key(Rkey key) noexcept { key_ = key; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  Rkey key_{};
  adapter::WindowKind kind_;
};

/// Where datagrams go; SendRequest::ah points to value(). Any thread.
class AddressHandle final : public Object {
 public:
  AddressHandle(ContextBase& context, ProtectionDomain& pd) noexcept : Object(context, nullptr), pd_(pd) {}
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  [[nodiscard]] const adapter::AddressHandle& value() const noexcept { return value_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(const adapter::AddressHandle& value) noexcept {
    value_ = value;
    ++pd_.books.users;
  }
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  adapter::AddressHandle value_{};
};

}  // namespace weft::hca
