// Flits from a hostile peer: first the decoder alone, then a whole link engine fed with them through a
// carrier.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "messages/flit.h"
#include "tests/support/script_carrier.h"

namespace {

/// Bytes of a flit made valid: the right CRC lets the fuzzer past the last gate.
std::vector<std::byte> repaired(std::span<const std::byte> flit, bool whole_cell) {
  std::vector<std::byte> out(flit.begin(), flit.end());
  out.resize(weft::kFlitHeaderBytes + 64);
  weft::FlitFields fields;
  fields.kind = static_cast<weft::FlitKind>(static_cast<uint8_t>(out[0]) >> 4 & 3);
  fields.vl = weft::VirtualLane(static_cast<uint8_t>(out[0]) & 0x0F);
  fields.flags = static_cast<uint8_t>(out[1]);
  fields.payload_bytes = fields.kind == weft::FlitKind::kData ? 64 : 0;
  fields.sequence = weft::load_be<uint16_t>(out.data() + 4);
  fields.acknowledged = weft::load_be<uint16_t>(out.data() + 6);
  fields.credit_vl = weft::VirtualLane(static_cast<uint8_t>(out[8]) & 0x0F);
  fields.credit = weft::load_be<uint16_t>(out.data() + 10);
  const std::span<std::byte> cell = std::span(out).subspan(weft::kFlitHeaderBytes);
  const uint32_t cell_crc = weft::crc32c(cell.first(60));
  if (whole_cell) weft::store_be(cell.data() + 60, cell_crc);
  weft::compose_flit(out.data(), fields, whole_cell, cell_crc);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const bool whole_cell = (data[0] & 1) != 0;
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data + 1), bytes - 1);
  const weft::FlitProfile profile{weft::test::ScriptCarrier::kFlitPayloadBytes, 4, whole_cell};
  weft::FlitView view;
  if (weft::decode_flit(input, profile, view) == weft::FlitError::kNone) {
    if (view.payload.data() + view.payload.size() > input.data() + input.size()) std::abort();
  }
  auto owned = std::make_unique<weft::test::ScriptCarrier>();
  weft::test::ScriptCarrier& carrier = *owned;
  weft::fabric::LinkEngine engine;
  weft::Instant now{};
  engine.bring_up(std::move(owned), weft::test::ScriptCarrier::params(whole_cell), now);
  // Each 18 bytes are one flit; every other one is repaired.
  for (size_t at = 0, turn = 0; at + 18 <= input.size() && engine.state() == weft::fabric::LinkState::kUp;
       at += 18, ++turn) {
    const std::span<const std::byte> raw = input.subspan(at, 18);
    carrier.arrive(turn % 2 == 0 ? repaired(raw, whole_cell)
                                 : std::vector<std::byte>(raw.begin(), raw.end()));
    now += std::chrono::microseconds(100);
    engine.poll(now);
    if (engine.state() != weft::fabric::LinkState::kUp) break;
    for (const weft::fabric::RxFlit& flit : engine.receive()) {
      if (static_cast<uint8_t>(input[at]) % 3 == 0) engine.grant(flit.vl, 1);
    }
    engine.release();
    const weft::VirtualLane lane(static_cast<uint8_t>(input[at + 1]) & 3);
    if (engine.claim(lane) != nullptr) engine.commit({lane, weft::kFlitHead | weft::kFlitTail, 64, 0});
    engine.flush(now);
  }
  return 0;
}
