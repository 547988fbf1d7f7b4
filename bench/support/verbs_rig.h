// bench/support/verbs_rig.h -- two connected RC QPs for a measurement: each process makes its VerbsEnd, tells
// the other what it is called through memory both map, and moves its QP to RTS.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "bench/support/fabric_rig.h"

namespace weft::bench {

/// What one side tells the other.
struct VerbsName {
  std::atomic<bool> valid;
  std::atomic<bool> connected;
  uint32_t qpn;
  uint32_t psn;
  uint32_t rkey;
  uint64_t addr;
};
/// In shared memory: index 0 is the host's, 1 the unit's.
struct VerbsExchange {
  VerbsName names[2];
  std::atomic<bool> stop;
  alignas(128) std::atomic<uint64_t> delivered;
};

/// One adapter with a PD, a CQ, an RC QP and a registered region. Owner: the thread that made it.
class VerbsEnd {
 public:
  /// @param port   up, and outlives this object
  /// @param bytes  of the region
  VerbsEnd(fabric::CellPort& port, VerbsExchange& exchange, bool host, size_t bytes);
  /// Brings the QP to RTS; the other side's name must be valid.
  void bring_up();
  /// Waits for the other side and brings the QP to RTS; aborts after five seconds.
  void connect();

  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_; }
  [[nodiscard]] adapter::QueuePair& qp() noexcept { return *qp_; }
  [[nodiscard]] const VerbsName& peer() const noexcept { return exchange_.names[host_ ? 1 : 0]; }
  [[nodiscard]] std::span<std::byte> memory() noexcept { return memory_; }
  /// A segment of the region.
  [[nodiscard]] adapter::Sge sge(uint64_t offset, uint32_t length) const noexcept {
    return {region_.addr + offset, length, region_.lkey};
  }
  int poll() noexcept { return adapter_.poll(Endnode::now()); }
  /// Completions since the last call; aborts when one failed.
  [[nodiscard]] std::span<const adapter::WorkCompletion> completions() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return exchange_.stop.load(std::memory_order_relaxed); }

 private:
  void modify(const adapter::QpAttr& attr, uint32_t mask);
  void wait_for(const std::atomic<bool>& flag);

  VerbsExchange& exchange_;
  bool host_;
  SeededRandom random_;
  adapter::ChannelAdapter adapter_;
  std::vector<std::byte> memory_;
  adapter::MemoryRegion region_;
  adapter::CompletionQueue* cq_ = nullptr;
  adapter::QueuePair* qp_ = nullptr;
  Psn psn_;
  std::vector<adapter::WorkCompletion> completions_;
};

/// Keeps a window of RDMA writes outstanding; source and target run through kMemoryBytes, as in
/// bare_pipeline.
class WriteStream {
 public:
  static constexpr size_t kMemoryBytes = 64 * 1024;
  /// @param bytes   of one write; both regions hold kMemoryBytes + bytes
  /// @param window  writes outstanding
  /// @param list    writes posted by one call; 0: as many as the window has room for
  WriteStream(VerbsEnd& end, uint32_t bytes, uint32_t window, uint32_t list = 0);
  /// Fills the window; returns the writes posted.
  uint32_t post() noexcept;
  /// Takes what has completed; returns how many writes.
  uint32_t complete() noexcept;
  [[nodiscard]] uint64_t completed() const noexcept { return completed_; }

 private:
  VerbsEnd& end_;
  uint32_t bytes_;
  uint32_t window_;
  uint32_t list_;
  std::vector<adapter::Sge> sges_;  // of the list that is posted
  std::vector<adapter::SendRequest> requests_;
  uint32_t outstanding_ = 0;
  uint64_t at_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace weft::bench
