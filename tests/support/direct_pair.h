// tests/support/direct_pair.h -- two channel adapters whose RC QPs reach each other through a memory window,
// in virtual time. Cells still have their pipe, for QPs that do not take the window.
#pragma once

#include <functional>
#include <memory>

#include "adapter/direct_paths.h"
#include "fabric/window/memory_device.h"
#include "tests/support/adapter_sides.h"
#include "tests/support/pipe_port.h"
#include "tests/support/traced_device.h"

namespace weft::test {

/// Memory that a peer's device reaches: this process, unless the test takes it away.
class ProcessMemory final : public fabric::OwnerMemory {
 public:
  bool write(uint64_t at, std::span<const std::byte> from) noexcept override {
    if (gone) return false;
    std::memcpy(reinterpret_cast<void*>(at), from.data(), from.size());
    return true;
  }
  bool read(uint64_t at, std::span<std::byte> to) noexcept override {
    if (gone) return false;
    std::memcpy(to.data(), reinterpret_cast<const void*>(at), to.size());
    return true;
  }
  bool gone = false;
};

/// One side's ways: to the other side alone.
class TestPaths final : public adapter::DirectPaths, private adapter::DirectPath {
 public:
  using Claimed = std::function<void()>;
  TestPaths(Lid peer, Claimed claimed) : peer_(peer), claimed_(std::move(claimed)) {}

  adapter::DirectPath* claim(Lid peer) noexcept override {
    ++asked;
    if (peer != peer_ || !offered) return nullptr;
    ++claims;
    claimed_();
    return this;
  }
  void release(adapter::DirectPath& /*path*/) noexcept override {
    --claims;
    if (claims == 0) end_.reset();
  }
  adapter::DirectPath* arrived(Lid& peer) noexcept override {
    if (!std::exchange(arrives, false)) return nullptr;
    ++claims;
    peer = peer_;
    return this;
  }
  [[nodiscard]] State state() const noexcept override {
    return refused ? State::kRefused : end_ == nullptr ? State::kJoining : State::kOpen;
  }
  [[nodiscard]] fabric::WindowEnd& end() noexcept override { return *end_; }

  void open(fabric::DmaDevice& device, const fabric::OwnWindowConfig& config) {
    end_ = std::make_unique<fabric::WindowEnd>(device, config);
  }
  bool offered = true;
  bool refused = false;
  bool arrives = false;  // the peer has opened the window
  int claims = 0;
  int asked = 0;  // claims, with those that got nothing

 private:
  Lid peer_;
  Claimed claimed_;
  std::unique_ptr<fabric::WindowEnd> end_;
};

struct DirectPairConfig {
  fabric::OwnWindowConfig own{.slots = 16, .slot_bytes = 256, .table_entries = 16};
  uint32_t requests = 32;
  bool memory_space = true;
  bool traced = false;  // trace() says what the service asks of the devices
  adapter::AdapterLimits limits{};
};

class DirectPair final : public AdapterSides {
 public:
  explicit DirectPair(const DirectPairConfig& config = {})
      : own(config.own), traced(config.traced), pipe(256) {
    const size_t bytes = fabric::OwnWindow::bytes_for(own);
    window = std::make_unique<fabric::MemoryWindow>(
        fabric::MemoryWindowConfig{
            .window_bytes = {bytes, bytes}, .requests = config.requests, .memory_space = config.memory_space},
        random);
    for (int i = 0; i < 2; ++i) {
      const auto index = static_cast<size_t>(i);
      window->set_owner_memory(index, &memory[index]);
      traces_[index] = std::make_unique<TracedDevice>(window->end(index));
      paths[index] = std::make_unique<TestPaths>(Lid(static_cast<uint16_t>(2 - i)), [this] { claimed(); });
      add_side(pipe.end(i), config.limits, false, {}, paths[index].get());
    }
  }
  ~DirectPair() override { remove_sides(); }

  /// Cells that side `index` has sent through the pipe.
  [[nodiscard]] uint64_t cells(int index) {
    return side(index).adapter->ports().total(adapter::AdapterPortCounter::kCellsSent);
  }
  [[nodiscard]] TracedDevice& trace(int index) { return *traces_[static_cast<size_t>(index)]; }
  [[nodiscard]] fabric::WindowEnd& end(int index) { return paths[static_cast<size_t>(index)]->end(); }
  [[nodiscard]] adapter::PostResult post_send(int index, adapter::QueuePair& qp, adapter::SendRequest request,
                                              std::vector<adapter::Sge> sges) {
    request.sges = sges;
    return side(index).adapter->post_send(qp, request);
  }
  [[nodiscard]] std::vector<adapter::WorkCompletion> take_completions(int index) {
    return std::exchange(side(index).completions, {});
  }

  fabric::OwnWindowConfig own;
  const bool traced;
  SeededRandom random{5};
  ManualClock clock;
  Pipe pipe;
  std::array<ProcessMemory, 2> memory;
  std::unique_ptr<fabric::MemoryWindow> window;
  std::array<std::unique_ptr<TestPaths>, 2> paths;
  bool joins = true;  // a claimed way opens at once
  /// The window comes up, and arrives at side `at`, which has not claimed it.
  void arrive_at(size_t at) {
    for (size_t i = 0; i < 2; ++i) paths[i]->open(device(i), own);
    paths[at]->arrives = true;
  }

 private:
  [[nodiscard]] fabric::DmaDevice& device(size_t i) {
    return traced ? static_cast<fabric::DmaDevice&>(*traces_[i]) : window->end(i);
  }
  /// Both ends come up when both sides have claimed the way.
  void claimed() {
    if (!joins || paths[0]->claims == 0 || paths[1]->claims == 0) return;
    for (size_t i = 0; i < 2; ++i) paths[i]->open(device(i), own);
  }
  [[nodiscard]] Instant now() const override { return clock.now(); }
  void pass(Duration step) override { clock.advance(step); }

  std::array<std::unique_ptr<TracedDevice>, 2> traces_;
};

}  // namespace weft::test
