// adapter/transport/ways.h -- a computer with several NICs: its RC queue pairs find their other ways to the
// peer by themselves, and go over when the present one is dead (docs/key_migration.md). A way is a port here
// and a LID of the peer.
//
// A ways cell is an acknowledgement that names the LIDs of its sender. kAsk is answered by the way on which
// it came. A queue pair asks once it can send, and so learns the peer's LIDs. When the peer is silent for a
// retransmission timeout, or the port has lost its link, it asks by every way. An answer by the present way
// ends the search. An answer by another one makes that the way, and kUse tells the peer to follow. The moves
// of a connection are counted, and the higher count decides, so late cells and lost ones change nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "messages/cell.h"
#include "messages/transport_headers.h"

namespace weft::adapter {

/// Owner: AdapterParts; only with several NICs.
class Ways {
 public:
  Ways(Engine& engine, CellWriter& writer);

  /// The QP can send now, or its program has given it another peer: asks for the peer's LIDs.
  void begin(QueuePair& qp) noexcept;
  /// The peer is silent, or the port is down: asks by every way. Without an answer nothing changes.
  void search(QueuePair& qp) noexcept;
  /// Takes a ways cell that came in at `port`, by any way. False when it is not from the QP's peer.
  bool take(QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept;
  /// The QP ends.
  void forget(QueuePair& qp) noexcept;

  /// Asks again, and goes to ways that have answered. @return cells and moves
  int run() noexcept;
  /// When run() has something to do.
  [[nodiscard]] Instant deadline() const noexcept { return due_; }

 private:
  struct Way {
    uint8_t port;
    Lid lid;
    bool operator==(const Way&) const = default;
  };
  [[nodiscard]] static Way way_of(const QueuePair& qp) noexcept { return {qp.port, qp.peer_lid}; }
  [[nodiscard]] bool usable(const QueuePair& qp) const noexcept;
  [[nodiscard]] bool knows(const QueuePair& qp, Lid lid) const noexcept;
  void start(QueuePair& qp, WayState::Doing doing) noexcept;
  [[nodiscard]] int step(QueuePair& qp) noexcept;
  [[nodiscard]] int ask_by_every_way(QueuePair& qp) noexcept;
  bool say(QueuePair& qp, WaysKind kind, const Way& way) noexcept;
  void take_answer(QueuePair& qp, const Way& by) noexcept;
  void take_use(QueuePair& qp, const Way& by, uint16_t moves) noexcept;
  [[nodiscard]] bool yields(const QueuePair& qp) const noexcept;
  [[nodiscard]] bool go(QueuePair& qp, const Way& way) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  std::vector<QueuePair*> asking_;  // QPs that ask or search, each once
  Instant due_ = kNever;
};

}  // namespace weft::adapter
