// A shared-memory peer gone mad: it writes any positions and flags at any time, and what we do stays inside
// our slots.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "fabric/carrier/slot_ring.h"

namespace {

constexpr weft::fabric::RingGeometry kShape{64, 32};

struct Shared {
  weft::fabric::RingControl control{};
  alignas(64) std::array<std::byte, size_t{64} * 32> slots{};
};

bool inside(const Shared& shared, const std::byte* at, size_t bytes) {
  const std::byte* begin = shared.slots.data();
  return at >= begin && at + bytes <= begin + shared.slots.size();
}

void consume(Shared& shared, weft::fabric::RingConsumer& ring, uint8_t action) {
  std::array<weft::fabric::RxSlot, 64> out;
  const uint32_t got = ring.receive(std::span(out).first(1U + (action & 0x3F)));
  if (got > kShape.slots) std::abort();
  for (uint32_t i = 0; i < got; ++i) {
    if (!inside(shared, out[i].bytes, out[i].size)) std::abort();
  }
  if (got != 0) ring.release(out[got - 1].position + 1);
  if ((action & 0x40) != 0) {
    static_cast<void>(ring.prepare_sleep());
    ring.finish_sleep();
  }
  if ((action & 0x80) != 0 && got != 0) ring.reread(out[0].position);
}

void produce(Shared& shared, weft::fabric::RingProducer& ring, uint8_t action) {
  const weft::fabric::TxRun run = ring.claim(action & 0x0F);
  if (run.count > kShape.slots) std::abort();
  if (run.count != 0 && !inside(shared, run.first, size_t{run.stride} * run.count)) std::abort();
  if (run.count != 0) std::memset(run.first, action, size_t{run.stride} * run.count);
  ring.commit(std::min<uint32_t>(run.count, action >> 4));
  static_cast<void>(ring.publish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const auto shared = std::make_unique<Shared>();
  weft::fabric::RingConsumer consumer(shared->control, shared->slots.data(), kShape);
  weft::fabric::RingProducer producer(shared->control, shared->slots.data(), kShape);
  for (size_t at = 0; at + 10 <= bytes; at += 10) {
    uint64_t value = 0;
    std::memcpy(&value, data + at + 2, sizeof value);
    if ((data[at] & 4) != 0) value &= 0x3F;  // plausible positions too
    if ((data[at] & 1) != 0) shared->control.head.store(value);
    if ((data[at] & 2) != 0) shared->control.tail.store(value);
    shared->control.sleeping.store(data[at]);
    if ((data[at] & 8) != 0) {
      consume(*shared, consumer, data[at + 1]);
    } else {
      produce(*shared, producer, data[at + 1]);
    }
  }
  return 0;
}
