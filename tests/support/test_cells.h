// tests/support/test_cells.h -- valid cells for tests of links and switches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/cell.h"

namespace weft::test {

struct TestCell {
  Lid dlid{2};
  Lid slid{1};
  VirtualLane vl{0};
  Qpn dest_qpn{0x100};
  uint32_t number = 0;  // PSN and pattern of the payload
  uint32_t payload_bytes = 64;
  Opcode opcode = Opcode::kSend;
  SubnetId subnet{0};
  uint8_t flags = 0;  // beside FIRST and LAST
};

inline std::vector<std::byte> make_cell(const TestCell& want) {
  const bool ack = (opcode_properties(static_cast<uint8_t>(want.opcode)) & kOpAcknowledge) != 0;
  const uint32_t body = ack ? kAckBodyBytes : 0;
  const bool datagram = want.opcode == Opcode::kUdSend;
  const uint32_t parts = body + (datagram ? kDatagramHeaderBytes : 0);
  std::vector<std::byte> cell(kCellHeaderBytes + parts + want.payload_bytes + kCrcBytes);
  CellAddress address;
  address.dest_subnet = address.src_subnet = want.subnet;
  address.dlid = want.dlid;
  address.slid = want.slid;
  address.vl = want.vl;
  address.dest_qpn = want.dest_qpn;
  address.src_qpn = Qpn(0x200);
  CellVariable variable;
  variable.opcode = want.opcode;
  variable.flags = static_cast<uint8_t>(kCellFirst | kCellLast | want.flags);
  variable.psn = Psn(want.number);
  variable.payload_bytes = static_cast<uint16_t>(want.payload_bytes);
  static_cast<void>(compose_cell_header(cell.data(), make_cell_template(address), variable));
  for (uint32_t i = 0; i < want.payload_bytes; ++i) {
    cell[kCellHeaderBytes + parts + i] = static_cast<std::byte>(want.number + i);
  }
  const size_t covered = cell.size() - kCrcBytes;
  store_be(cell.data() + covered, crc32c({cell.data(), covered}));
  return cell;
}

inline uint32_t cell_crc(const std::vector<std::byte>& cell) {
  return load_be<uint32_t>(cell.data() + cell.size() - kCrcBytes);
}

/// The number make_cell() was given.
inline uint32_t cell_number(std::span<const std::byte> cell) {
  return load_be<uint32_t>(cell.data() + 24) & Psn::kMask;
}

}  // namespace weft::test
