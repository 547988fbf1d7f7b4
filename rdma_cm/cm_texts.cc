#include "rdma_cm/cm_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "rdma_cm/connection.h"

namespace weft::rdma_cm {
namespace {

struct Row {
  CmEvent event;
  int32_t status;
  std::string_view text;
  std::string_view cure;
};
constexpr int32_t kAnyStatus = INT32_MIN;
/// The first matching row applies. `text` follows "ADDRESS:PORT (LID N): ".
constexpr std::array kRows{
    Row{CmEvent::kAddressError, kAnyStatus, "no endnode of this fabric has answered for this address",
        "weft devices lists the addresses; the server must run on the same fabric and have opened its "
        "device; weft "
        "fault list shows faults in force"},
    Row{CmEvent::kRejected, kRejectInvalidService,
        "the endnode is there, and no program listens at this port",
        "start the server first, or compare the ports (sin_port is htons(port)); WEFT_DEBUG=cm at the server "
        "names the cause"},
    Row{CmEvent::kRejected, kRejectConsumer,
        "the program there has called rdma_reject, or listens at another address or for another type of QP",
        "ask that program; its private data, or WEFT_DEBUG=cm there, may say why"},
    Row{CmEvent::kRejected, kRejectTimeout, "the peer has given up waiting",
        "its program was too slow, or has destroyed its rdma_cm_id"},
    Row{CmEvent::kRejected, kRejectNoResources, "the peer has no memory or no room for another connection",
        "end connections there"},
    Row{CmEvent::kRejected, kRejectInvalidId, "the peer no longer knows this connection",
        "it has ended it: connect again"},
    Row{CmEvent::kRejected, kRejectStaleConnection, "the peer has ended the connection of this request",
        "connect again with a new rdma_cm_id"},
    Row{CmEvent::kRejected, kAnyStatus, "the peer refuses", "the status is a reason of InfiniBand's REJ"},
    Row{CmEvent::kUnreachable, -ETIMEDOUT, "the endnode does not answer the connection request",
        "its process has ended or is stopped, the backlog of its rdma_listen is full, or cells are lost: "
        "weft status, weft fault list; WEFT_DEBUG=cm there names a full backlog"},
    Row{CmEvent::kUnreachable, kSidrNoService, "no datagram service listens at this port",
        "start the server first, or compare the ports"},
    Row{CmEvent::kUnreachable, kAnyStatus, "the datagram service there refuses", "ask that program"},
    Row{CmEvent::kDisconnected, -ETIMEDOUT, "the peer has not answered the disconnect request",
        "its process has ended or is stopped"},
    Row{CmEvent::kDeviceRemoval, kAnyStatus, "the device has failed", "start the program again"},
};

std::string_view event_name(CmEvent event) noexcept {
  if (event == CmEvent::kAddressError) return "ADDR_ERROR";
  if (event == CmEvent::kRejected) return "REJECTED";
  if (event == CmEvent::kUnreachable) return "UNREACHABLE";
  return event == CmEvent::kDisconnected ? "DISCONNECTED" : "DEVICE_REMOVAL";
}

const Row* row_of(CmEvent event, int32_t status) noexcept {
  const auto* const found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return row.event == event && (row.status == status || row.status == kAnyStatus);
  });
  return found == kRows.end() ? nullptr : found;
}

}  // namespace

namespace {

std::string turned_away_words(const CmFailure& failure) {
  switch (failure.turned_away) {
    case TurnedAway::kNotListening:
      return "an rdma_cm_id is bound there and does not listen; call rdma_listen after rdma_bind_addr";
    case TurnedAway::kBacklogFull:
      return "the backlog of rdma_listen is full of requests that this program has not taken; call "
             "rdma_get_cm_event, or listen with a larger backlog";
    case TurnedAway::kOtherAddress:
      return fmt::format(
          "this program listens at {} only; pass the address that clients use, or 0.0.0.0, to rdma_bind_addr",
          to_string(failure.listener));
    case TurnedAway::kOtherService:
      return "this program listens at this port in another port space; rdma_create_id needs the same on both "
             "sides (RDMA_PS_TCP, or RDMA_PS_UDP for datagrams)";
    case TurnedAway::kOtherQpType:
      return "this program listens there for queue pairs of another type; both sides need the same "
             "(rdma_create_ep: ai_qp_type, RC or UC)";
    case TurnedAway::kFalseSource:
      return fmt::format("it claims to come from {}, which only another endnode can have",
                         to_string(failure.listener));
    case TurnedAway::kSwappedPort:
      return fmt::format(
          "this program listens at port {}, which is the same number with its bytes exchanged; one side "
          "lacks "
          "htons()",
          failure.listener.port);
    case TurnedAway::kNo:
    case TurnedAway::kNobody:
      break;
  }
  return "no program of this process listens there; compare the ports, and call rdma_listen before the "
         "client "
         "connects";
}

}  // namespace

bool is_failure(CmEvent event, int32_t status) noexcept {
  return row_of(event, status) != nullptr;
}

std::string describe(const CmFailure& failure) {
  const std::string where =
      failure.address.family == 0 ? std::string("this connection") : to_string(failure.address);
  if (failure.turned_away != TurnedAway::kNo)
    return fmt::format("LID {} asks for a connection to {}: {}", failure.peer.value(), where,
                       turned_away_words(failure));
  const Row* const row = row_of(failure.event, failure.status);
  const std::string peer =
      failure.peer == kLidNone ? std::string() : fmt::format(" (LID {})", failure.peer.value());
  if (row == nullptr)
    return fmt::format("event {}: status {}", static_cast<uint32_t>(failure.event), failure.status);
  return fmt::format("{}, status {}: {}{}: {}; {}", event_name(failure.event), failure.status, where, peer,
                     row->text, row->cure);
}

}  // namespace weft::rdma_cm
