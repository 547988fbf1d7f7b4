// Messages that open and end a session: what is read is written and read again as the same message.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "messages/session_mad.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> in(begin, begin + bytes);
  weft::SessionMad message;
  if (weft::decode_session_mad(in, message) != weft::MadError::kNone) return 0;
  weft::SessionMad again;
  if (weft::decode_session_mad(weft::encode_session_mad(message), again) != weft::MadError::kNone)
    std::abort();
  if (again != message) std::abort();
  return 0;
}
