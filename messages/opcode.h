// messages/opcode.h -- the operations that a cell can carry, as one table of properties (house style 11).
// Other code asks for properties; only the table lists operations.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weft {

/// Values on the wire (LAY-CELL; 0x21 by decisions 2.2). Never renumbered.
enum class Opcode : uint8_t {
  kSend = 0x01,
  kRdmaWrite = 0x02,
  kRdmaReadRequest = 0x03,
  kRdmaReadResponse = 0x04,
  kFetchOpRequest = 0x05,
  kFetchOpResponse = 0x06,
  kTerminate = 0x07,
  kStreamSegment = 0x08,
  kAck = 0x10,
  kNak = 0x11,
  kWays = 0x12,  // an acknowledgement that names the LIDs of its sender (WaysWire)
  kRaw = 0x20,
  kUdSend = 0x21,
  kRdSend = 0x22,  // reliable datagrams carry a Q_Key as UD does (SAN-XPORT-10)
  kRdWrite = 0x23,
  // Requests of extended reliable connections name a shared receive queue. Their answers are those of RC.
  kXrcSend = 0xA1,
  kXrcWrite = 0xA2,
  kXrcReadRequest = 0xA3,
  kXrcFetchOpRequest = 0xA5,
};

enum OpcodeProperty : uint32_t {
  kOpRequest = 1 << 0,        // goes from requester to responder and takes a PSN
  kOpResponse = 1 << 1,       // answers a request: data of a read or FetchOp
  kOpAcknowledge = 1 << 2,    // ACK or NAK
  kOpNeedsRecvWqe = 1 << 3,   // its data goes to a receive WQE
  kOpVaInFirstCell = 1 << 4,  // the first cell of each packet carries VA and MH
  kOpMayCarryIdata = 1 << 5,
  kOpMultiCell = 1 << 6,       // a packet may have more than one cell
  kOpDatagramHeader = 1 << 7,  // 8 bytes follow the header: Q_Key, P_Key, zero
  kOpFixedBody = 1 << 8,       // the payload is a header of at least fixed_body_bytes
  kOpWritesMemory = 1 << 9,    // changes the responder's memory under a key: needs the write right
  kOpReadsMemory = 1 << 10,    // reads that memory: needs the read right; with both: the atomic right
  // Services whose responder accepts the operation.
  kOpOnRc = 1 << 11,
  kOpOnUc = 1 << 12,
  kOpOnRd = 1 << 13,
  kOpOnUd = 1 << 14,
  kOpOnRaw = 1 << 15,
  kOpOnXrc = 1 << 16,

  kOpXrcHeader = 1 << 17,  // 4 bytes follow the header: number of a shared receive queue at the responder
};

struct OpcodeInfo {
  Opcode opcode;
  std::string_view name;
  uint32_t properties;
  uint16_t fixed_body_bytes;
};

