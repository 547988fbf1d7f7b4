// adapter/transport/rd/rd_service.h -- reliable datagrams: one end-to-end context per remote endnode holds
// the packet numbers of both directions, shared by all RD QPs that talk with it (SAN-XPORT-10..12). Contexts
// appear by themselves, and one that has rested long enough is given to another remote when none is free. A
// context carries one message of one cell at a time, as InfiniBand's EE contexts do; QPs that want it
// meanwhile wait in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/transport/packet_service.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

struct RdContext;

/// What is kept of a QP: the context that carries its message, or its place in the line for one.
struct RdLine final : ServiceState {
  RdContext* held = nullptr;
  RdContext* awaited = nullptr;
  QueuePair* next = nullptr;

  [[nodiscard]] bool waits() const noexcept { return awaited != nullptr; }
};

/// State shared with one remote endnode.
struct RdContext {
  Lid remote{};
  uint8_t port = 0;  // 0 = free
  Instant used_at = Instant::min();
  bool expects = false;  // `expected` is known
  Psn next{};            // of the message in flight or the next one
  Psn expected{};
  AckCode last_code = AckCode::kAck;  // answer to the message before `expected`
  uint32_t messages_completed = 0;
  QueuePair* holder = nullptr;  // whose message is in flight
  Lid sent_as{};                // the LID of the port when that one left
  QueuePair* waiting_first = nullptr;
  QueuePair* waiting_last = nullptr;
  uint32_t next_in_bucket = 0;  // contexts are numbered from 1; 0 ends a list
  uint32_t older = 0;
  uint32_t newer = 0;
  bool ack_due = false;
  AckBody ack{};
  Qpn ack_from{};
  Qpn ack_to{};
  ServiceLevel ack_sl{};
  uint16_t ack_pkey = kPkeyDefault;
};

extern const ServiceRow kRdRow;

class RdService final : public PacketService {
 public:
  RdService(Engine& engine, CellWriter& writer);

  /// Request or acknowledgement.
  void take(QueuePair& qp, const CellView& cell) noexcept override;
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override;
  /// What a QP may send next is known when its context has been given back: it is told then.
  [[nodiscard]] bool has_work(const QueuePair& /*qp*/) const noexcept override { return false; }
  void on_timer(QueuePair& qp) noexcept override;
  /// Its place in the line for a context, or the context.
  void forget(QueuePair& qp) noexcept override;
  void repeat_all(QueuePair& qp) noexcept override { completer_.repeat_all(qp); }
  void repeat_by_new_link(QueuePair& qp) noexcept override { completer_.repeat_by_new_link(qp); }
  void fail_oldest(QueuePair& qp, const SendFault& fault) noexcept override;
  /// Contexts acknowledge, not QPs.
  [[nodiscard]] bool has_turns() const noexcept override { return true; }
  uint32_t run_turn() noexcept override;
  /// An acknowledgement can go at once. One that found no credit or no link waits until that changes.
  [[nodiscard]] bool wants_turn() const noexcept override { return acks_ready_; }

 private:
  [[nodiscard]] bool may_reuse(const RdContext& context) const noexcept;
  [[nodiscard]] RdContext* find(Lid remote, uint8_t port) noexcept;
  [[nodiscard]] RdContext* reusable() noexcept;
  void move_bucket(RdContext& context, Lid remote, uint8_t port) noexcept;
  void use(RdContext& context) noexcept;
  [[nodiscard]] uint32_t& bucket_of(Lid remote, uint8_t port) noexcept {
    return buckets_[(remote.value() ^ uint32_t{port} << 9) & (buckets_.size() - 1)];
  }
  [[nodiscard]] uint32_t number_of(const RdContext& context) const noexcept {
    return static_cast<uint32_t>(&context - contexts_.data());
  }
  [[nodiscard]] bool acquire(RdContext& context, QueuePair& qp) noexcept;
  static void lend(RdContext& context, QueuePair& qp) noexcept;
  static void number_packet(const RdContext& context, QueuePair& qp) noexcept;
  void release(RdContext& context) noexcept;
  void release_if_idle(QueuePair& qp) noexcept;
  void take_request(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] AckCode execute(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault take_message(QueuePair& qp, const CellView& cell) noexcept;
  void take_ack(QueuePair& qp, const CellView& cell) noexcept;
  void answer(RdContext& context, const QueuePair& qp, const CellView& cell, const AckBody& body) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  Placement placement_;
  // Found by their remote; in the order of their last use; those that owe an answer. Number 0 is the end of
  // the order: its `newer` is the oldest.
  std::vector<RdContext> contexts_;
  std::vector<uint32_t> buckets_;
  FixedRing<uint32_t> acks_due_;
  bool acks_ready_ = false;  // one came due since the last run_turn()
};

}  // namespace weft::adapter
