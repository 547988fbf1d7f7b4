// What a user of the installed package writes: includes by folder, links by Weft::target.
#include <array>

#include "base/crc32c.h"
#include "messages/cell.h"

int main() {
  const std::array<std::byte, 32> zeros{};
  weft::CellView view;
  const bool refused = weft::decode_cell(zeros, weft::CrcCheck::kVerify, view) != weft::CellError::kNone;
  return weft::crc32c(zeros) == 0x8a9136aaU && refused ? 0 : 1;
}
