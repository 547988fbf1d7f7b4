// Driver messages in Cap'n Proto: what decodes must survive another turn through the encoder unchanged.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "messages/netdev_capnp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  constexpr uint32_t kBytesMax = 16384;
  static weft::NetdevCapnp first(kBytesMax);
  static weft::NetdevCapnp second(2 * kBytesMax);
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> in(begin, begin + bytes);
  weft::NetdevMessage message;
  if (first.decode(in, message) != weft::NetdevError::kNone) return 0;
  std::vector<std::byte> out(2 * kBytesMax);
  const size_t written = second.encode(message, out);
  if (written == 0) std::abort();
  weft::NetdevMessage again;
  if (second.decode(std::span(out).first(written), again) != weft::NetdevError::kNone) std::abort();
  if (!(again == message)) std::abort();
  return 0;
}
