// hca/spaces.h -- address spaces of processes, for a program that plays the operating system: assigns
// protection domains to processes, and passes on what their memory manager tells the adapter (SAN-LMP,
// docs/memory.md).
#pragma once

#include <cstdint>

#include "adapter/memory/address_space.h"
#include "hca/answer.h"

namespace weft::hca {

class DeviceCore;
class ProtectionDomain;

/// Any thread. Made by Device::use_manager(); lives as long as the device. Its calls allocate memory and call
/// the manager under the device's lock, so the manager must not call the device.
class Spaces {
 public:
  Spaces(DeviceCore& core, adapter::AddressSpaces& spaces) noexcept : core_(core), spaces_(spaces) {}

  /// Gives the domain to a process until the domain is destroyed. A process in user mode may then register
  /// memory only by Context::reg_addresses() with effective addresses. kTaken for a domain that already
  /// belongs to a process; in user mode kWrongMoment for a domain in which something is registered.
  /// SAN-LMP-02, SAN-LMP-06.
  [[nodiscard]] Answer assign(ProtectionDomain& pd, adapter::ProcessId process, adapter::ProcessMode mode);
  /// Replaces an entry of the process's segment table; an entry that is not valid is deleted. SAN-LMP-10.
  [[nodiscard]] Answer segment_table_update(adapter::ProcessId process, const adapter::Segment& segment);
  /// Makes the pages of a virtual range accessible. kBadRange when the manager has no entry for one of them.
  /// SAN-LMP-11.
  [[nodiscard]] Answer map_local_page(uint64_t address, uint64_t bytes);
  /// A mapped page has changed, or was swapped in or out. SAN-LMP-15.
  [[nodiscard]] Answer page_changed(const adapter::PageEntry& entry);

 private:
  DeviceCore& core_;
  adapter::AddressSpaces& spaces_;
};

}  // namespace weft::hca
