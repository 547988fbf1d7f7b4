// Handshake messages from anywhere: what is accepted has fields in range and encodes to the same bytes; what
// both sides make of it never asserts.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "fabric/link/link_handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), bytes);
  weft::LinkHello hello;
  if (weft::decode_link_hello(input, hello) != weft::LinkHelloError::kNone) return 0;
  const weft::LinkHelloWire again = weft::encode_link_hello(hello);
  if (std::memcmp(&again, data, sizeof again) != 0) std::abort();
  weft::fabric::LinkConfig own;
  own.cell_payload_bytes = hello.cell_payload_bytes;
  own.flit_payload_bytes = hello.flit_payload_bytes;
  weft::LinkHello welcome;
  weft::fabric::LinkParams params;
  if (weft::fabric::answer_hello(own, hello, {weft::Lid(1), 1, {}}, welcome, params) ==
      weft::LinkRefusal::kNone) {
    if (params.lanes < 1 || params.lanes > own.lanes || params.credits_per_lane > own.credits_per_lane)
      std::abort();
  }
  static_cast<void>(weft::fabric::take_welcome(own, hello, params));
  return 0;
}
