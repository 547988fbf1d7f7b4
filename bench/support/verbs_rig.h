// bench/support/verbs_rig.h -- two connected RC QPs for a measurement: each process makes its VerbsEnd, tells the other
// what it is called through memory both map, and moves its QP to RTS.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/support/fabric_rig.h"
#include "channel/adapter.h"

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

/// An endnode with one adapter, one PD, one CQ, one RC QP and one registered region. Owner: the process that made it.
class VerbsEnd {
 public:
  /// @param bytes  of the region
  VerbsEnd(const Fabric& fabric, VerbsExchange& exchange, bool host, size_t bytes);
  /// Waits for the other side and brings the QP to RTS; aborts after five seconds.
  void connect();

  [[nodiscard]] ChannelAdapter& adapter() noexcept { return adapter_; }
  [[nodiscard]] QueuePair& qp() noexcept { return *qp_; }
  [[nodiscard]] const VerbsName& peer() const noexcept { return exchange_.names[host_ ? 1 : 0]; }
  [[nodiscard]] std::span<std::byte> memory() noexcept { return memory_; }
  /// A segment of the region.
  [[nodiscard]] Sge sge(uint64_t offset, uint32_t length) const noexcept {
    return {region_.addr + offset, length, region_.lkey};
  }
  int poll() noexcept { return adapter_.poll(Endnode::now()); }
  /// Completions since the last call; aborts when one failed.
  [[nodiscard]] std::span<const WorkCompletion> completions() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return exchange_.stop.load(std::memory_order_relaxed); }

 private:
  void modify(const QpAttr& attr, uint32_t mask);

  VerbsExchange& exchange_;
  bool host_;
  Endnode node_;
  SystemRandom random_;
  ChannelAdapter adapter_;
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  CompletionQueue* cq_ = nullptr;
  QueuePair* qp_ = nullptr;
  Psn psn_;
  std::vector<WorkCompletion> completions_;
};

}  // namespace weft::bench
