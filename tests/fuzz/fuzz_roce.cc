// Cells from anywhere become frames: each cell one at least, every frame whole with a right invariant CRC,
// whatever is in them. The input is cut into cells; their checks are made right, so that most are decoded.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "messages/cell.h"
#include "tools/capture/roce_translator.h"

namespace {

using namespace weft;

/// Two bytes of length, then the cell.
std::vector<std::byte> next_cell(std::span<const std::byte>& input) {
  if (input.size() < 2) input = {};
  if (input.empty()) return {};
  const size_t bytes = std::min<size_t>(input.size() - 2, load_be<uint16_t>(input.data()));
  const std::span<const std::byte> taken = input.subspan(2, bytes);
  std::vector<std::byte> cell(taken.begin(), taken.end());
  input = input.subspan(2 + bytes);
  if (cell.size() < kCellHeaderBytes + kCrcBytes) return cell;
  const std::span<std::byte> covered = std::span(cell).first(cell.size() - kCrcBytes);
  store_be(cell.data() + covered.size(), crc32c(covered));
  return cell;
}

void check(const CapturedFrame& frame) {
  if (frame.frame_bytes != frame.data.size()) std::abort();
  const auto type = load_be<uint16_t>(frame.data.data() + 12);
  if (type == tools::kEtherTypeOther) {
    if (frame.note.empty()) std::abort();
    return;
  }
  if (type != tools::kEtherTypeIpv4) return;  // of IPv6 some are raw packets
  const auto icrc = tools::roce_icrc(frame.data);
  if (!std::equal(icrc.begin(), icrc.end(), frame.data.end() - tools::kIcrcBytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2) return 0;
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), bytes);
  tools::RoceTranslator translator(input.front() == std::byte{0} ? 8192 : 256);
  input = input.subspan(1);
  std::vector<CapturedFrame> out;
  size_t cells = 0;
  for (uint64_t time = 1; !input.empty(); ++time, ++cells) {
    CapturedFrame cell;
    cell.time_ns = time * 1'000'000;
    cell.data = next_cell(input);
    cell.frame_bytes = static_cast<uint32_t>(cell.data.size());
    translator.take(cell, out);
  }
  translator.finish(out);
  if (out.size() < cells) std::abort();
  for (const CapturedFrame& frame : out) check(frame);
  return 0;
}
