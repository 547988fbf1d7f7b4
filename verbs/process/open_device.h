// verbs/process/open_device.h -- an open device: what it owns, and its objects that another context may
// import by handle. One context stands for it, or several after ibv_import_device().
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/guarded_fd.h"
#include "hca/context.h"
#include "hca/device.h"
#include "verbs/use_count.h"

namespace weft::verbs {

class ProcessNode;

/// This process is a child after fork(), and the node or context belongs to its parent. Locks that threads of
/// the parent had are not released here.
[[nodiscard]] bool is_of_parent(const ProcessNode& node) noexcept;
[[nodiscard]] bool in_child(ibv_context* context) noexcept;

/// Objects by the number that their C struct shows as `handle`. Any thread may call. In a child after fork()
/// there are none and no change is made: a thread of the parent may have had the lock.
template <class T>
class Handles {
 public:
  explicit Handles(const ProcessNode& node) noexcept : node_(node) {}
  void put(uint32_t handle, T object) {
    if (is_of_parent(node_)) return;
    const std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
  }
  void drop(uint32_t handle) noexcept {
    if (is_of_parent(node_)) return;
    const std::lock_guard lock(mutex_);
    objects_.erase(handle);
  }
  /// An object that ends is taken out before: once it has ended, another thread may get its number for a new
  /// object. An object that does not end after all is put back; without memory for that it can no longer be
  /// found.
  using Entry = typename std::unordered_map<uint32_t, T>::node_type;
  [[nodiscard]] Entry take(uint32_t handle) noexcept {
    if (is_of_parent(node_)) return {};
    const std::lock_guard lock(mutex_);
    return objects_.extract(handle);
  }
  void put_back(Entry entry) noexcept {
    if (is_of_parent(node_)) return;
    try {
      const std::lock_guard lock(mutex_);
      objects_.insert(std::move(entry));
    } catch (const std::bad_alloc&) {
    }
  }
  /// Gives the entry of handle `before` the handle `now` and the value `object`. Allocates no memory.
  void move(uint32_t before, uint32_t now, T object) noexcept {
    if (is_of_parent(node_)) return;
    const std::lock_guard lock(mutex_);
    auto place = objects_.extract(before);
    if (place.empty()) return;
    place.key() = now;
    place.mapped() = std::move(object);
    objects_.insert(std::move(place));
  }
  /// A default-constructed T if the handle is unknown.
  [[nodiscard]] T find(uint32_t handle) const {
    if (is_of_parent(node_)) return T{};
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(handle);
    return at != objects_.end() ? at->second : T{};
  }

 private:
  const ProcessNode& node_;
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, T> objects_;
};

struct KnownDomain {
  hca::ProtectionDomain* object = nullptr;
  UseCount users;  // of all its handles
};

/// A region as last registered or reregistered.
struct KnownRegion {
  hca::MemoryRegion* object = nullptr;
  std::byte* memory = nullptr;  // null for a region over all addresses
  size_t length = 0;
  unsigned access = 0;
  std::shared_ptr<RegionUses> uses;  // null: none
};

class DeviceMemory;

/// Shared by its contexts; ends with the last of them.
struct OpenDevice {
  OpenDevice(ProcessNode& its_node, hca::Context& its_context) noexcept
      : node(its_node), context(its_context) {}
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  ProcessNode& node;
  hca::Context& context;
  GuardedFd command;  // an empty file; ibv_import_device() recognises the device by it
  Handles<KnownDomain> domains{node};
  Handles<KnownRegion> regions{node};  // by LKey
  Handles<std::shared_ptr<DeviceMemory>> memories{node};
};

}  // namespace weft::verbs
