// adapter/transport/packet_service.h -- common part of the services whose requests the requester cuts into
// packets and the completer ends.
#pragma once

#include <cstdint>
#include <memory>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/completer.h"
#include "adapter/transport/requester.h"
#include "adapter/transport/service.h"

namespace weft::adapter {

class PacketService : public Service {
 public:
  PacketService(Engine& engine, CellWriter& writer) noexcept
      : completer_(engine, writer), requester_(engine, writer, completer_) {}

  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override {
    return requester_.run(qp, budget, blocked);
  }
  [[nodiscard]] bool has_work(const QueuePair& qp) const noexcept override { return requester_.has_work(qp); }
  void on_timer(QueuePair& qp) noexcept override { completer_.on_timer(qp); }
  void drain(QueuePair& qp) noexcept override { completer_.retire(qp); }

 protected:
  Completer completer_;
  Requester requester_;
};

/// ServiceRow::keep for the class `Kept`.
template <class Kept>
[[nodiscard]] std::unique_ptr<ServiceState> make_kept() {
  return std::make_unique<Kept>();
}
/// ServiceRow::make for the class `Made`.
template <class Made>
[[nodiscard]] std::unique_ptr<Service> make_service(Engine& engine, CellWriter& writer) {
  return std::make_unique<Made>(engine, writer);
}

}  // namespace weft::adapter
