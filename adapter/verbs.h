// adapter/verbs.h -- the vocabulary of the verbs: types, attributes and codes of libibverbs as C++ types.
// Numbers equal those of libibverbs where it has them, so that the drop-in library converts by cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "messages/failure.h"
#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft::adapter {

// ---- services and states --------------------

/// Transport service, fixed when the QP is created (SAN-QP-04, SAN-XPORT-01, C-10). Acknowledged and
/// connected: RC; only acknowledged: RD; only connected: UC; neither: UD (PUSH-CHAN-01). XRC is RC in one
/// direction: an initiator sends, a target receives into shared receive queues.
enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4, kRd = 5, kRaw = 8, kXrcSend = 9, kXrcRecv = 10 };
[[nodiscard]] constexpr bool is_xrc(QpType type) noexcept {
  return type == QpType::kXrcSend || type == QpType::kXrcRecv;
}
[[nodiscard]] constexpr bool is_acknowledged(QpType type) noexcept {
  return type == QpType::kRc || type == QpType::kRd || is_xrc(type);
}
[[nodiscard]] constexpr bool is_connected(QpType type) noexcept {
  return type == QpType::kRc || type == QpType::kUc || is_xrc(type);
}

enum class QpState : uint8_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kSqd = 4, kSqe = 5, kErr = 6 };
[[nodiscard]] std::string_view to_string(QpState state) noexcept;

/// kStrict: one ACK per cell (SAN-XPORT-07, C-14). kSelective: ACKs are coalesced and selective (decisions
/// 1.10).
enum class AckMode : uint8_t { kSelective, kStrict };

/// A protection domain. Only objects of the same domain may be used together.
using PdId = StrongId<struct PdTag, uint32_t>;
/// An XRC domain: XRC targets and the shared receive queues that their peers may name. 0: none.
using XrcdId = StrongId<struct XrcdTag, uint32_t>;

// ---- access rights --------------------

/// Access bits of a region or window (TPT-ENTRY-07/08/09). The verbs always grant local read to regions; the
/// catalogue has a bit of its own for it, so kNoLocalRead can withhold it.
enum class Access : uint32_t {
  kNone = 0,
  kLocalWrite = 1U << 0,
  kRemoteWrite = 1U << 1,
  kRemoteRead = 1U << 2,
  kRemoteAtomic = 1U << 3,
  kWindowBind = 1U << 4,
  kZeroBased = 1U << 5,
  kNoLocalRead = 1U << 30,
  kOneShot = 1U << 31,  // the key ends with its first operation (SAN-RMP-12, C-24)
};
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
[[nodiscard]] constexpr bool has(Access set, Access bit) noexcept {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(bit)) != 0;
}

// ---- work requests --------------------

/// A data segment: local memory with its local key (PUSH-WQ-03).
struct Sge {
  uint64_t addr = 0;    // address as the region counts it, normally the process's pointer
  uint32_t length = 0;  // bytes
  Lkey lkey{};
};

enum class SendOpcode : uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendWithInvalidate = 9,
  kDelay = 64,  // SAN-WQE-06
  kUnbindWindow = 65,
  kRegister = 66,  // TPT-REG-02..07; IB_WR_REG_MR in the kernel's verbs
};

enum SendFlag : uint32_t {
  kSendFence = 1 << 0,
  kSendSignaled = 1 << 1,
  kSendSolicited = 1 << 2,
  kSendInline = 1 << 3,  // the post copies the data; no LKey needed
  // RDMA write of an acknowledged service over ports: the key under which it writes ends with its last packet
  // (MIG-INV-01). The peer refuses this for keys that a Send with invalidate may not name either.
  kSendInvalidateTarget = 1 << 30,
};
inline constexpr uint32_t kSendFlagsAll =
    kSendFence | kSendSignaled | kSendSolicited | kSendInline | kSendInvalidateTarget;

