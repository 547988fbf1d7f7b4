// bench/support/verbs_rig.h -- two connected RC QPs for a measurement. Each process makes its VerbsEnd,
// publishes its numbers in shared memory, and moves its QP to RTS.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "bench/support/fabric_rig.h"

namespace weft::bench {

/// Numbers that one side publishes for the other.
struct VerbsName {
  std::atomic<bool> valid;
  std::atomic<bool> connected;
  uint32_t qpn;
  uint32_t psn;
  uint32_t rkey;
  uint64_t addr;
};
/// In shared memory; index 0 belongs to the host, 1 to the unit.
struct VerbsExchange {
  VerbsName names[2];
  std::atomic<bool> stop;
  alignas(128) std::atomic<uint64_t> delivered;
};

/// One adapter with a PD, a CQ, an RC QP and a registered region. Owner: the thread that made it.
class VerbsEnd {
 public:
  /// @param port   must be up and outlive this object
  /// @param bytes  size of the region
  VerbsEnd(fabric::CellPort& port, VerbsExchange& exchange, bool host, size_t bytes);
  /// Moves the QP to RTS; the other side's numbers must be valid.
  void bring_up();
  /// Waits for the other side and moves the QP to RTS; aborts after five seconds.
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
  /// Completions since the last call; aborts if one failed.
  [[nodiscard]] std::span<const adapter::WorkCompletion> completions() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return exchange_.stop.load(std::memory_order_relaxed); }

 private:
  void move_to(adapter::QpState state, adapter::QpAttr attr);
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

/// Keeps a window of RDMA writes outstanding. Source and target advance through kMemoryBytes, as in
/// bare_pipeline.
class WriteStream {
 public:
  static constexpr size_t kMemoryBytes = 64 * 1024;
  /// @param bytes   size of one write; both regions hold kMemoryBytes + bytes
  /// @param window  number of outstanding writes
  /// @param list    writes posted by one call; 0: as many as the window allows
  WriteStream(VerbsEnd& end, uint32_t bytes, uint32_t window, uint32_t list = 0);
  /// Fills the window. @return the number of posted writes
  uint32_t post() noexcept;
  /// Takes completed writes. @return their number
  uint32_t complete() noexcept;
  [[nodiscard]] uint64_t completed() const noexcept { return completed_; }

 private:
  VerbsEnd& end_;
  uint32_t bytes_;
  uint32_t window_;
  uint32_t list_;
  std::vector<adapter::Sge> sges_;  // of the list that is being posted
  std::vector<adapter::SendRequest> requests_;
  uint32_t outstanding_ = 0;
  uint64_t at_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace weft::bench
