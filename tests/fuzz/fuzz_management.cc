// Control requests and replies: what decodes must survive another turn through the encoder unchanged.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "control/management.h"

namespace {

/// Encoding is deterministic, so equal bytes stand for equal messages.
template <typename Decode, typename Encode>
void round_trip(std::span<const std::byte> input, Decode decode, Encode encode) {
  const auto first = decode(input);
  if (!first.ok()) return;
  const auto bytes = encode(first.value());
  const auto again = decode(bytes);
  if (!again.ok() || encode(again.value()) != bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), bytes);
  round_trip(input, weft::control::decode_control_request, weft::control::encode_control_request);
  round_trip(input, weft::control::decode_control_reply, weft::control::encode_control_reply);
  return 0;
}
