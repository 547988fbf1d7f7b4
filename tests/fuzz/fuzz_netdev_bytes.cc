// Driver messages in bytes: what decodes must encode to the same bytes again, and its spans lie inside the
// input.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "messages/netdev_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> in(begin, begin + bytes);
  weft::NetdevMessage message;
  if (weft::decode_netdev_bytes(in, message) != weft::NetdevError::kNone) return 0;
  std::vector<std::byte> out(in.size());
  if (weft::encode_netdev_bytes(message, out) != in.size()) std::abort();
  if (std::memcmp(out.data(), in.data(), in.size()) != 0) std::abort();
  return 0;
}
