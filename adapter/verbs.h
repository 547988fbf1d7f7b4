// adapter/verbs.h -- the words of the verbs: types, attributes and codes as libibverbs has them, in C++
// types. Numbers equal libibverbs' where it has one, so that the drop-in library converts by cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft::adapter {

// ---- services and states --------------------

/// Transport service, fixed when the QP is created (SAN-QP-04, SAN-XPORT-01, C-10).
/// acknowledged and connected: RC; acknowledged only: RD; connected only: UC; neither: UD (PUSH-CHAN-01).
/// XRC is RC in one direction: an initiator sends, a target receives into shared receive queues.
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

/// One ACK per cell (SAN-XPORT-07, C-14) or coalesced and selective (decisions 1.10).
enum class AckMode : uint8_t { kSelective, kStrict };

/// A protection domain: objects of one domain may be used together, and with no others.
using PdId = StrongId<struct PdTag, uint32_t>;
/// An XRC domain: targets and the shared receive queues their peers may name. 0: none.
using XrcdId = StrongId<struct XrcdTag, uint32_t>;

// ---- access rights --------------------

/// Bits of a region or window (TPT-ENTRY-07/08/09). Local read is always granted to regions by verbs; the
/// catalogue has it as a bit of its own, so it can be withheld.
enum class Access : uint32_t {
  kNone = 0,
  kLocalWrite = 1U << 0,
  kRemoteWrite = 1U << 1,
  kRemoteRead = 1U << 2,
  kRemoteAtomic = 1U << 3,
  kWindowBind = 1U << 4,
  kZeroBased = 1U << 5,
  kNoLocalRead = 1U << 30,
  kOneShot = 1U << 31,  // the key dies with its first operation (SAN-RMP-12, C-24)
};
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
[[nodiscard]] constexpr bool has(Access set, Access bit) noexcept {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(bit)) != 0;
}

// ---- work requests --------------------

/// A data segment: local memory under a local key (PUSH-WQ-03).
struct Sge {
  uint64_t addr = 0;    // address in the region's own addressing (normally the process's pointer)
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
  kRegister = 66,  // TPT-REG-02..07: what IB_WR_REG_MR is to the kernel's verbs
};

enum SendFlag : uint32_t {
  kSendFence = 1 << 0,
  kSendSignaled = 1 << 1,
  kSendSolicited = 1 << 2,
  kSendInline = 1 << 3,  // data is copied at the post; no LKey needed
};
inline constexpr uint32_t kSendFlagsAll = kSendFence | kSendSignaled | kSendSolicited | kSendInline;

/// A Q_Key of a work request with this bit set stands for the Q_Key of its QP.
inline constexpr uint32_t kQkeyOfQp = 1U << 31;

/// Where a datagram goes (PUSH-CHAN-05); `lid` 0 means no destination was given.
struct Destination {
  Lid lid{};
  Qpn qpn{};
  uint32_t qkey = 0;
  ServiceLevel sl{};
};

/// The part of an address that a global header carries.
struct GlobalRoute {
  Gid dgid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = kHopLimitDefault;
};

/// How datagrams get to an endnode (ibv_ah_attr).
struct AhAttr {
  Lid dlid{};
  ServiceLevel sl{};
  uint8_t port = 1;
  bool is_global = false;  // datagrams carry a global header with `route`
  GlobalRoute route{};
};

/// An address handle: attributes that ChannelAdapter::make_ah() found good, for QPs of one domain. A value; a
/// posted work request has its own copy.
struct AddressHandle {
  PdId pd{};
  AhAttr attr{};
};

/// How a window gets its key, and which QPs may use it.
enum class WindowKind : uint8_t {
  kKey,    // BindRKey of the SAN verbs: the key stays, a bound one is refused
  kType1,  // libibverbs type 1: each bind has the next key, and replaces what was bound
  kType2,  // libibverbs type 2 (2B): the consumer chooses the low eight bits of the key; bound to one QP
};

/// On whose behalf memory is reached: a domain, and the QP, for what only one QP may use.
struct Accessor {
  PdId pd{};
  Qpn qpn{};
  // NOLINTNEXTLINE(google-explicit-constructor): a domain without a QP is an accessor
  Accessor(PdId domain) noexcept : pd(domain) {}
  Accessor(PdId domain, Qpn qp) noexcept : pd(domain), qpn(qp) {}
};

