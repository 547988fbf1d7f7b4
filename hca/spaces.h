// hca/spaces.h -- address spaces of processes, as a program has them that plays the operating system: which
// process a protection domain is of, and what its memory manager tells the adapter (SAN-LMP,
// docs/memory.md).
#pragma once

#include <cstdint>

#include "adapter/memory/address_space.h"
#include "hca/answer.h"

namespace weft::hca {

class DeviceCore;
class ProtectionDomain;

/// Any thread. Made by Device::use_manager(), and lives as long as the device. Its calls take memory, and the
/// manager's are made, under the device's lock: the manager calls nothing of the device.
class Spaces {
 public:
  Spaces(DeviceCore& core, adapter::AddressSpaces& spaces) noexcept : core_(core), spaces_(spaces) {}

  /// The domain is that of a process until it is destroyed. A user process registers memory by
  /// Context::reg_addresses() and effective addresses, nothing else. kInvalid for a domain of a process, and
  /// in user mode for one in which something is registered. SAN-LMP-02, SAN-LMP-06.
  [[nodiscard]] Answer assign(ProtectionDomain& pd, adapter::ProcessId process, adapter::ProcessMode mode);
  /// An entry of a process's segment table is another; one that is not valid is deleted. SAN-LMP-10.
  [[nodiscard]] Answer segment_table_update(adapter::ProcessId process, const adapter::Segment& segment);
  /// The pages of a virtual range become reachable. kInvalid when the manager has no entry for one of them.
  /// SAN-LMP-11.
  [[nodiscard]] Answer map_local_page(uint64_t address, uint64_t bytes);
  /// A page that was mapped has changed, or was swapped in or out. SAN-LMP-15.
  [[nodiscard]] Answer page_changed(const adapter::PageEntry& entry);

 private:
  DeviceCore& core_;
  adapter::AddressSpaces& spaces_;
};

}  // namespace weft::hca
