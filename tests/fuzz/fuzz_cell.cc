// A cell from anywhere: decode_cell must accept or refuse, and what it accepts must lie inside the input.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "messages/cell.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> cell(begin, begin + bytes);
  weft::CellView view;
  (void)weft::decode_cell(cell, weft::CrcCheck::kVerify, view);
  if (cell.size() < weft::kCrcBytes) return 0;
  // A valid checksum lets the fuzzer past the last gate.
  const size_t covered = cell.size() - weft::kCrcBytes;
  weft::store_be(cell.data() + covered, weft::crc32c(std::span(cell).first(covered)));
  if (weft::decode_cell(cell, weft::CrcCheck::kVerify, view) != weft::CellError::kNone) return 0;
  const std::byte* end = cell.data() + cell.size();
  if (view.payload.data() < cell.data() || view.payload.data() + view.payload.size() > end) std::abort();
  uint32_t sum = 0;
  for (const std::byte byte : view.payload) sum += static_cast<uint32_t>(byte);
  return sum == 0xFFFF'FFFF ? 1 : 0;
}