/// What a bind work request ties to a window (SAN-WQE-05, TPT-WQE-02).
struct BindRequest {
  Rkey window{};  // present key of the window; of types 1 and 2 the key that it has from now on
  Lkey region{};
  uint64_t addr = 0;  // within the region; 0 with length 0 unbinds (SAN-RMP-06)
  uint64_t length = 0;
  Access access = Access::kNone;
};

/// Registration through the send queue of a QP, and what follows when such a request cannot be carried out
/// (TPT-REG-02, 05, 06).
enum class SendRegistration : uint8_t {
  kOff,           // the QP does not take such requests
  kReactive,      // the send queue drains, the consumer tries again
  kAnticipatory,  // the QP goes to the error state at once
};

/// What a registration work request makes of a reserved entry: the region of the memory that was staged for
/// it.
struct RegisterRequest {
  Lkey lkey{};        // of MemoryTable::reserve_mr() or stage()
  uint64_t addr = 0;  // first address as peers and work requests name it
  Access access = Access::kNone;
};

/// A request that names no remote address; 0 is an address like any other (zero-based windows).
inline constexpr uint64_t kNoRemoteAddr = ~uint64_t{0};

struct SendRequest {
  uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  uint32_t flags = 0;           // SendFlag
  std::span<const Sge> sges{};  // copied by the post; at least one for WRs that move data (C-34),
                                // unless QpConfig::empty_lists
  uint32_t imm = 0;             // immediate data, host order
  uint64_t remote_addr = kNoRemoteAddr;
  Rkey rkey{};           // RDMA; with kSendWithInvalidate and kLocalInvalidate the key to invalidate; the
                         // latter also takes the number of an LKey
  uint64_t compare = 0;  // kCompareSwap
  uint64_t operand = 0;  // kCompareSwap: new value; kFetchAdd: addend
  Destination dest{};    // UD and RD. Top bit of `qkey`: the Q_Key of the sending QP is meant
  const AddressHandle* ah = nullptr;  // UD and RD: says LID and service level instead of `dest`
  BindRequest bind{};                 // kBindWindow, kUnbindWindow
  RegisterRequest registration{};     // kRegister
  Duration delay{};                   // kDelay
  uint32_t srq = 0;                   // XRC: number of the peer's shared receive queue
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges{};  // copied by the post
};

enum class PostResult : uint8_t {
  kOk,
  kWouldBlock,  // queue full; nothing was posted
  kBadState,
  kBadOpcode,      // this service or queue cannot do that
  kNoDestination,  // PUSH-CHAN-05
  kNoRemoteKey,    // PUSH-RDMAW-01: address or handle missing
  kBadSges,        // none where data moves, or some where none does
  kTooManySges,    // more than the queue was made for
  kBadAtomic,      // an atomic moves eight bytes
  kTooLong,        // longer than the service carries (PUSH-CELL-06)
  kInlineTooLong,  // more inline data than the queue was made for
  kCount,
};
[[nodiscard]] std::string_view to_string(PostResult result) noexcept;

// ---- completions --------------------

/// Numbers as enum ibv_wc_status.
enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalEecOperation = 3,
  kLocalProtection = 4,
  kFlushed = 5,
  kMwBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 17,
  kFatal = 19,
  kResponseTimeout = 20,
  kGeneral = 21,
};
[[nodiscard]] std::string_view to_string(WcStatus status) noexcept;

/// Numbers as enum ibv_wc_opcode; kRdataIndicate is ours (O-06).
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
  kRdataIndicate = 130,  // an RDMA write with idata arrived on a push-push channel; no receive WQE was used
};

/// The completion of a receive WQE.
[[nodiscard]] constexpr bool ends_receive(WcOpcode opcode) noexcept {
  return opcode == WcOpcode::kRecv || opcode == WcOpcode::kRecvRdmaWithImm;
}

/// kWcGrh: a UD receive begins with the global header the datagram came with. kWcNotified: the queue was
/// armed, and this entry has made the notification.
enum WcFlag : uint8_t {
  kWcGrh = 1 << 0,
  kWcWithImm = 1 << 1,
  kWcWithInvalidate = 1 << 3,
  kWcSolicited = 1 << 4,
  kWcNotified = 1 << 5
};

