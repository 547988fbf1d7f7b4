// hca/memory.h -- protection domains and what belongs to one: memory regions, windows and address handles,
// as a consumer has them.
#pragma once

#include "adapter/adapter.h"
#include "hca/object.h"

namespace weft::hca {

/// Any thread.
class ProtectionDomain final : public Object {
 public:
  ProtectionDomain(ContextBase& context, adapter::PdId id) noexcept : Object(context, nullptr), id_(id) {}
  [[nodiscard]] adapter::PdId id() const noexcept { return id_; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  adapter::PdId id_;
};

/// Any thread.
class MemoryRegion final : public Object {
 public:
  MemoryRegion(ContextBase& context, ProtectionDomain& pd, const adapter::MemoryRegion& region) noexcept
      : Object(context, nullptr), pd_(&pd), region_(region) {
    ++pd_->books.users;
  }
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return *pd_; }
  [[nodiscard]] const adapter::MemoryRegion& region() const noexcept { return region_; }
  /// Registers anew what is given: memory, rights, or with `pd` the domain. The keys are new. kBusy while
  /// windows are bound to it, kInvalid for memory or rights that cannot be; nothing has changed then.
  [[nodiscard]] Answer rereg(const adapter::RegionChange& change, ProtectionDomain* pd = nullptr);
  /// kBusy while windows are bound to it.
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain* pd_;
  adapter::MemoryRegion region_;
};

/// A key that bind requests tie to ranges. Any thread; key() of one of type 1 not while another thread binds
/// it.
class Window final : public Object {
 public:
  Window(ContextBase& context, ProtectionDomain& pd, Rkey key, adapter::WindowKind kind) noexcept
      : Object(context, nullptr), pd_(pd), key_(key), kind_(kind) {
    ++pd_.books.users;
  }
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  /// Type 1: of the newest bind that was posted. Type 2: the first one, whose upper 24 bits all of its keys
  /// have.
  [[nodiscard]] Rkey key() const noexcept { return key_; }
  [[nodiscard]] adapter::WindowKind kind() const noexcept { return kind_; }

  // ---- hca/ alone, under the device's lock --------------------
  void set_key(Rkey key) noexcept { key_ = key; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  Rkey key_;
  adapter::WindowKind kind_;
};

/// Where datagrams go; SendRequest::ah points to value(). Any thread.
class AddressHandle final : public Object {
 public:
  AddressHandle(ContextBase& context, ProtectionDomain& pd, const adapter::AddressHandle& value) noexcept
      : Object(context, nullptr), pd_(pd), value_(value) {
    ++pd_.books.users;
  }
  [[nodiscard]] ProtectionDomain& pd() const noexcept { return pd_; }
  [[nodiscard]] const adapter::AddressHandle& value() const noexcept { return value_; }
  [[nodiscard]] Answer release() noexcept override;

 private:
  ProtectionDomain& pd_;
  adapter::AddressHandle value_;
};

}  // namespace weft::hca
