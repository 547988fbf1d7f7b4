// iou_driver/pcap_nic.h -- `--nic pcap:IN[,OUT]`: replays and writes recordings in place of a LAN. Frames of
// IN (pcap or pcapng, Ethernet) arrive at their recorded intervals, beginning when the first host is
// connected. Frames of the hosts are appended to OUT (pcap). Either name may be empty.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/net/model_port.h"
#include "iou_driver/pcap_file.h"

struct pcap;

namespace weft::iou {

/// Owner: the unit's thread. Replays by the time that poll() is given, so that a run in virtual time is
/// reproducible.
class PcapNic final : public ModelPort {
 public:
  /// Fails when IN cannot be read or is not Ethernet, or OUT cannot be written,
  /// holds anything but an earlier recording, or is IN.
  static Result<std::unique_ptr<PcapNic>> open(const std::string& in, const std::string& out,
                                               const MacAddress& mac);
  ~PcapNic() override;

  /// True when all of IN has been read.
  [[nodiscard]] bool replayed() const noexcept { return !next_; }
  /// Writes what is buffered for OUT.
  void flush() noexcept;

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  struct Recorded {
    std::span<const std::byte> frame;  // in libpcap's memory until the next one is read
    uint32_t original_bytes = 0;
    uint64_t at_ns = 0;  // since the first frame
  };
  PcapNic(const std::string& in, const MacAddress& mac);
  void read_next() noexcept;
  void count(const PcapWritten& written) noexcept;

  pcap* in_ = nullptr;
  std::unique_ptr<PcapFile> out_;
  std::optional<Recorded> next_;
  uint64_t first_ns_ = 0;
  bool any_read_ = false;
  std::optional<Instant> started_;
  Instant now_{};
  Instant flush_at_ = kNever;
  LogLimiter complaints_{std::chrono::seconds(10)};
};

}  // namespace weft::iou
