#include "rdma_cm/wait_texts.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <charconv>

#include "rdma_cm/connection.h"

namespace weft::rdma_cm {
namespace {

constexpr size_t kIdsNamed = 4;
/// librdmacm's struct of an identifier is smaller than this.
constexpr uint64_t kIdBytesMost = 2048;

std::string peer_words(const CmId& id) {
  return id.peer_lid == kLidNone ? to_string(id.destination)
                                 : fmt::format("{} (LID {})", to_string(id.destination), id.peer_lid.value());
}

WaitText of_connection(const CmId& id) {
  if (id.uid == 0)
    return {fmt::format("a connection request of {} waits: call rdma_accept or rdma_reject with event->id of "
                        "CONNECT_REQUEST",
                        peer_words(id)),
            false};
  const CmState state = id.connection != nullptr ? id.connection->state : CmState::kClosed;
  switch (state) {
    case CmState::kReqSent:
    case CmState::kSidrReqSent:
      return {fmt::format("the connection request to {} waits for an answer: the program there has to call "
                          "rdma_get_cm_event and then rdma_accept or rdma_reject",
                          peer_words(id)),
              false};
    case CmState::kRepSent:
      return {fmt::format("the connection that was accepted waits until {} takes the answer", peer_words(id)),
              false};
    case CmState::kEstablished:
      return {fmt::format("the connection with {} is established", peer_words(id)), true};
    case CmState::kReqReceived:
    case CmState::kRepReceived:
    case CmState::kDreqSent:
    case CmState::kDreqReceived:
    case CmState::kTimewait:
    case CmState::kSidrReqReceived:
    case CmState::kClosed:
      break;
  }
  return {fmt::format("the connection with {} begins or ends", peer_words(id)), true};
}

WaitText of_id(const CmId& id) {
  switch (id.state) {
    case IdState::kIdle:
      return {"an id has no address: call rdma_resolve_addr, or rdma_bind_addr and rdma_listen", false};
    case IdState::kBound:
      return {fmt::format("the id at {} does not listen: call rdma_listen", to_string(id.source)), false};
    case IdState::kListening:
      return {fmt::format("no connection request has come to {}", to_string(id.source)), true};
    case IdState::kAddressQuery:
      return {fmt::format("no endnode has answered for {} yet", to_string(id.destination)), true};
    case IdState::kAddressResolved:
      return {fmt::format("the address of {} is resolved: call rdma_resolve_route", peer_words(id)), false};
    case IdState::kRouteResolved:
      return {
          fmt::format("the route to {} is resolved: call rdma_create_qp and rdma_connect", peer_words(id)),
          false};
    case IdState::kConnect:
      break;
  }
  return of_connection(id);
}

}  // namespace

WaitText describe_wait(const CmFile& file) {
  WaitText out{.line = "rdma_get_cm_event has waited 2 s for an event"};
  if (file.ids == nullptr)
    return {out.line + ": no rdma_cm_id has this event channel; wait at the channel that rdma_create_id got",
            false};
  size_t count = 0;
  for (const CmId* id = file.ids; id != nullptr; id = id->next) {
    if (++count > kIdsNamed) continue;
    const WaitText one = of_id(*id);
    out.line += (count == 1 ? ": " : "; ") + one.line;
    out.normal = out.normal && one.normal;
  }
  if (count > kIdsNamed) out.line += fmt::format("; and {} ids more", count - kIdsNamed);
  return out;
}

bool waits_in(uint64_t uid, std::string_view call) noexcept {
  constexpr std::string_view kHex = " 0x";
  uint64_t number = 0;
  uint64_t address = 0;
  const size_t space = call.find(kHex);
  if (space == std::string_view::npos) return false;
  const char* const end = call.data() + call.size();
  if (std::from_chars(call.data(), call.data() + space, number).ec != std::errc()) return false;
  if (std::from_chars(call.data() + space + kHex.size(), end, address, 16).ec != std::errc()) return false;
  return number == SYS_futex && address >= uid && address - uid < kIdBytesMost;
}

std::string describe_destroy(uint32_t events) {
  return fmt::format(
      "rdma_destroy_id waits: not all of the {} events of this id were acknowledged; call rdma_ack_cm_event "
      "for each event of rdma_get_cm_event first",
      events);
}

}  // namespace weft::rdma_cm
