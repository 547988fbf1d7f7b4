// adapter/config.h -- configurations of adapters and QPs. Below adapter.h, because its parts need them too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "adapter/verbs.h"
#include "messages/ids.h"

namespace weft::adapter {

class CompletionQueue;
class DirectPaths;
class QueuePair;
class SharedReceiveQueue;
struct ServiceRow;

/// Memory of a QP or shared receive queue that is not in an adapter.
struct FreeQueue {
  void operator()(QueuePair* qp) const noexcept;
  void operator()(SharedReceiveQueue* srq) const noexcept;
};
using QpMemory = std::unique_ptr<QueuePair, FreeQueue>;
using SrqMemory = std::unique_ptr<SharedReceiveQueue, FreeQueue>;

/// Capacity of an adapter; also the answer to a capability query (SAN-NODE-04, C-16).
struct AdapterLimits {
  uint32_t queue_pairs = 16382;  // with the management numbers a power of two; at most 2^24 - 2
  uint32_t completion_queues = 1024;
  uint32_t cqes_per_queue = 65536;
  uint32_t completion_vectors = 1;
  uint32_t multicast_members = 1024;  // memberships of QPs in groups
  uint32_t raw_protocols = 256;       // registrations of upper-level protocols
  uint32_t shared_receive_queues = 1024;
  uint32_t xrc_domains = 256;
  uint32_t wqes_per_queue = 16384;
  uint32_t sges_per_wqe = 16;   // at most 255
  uint32_t inline_bytes = 256;  // at most 65,535
  uint32_t protection_domains = 1024;
  uint32_t keys = 65536;              // regions and windows together
  uint32_t stash_cells = 1024;        // cells whose base address is not known yet
  uint32_t stash_cells_per_qp = 128;  // two packets whose first cell is lost
  uint32_t rd_contexts = 64;
  uint32_t window_chunks = 4096;  // chunks of packet windows per direction, beyond the one that each QP needs
  uint32_t message_bytes_max = 1U << 31;
  bool inbound_rdma = true;
};

struct AdapterConfig {
  Guid guid{};
  uint8_t number = 0;  // of this adapter in its computer: top 4 bits of every key (LAY-STAG)
  /// Several NICs in one computer (docs/key_migration.md): their numbers, 0 to 15, each once. The adapter
  /// then has the connection state of the computer (O-34), and each NIC its own list of valid keys. Empty:
  /// one NIC, `number`.
  std::vector<uint8_t> nics{};
  /// With several NICs: RC QPs find other ways to the peer by themselves (adapter/transport/ways.h). False:
  /// they keep to the paths that the owner loads.
  bool finds_ways = true;
  AdapterLimits limits{};
  /// Verify the CRC of each cell again. For carriers that do not verify it; CellPort guarantees that they do.
  bool verify_cells = false;
  /// The adapter's transport services, a table that must outlive it. Empty: all services of the product
  /// (adapter/transport/services.h).
  std::span<const ServiceRow* const> services{};
  /// Memory windows to peers on this machine; outlives the adapter. Null: all cells pass through a switch.
  DirectPaths* direct = nullptr;
};

/// AdapterConfig::nics of a computer with `nics` NICs, numbered from 0. One NIC has no list.
[[nodiscard]] inline std::vector<uint8_t> nics_in_turn(size_t nics) {
  std::vector<uint8_t> numbers(nics > 1 ? nics : 0);
  std::iota(numbers.begin(), numbers.end(), uint8_t{0});
  return numbers;
}

/// Any QP number: a random one is chosen (decisions section 4). Not a valid 24-bit number.
inline constexpr Qpn kQpnAny{~uint32_t{0}};

struct QpConfig {
  QpType type = QpType::kRc;
  PdId pd{};
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;  // source of receive WQEs; the QP then has none of its own
  XrcdId xrcd{};                      // kXrcRecv only: its domain, instead of PD and queues
  uint32_t send_wqes = 128;           // outstanding requests (SAN-QP-05, decisions 1.16)
  uint32_t recv_wqes = 128;
  uint32_t sges = 4;
  AckMode ack_mode = AckMode::kSelective;
  bool signal_all = true;            // every WQE makes a CQE (O-25)
  bool idata_takes_recv_wqe = true;  // false: push-push channel, kRdataIndicate (O-06)
  bool packet_crc = false;           // PUSH-CELL-08
  bool empty_lists = false;  // WRs that move data may have no segment, as in libibverbs; otherwise C-34
  bool raw_ipv6 = false;     // RAW: messages are IPv6 packets (SAN-XPORT-15)
  bool grh_space = false;    // UD: receives begin with kGrhBytes for the global header, as in libibverbs
  /// A place of a work queue becomes free when its completion is polled. A place without a completion becomes
  /// free with the next one that has one. Adapters whose queues are rings do this: then a CQ with room for
  /// all places of its queues cannot overrun. If false, a place becomes free when its request completes.
  bool hold_places = false;
  uint32_t packet_bytes = 0;  // 0: 64 cells, or the largest useful packet
  /// Registration by work request (TPT-REG-02).
  SendRegistration registration = SendRegistration::kOff;
  /// A required QP number: kQpnSmi or kQpnGsi, for management. One of each per port, type kUd.
  Qpn wanted_qpn = kQpnAny;
  uint8_t port = 1;  // port of wanted_qpn
};

/// A shared receive queue. Its PD may differ from that of the QPs that use it. With an XRC domain it serves
/// the domain's targets by its number, and their receives complete in `cq`.
struct SrqConfig {
  PdId pd{};
  uint32_t wqes = 128;
  uint32_t sges = 4;
  XrcdId xrcd{};
  CompletionQueue* cq = nullptr;
  bool hold_places = false;  // as in QpConfig
};

}  // namespace weft::adapter