/// With this bit set, the Q_Key of a work request means the Q_Key of its QP.
inline constexpr uint32_t kQkeyOfQp = 1U << 31;

/// The destination of a datagram (PUSH-CHAN-05). `lid` 0: no destination was given.
struct Destination {
  Lid lid{};
  Qpn qpn{};
  uint32_t qkey = 0;
  ServiceLevel sl{};
};

/// The part of an address that goes into a global header.
struct GlobalRoute {
  Gid dgid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = kHopLimitDefault;
};

/// How to reach an endnode with datagrams (ibv_ah_attr).
struct AhAttr {
  Lid dlid{};
  ServiceLevel sl{};
  uint8_t port = 1;
  bool is_global = false;  // datagrams carry a global header with `route`
  GlobalRoute route{};
};

/// An address handle: attributes that ChannelAdapter::make_ah() has checked, for QPs of one domain. It is a
/// value; a posted work request has its own copy.
struct AddressHandle {
  PdId pd{};
  AhAttr attr{};
};

/// How a window gets its key, and which QPs may use it.
enum class WindowKind : uint8_t {
  kKey,    // BindRKey of the SAN verbs: the key stays; binding a bound window is refused
  kType1,  // libibverbs type 1: each bind takes the next key and replaces the binding
  kType2,  // libibverbs type 2 (2B): the consumer chooses the low eight bits of the key; bound to one QP
};

/// The domain for which memory is accessed, and the QP, for memory that only one QP may use.
struct Accessor {
  PdId pd{};
  Qpn qpn{};
  // NOLINTNEXTLINE(google-explicit-constructor): a domain without a QP is an accessor
  Accessor(PdId domain) noexcept : pd(domain) {}
  Accessor(PdId domain, Qpn qp) noexcept : pd(domain), qpn(qp) {}
};

/// The binding that a bind work request gives a window (SAN-WQE-05, TPT-WQE-02).
struct BindRequest {
  Rkey window{};  // present key of the window; for types 1 and 2 its new key
  Lkey region{};
  uint64_t addr = 0;  // within the region; 0 with length 0 unbinds (SAN-RMP-06)
  uint64_t length = 0;
  Access access = Access::kNone;
};

/// Registration through the send queue of a QP: whether it is allowed, and what happens when such a request
/// fails (TPT-REG-02, 05, 06).
enum class SendRegistration : uint8_t {
  kOff,           // the QP does not take such requests
  kReactive,      // the send queue drains, and the consumer can try again
  kAnticipatory,  // the QP goes to the error state at once
};

/// A registration work request: turns a reserved entry into a region of the memory staged for it.
struct RegisterRequest {
  Lkey lkey{};        // of Regions::reserve_mr() or stage()
  uint64_t addr = 0;  // first address as peers and work requests name it
  Access access = Access::kNone;
};

/// Value of a request without remote address. 0 is a valid address (zero-based windows).
inline constexpr uint64_t kNoRemoteAddr = ~uint64_t{0};

struct SendRequest {
  uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  uint32_t flags = 0;           // SendFlag bits
  std::span<const Sge> sges{};  // copied by the post; at least one for WRs that move data (C-34),
                                // unless QpConfig::empty_lists
  uint32_t imm = 0;             // immediate data, host order
  uint64_t remote_addr = kNoRemoteAddr;
  Rkey rkey{};           // RDMA; kSendWithInvalidate, kLocalInvalidate: the key to invalidate, for the
                         // latter also an LKey
  uint64_t compare = 0;  // kCompareSwap
  uint64_t operand = 0;  // kCompareSwap: new value; kFetchAdd: addend
  Destination dest{};    // UD and RD; see kQkeyOfQp
  const AddressHandle* ah = nullptr;  // UD and RD: LID and service level, in place of `dest`
  BindRequest bind{};                 // kBindWindow, kUnbindWindow
  RegisterRequest registration{};     // kRegister
  Duration delay{};                   // kDelay
  uint32_t srq = 0;                   // XRC: number of the peer's shared receive queue
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges{};  // copied by the post
};