inline constexpr std::array kOpcodes{
    OpcodeInfo{Opcode::kSend, "send",
               kOpRequest | kOpNeedsRecvWqe | kOpMayCarryIdata | kOpMultiCell | kOpOnRc | kOpOnUc, 0},
    OpcodeInfo{
        Opcode::kRdmaWrite, "rdma-write",
        kOpRequest | kOpWritesMemory | kOpVaInFirstCell | kOpMayCarryIdata | kOpMultiCell | kOpOnRc | kOpOnUc,
        0},
    OpcodeInfo{Opcode::kRdmaReadRequest, "rdma-read-request",
               kOpRequest | kOpReadsMemory | kOpFixedBody | kOpOnRc, 32},
    OpcodeInfo{Opcode::kRdmaReadResponse, "rdma-read-response", kOpResponse | kOpVaInFirstCell | kOpMultiCell,
               0},
    OpcodeInfo{Opcode::kFetchOpRequest, "fetchop-request",
               kOpRequest | kOpReadsMemory | kOpWritesMemory | kOpFixedBody | kOpOnRc, 32},
    OpcodeInfo{Opcode::kFetchOpResponse, "fetchop-response", kOpResponse | kOpFixedBody, 8},
    OpcodeInfo{Opcode::kTerminate, "terminate", kOpRequest | kOpFixedBody, 24},
    OpcodeInfo{Opcode::kStreamSegment, "stream-segment", kOpRequest, 0},
    OpcodeInfo{Opcode::kAck, "ack", kOpAcknowledge, 0},
    OpcodeInfo{Opcode::kNak, "nak", kOpAcknowledge, 0},
    OpcodeInfo{Opcode::kWays, "ways", kOpAcknowledge, 0},
    OpcodeInfo{Opcode::kRaw, "raw", kOpRequest | kOpNeedsRecvWqe | kOpOnRaw, 0},
    OpcodeInfo{Opcode::kUdSend, "ud-send",
               kOpRequest | kOpNeedsRecvWqe | kOpMayCarryIdata | kOpDatagramHeader | kOpOnUd, 0},
    OpcodeInfo{Opcode::kRdSend, "rd-send",
               kOpRequest | kOpNeedsRecvWqe | kOpMayCarryIdata | kOpDatagramHeader | kOpOnRd, 0},
    OpcodeInfo{
        Opcode::kRdWrite, "rd-write",
        kOpRequest | kOpWritesMemory | kOpVaInFirstCell | kOpMayCarryIdata | kOpDatagramHeader | kOpOnRd, 0},
    OpcodeInfo{Opcode::kXrcSend, "xrc-send",
               kOpRequest | kOpNeedsRecvWqe | kOpMayCarryIdata | kOpMultiCell | kOpXrcHeader | kOpOnXrc, 0},
    OpcodeInfo{Opcode::kXrcWrite, "xrc-write",
               kOpRequest | kOpWritesMemory | kOpVaInFirstCell | kOpMayCarryIdata | kOpMultiCell |
                   kOpXrcHeader | kOpOnXrc,
               0},
    OpcodeInfo{Opcode::kXrcReadRequest, "xrc-read-request",
               kOpRequest | kOpReadsMemory | kOpFixedBody | kOpXrcHeader | kOpOnXrc, 32},
    OpcodeInfo{Opcode::kXrcFetchOpRequest, "xrc-fetchop-request",
               kOpRequest | kOpReadsMemory | kOpWritesMemory | kOpFixedBody | kOpXrcHeader | kOpOnXrc, 32},
};

/// Null for an unknown value.
[[nodiscard]] constexpr const OpcodeInfo* find_opcode(uint8_t wire) noexcept {
  for (const OpcodeInfo& info : kOpcodes) {
    if (static_cast<uint8_t>(info.opcode) == wire) return &info;
  }
  return nullptr;
}

inline constexpr std::array<uint32_t, 256> kOpcodeProperties = [] {
  std::array<uint32_t, 256> table{};
  for (const OpcodeInfo& info : kOpcodes) table[static_cast<uint8_t>(info.opcode)] = info.properties;
  return table;
}();

/// Properties of a valid operation; 0 otherwise. One table look-up.
[[nodiscard]] constexpr uint32_t opcode_properties(uint8_t wire) noexcept {
  return kOpcodeProperties[wire];
}

/// A request that reads the responder's memory under a key: an RDMA read or an atomic operation.
[[nodiscard]] constexpr bool is_read_request(Opcode opcode) noexcept {
  return (opcode_properties(static_cast<uint8_t>(opcode)) & kOpReadsMemory) != 0;
}
/// A request that also changes the word that it reads.
[[nodiscard]] constexpr bool is_atomic_request(Opcode opcode) noexcept {
  constexpr uint32_t kBoth = kOpReadsMemory | kOpWritesMemory;
  return (opcode_properties(static_cast<uint8_t>(opcode)) & kBoth) == kBoth;
}

}  // namespace weft
