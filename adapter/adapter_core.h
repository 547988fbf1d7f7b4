// adapter/adapter_core.h -- the adapter behind adapter.h: owns the parts, hands each cell to the right one,
// runs the turn. Internal to adapter/.
#pragma once

#include <memory>
#include <vector>

#include "adapter/engine.h"
#include "adapter/queues/qp_numbers.h"
#include "adapter/queues/raw_protocols.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/transport/acknowledger.h"
#include "adapter/transport/completer.h"
#include "adapter/transport/rd_service.h"
#include "adapter/transport/requester.h"
#include "adapter/transport/responder.h"
#include "adapter/transport/segmenter.h"
#include "adapter/transport/unreliable_responder.h"

namespace weft::adapter {

class AdapterCore {
 public:
  AdapterCore(const AdapterConfig& config, RandomSource& random);

  void attach(fabric::CellPort& carrier);
  int poll(Instant now) noexcept;
  int send_posted() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const SendRequest& request) noexcept;
  void ring_send(QueuePair& qp) noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const RecvRequest& request) noexcept;
  void ring_recv(QueuePair& qp) noexcept;

  /// Another table of partitions; entries that are not named are empty.
  void set_pkeys(EnginePort& port, std::span<const uint16_t> pkeys) noexcept;
  [[nodiscard]] ModifyResult modify(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept;
  void say_last_words(QueuePair& qp) noexcept;
  /// Where a QP of this number is kept: in the table, or with its port.
  [[nodiscard]] std::unique_ptr<QueuePair>& place_of(Qpn number, uint8_t port) noexcept {
    return number == kQpnGsi ? engine.gsi[port - 1U] : engine.table[number.value() & engine.table_mask];
  }
  /// May a QP be made like this? Fills in what a program need not name.
  [[nodiscard]] Refusable<> check_qp(QpConfig& config);
  [[nodiscard]] bool owns(const CompletionQueue* cq) const noexcept {
    return cq->index() < cqs.size() && cqs[cq->index()].get() == cq;
  }

  Engine engine;
  Segmenter segmenter;
  Completer completer;
  Requester requester;
  Responder responder;
  UnreliableResponder unreliable;
  Acknowledger acknowledger;
  RdService rd;

  std::vector<bool> pds;
  SharedReceives srqs;
  std::vector<uint32_t> pd_qps;  // QPs of each protection domain
  std::vector<std::unique_ptr<CompletionQueue>> cqs;
  CompletionQueue no_cq;  // of XRC targets: nothing completes there
  QpNumbers numbers;
  RawProtocols protocols;

 private:
  // Stages of a turn, in order.
  int watch_ports() noexcept;
  int receive_cells(fabric::CellPort& carrier, const EnginePort& port) noexcept;
  int send_cells() noexcept;
  int send_acks() noexcept;
  uint32_t acknowledge(QueuePair& qp) noexcept;
  uint32_t acknowledge_along(QueuePair& qp) noexcept;
  int run_timers() noexcept;
  void flush_ports() noexcept;
  void begin_sweep() noexcept;
  void sweep() noexcept;
  void tell(QueuePair& qp) noexcept;
  void renew(QueuePair& qp) noexcept;
  void expire(QueuePair& qp) noexcept;
  void fail_qp(QueuePair& qp, WcStatus status) noexcept;

  [[nodiscard]] Refusable<> check_queues(const QpConfig& config) const;
  void take_cell(const EnginePort& port, std::span<const std::byte> bytes, CellView& cell) noexcept;
  void take_multicast(const EnginePort& port, const CellView& cell) noexcept;
  [[nodiscard]] QueuePair* find_by_protocol(const EnginePort& port, const CellView& cell) noexcept;
  void dispatch(QueuePair& qp, const CellView& cell) noexcept;
  void dispatch_reliable(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ModifyResult check_move(const QueuePair& qp, const QpAttr& attr,
                                        uint32_t mask) const noexcept;
  [[nodiscard]] bool in_partition(const QueuePair& qp, const CellView& cell) const noexcept;
  [[nodiscard]] bool followed(QueuePair& qp, const EnginePort& port, const CellView& cell) noexcept;
  bool move_path(QueuePair& qp) noexcept;
  void take_attributes(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept;
  void enter_state(QueuePair& qp, QpState from) noexcept;
  void port_came_up(EnginePort& port) noexcept;
  void port_went_down(EnginePort& port) noexcept;
  void expire_port(EnginePort& port) noexcept;
  uint32_t run_qp(QueuePair& qp, uint32_t budget, bool& blocked) noexcept;
  // A sweep tells every QP what has changed: from the last of Engine::live down to the first.
  size_t sweep_left_ = 0;
  bool sweep_again_ = false;  // something changed while one was under way
  bool overrun_ = false;      // it is, among others, about CQs that have run over

  [[nodiscard]] PostResult check_post(const QueuePair& qp, const SendRequest& request,
                                      const SendOpcodeRule*& rule, uint64_t& length) const noexcept;
};

}  // namespace weft::adapter