/// Result of a post: kOk, or a reason of posts.
using PostResult = Reason;

// ---- completions --------------------

using weft::WcStatus;

/// Numbers as in enum ibv_wc_opcode; kRdataIndicate is Weft's own (O-06).
enum class WcOpcode : uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kDelay = 64,
  kRegister = 66,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
  // An RDMA write with immediate data arrived on a push-push channel; it used no receive WQE.
  kRdataIndicate = 130,
};

/// The completion ends a receive WQE.
[[nodiscard]] constexpr bool ends_receive(WcOpcode opcode) noexcept {
  return opcode == WcOpcode::kRecv || opcode == WcOpcode::kRecvRdmaWithImm;
}

/// kWcGrh: a UD receive begins with the global header of the datagram. kWcTold: the queue was armed, and this
/// entry caused the notification. kWcEndsBatch: such an entry ends a batch (CompletionQueue::pass_notified).
enum WcFlag : uint8_t {
  kWcGrh = 1 << 0,
  kWcWithImm = 1 << 1,
  kWcWithInvalidate = 1 << 3,
  kWcSolicited = 1 << 4,
  kWcTold = 1 << 5,
  kWcEndsBatch = 1 << 6
};

/// TPT-CQ-01: identifies QP and WQE.
struct WorkCompletion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint8_t flags = 0;  // WcFlag bits
  ServiceLevel sl{};  // datagrams
  Qpn qpn{};
  uint32_t byte_count = 0;  // bytes received or read; with kRdataIndicate bytes written (C-05)
  uint32_t imm = 0;         // immediate data, host order; for a failed request the code of its Reason
  uint64_t written_va = 0;  // kRdataIndicate, kRecvRdmaWithImm: first address of the write (decisions 2.16)
  Rkey invalidated{};
  Lid src_lid{};            // datagrams
  uint16_t pkey_index = 0;  // datagrams: index of the partition in the port's table
  Qpn src_qpn{};            // datagrams
  /// The places that polling this entry frees (QpConfig::hold_places). Send queue: the places before this
  /// position, given as its low 32 bits. Receive queue: one place, and the value is the number of the SRQ, or
  /// 0 for the QP's own queue.
  uint32_t place = 0;
};

/// Of a completion queue, as a query tells (SAN-CQ-01).
struct CqInfo {
  uint32_t depth = 0;  // capacity in entries
  uint32_t fill = 0;   // entries waiting
  bool overrun = false;
};

/// Requests of a QP that completes into a CQ (CompletionQueues::loads).
struct QpLoad {
  Qpn qpn{};
  QpState state = QpState::kReset;
  bool sends_here = false;  // its send queue completes into the CQ
  bool receives_here = false;
  uint32_t sends = 0;     // send requests that are not complete
  uint32_t silent = 0;    // complete ones behind the last polled completion, which were not signalled
  uint32_t receives = 0;  // receive requests that no message has taken, also those of a shared queue
};

/// Attributes for modify() and query() of shared receive queues.
struct SrqAttr {
  uint32_t wqes = 0;   // capacity in WQEs
  uint32_t sges = 0;   // segments of a WQE; only queried
  uint32_t limit = 0;  // kSrqLimit is raised once when fewer WQEs wait; 0: not armed
};
/// Bits of enum ibv_srq_attr_mask.
enum SrqAttrMask : uint32_t { kSrqWqes = 1 << 0, kSrqLimit = 1 << 1 };

/// The entry for which an armed CQ gives its one notification.
enum class CqNotify : uint8_t { kOff, kSolicited, kNext };

// ---- QP attributes --------------------

