// What a user of the installed package writes: includes by <weft/FOLDER/...>, links by Weft::target.
#include <weft/base/crc32c.h>
#include <weft/messages/cell.h>

#include <array>

int main() {
  const std::array<std::byte, 32> zeros{};
  weft::CellView view;
  const bool refused = weft::decode_cell(zeros, weft::CrcCheck::kVerify, view) != weft::CellError::kNone;
  return weft::crc32c(zeros) == 0x8a9136aaU && refused ? 0 : 1;
}
