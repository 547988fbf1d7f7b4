// rdma_cm/cm_id.h -- identifiers and event channels, as in the kernel's rdma_ucm.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "hca/event_fd.h"
#include "rdma_cm/connection.h"
#include "rdma_cm/ip_address.h"

namespace weft::rdma_cm {

/// Parameters of the peer's queue pair from its REQ or REP; from a SIDR_REQ only the service.
struct PeerOffer {
  uint64_t service_id = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint8_t path_mtu = 0;  // enum ibv_mtu; 0: not given
};

struct CmFile;
struct CmId;

/// Numbers of enum rdma_cm_event_type.
enum class CmEvent : uint32_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kMulticastError = 13,
  kAddressChange = 14,
  kTimewaitExit = 15,
  kUser = 18,  // written by the program or by librdmacm
  kInternal = 19,
};

/// The Q_Key of UD services by IP port.
inline constexpr uint32_t kUdpQkey = 0x0123'4567;

enum class IdState : uint8_t {
  kIdle,
  kBound,
  kListening,
  kAddressQuery,
  kAddressResolved,
  kRouteResolved,
  kConnect
};

/// Membership of a multicast group.
struct Membership {
  uint32_t handle = 0;
  uint64_t uid = 0;
  Gid gid{};
  Lid lid{};
  uint32_t events_reported = 0;
};

struct CmId {
  CmId* previous = nullptr;  // in the list of its file
  CmId* next = nullptr;
  CmId* next_orphan = nullptr;  // a request whose listener was destroyed
  uint32_t handle = 0;
  uint64_t uid = 0;  // 0: a request that the program has not accepted yet
  CmFile* file = nullptr;
  uint16_t port_space = 0;
  uint8_t qp_type = 0;  // enum ibv_qp_type
  IdState state = IdState::kIdle;
  IpAddress source{};
  IpAddress destination{};
  bool unread = false;     // a request whose event still waits: no command finds it
  bool on_device = false;  // the source address is one of this endnode or its host
  bool reuse_address = false;
  IpAddress held{};                      // the port held among the endnodes of the host; family 0: none
  std::optional<bool> family_option{};   // RDMA_OPTION_ID_AFONLY, if the program has set it
  std::optional<uint8_t> ack_timeout{};  // that the program has set
  uint32_t backlog = 0;                  // further requests that may wait
  uint32_t events_reported = 0;
  uint32_t events_waiting = 0;  // in its file
  uint64_t question = 0;        // number at the address resolver; 0: none
  Lid peer_lid{};
  Gid peer_gid{};
  Connection* connection = nullptr;
  uint32_t psn = 0;  // first PSN of our side
  PeerOffer peer_offer{};
  uint8_t retry_count = 0;  // this and the next three: attributes for the QP
  uint8_t rnr_retry = 0;
  uint8_t initiator_depth = 0;
  uint8_t responder_resources = 0;
  std::vector<std::unique_ptr<Membership>> groups{};

  [[nodiscard]] bool datagrams() const noexcept;
  /// The path to the destination is known.
  [[nodiscard]] bool has_path() const noexcept {
    return state == IdState::kRouteResolved || state == IdState::kConnect;
  }
};

struct QueuedEvent {
  CmId* id = nullptr;       // the event's identifier; for a connect request the listener
  CmId* request = nullptr;  // the new identifier of a connect request
  Membership* group = nullptr;
  rdma_ucm_event_resp content{};
};

/// One open() of the device: an event channel.
struct CmFile {
  std::shared_ptr<hca::EventFd> descriptor{};
  std::deque<QueuedEvent> events{};
  CmId* ids = nullptr;           // newest identifier, head of the list
  pid_t reader = 0;              // thread that took the last event; 0: none yet
  Instant waits_since = kNever;  // a thread waits for an event; only with WEFT_DEBUG=cm
};

}  // namespace weft::rdma_cm