/// Bits of enum ibv_qp_attr_mask. kQpAttrCapabilities is known and always refused: queues keep their size.
enum QpAttrMask : uint32_t {
  kQpAttrState = 1 << 0,
  kQpAttrCurState = 1 << 1,
  kQpAttrSqdNotify = 1 << 2,
  kQpAttrAccess = 1 << 3,
  kQpAttrPkeyIndex = 1 << 4,
  kQpAttrPort = 1 << 5,
  kQpAttrQkey = 1 << 6,
  kQpAttrAddress = 1 << 7,
  kQpAttrPathMtu = 1 << 8,
  kQpAttrTimeout = 1 << 9,
  kQpAttrRetryCount = 1 << 10,
  kQpAttrRnrRetry = 1 << 11,
  kQpAttrRqPsn = 1 << 12,
  kQpAttrMaxRdAtomic = 1 << 13,
  kQpAttrAltPath = 1 << 14,
  kQpAttrMinRnrTimer = 1 << 15,
  kQpAttrSqPsn = 1 << 16,
  kQpAttrMaxDestRdAtomic = 1 << 17,
  kQpAttrPathMigState = 1 << 18,
  kQpAttrCapabilities = 1 << 19,
  kQpAttrDestQpn = 1 << 20,
  kQpAttrRateLimit = 1 << 25,
};

/// Number of partitions of which a port can be a member.
inline constexpr uint32_t kPkeysPerPort = 16;
/// Room for the global header at the beginning of a UD receive, in bytes (QpConfig::grh_space).
inline constexpr uint32_t kGrhBytes = 40;

/// Automatic path migration; numbers as in enum ibv_mig_state. kRearm: an alternate path is loaded, but the
/// peer is not known to be ready; kArmed: both ends are ready.
enum class PathMigState : uint8_t { kMigrated = 0, kRearm = 1, kArmed = 2 };

/// An alternate path to the same peer, used when the primary path fails.
struct AlternatePath {
  Lid dlid{};  // 0: there is no alternate path
  Gid dgid{};
  ServiceLevel sl{};
  uint8_t port = 1;
  uint16_t pkey_index = 0;
  Duration ack_timeout = std::chrono::milliseconds(20);
};

struct QpAttr {
  QpState state = QpState::kReset;
  Access access = Access::kNone;  // remote operations that this QP allows
  uint16_t pkey_index = 0;
  uint8_t port = 1;
  uint32_t qkey = 0;
  Lid dlid{};                   // kQpAttrAddress; the router's port for a peer in another subnet
  Gid dgid{};                   // kQpAttrAddress; zero or in our subnet: no global header is needed
  ServiceLevel sl{};            // kQpAttrAddress
  uint32_t path_mtu_bytes = 0;  // bytes per packet; 0: the largest that the port allows
  Duration ack_timeout = std::chrono::milliseconds(20);
  uint8_t retry_count = 7;  // 0..7
  uint8_t rnr_retry = 7;    // 0..7; 7: for ever
  Psn rq_psn{};
  Psn sq_psn{};
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  Duration min_rnr_timer = std::chrono::microseconds(100);
  Qpn dest_qpn{};
  QpState cur_state = QpState::kReset;  // kQpAttrCurState: any other present state is refused
  bool sqd_notify = false;              // on the way to SQD: raise kSqDrained
  bool sq_draining = false;             // only queried: in SQD, and a started WQE is not complete
  PathMigState path_mig_state = PathMigState::kMigrated;
  AlternatePath alt{};           // kQpAttrAltPath
  uint32_t rate_limit_kbps = 0;  // 0: none
};

/// The address of the sender of a datagram, from its completion and, with kWcGrh, the first kGrhBytes of its
/// receive (ibv_init_ah_from_wc).
[[nodiscard]] AhAttr ah_attr_from(const WorkCompletion& completion, uint8_t port,
                                  std::span<const std::byte> receive) noexcept;

/// Result of a change of a QP: kOk, or a reason of changes.
using ModifyResult = Reason;

}  // namespace weft::adapter
