// Management datagrams of every class: what decodes must encode to the same bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "messages/mad/cm.h"
#include "messages/mad/endnode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> in(begin, begin + bytes);
  const auto differs = [&](const weft::MadBytes& out) {
    return !std::equal(in.begin(), in.end(), out.begin());
  };
  weft::CmMad cm;
  if (weft::decode_cm(in, cm) == weft::MadError::kNone && differs(weft::encode_cm(cm))) std::abort();
  weft::EndnodeMad endnode;
  if (weft::decode_endnode(in, endnode) == weft::MadError::kNone && differs(weft::encode_endnode(endnode)))
    std::abort();
  return 0;
}
