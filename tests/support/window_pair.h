// tests/support/window_pair.h -- both ends of a memory window in one process and virtual time, over each kind
// of device: memory with faults, process_vm on this process, pieces, one file mapped twice.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/window/file_device.h"
#include "fabric/window/memory_device.h"
#include "fabric/window/process_device.h"
#include "fabric/window/window_end.h"
#include "tests/support/temp_dir.h"

namespace weft::test {

/// What a peer reaches through the owner: what the owner's table allows now.
class TableMemory final : public fabric::OwnerMemory {
 public:
  void use(const fabric::OwnWindow& table) { table_ = &table; }
  bool write(uint64_t at, std::span<const std::byte> from) noexcept override {
    if (table_ == nullptr || !table_->allows(at, from.size(), kTableWrite)) return false;
    std::memcpy(reinterpret_cast<void*>(at), from.data(), from.size());
    return true;
  }
  bool read(uint64_t at, std::span<std::byte> to) noexcept override {
    if (table_ == nullptr || !table_->allows(at, to.size(), kTableRead)) return false;
    std::memcpy(to.data(), reinterpret_cast<const void*>(at), to.size());
    return true;
  }

 private:
  const fabric::OwnWindow* table_ = nullptr;
};

enum class WindowKind : uint8_t { kMemory, kProcess, kPieces, kFile };

struct WindowPairConfig {
  WindowKind kind = WindowKind::kMemory;
  fabric::OwnWindowConfig own{.slots = 8, .slot_bytes = 128, .table_entries = 16};
  uint32_t requests = 64;
  bool mapped = false;  // of kMemory: each end may store into the other's window memory itself
};

class WindowPair {
 public:
  static constexpr size_t kBufferBytes = 16'384;

  explicit WindowPair(const WindowPairConfig& chosen = {}, uint64_t seed = 1) : config(chosen), random(seed) {
    make_devices();
    for (size_t side = 0; side < 2; ++side) {
      ends[side] = std::make_unique<fabric::WindowEnd>(*devices[side], config.own);
      memory[side].use(ends[side]->own());
    }
  }

  /// Memory that a side may show to its peer: the end of the window memory, where the device has no other.
  std::span<std::byte> buffer(size_t side) {
    if (config.kind == WindowKind::kFile) {
      return devices[side]->own_memory().subspan(fabric::OwnWindow::bytes_for(config.own), kBufferBytes);
    }
    buffers[side].resize(kBufferBytes);
    return buffers[side];
  }
  uint64_t address(size_t side, size_t offset = 0) {
    return reinterpret_cast<uint64_t>(buffer(side).data() + offset);
  }

  fabric::WindowEnd& end(size_t side) { return *ends[side]; }
  void step(Duration by = 10us) {
    clock.advance(by);
    for (const auto& end : ends) {
      if (end) end->poll(clock.now());
    }
  }
  void run(int steps, Duration by = 10us) {
    for (int i = 0; i < steps; ++i) step(by);
  }
  /// True when both ends are up.
  [[nodiscard]] bool join(int steps = 200) {
    const auto up = [&](size_t side) { return ends[side]->state() == fabric::WindowState::kUp; };
    for (int i = 0; i < steps && !(up(0) && up(1)); ++i) step();
    return up(0) && up(1);
  }
  /// Shows `bytes` bytes of the buffer to the peer under `key`.
  void show(size_t side, uint32_t key, uint32_t rights, size_t offset = 0, size_t bytes = kBufferBytes) {
    ASSERT_EQ(end(side).own().publish({address(side, offset), bytes, rights, key}),
              fabric::PublishResult::kOk);
  }
  /// Posts an access, again while the table is being confirmed.
  fabric::AccessPost access(size_t side, const fabric::WindowAccess& access, int steps = 200) {
    fabric::AccessPost post = end(side).access(access);
    for (int i = 0; i < steps && post == fabric::AccessPost::kWait; ++i) {
      step();
      post = end(side).access(access);
    }
    end(side).flush();
    return post;
  }
  /// The next access that ends, at the latest after `steps` turns; false when none does.
  [[nodiscard]] bool wait_access(size_t side, fabric::AccessDone& out, int steps = 400) {
    for (int i = 0; i < steps; ++i) {
      if (end(side).next_access(out)) return true;
      step();
    }
    return false;
  }

  WindowPairConfig config;
  TempDir dir;
  SeededRandom random;
  ManualClock clock;
  std::array<TableMemory, 2> memory;
  std::unique_ptr<fabric::MemoryWindow> window;  // of kMemory
  std::array<std::unique_ptr<fabric::DmaDevice>, 2> kept;
  std::array<fabric::DmaDevice*, 2> devices{};
  std::array<std::vector<std::byte>, 2> buffers;
  std::array<std::unique_ptr<fabric::WindowEnd>, 2> ends;

 private:
  void make_devices() {
    using namespace fabric;
    const size_t bytes = OwnWindow::bytes_for(config.own);
    switch (config.kind) {
      case WindowKind::kMemory:
        window = std::make_unique<MemoryWindow>(
            MemoryWindowConfig{
                .window_bytes = {bytes, bytes}, .requests = config.requests, .mapped = config.mapped},
            random);
        for (size_t side = 0; side < 2; ++side) {
          window->set_owner_memory(side, &memory[side]);
          devices[side] = &window->end(side);
        }
        return;
      case WindowKind::kProcess:
      case WindowKind::kPieces:
        make_process_devices(bytes);
        return;
      case WindowKind::kFile:
        make_file_devices(bytes);
        return;
    }
  }
  void make_process_devices(size_t bytes) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    for (size_t side = 0; side < 2; ++side) {
      fabric::ProcessDeviceConfig device;
      device.window_bytes = bytes;
      device.requests = config.requests;
      device.process_copies = config.kind == WindowKind::kProcess;
      device.memory = &memory[side];
      kept[side] = std::move(fabric::ProcessDevice::create(UniqueFd(sockets[side]), device, random).value());
      devices[side] = kept[side].get();
    }
  }
  void make_file_devices(size_t bytes) {
    for (uint32_t side = 0; side < 2; ++side) {
      fabric::FileDeviceConfig device;
      device.path = dir.path() + "/window";
      device.side = side;
      device.file_bytes = 2 * (4096 + (bytes + kBufferBytes + 4095) / 4096 * 4096);
      device.requests = config.requests;
      kept[side] = std::move(fabric::make_file_device(device, random).value());
      devices[side] = kept[side].get();
    }
  }
};

}  // namespace weft::test
