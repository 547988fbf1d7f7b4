// bench/support/direct_rig.h -- an adapter that sends through one memory window beside others that stand
// still: what a message costs must not grow with their number (docs/window.md). One thread; the devices are
// those of two processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/direct_paths.h"
#include "base/rng.h"
#include "bench/support/late_cell_rig.h"
#include "fabric/window/window_end.h"

namespace weft::bench {

/// Owner: the measuring thread. A message: prepare(), send(), arrive(), finish().
class DirectRig {
 public:
  static constexpr uint32_t kMessageBytes = 64;

  /// @param windows  of the sender: one to the receiver, the others to peers that stand still
  explicit DirectRig(uint32_t windows);
  ~DirectRig();
  DirectRig(const DirectRig&) = delete;
  DirectRig& operator=(const DirectRig&) = delete;

  /// The receiver posts a receive request.
  void prepare();
  /// The sender posts a message and runs a turn.
  void send();
  /// The receiver takes it and acknowledges it.
  void arrive();
  /// The sender runs a turn, in which the message completes.
  void finish();

 private:
  class Paths;
  struct Side {
    explicit Side(uint16_t lid);
    ~Side();
    SeededRandom random;
    WireEnd wire;
    std::unique_ptr<Paths> paths;
    std::vector<std::byte> memory;
    std::unique_ptr<adapter::ChannelAdapter> adapter;
    adapter::PdId pd{};
    adapter::CompletionQueue* cq = nullptr;
    adapter::MemoryRegion region;
    std::vector<adapter::QueuePair*> qps;
  };

  void make_window(Lid peer, Paths* receiver);
  void add_qp(Side& side);
  void bring_up(Side& side, size_t index, Qpn peer, Lid lid);
  void turn();

  Instant now_;
  Side sender_;
  Side receiver_;
  std::vector<std::unique_ptr<fabric::WindowEnd>> still_;  // the peers' ends
};

}  // namespace weft::bench