/// TPT-CQ-01: which QP, which WQE.
struct WorkCompletion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint8_t flags = 0;  // WcFlag
  ServiceLevel sl{};  // datagrams
  Qpn qpn{};
  uint32_t byte_count = 0;  // bytes received or read; with kRdataIndicate bytes written (C-05)
  uint32_t imm = 0;         // immediate data, host order; of a failed request the code of its Reason
  uint64_t written_va = 0;  // kRdataIndicate, kRecvRdmaWithImm: address the write began at (decisions 2.16)
  Rkey invalidated{};
  Lid src_lid{};            // datagrams
  uint16_t pkey_index = 0;  // datagrams: of the partition, in the port's table
  Qpn src_qpn{};            // datagrams
  /// Which places come free when this is polled (QpConfig::hold_places). Of a send queue: those before this
  /// position, its low 32 bits. Of a receive queue: one, and this is the SRQ's number, 0 for the QP's own.
  uint32_t place = 0;
};

/// What create_cq() and a query answer (SAN-CQ-01).
struct CqInfo {
  uint32_t depth = 0;  // entries it holds
  uint32_t fill = 0;   // entries waiting
  bool overrun = false;
};

/// What modify() and query() of shared receive queues speak of.
struct SrqAttr {
  uint32_t wqes = 0;   // it holds
  uint32_t sges = 0;   // of a WQE; queried only
  uint32_t limit = 0;  // fewer waiting WQEs raise kSrqLimit, once; 0: none is armed
};
/// Bits of enum ibv_srq_attr_mask.
enum SrqAttrMask : uint32_t { kSrqWqes = 1 << 0, kSrqLimit = 1 << 1 };

/// When an armed CQ gives its one notification.
enum class CqNotify : uint8_t { kOff, kSolicited, kNext };

// ---- QP attributes --------------------

/// Bits of enum ibv_qp_attr_mask. kQpAttrCapabilities is known and never taken: queues keep their size.
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

/// Partitions a port can be a member of.
inline constexpr uint32_t kPkeysPerPort = 16;
/// Where the global header of a UD receive lies, and how much room it takes there (QpConfig::grh_space).
inline constexpr uint32_t kGrhBytes = 40;

/// Automatic path migration; numbers as enum ibv_mig_state. kRearm: an alternate path is loaded, and the peer
/// is not known to be ready yet; kArmed: both are.
enum class PathMigState : uint8_t { kMigrated = 0, kRearm = 1, kArmed = 2 };

/// Another way to the same peer, taken when the first one fails.
struct AlternatePath {
  Lid dlid{};  // 0: there is none
  Gid dgid{};
  ServiceLevel sl{};
  uint8_t port = 1;
  uint16_t pkey_index = 0;
  Duration ack_timeout = std::chrono::milliseconds(20);
};

struct QpAttr {
  QpState state = QpState::kReset;
  Access access = Access::kNone;  // which remote operations this QP lets in
  uint16_t pkey_index = 0;
  uint8_t port = 1;
  uint32_t qkey = 0;
  Lid dlid{};                   // kQpAttrAddress; of the router's port when the peer is in another subnet
  Gid dgid{};                   // kQpAttrAddress; zero, or in our subnet: the local network header is enough
  ServiceLevel sl{};            // kQpAttrAddress
  uint32_t path_mtu_bytes = 0;  // bytes per packet; 0 = the largest the port allows
  Duration ack_timeout = std::chrono::milliseconds(20);
  uint8_t retry_count = 7;  // 0..7
  uint8_t rnr_retry = 7;    // 0..7; 7 = for ever
  Psn rq_psn{};
  Psn sq_psn{};
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  Duration min_rnr_timer = std::chrono::microseconds(100);
  Qpn dest_qpn{};
  QpState cur_state = QpState::kReset;  // kQpAttrCurState: the move is refused unless the QP is in it
  bool sqd_notify = false;              // to SQD: kSqDrained is wanted
  bool sq_draining = false;             // queried only: SQD, and something that has begun is not complete
  PathMigState path_mig_state = PathMigState::kMigrated;
  AlternatePath alt{};           // kQpAttrAltPath
  uint32_t rate_limit_kbps = 0;  // 0: none
};

/// The way back to where a datagram came from: its completion and, with kWcGrh, the kGrhBytes its
/// receive begins with (ibv_init_ah_from_wc).
[[nodiscard]] AhAttr ah_attr_from(const WorkCompletion& completion, uint8_t port,
                                  std::span<const std::byte> receive) noexcept;

enum class ModifyResult : uint8_t {
  kOk,
  kBadTransition,
  kMissingAttribute,
  kUnexpectedAttribute,
  kBadValue,
  kCount
};
[[nodiscard]] std::string_view to_string(ModifyResult result) noexcept;

}  // namespace weft::adapter
