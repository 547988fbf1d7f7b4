// adapter/transport/reliable/reliable_service.h -- RC, and XRC, which is RC in one direction: an initiator
// takes only responses, a target only requests. Requester and completer form the sending half; responder and
// acknowledger form the receiving half.
#pragma once

#include <array>
#include <cstdint>

#include "adapter/transport/packet_service.h"
#include "adapter/transport/reliable/acknowledger.h"
#include "adapter/transport/reliable/responder.h"

namespace weft::adapter {

/// The operations of RC, over cells and over memory windows.
inline constexpr std::array kRcOperations = offer({{SendOpcode::kRdmaWrite, Opcode::kRdmaWrite},
                                                   {SendOpcode::kSend, Opcode::kSend},
                                                   {SendOpcode::kRdmaRead, Opcode::kRdmaReadRequest},
                                                   {SendOpcode::kRdmaWriteWithImm, Opcode::kRdmaWrite},
                                                   {SendOpcode::kSendWithImm, Opcode::kSend},
                                                   {SendOpcode::kSendWithInvalidate, Opcode::kSend},
                                                   {SendOpcode::kCompareSwap, Opcode::kFetchOpRequest},
                                                   {SendOpcode::kFetchAdd, Opcode::kFetchOpRequest},
                                                   {SendOpcode::kLocalInvalidate},
                                                   {SendOpcode::kBindWindow},
                                                   {SendOpcode::kUnbindWindow},
                                                   {SendOpcode::kRegister},
                                                   {SendOpcode::kDelay}});

extern const ServiceRow kRcRow;
extern const ServiceRow kXrcSendRow;
extern const ServiceRow kXrcRecvRow;

/// Final, so that the adapter's turn calls it directly: most cells are for RC.
class ReliableService final : public PacketService {
 public:
  ReliableService(Engine& engine, CellWriter& writer) noexcept
      : PacketService(engine, writer),
        engine_(engine),
        responder_(engine, writer),
        acknowledger_(engine, writer) {}

  void take(QueuePair& qp, const CellView& cell) noexcept override;
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override;
  uint32_t acknowledge(QueuePair& qp, bool& done) noexcept override { return acknowledger_.run(qp, done); }
  [[nodiscard]] bool owes_now(const QueuePair& qp) const noexcept override { return acknowledger_.due(qp); }
  void say_last_words(QueuePair& qp) noexcept override;
  void receive_posted(QueuePair& qp) noexcept override { responder_.receive_posted(qp); }
  void repeat_all(QueuePair& qp) noexcept override { completer_.repeat_all(qp); }
  void repeat_by_new_link(QueuePair& qp) noexcept override { completer_.repeat_by_new_link(qp); }
  void fail_oldest(QueuePair& qp, const SendFault& fault) noexcept override;

 private:
  Engine& engine_;
  Responder responder_;
  Acknowledger acknowledger_;
};

}  // namespace weft::adapter
