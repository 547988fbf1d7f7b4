// tests/support/window_process.h -- what the tests of windows between processes share.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/clock.h"
#include "fabric/window/own_window.h"
#include "fabric/window/process_device.h"
#include "fabric/window/window_words.h"

namespace weft::test {

inline constexpr fabric::OwnWindowConfig kChildWindow{.slots = 8, .slot_bytes = 128, .table_entries = 16};
inline constexpr size_t kShownBytes = 65'536;
inline constexpr uint32_t kShownKey = 7;

inline fabric::ProcessDeviceConfig device_config(bool process_copies = true,
                                                 fabric::OwnerMemory* memory = nullptr) {
  fabric::ProcessDeviceConfig config;
  config.window_bytes = fabric::OwnWindow::bytes_for(kChildWindow);
  config.process_copies = process_copies;
  config.memory = memory;
  return config;
}

/// Memory that a peer reaches in pieces, whatever table it knows.
class ShownMemory final : public fabric::OwnerMemory {
 public:
  std::vector<std::byte> bytes = std::vector<std::byte>(kShownBytes, std::byte{0x33});
  bool write(uint64_t at, std::span<const std::byte> from) noexcept override {
    if (!within(at, from.size())) return false;
    std::memcpy(reinterpret_cast<void*>(at), from.data(), from.size());
    return true;
  }
  bool read(uint64_t at, std::span<std::byte> to) noexcept override {
    if (!within(at, to.size())) return false;
    std::memcpy(to.data(), reinterpret_cast<const void*>(at), to.size());
    return true;
  }

 private:
  [[nodiscard]] bool within(uint64_t at, size_t count) const noexcept {
    const auto start = reinterpret_cast<uint64_t>(bytes.data());
    return at >= start && fabric::lies_inside(at - start, count, bytes.size());
  }
};

}  // namespace weft::test
