// messages/netdev.h -- the contract of the split network driver: what its two halves must agree on. Function
// codes and request codes (LAY-MSG, decisions 2.20), the 32 bits of immediate data (LAY-IDATA), who numbers
// which pool, limits. The nine messages themselves are netdev_model.h, their two encodings netdev_bytes.h and
// netdev_capnp.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

inline constexpr uint16_t kNetdevVersion = 1;

/// Function name of a message (LAY-MSG). Never renumbered.
enum class NetdevFunction : uint16_t {
  kBufferRecvPool = 1,
  kBufferRecvPoolGet = 2,
  kBufferRecvPoolUpdate = 3,
  kBufferPoolFlushRequest = 4,
  kBufferPoolFlushReply = 5,
  kSendData = 6,
  kBufferRdmaIndicate = 7,
  kCfgUtilRequest = 8,
  kCfgUtilReply = 9,
};
[[nodiscard]] std::string_view to_string(NetdevFunction function) noexcept;

/// How packets move in a session (C-06, C-07).
enum class TransferMode : uint8_t {
  kRdma = 1,          // channel 0 control, channel 1 RDMA writes; both acknowledged (Fig. 7)
  kSendReceive = 2,   // channel 0 control, channel 1 plain Sends; both unacknowledged (Fig. 6)
  kSendDataOnly = 3,  // one acknowledged channel, packets inside SendData
};
[[nodiscard]] std::string_view to_string(TransferMode mode) noexcept;

/// How the nine messages are written on channel 0.
enum class MessageEncoding : uint8_t {
  kCapnp = 1,  // messages/netdev.capnp
  kBytes = 2,  // LAY-MSG
};
[[nodiscard]] std::string_view to_string(MessageEncoding encoding) noexcept;

/// Format of the immediate data; anything but LAY-IDATA is refused at the opening (PUSH-IDATA-07, C-03).
enum class IdataFormat : uint8_t { kPoolElementSize = 1 };

// ---- configuration and utility requests (PUSH-CFG, decisions 2.20) --------------------

enum class CfgClass : uint16_t { kMacConfig = 1, kUtility = 2 };

/// Codes of class kMacConfig.
enum class MacConfigCode : uint16_t {
  kInitialise = 1,  // no data
  kSetMac = 2,      // 6 bytes
  kGetMac = 3,      // reply: 6 bytes
  kSetMtu = 4,      // 32 bits
  kGetMtu = 5,      // reply: 32 bits
  kSetFilters =
      6,  // flags 32 (1 promiscuous, 2 all multicast), count 32, then count x 6 bytes multicast addresses
  kSetFeatures = 7,  // Offload bits 32 wanted; reply: 32 bits granted
};
/// Codes of class kUtility. Either side may ask 3, 4 and 5.
enum class UtilityCode : uint16_t {
  kReadStatistics = 1,   // reply: six 64-bit counters, NicStatistics
  kClearStatistics = 2,  // no data
  kCapabilities = 3,     // reply: Offload bits 32, MTU 32, largest frame 32
  kLinkState = 4,        // 32 bits: 1 up, 0 down; the sender tells, the reply is empty
  kKeepalive = 5,        // 64 bits: frames completed on the data channel; the reply is empty
};

/// Status of a CfgUtilReply.
enum class CfgStatus : uint16_t {
  kGood = 0,
  kUnknownRequest = 1,  // class or code is not known here
  kBadData = 2,         // size or contents of the data do not fit the request
  kNotPermitted = 3,    // known, refused by policy (a taken MAC address, promiscuous mode)
  kFailed = 4,          // the NIC or the operating system refused
  kLimited = 5,         // taken, but the NIC allows less now; the reply says how much
  // Never on the wire: what a requester learns when no reply came.
  kTimedOut = 0xFFFE,
  kSessionLost = 0xFFFF,
};
[[nodiscard]] std::string_view to_string(CfgStatus status) noexcept;

enum CfgFilterFlag : uint32_t { kFilterPromiscuous = 1, kFilterAllMulticast = 2 };

