// Frames as a hostile peer may indicate them: head copy, vnet check, segmentation and checksums in software,
// and the payloads of configuration requests.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/net/frame_writer.h"
#include "messages/cfg_data.h"

namespace {

void check_configuration(std::span<const std::byte> bytes) {
  weft::NicFilters filters;
  weft::NicStatistics statistics;
  weft::NicCapabilities capabilities;
  if (weft::decode_filters(bytes, filters) && filters.multicast_count > weft::kMulticastFiltersMax)
    std::abort();
  (void)weft::decode_statistics(bytes, statistics);
  (void)weft::decode_capabilities(bytes, capabilities);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static weft::Segmenter segmenter;
  static std::vector<std::byte> piece(weft::kSegmenterBytesMax);
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check_configuration(bytes);
  weft::FrameHead head;
  if (!weft::copy_head(bytes, head)) return 0;
  if (weft::check_vnet(head.vnet, head.frame(), head.frame_bytes) != weft::VnetError::kNone) return 0;
  if (!segmenter.start(head.span(), bytes.subspan(head.size))) return 0;
  size_t pieces = 0;
  while (segmenter.active()) {
    if (segmenter.next(piece) == 0 || ++pieces > size) std::abort();
  }
  return 0;
}
