// adapter/adapter_parts.h -- what a ChannelAdapter consists of. Internal to adapter/.
#pragma once

#include <memory>

#include "adapter/adapter_engine.h"
#include "adapter/ports.h"
#include "adapter/protection_domains.h"
#include "adapter/queues/completion_queues.h"
#include "adapter/queues/qp_numbers.h"
#include "adapter/queues/raw_protocols.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/several_nics.h"
#include "adapter/sweep.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/datagram_ways.h"
#include "adapter/transport/direct/direct_service.h"
#include "adapter/transport/reliable/reliable_service.h"
#include "adapter/transport/services.h"
#include "messages/cell_stream.h"

namespace weft::adapter {

struct AdapterParts;

/// Takes datagrams that come by memory windows (adapter/turn.cc).
class WindowDatagrams final : public DatagramTaker {
 public:
  explicit WindowDatagrams(AdapterParts& parts) noexcept : parts_(parts) {}
  void take_datagram(std::span<const std::byte> cell, std::span<const Lid> sources) noexcept override;

 private:
  AdapterParts& parts_;
};

struct AdapterParts {
  AdapterParts(const AdapterConfig& config, RandomSource& random);

  /// Calls `work` with the service of a QP. For RC, the most frequent one, the call is direct.
  template <class Work>
  auto by_service(const QueuePair& qp, Work&& work) noexcept {
    if (qp.row == &kRcRow) [[likely]]
      return work(*reliable);
    return work(*qp.service);
  }
  [[nodiscard]] bool has_work(const QueuePair& qp) noexcept {
    return by_service(qp, [&](const auto& service) { return service.has_work(qp); });
  }

  Engine engine;
  CellWriter writer;
  std::unique_ptr<SeveralNics> several_nics;  // null with one NIC
  Services services;
  ProtectionDomains pds;
  CompletionQueues cqs;
  SharedReceives srqs;
  CompletionQueue no_cq;  // CQ of XRC targets, which never complete anything
  QpNumbers numbers;
  RawProtocols protocols;
  Sweep sweep;
  Ports ports;
  CellStream arriving;        // of all ports; kept, because a turn often brings one cell
  ReliableService* reliable;  // service of kRcRow, if the adapter has it
  DirectService* direct;      // service of kRcDirectRow, likewise
  WindowDatagrams window_datagrams{*this};
};

}  // namespace weft::adapter