// ---- pools --------------------

/// Each side numbers the pools it owns, so that a reference means one pool in a session for both sides: the
/// host's pools have even references, the unit's odd ones.
inline constexpr uint32_t kPoolReferenceStep = 2;
inline constexpr uint32_t kPoolReferenceFirstHost = 0;
inline constexpr uint32_t kPoolReferenceFirstUnit = 1;
/// The receive WQEs of the sender of the message, in modes without RDMA (decisions 2.19). Handle and address
/// are 0.
inline constexpr uint32_t kPoolOfReceiveWqes = 0xFFFF'FFFF;

// ---- LAY-IDATA --------------------
//   31..24 pool reference   23..16 element index   15..0 element size in bytes, 0 stands for 65536

/// Which element was used, and how large the elements of its pool are (PUSH-IDATA-02).
struct PoolElement {
  uint32_t pool = 0;
  uint32_t element = 0;
  uint32_t element_bytes = 0;
  friend bool operator==(const PoolElement&, const PoolElement&) = default;
};

inline constexpr uint32_t kIdataPoolsMax = 1U << 8;          // references 0..255
inline constexpr uint32_t kIdataElementsMax = 1U << 8;       // indices 0..255
inline constexpr uint32_t kIdataElementBytesMax = 1U << 16;  // inclusive (C-04)

/// True when every element of such a pool can be named by idata; beyond that BufferRDMAIndicate does it
/// (PUSH-IDATA-03).
[[nodiscard]] constexpr bool fits_idata(uint32_t pool, uint32_t elements, uint32_t element_bytes) noexcept {
  return pool < kIdataPoolsMax && elements <= kIdataElementsMax && element_bytes >= 1 &&
         element_bytes <= kIdataElementBytesMax;
}
/// Only for an element of a pool that fits_idata().
[[nodiscard]] constexpr uint32_t encode_idata(const PoolElement& used) noexcept {
  return used.pool << 24 | used.element << 16 | (used.element_bytes & 0xFFFF);
}
/// Every 32-bit value is a triple.
[[nodiscard]] constexpr PoolElement decode_idata(uint32_t idata) noexcept {
  const uint32_t size = idata & 0xFFFF;
  return {.pool = idata >> 24, .element = idata >> 16 & 0xFF, .element_bytes = size == 0 ? 65536 : size};
}
static_assert(encode_idata({7, 5, 256}) == 0x07050100 && encode_idata({0, 255, 65536}) == 0x00FF0000);

// ---- limits both halves check before they loop --------------------

inline constexpr uint32_t kNetdevPoolsPerMessageMax = 64;
inline constexpr uint32_t kNetdevRunsPerMessageMax = 64;
inline constexpr uint32_t kNetdevIndicationsPerMessageMax = 64;
inline constexpr uint32_t kCfgDataBytesMax = 1024;
inline constexpr uint32_t kPoolElementsMax = 1U << 16;
inline constexpr uint32_t kPoolElementBytesMax = 1U << 24;
/// What one side may be configured to offer; a peer may advertise anything within the limits above. The
/// smallest element holds a vnet header and an Ethernet frame without padding; all pools together, grown to
/// twice their number, find room in one completion queue.
inline constexpr uint32_t kOwnElementBytesMin = 72;
inline constexpr uint32_t kOwnElementsTogetherMax = 32704;
/// Why a pool cannot be offered, for the user; empty when it can. `together`: elements of all pools so far.
[[nodiscard]] std::string own_pool_fault(uint32_t element_bytes, uint32_t elements, uint64_t together);
/// Frames any mode must carry: 9000 bytes MTU, Ethernet header, one VLAN tag (decisions 1.17).
inline constexpr uint32_t kJumboFrameBytes = 9018;
/// Largest frame of RDMA mode without the vnet header; with it an element of 64 KiB is full (decisions 2.18).
inline constexpr uint32_t kGsoFrameBytesMax = 65524;

}  // namespace weft
