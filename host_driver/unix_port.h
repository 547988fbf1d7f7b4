// host_driver/unix_port.h -- `--os unix:PATH`: a Unix stream socket on which a virtual machine or a user-mode
// stack is the operating system. Frames are length-prefixed as in QEMU's `-netdev stream`: 32 bits
// big-endian, then the Ethernet frame; no vnet header. The port listens, one peer at a time, of the same user
// only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/net/model_port.h"
#include "base/unique_fd.h"

namespace weft::host {

/// Owner: the host's thread.
class UnixPort final : public ModelPort {
 public:
  /// Listens at `path`, mode 0600; replaces a socket that a dead process left. The session is opened with
  /// `mac`: the machine behind the socket must use this address, unless the unit bridges.
  static Result<std::unique_ptr<UnixPort>> listen(const std::string& path, const MacAddress& mac);
  /// Takes a listening or connected socket from the launcher.
  static Result<std::unique_ptr<UnixPort>> adopt(UniqueFd fd, const MacAddress& mac);
  ~UnixPort() override;

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  /// Accepts a peer if there is none; sends the rest of a frame that a full socket took in part.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool carrier() const noexcept override { return peer_.valid(); }

 private:
  explicit UnixPort(const MacAddress& mac);
  bool accept_peer() noexcept;
  void hang_up() noexcept;
  bool fill() noexcept;
  bool send_left_over() noexcept;

  UniqueFd listener_;
  UniqueFd peer_;
  std::string path_;           // to unlink; empty when adopted
  std::vector<std::byte> in_;  // received, not yet read
  size_t in_from_ = 0, in_to_ = 0;
  std::vector<std::byte> out_;  // rest of a frame that the socket took in part
  size_t out_from_ = 0, out_to_ = 0;
};

}  // namespace weft::host
