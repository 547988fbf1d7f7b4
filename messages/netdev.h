// messages/netdev.h -- the contract of the two halves of the split network driver: function codes and request
// codes (LAY-MSG, decisions 2.20), the 32 bits of immediate data (LAY-IDATA), the numbering of pools, limits.
// The nine messages are in netdev_model.h, their two encodings in netdev_bytes.h and netdev_capnp.h.
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

/// How packets are transferred in a session (C-06, C-07).
enum class TransferMode : uint8_t {
  kRdma = 1,          // channel 0 control, channel 1 RDMA writes; both acknowledged (Fig. 7)
  kSendReceive = 2,   // channel 0 control, channel 1 plain Sends; both unacknowledged (Fig. 6)
  kSendDataOnly = 3,  // one acknowledged channel, packets inside SendData
};
[[nodiscard]] std::string_view to_string(TransferMode mode) noexcept;

/// How the nine messages are encoded on channel 0.
enum class MessageEncoding : uint8_t {
  kCapnp = 1,  // messages/netdev.capnp
  kBytes = 2,  // LAY-MSG
};
[[nodiscard]] std::string_view to_string(MessageEncoding encoding) noexcept;

/// Format of the immediate data. A session with a format other than LAY-IDATA is refused when it opens
/// (PUSH-IDATA-07, C-03).
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
  kLinkState = 4,        // 32 bits: 1 up, 0 down; the request reports the sender's state, the reply is empty
  kKeepalive = 5,        // 64 bits: frames completed on the data channel; the reply is empty
};

/// Status of a CfgUtilReply.
enum class CfgStatus : uint16_t {
  kGood = 0,
  kUnknownRequest = 1,  // unknown class or code
  kBadData = 2,         // size or contents of the data do not fit the request
  kNotPermitted = 3,    // known, but refused by policy (a taken MAC address, promiscuous mode)
  kFailed = 4,          // the NIC or the operating system refused
  kLimited = 5,         // accepted, but the NIC allows less now; the reply has the granted amount
  // Never on the wire: results for the requester when no reply came.
  kTimedOut = 0xFFFE,
  kSessionLost = 0xFFFF,
};
[[nodiscard]] std::string_view to_string(CfgStatus status) noexcept;

enum CfgFilterFlag : uint32_t { kFilterPromiscuous = 1, kFilterAllMulticast = 2 };

// ---- pools --------------------

/// Each side numbers the pools it owns. The host's pools have even references, the unit's odd ones, so a
/// reference means one pool for both sides of a session.
inline constexpr uint32_t kPoolReferenceStep = 2;
inline constexpr uint32_t kPoolReferenceFirstHost = 0;
inline constexpr uint32_t kPoolReferenceFirstUnit = 1;
/// Stands for the receive WQEs of the message's sender, in modes without RDMA (decisions 2.19). Handle and
/// address are 0.
inline constexpr uint32_t kPoolOfReceiveWqes = 0xFFFF'FFFF;

// ---- LAY-IDATA --------------------
//   31..24 pool reference   23..16 element index   15..0 element size in bytes, 0 stands for 65536

/// The used element, and the size of the elements of its pool (PUSH-IDATA-02).
struct PoolElement {
  uint32_t pool = 0;
  uint32_t element = 0;
  uint32_t element_bytes = 0;
  friend bool operator==(const PoolElement&, const PoolElement&) = default;
};

inline constexpr uint32_t kIdataPoolsMax = 1U << 8;          // references 0..255
inline constexpr uint32_t kIdataElementsMax = 1U << 8;       // indices 0..255
inline constexpr uint32_t kIdataElementBytesMax = 1U << 16;  // inclusive (C-04)

/// True when immediate data can name every element of such a pool. For other pools BufferRDMAIndicate is used
/// (PUSH-IDATA-03).
[[nodiscard]] constexpr bool fits_idata(uint32_t pool, uint32_t elements, uint32_t element_bytes) noexcept {
  return pool < kIdataPoolsMax && elements <= kIdataElementsMax && element_bytes >= 1 &&
         element_bytes <= kIdataElementBytesMax;
}
/// Only for an element of a pool for which fits_idata() is true.
[[nodiscard]] constexpr uint32_t encode_idata(const PoolElement& used) noexcept {
  return used.pool << 24 | used.element << 16 | (used.element_bytes & 0xFFFF);
}
/// Every 32-bit value decodes to a triple.
[[nodiscard]] constexpr PoolElement decode_idata(uint32_t idata) noexcept {
  const uint32_t size = idata & 0xFFFF;
  return {.pool = idata >> 24, .element = idata >> 16 & 0xFF, .element_bytes = size == 0 ? 65536 : size};
}
static_assert(encode_idata({7, 5, 256}) == 0x07050100 && encode_idata({0, 255, 65536}) == 0x00FF0000);

// ---- limits that both halves check before they loop --------------------

inline constexpr uint32_t kNetdevPoolsPerMessageMax = 64;
inline constexpr uint32_t kNetdevRunsPerMessageMax = 64;
inline constexpr uint32_t kNetdevIndicationsPerMessageMax = 64;
inline constexpr uint32_t kCfgDataBytesMax = 1024;
inline constexpr uint32_t kPoolElementsMax = 1U << 16;
inline constexpr uint32_t kPoolElementBytesMax = 1U << 24;
/// Limits of one side's own configuration. A peer may advertise pools within the limits above. The smallest
/// element holds a vnet header and an Ethernet frame without padding. All pools together, grown to twice
/// their number, fit into one completion queue.
inline constexpr uint32_t kOwnElementBytesMin = 72;
inline constexpr uint32_t kOwnElementsTogetherMax = 32704;
/// Why a pool cannot be offered, as text for the user; empty when it can. `together`: elements of all pools
/// so far, this one included.
[[nodiscard]] std::string own_pool_fault(uint32_t element_bytes, uint32_t elements, uint64_t together);
/// Longest frame that every mode must carry: 9000 bytes MTU, Ethernet header, one VLAN tag (decisions 1.17).
inline constexpr uint32_t kJumboFrameBytes = 9018;
/// Longest frame of RDMA mode without the vnet header; with the vnet header it fills an element of 64 KiB
/// (decisions 2.18).
inline constexpr uint32_t kGsoFrameBytesMax = 65524;

}  // namespace weft
