// adapter/transport/rd/rd_service.h -- reliable datagrams: one end-to-end context per remote endnode holds
// the PSNs of both directions, shared by all RD QPs that talk with it (SAN-XPORT-10..12). Contexts are made
// on first use; when none is free, one that has been unused for kRdContextRest is given to another remote. A
// context carries one message of one cell at a time, as InfiniBand's EE contexts do; other QPs wait in a
// queue.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/transport/packet_service.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

struct RdContext;

/// State of a QP: the context that carries its message, or its place in the queue for one.
struct RdLine final : ServiceState {
  RdContext* held = nullptr;
  RdContext* awaited = nullptr;
  QueuePair* next = nullptr;

  [[nodiscard]] bool waits() const noexcept { return awaited != nullptr; }
};

/// State shared with one remote endnode.
struct RdContext {
  Lid remote{};
  uint8_t port = 0;  // 0: the context is free
  Instant used_at = Instant::min();
  bool expects = false;  // `expected` is known
  Psn next{};            // PSN of the message in flight, else of the next one
  Psn expected{};
  AckCode last_code = AckCode::kAck;  // answer to the message before `expected`
  uint32_t messages_completed = 0;
  QueuePair* holder = nullptr;  // QP whose message is in flight
  Lid sent_as{};                // the port's LID when that message left
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

  /// Takes a request or an acknowledgement.
  void take(QueuePair& qp, const CellView& cell) noexcept override;
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override;
  /// Always false: release_if_idle() schedules a QP that has more to send.
  [[nodiscard]] bool has_work(const QueuePair& /*qp*/) const noexcept override { return false; }
  void on_timer(QueuePair& qp) noexcept override;
  /// Removes the QP from the queue of a context, or releases its context.
  void forget(QueuePair& qp) noexcept override;
  void repeat_all(QueuePair& qp) noexcept override { completer_.repeat_all(qp); }
  void repeat_by_new_link(QueuePair& qp) noexcept override { completer_.repeat_by_new_link(qp); }
  void fail_oldest(QueuePair& qp, const SendFault& fault) noexcept override;
  /// Contexts acknowledge, not QPs, so the service needs turns of its own.
  [[nodiscard]] bool has_turns() const noexcept override { return true; }
  uint32_t run_turn() noexcept override;
  /// An acknowledgement is new. One that found no credit or no link waits until that changes.
  [[nodiscard]] Instant next_turn() const noexcept override { return acks_ready_ ? Instant::min() : kNever; }

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
  [[nodiscard]] AckCode answer_of(QueuePair& qp, const CellView& cell, ResponderFault fault) noexcept;
  [[nodiscard]] ResponderFault take_message(QueuePair& qp, const CellView& cell) noexcept;
  void take_ack(QueuePair& qp, const CellView& cell) noexcept;
  void answer(RdContext& context, const QueuePair& qp, const CellView& cell, const AckBody& body) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  Placement placement_;
  // Contexts are found by remote through buckets_, and linked in the order of their last use; acks_due_ lists
  // those that owe an answer. Number 0 is the head of the order: its `newer` is the oldest context.
  std::vector<RdContext> contexts_;
  std::vector<uint32_t> buckets_;
  FixedRing<uint32_t> acks_due_;
  bool acks_ready_ = false;  // an acknowledgement came due since the last run_turn()
};

}  // namespace weft::adapter
