// The fault layer itself: what it says it does to flits, it does.
#include "fabric/link/faulty_carrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fabric/link/link_handshake.h"
#include "tests/support/script_carrier.h"

namespace weft::test {
using namespace fabric;
namespace {

TEST(FaultyCarrier, damages_one_bit_anywhere_in_a_flit_and_nothing_behind_it) {
  constexpr uint16_t kPayloadBytes = 400;
  constexpr uint32_t kFlitBytes = kFlitHeaderBytes + kPayloadBytes;
  constexpr uint32_t kSlotBytes = 512;
  std::vector<std::byte> slot(kSlotBytes);
  compose_flit(slot.data(), {.payload_bytes = kPayloadBytes}, false, 0);
  SeededRandom random(1);
  FlitFaults faults;
  faults.corrupt_ppm = 1'000'000;
  FaultCounts counts;
  auto script = std::make_unique<ScriptCarrier>();
  ScriptCarrier& arriving = *script;
  FaultyCarrier carrier(std::move(script), kSlotBytes, random, faults, counts);
  std::set<size_t> parts;  // hundreds of bytes that were hit
  for (uint64_t flit = 0; flit < 300; ++flit) {
    arriving.arrive(slot);
    std::array<RxSlot, 8> out;
    ASSERT_EQ(carrier.receive(out), 1U);
    uint32_t bits = 0;
    for (size_t at = 0; at < kSlotBytes; ++at) {
      const auto changed = std::to_integer<uint32_t>(out[0].bytes[at] ^ slot[at]);
      if (changed == 0) continue;
      EXPECT_LT(at, kFlitBytes) << "behind the flit";
      bits += static_cast<uint32_t>(std::popcount(changed));
      parts.insert(at / 100);
    }
    EXPECT_EQ(bits, 1U);
    carrier.release(flit + 1);
  }
  EXPECT_EQ(parts.size(), 5U) << "each hundred of the 416 bytes";
  EXPECT_EQ(counts.corrupted, 300U);
}

}  // namespace
}  // namespace weft::test
