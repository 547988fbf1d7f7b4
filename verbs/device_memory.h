// verbs/device_memory.h -- device memory. Here it is ordinary memory of the process; programs reach it by
// copies and peers by a region over it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace weft::verbs {

/// Limit for all device memory of a process together.
inline constexpr size_t kDeviceMemoryBytes = size_t{1} << 20;

class DeviceMemory {
 public:
  /// Zeroed memory. Null when less than `bytes` is left of kDeviceMemoryBytes.
  static std::shared_ptr<DeviceMemory> make(size_t bytes, uint32_t log_alignment);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* at(size_t offset) const noexcept { return memory_.get() + offset; }
  [[nodiscard]] bool holds(uint64_t offset, size_t bytes) const noexcept {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

  std::atomic<uint32_t> regions{0};

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  DeviceMemory() = default;

  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace weft::verbs
