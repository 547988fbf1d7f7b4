// iou_driver/slirp_nic.h -- `--nic slirp`: a whole LAN in this process, without root: gateway, DHCP, DNS and
// NAT to the machine's own network by libslirp. Hosts get 10.0.2.15 and up by DHCP, the gateway is 10.0.2.2,
// DNS 10.0.2.3.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/net/model_port.h"

struct Slirp;

namespace weft::iou {

struct SlirpNicConfig {
  MacAddress mac{0x02, 0, 0, 0, 0x51, 0x01};
  uint32_t mtu_bytes = 1500;
  uint32_t frames = 512;       // from the LAN, waiting to be read; then slirp's TCP slows down
  bool reach_loopback = true;  // 10.0.2.2 is the machine itself
};

/// Owner: the unit's thread. `clock` outlives it.
class SlirpNic final : public ModelPort {
 public:
  static Result<std::unique_ptr<SlirpNic>> open(const SlirpNicConfig& config, const Clock& clock);
  ~SlirpNic() override;

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  /// Lets slirp handle its sockets and timers.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override;

  struct Callbacks;  // what libslirp calls

 private:
  friend struct Callbacks;
  /// A timer of libslirp; at most a few exist.
  struct Timer {
    bool used = false;
    int id = 0;
    void* opaque = nullptr;
    int64_t expires_ms = -1;
  };
  SlirpNic(const SlirpNicConfig& config, const Clock& clock);
  [[nodiscard]] bool start();
  [[nodiscard]] bool store(const std::byte* frame, size_t bytes) noexcept;
  void run_timers(int64_t now_ms) noexcept;

  SlirpNicConfig config_;
  const Clock& clock_;
  Slirp* slirp_ = nullptr;
  std::array<Timer, 4> timers_;
  std::vector<pollfd> fds_;  // of the last check
  Instant next_look_ = Instant::min();
  Instant slirp_wants_ = kNever;
  bool changed_ = true;  // slirp's sockets may have changed since
  uint32_t slot_bytes_;
  std::vector<std::byte> storage_;
  std::vector<uint32_t> bytes_;
  uint32_t first_ = 0;
  uint32_t used_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace weft::iou
