// adapter/sweep.h -- informs every QP of a change of its port or of its completion queue. Internal to
// adapter/.
#pragma once

#include <cstddef>

#include "adapter/adapter_engine.h"
#include "adapter/queues/completion_queues.h"

namespace weft::adapter {

/// Goes from the last of QpTable::all() down to the first, kSweptPerTurn per turn. Owner: the adapter.
class Sweep {
 public:
  /// Both outlive it.
  Sweep(Engine& engine, CompletionQueues& cqs) noexcept : engine_(engine), cqs_(cqs) {}

  /// A property of a port has changed.
  void port_changed(const AdapterPort& port, AsyncEventKind kind) noexcept {
    engine_.raise(port, kind);
    begin();
  }
  void begin() noexcept;
  /// A completion queue has lost an entry: its QPs fail.
  void begin_for_overrun() noexcept;
  [[nodiscard]] bool runs() const noexcept { return left_ != 0; }
  /// The part of one turn.
  void run() noexcept;

 private:
  void tell(QueuePair& qp) noexcept;
  void renew(QueuePair& qp) noexcept;
  void expire(QueuePair& qp) noexcept;

  Engine& engine_;
  CompletionQueues& cqs_;
  size_t left_ = 0;
  bool again_ = false;    // another change came during a sweep
  bool overrun_ = false;  // the sweep also handles overrun CQs
};

}  // namespace weft::adapter
