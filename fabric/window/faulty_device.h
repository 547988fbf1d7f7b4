// fabric/window/faulty_device.h -- a DMA device in front of another one that carries out the faults on demand
// of its program, and a cut that the peer asks for. docs/faults.md, "Memory windows".
#pragma once

#include <vector>

#include "fabric/window/device.h"
#include "fabric/window/window_faults.h"

namespace weft::fabric {

/// Register 2: not 0 while the owner's windows are cut off, so that the peer moves nothing into it.
inline constexpr uint32_t kScratchpadCut = 2;

/// Strikes requests that move data: accesses, and slots of the FIFO. Words of eight bytes pass, which neither
/// move data nor make any visible without a slot before them. Owner: one thread.
class FaultyDevice final : public DmaDevice {
 public:
  /// Device and faults outlive this. `faults` may be null: then only cut_by_peer() strikes.
  FaultyDevice(DmaDevice& device, WindowFaults* faults, Instant now)
      : device_(device), faults_(faults), now_(now) {
    held_.reserve(device.limits().requests);
    ended_.reserve(device.limits().requests);
  }

  void use(WindowFaults* faults) noexcept { faults_ = faults; }
  void cut_by_peer(bool cut) noexcept { cut_by_peer_ = cut; }
  /// Nothing passes now.
  [[nodiscard]] bool cut() const noexcept {
    return cut_by_peer_ || (faults_ != nullptr && faults_->cuts(now_));
  }
  [[nodiscard]] bool cut_both_ways() const noexcept {
    return faults_ != nullptr && faults_->cuts_both_ways(now_);
  }

  /// A request with this token has ended without its data, and completions() has not given it.
  [[nodiscard]] bool has_failed(uint64_t mask, uint64_t bits) const noexcept;

  [[nodiscard]] PeerState peer() const noexcept override { return device_.peer(); }
  [[nodiscard]] bool peer_ended() const noexcept override { return device_.peer_ended(); }
  [[nodiscard]] DeviceLimits limits() const noexcept override { return device_.limits(); }
  [[nodiscard]] bool post(const DmaRequest& request) noexcept override;
  void flush() noexcept override { device_.flush(); }
  [[nodiscard]] uint32_t completions(std::span<DmaCompletion> out) noexcept override;
  void abandon(uint64_t mask, uint64_t bits) noexcept override;
  void notify() noexcept override { device_.notify(); }
  [[nodiscard]] bool take_notification() noexcept override { return device_.take_notification(); }
  [[nodiscard]] const std::atomic<uint64_t>* bell() const noexcept override { return nullptr; }
  void set_scratchpad(uint32_t index, uint64_t value) noexcept override {
    device_.set_scratchpad(index, value);
  }
  [[nodiscard]] uint64_t peer_scratchpad(uint32_t index) const noexcept override {
    return device_.peer_scratchpad(index);
  }
  [[nodiscard]] const std::atomic<uint64_t>* peer_register(uint32_t index) const noexcept override {
    return device_.peer_register(index);
  }
  [[nodiscard]] std::span<std::byte> own_memory() noexcept override { return device_.own_memory(); }
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override { device_.wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return ended_.empty() && device_.prepare_sleep(); }
  void finish_sleep() noexcept override { device_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  struct Held {
    DmaRequest request;
    Instant due{};  // kNever: while cut()
  };
  [[nodiscard]] bool strike(const DmaRequest& request) noexcept;
  void release() noexcept;

  DmaDevice& device_;
  WindowFaults* faults_;
  // Both together have as many places as the device.
  std::vector<Held> held_;  // a request never overtakes an earlier one
  std::vector<DmaCompletion> ended_;
  Instant now_;
  bool cut_by_peer_ = false;
};

}  // namespace weft::fabric
