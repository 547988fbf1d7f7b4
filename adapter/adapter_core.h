// adapter/adapter_core.h -- the implementation behind adapter.h: owns the parts, passes each cell to the
// right one, runs the turn. Internal to adapter/.
#pragma once

#include <memory>
#include <vector>

#include "adapter/adapter_engine.h"
#include "adapter/key_questions.h"
#include "adapter/queues/qp_numbers.h"
#include "adapter/queues/raw_protocols.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/direct/direct_service.h"
#include "adapter/transport/reliable/reliable_service.h"
#include "adapter/transport/services.h"
#include "adapter/transport/ways.h"

namespace weft::adapter {

/// `line` has a `{}` for the value and one for the largest.
[[nodiscard]] Refusable<> check_size(const char* line, uint32_t value, uint32_t least,
                                     uint32_t most) noexcept;

class AdapterCore {
 public:
  AdapterCore(const AdapterConfig& config, RandomSource& random);

  void attach(fabric::CellPort& carrier, uint8_t nic);
  int poll(Instant now) noexcept;
  int send_posted() noexcept;
  int look_at_windows(Instant now) noexcept;
  bool send_by_window(QueuePair& qp, Instant now) noexcept;
  [[nodiscard]] bool has_windows() const noexcept { return direct_ != nullptr && direct_->has_peers(); }
  [[nodiscard]] Instant deadline() const noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const SendRequest& request) noexcept;
  void ring_send(QueuePair& qp) noexcept;
  void take_back_posts(QueuePair& qp) noexcept;
  [[nodiscard]] PostResult post(QueuePair& qp, const RecvRequest& request) noexcept;
  void ring_recv(QueuePair& qp) noexcept;
  /// Completions were polled: frees the queue places that they held.
  void free_places(std::span<const WorkCompletion> polled) noexcept;

  /// A property of a port has changed while its link is up: informs its QPs.
  void port_changed(const AdapterPort& port, AsyncEventKind kind) noexcept;
  /// Informs all QPs of a change, kSweptPerTurn per turn.
  void begin_sweep() noexcept;
  /// Replaces the table of partitions; further entries are empty.
  void set_pkeys(AdapterPort& port, std::span<const uint16_t> pkeys) noexcept;
  [[nodiscard]] ModifyResult modify(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept;
  /// Checks a QP's configuration against limits, which never change: may be called by any thread.
  [[nodiscard]] Refusable<> check_sizes(const QpConfig& config, const ServiceRow& row) const;
  /// Checks the rest and fills in optional values.
  [[nodiscard]] Refusable<> check_qp(QpConfig& config, const ServiceRow& row);
  [[nodiscard]] bool owns(const CompletionQueue* cq) const noexcept {
    return cq->index() < cqs.size() && cqs[cq->index()].get() == cq;
  }

  Engine engine;
  std::unique_ptr<KeyQuestions> questions;  // null with one NIC
  CellWriter writer;
  std::unique_ptr<Ways> ways;  // null with one NIC
  Services services;

  std::vector<bool> pds;
  SharedReceives srqs;
  std::vector<uint32_t> pd_qps;  // QPs of each protection domain
  std::vector<std::unique_ptr<CompletionQueue>> cqs;
  CompletionQueue no_cq;  // CQ of XRC targets, which never complete anything
  QpNumbers numbers;
  RawProtocols protocols;

 private:
  // Stages of a turn, in order.
  int watch_ports() noexcept;
  int take_answered_cells() noexcept;
  int receive_cells(fabric::CellPort& carrier, const AdapterPort& port) noexcept;
  int send_cells() noexcept;
  int send_acks() noexcept;
  uint32_t acknowledge(QueuePair& qp) noexcept;
  uint32_t acknowledge_along(QueuePair& qp) noexcept;
  int run_timers() noexcept;
  void flush_ports() noexcept;
  void sweep() noexcept;
  void tell(QueuePair& qp) noexcept;
  void renew(QueuePair& qp) noexcept;
  void expire(QueuePair& qp) noexcept;
  void fail_qp(QueuePair& qp, Reason reason) noexcept;

  [[nodiscard]] Refusable<> check_queues(const QpConfig& config, const ServiceRow& row) const;
  void take_cell(const AdapterPort& port, std::span<const std::byte> bytes, CellView& cell) noexcept;
  void take_multicast(const AdapterPort& port, const CellView& cell) noexcept;
  [[nodiscard]] QueuePair* find_by_protocol(const AdapterPort& port, const CellView& cell) noexcept;
  void dispatch(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ModifyResult check_move(const QueuePair& qp, const QpAttr& attr,
                                        uint32_t mask) const noexcept;
  [[nodiscard]] bool in_partition(const QueuePair& qp, const CellView& cell) const noexcept;
  [[gnu::cold]] void take_by_other_way(QueuePair& qp, const AdapterPort& port, const CellView& cell,
                                       AdapterCounter drop) noexcept;
  [[nodiscard]] bool followed(QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept;
  bool move_path(QueuePair& qp) noexcept;
  void take_attributes(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept;
  void enter_state(QueuePair& qp, QpState from) noexcept;
  void port_came_up(AdapterPort& port) noexcept;
  void port_went_down(AdapterPort& port) noexcept;
  void expire_port(AdapterPort& port) noexcept;
  /// Calls `work` with the service of a QP. For RC, the most frequent one, the call is direct.
  template <class Work>
  auto by_service(const QueuePair& qp, Work&& work) noexcept {
    if (qp.row == &kRcRow) [[likely]]
      return work(*reliable_);
    return work(*qp.service);
  }
  [[nodiscard]] bool has_work(const QueuePair& qp) noexcept {
    return by_service(qp, [&](const auto& service) { return service.has_work(qp); });
  }

  ReliableService* reliable_;  // service of kRcRow, if the adapter has it
  DirectService* direct_;      // service of kRcDirectRow, likewise
  // A sweep informs every QP of a change, from the last of QpTable::all() down to the first.
  size_t sweep_left_ = 0;
  bool sweep_again_ = false;  // another change came during a sweep
  bool overrun_ = false;      // the sweep also handles overrun CQs

  [[nodiscard]] PostResult check_post(const QueuePair& qp, const SendRequest& request,
                                      const SendOpcodeRule*& rule, uint64_t& length) const noexcept;
};

}  // namespace weft::adapter
