// adapter/queues/qp_table.h -- the QPs of an adapter, by number and as a list; the same for its shared
// receive queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapter/limits.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/queues/shared_receive_queue.h"

namespace weft::adapter {

/// Owner: the adapter. The table owns the QPs.
class QpTable {
 public:
  /// @param most QPs without those for management
  explicit QpTable(uint32_t most);

  /// The QP with this number; null when there is none. One load and one compare.
  [[nodiscard]] QueuePair* find(Qpn qpn) const noexcept {
    QueuePair* qp = places_[qpn.value() & mask_].get();
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// QP0 or QP1 of a port; null when there is none.
  [[nodiscard]] QueuePair* find_management(Qpn qpn, uint8_t port) const noexcept {
    return management_[port - 1U][qpn.value()].get();
  }
  /// Prefetches the memory of the QP of a cell that will be taken soon. Safe for cells that are not checked.
  void expect(std::span<const std::byte> cell) const noexcept;
  /// As expect(), for the next cell.
  void expect_next(std::span<const std::byte> cell) const noexcept;
  /// The slot that owns the QP with this number.
  [[nodiscard]] std::unique_ptr<QueuePair>& place_of(Qpn number, uint8_t port) noexcept {
    return is_management(number) ? management_[port - 1U][number.value()] : places_[number.value() & mask_];
  }
  [[nodiscard]] uint32_t places() const noexcept { return mask_ + 1; }
  /// The adapter has one more port: adds the slots of its management QPs.
  void add_port() { management_.emplace_back(); }

  /// Every QP. When a QP leaves, the last one takes its place, so a walk from the last to the first misses
  /// none.
  [[nodiscard]] std::span<QueuePair* const> all() const noexcept { return all_; }
  void enter(QueuePair& qp);
  void leave(QueuePair& qp) noexcept;
  /// True when there are more QPs than the first cache levels hold, so that prefetching pays.
  [[nodiscard]] bool many() const noexcept { return all_.size() > kQpsInCache; }

 private:
  std::vector<std::unique_ptr<QueuePair>> places_;  // by the low bits of their numbers
  uint32_t mask_;
  std::vector<QueuePair*> all_;
  std::vector<std::array<std::unique_ptr<QueuePair>, 2>> management_;  // QP0 and QP1 of each port
};

/// Shared receive queues. Owner: the adapter.
class SrqTable {
 public:
  explicit SrqTable(uint32_t most);

  /// The queue with this number; null when there is none.
  [[nodiscard]] SharedReceiveQueue* find(uint32_t number) const noexcept {
    const uint32_t place = number & mask_;
    SharedReceiveQueue* srq = place < queues.size() ? queues[place].get() : nullptr;
    return srq != nullptr && srq->number == number ? srq : nullptr;
  }
  /// The queue that a request to an XRC target names; null unless it belongs to the target's domain.
  [[nodiscard]] SharedReceiveQueue* find(const QueuePair& target, uint32_t number) const noexcept {
    SharedReceiveQueue* srq = find(number);
    return srq != nullptr && srq->config.xrcd == target.config.xrcd ? srq : nullptr;
  }
  /// Number of places. The low bits of a number are its place.
  [[nodiscard]] uint32_t places() const noexcept { return mask_ + 1; }

  std::vector<std::unique_ptr<SharedReceiveQueue>> queues;  // by place; see SharedReceives

 private:
  uint32_t mask_;
};

}  // namespace weft::adapter
