// tests/support/traced_device.h -- a DMA device that writes down what its user asks of it, and the
// completions and notifications in between, in order.
#pragma once

#include <vector>

#include "fabric/window/device.h"

namespace weft::test {

struct TracedDma {
  enum class What : uint8_t { kRequest, kCompletion, kNotify, kRegister };
  What what = What::kRequest;
  fabric::DmaRequest request{};  // of kRequest and kCompletion
  uint32_t index = 0;            // of kRegister: the peer's register that was read
};

class TracedDevice final : public fabric::DmaDevice {
 public:
  explicit TracedDevice(fabric::DmaDevice& device) : device_(device) {}
  mutable std::vector<TracedDma> trace;

  /// Requests of the trace, without the rest.
  [[nodiscard]] std::vector<fabric::DmaRequest> requests() const {
    std::vector<fabric::DmaRequest> out;
    for (const TracedDma& one : trace) {
      if (one.what == TracedDma::What::kRequest) out.push_back(one.request);
    }
    return out;
  }

  fabric::PeerState peer() const noexcept override { return device_.peer(); }
  bool peer_ended() const noexcept override { return device_.peer_ended(); }
  fabric::DeviceLimits limits() const noexcept override { return device_.limits(); }
  bool post(const fabric::DmaRequest& request) noexcept override {
    if (!device_.post(request)) return false;
    trace.push_back({TracedDma::What::kRequest, request});
    return true;
  }
  void flush() noexcept override { device_.flush(); }
  uint32_t completions(std::span<fabric::DmaCompletion> out) noexcept override {
    const uint32_t count = device_.completions(out);
    for (uint32_t i = 0; i < count; ++i) {
      fabric::DmaRequest request{};
      for (const TracedDma& one : trace) {
        if (one.what == TracedDma::What::kRequest && one.request.token == out[i].token) request = one.request;
      }
      trace.push_back({TracedDma::What::kCompletion, request});
    }
    return count;
  }
  void abandon(uint64_t mask, uint64_t bits) noexcept override { device_.abandon(mask, bits); }
  void notify() noexcept override {
    trace.push_back({TracedDma::What::kNotify});
    device_.notify();
  }
  bool take_notification() noexcept override { return device_.take_notification(); }
  const std::atomic<uint64_t>* bell() const noexcept override { return device_.bell(); }
  void set_scratchpad(uint32_t index, uint64_t value) noexcept override {
    device_.set_scratchpad(index, value);
  }
  uint64_t peer_scratchpad(uint32_t index) const noexcept override {
    trace.push_back({TracedDma::What::kRegister, {}, index});
    return device_.peer_scratchpad(index);
  }
  std::span<std::byte> own_memory() noexcept override { return device_.own_memory(); }
  int poll(Instant now) noexcept override { return device_.poll(now); }
  void wait_fds(std::vector<pollfd>& out) const override { device_.wait_fds(out); }
  bool prepare_sleep() noexcept override { return device_.prepare_sleep(); }
  void finish_sleep() noexcept override { device_.finish_sleep(); }
  Instant deadline() const noexcept override { return device_.deadline(); }

 private:
  fabric::DmaDevice& device_;
};

}  // namespace weft::test
