// Datagrams that open a session: what decodes must encode to the same bytes again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "messages/cm.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> in(begin, begin + bytes);
  weft::CmMessage message;
  if (weft::decode_cm(in, message) != weft::CmError::kNone) return 0;
  std::vector<std::byte> out(weft::kCmBytesMax);
  if (weft::encode_cm(message, out) != in.size()) std::abort();
  if (std::memcmp(out.data(), in.data(), in.size()) != 0) std::abort();
  return 0;
}
