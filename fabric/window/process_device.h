// fabric/window/process_device.h -- a memory window between two processes of one machine and one user: a
// sealed memfd per side for the window memory, process_vm_writev and process_vm_readv for memory anywhere in
// the peer, the socket of the handshake for wake-ups and as proof of life. docs/window.md.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/unique_fd.h"
#include "fabric/window/device.h"

namespace weft::fabric {

/// The device asks whether the peer lives if it last did so longer ago than this, by the times of poll().
inline constexpr Duration kPeerAliveFor = 1ms;

struct ProcessDeviceConfig {
  size_t window_bytes = 0;  // of the own window memory: a multiple of 64, at most kWindowBytesMax
  uint32_t requests = 256;
  /// False: as if the kernel refused them. For tests, and for programs that want the owner to decide.
  bool process_copies = true;
  OwnerMemory* memory = nullptr;  // what the peer's pieces reach; outlives the device
  /// False: where the kernel does not copy, the device has no memory space, because no owner gives `memory`.
  bool pieces = true;
};

/// Threads: see DmaDevice.
class ProcessDevice : public DmaDevice {
 public:
  /// `socket`: SOCK_SEQPACKET, connected to the other process, which calls this too. Refused, with the
  /// reason, when the other process belongs to another user, or memory is short. The window comes up in
  /// poll(); the time limit for that is the caller's.
  static Result<std::unique_ptr<ProcessDevice>> create(UniqueFd socket, const ProcessDeviceConfig& config,
                                                       RandomSource& random);

  /// How bytes reach the peer's memory, and if not by the kernel's copy, why and what to change: one line for
  /// the log and `weft doctor`. Empty until the peer is up.
  [[nodiscard]] virtual const std::string& way() const noexcept = 0;
  /// True when they go in pieces, which the peer carries out.
  [[nodiscard]] virtual bool in_pieces() const noexcept = 0;
  /// Why the peer is gone, if it has broken a rule; empty otherwise.
  [[nodiscard]] virtual const std::string& fault() const noexcept = 0;
};

}  // namespace weft::fabric
