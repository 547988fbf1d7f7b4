// A peer of a memory window gone mad: it writes any bytes into its anchor record and table and into our FIFO,
// also between two reads of ours, and answers our heads with any tail. What we read stays inside, and what we
// grant lies in an entry of the table that was checked.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "base/crc32c.h"
#include "base/rng.h"
#include "fabric/window/memory_device.h"
#include "fabric/window/window_end.h"
#include "fabric/window/window_words.h"
#include "messages/window_call.h"

namespace {

using namespace weft;          // NOLINT(google-build-using-namespace)
using namespace weft::fabric;  // NOLINT(google-build-using-namespace)

constexpr OwnWindowConfig kSmall{.slots = 4, .slot_bytes = 64, .table_entries = 4};
constexpr uint64_t kRecordAt = 64;

/// The side under test is 0; side 1 is the peer, an honest one until the input changes its bytes.
struct World {
  SeededRandom random{1};
  MemoryWindow window{{.window_bytes = {OwnWindow::bytes_for(kSmall), OwnWindow::bytes_for(kSmall)}}, random};
  WindowEnd ours{window.end(0), kSmall};
  WindowEnd theirs{window.end(1), kSmall};
  ManualClock clock;

  void turn() {
    clock.advance(std::chrono::milliseconds(1));
    ours.poll(clock.now());
    FifoRecord record;
    if (ours.take(record) == FifoTake::kRecord) {
      if (record.data.size() > kSmall.slot_bytes - kSlotHeaderBytes) std::abort();
      ours.release();
    }
    for (FifoDone done; ours.next_sent(done);) {
    }
    for (AccessDone done; ours.next_access(done);) {
    }
  }
  void access(uint32_t key, uint64_t at, uint64_t bytes) {
    std::array<std::byte, 64> local{};
    const WindowAccess request{DmaKind::kWrite, key, at, local.data(), std::min<uint64_t>(bytes, 64), 1};
    if (ours.access(request) == AccessPost::kPosted) {
      const auto& entries = ours.peer().entries();
      const bool granted = std::any_of(entries.begin(), entries.end(), [&](const WindowEntry& entry) {
        return entry.key == key && (entry.rights & kTableWrite) != 0 && at >= entry.start &&
               lies_inside(at - entry.start, request.bytes, entry.length);
      });
      if (!granted) std::abort();
    }
    ours.flush();  // the memory of the access ends here, and so does the access
    for (AccessDone done; ours.next_access(done);) {
    }
  }
};

/// One step of the input: 12 bytes.
void step(World& world, const uint8_t* data) {
  const uint8_t action = data[0] % 8;
  const size_t at = (size_t{data[1]} << 8 | data[2]) % OwnWindow::bytes_for(kSmall);
  uint64_t value = 0;
  std::memcpy(&value, data + 4, sizeof value);
  const std::span<std::byte> peer = world.window.end(1).own_memory();
  const std::span<std::byte> own = world.window.end(0).own_memory();
  switch (action) {
    case 0:  // a byte of the peer's memory
      peer[at] = std::byte{data[3]};
      break;
    case 1:  // a word of its record, with the right CRC
      store_be(peer.data() + kRecordAt + data[3] % 52, value);
      store_be(peer.data() + kRecordAt + 60, crc32c(peer.subspan(kRecordAt, 60)));
      break;
    case 2:  // a byte of our memory: FIFO, table, record
      own[at] = std::byte{data[3]};
      break;
    case 3:  // our head
      store_window_word(own.data() + 128, data[3] % 2 == 0 ? value : value % 8);
      break;
    case 4: {  // an entry of its table, and a new generation
      const WindowEntry entry{value, data[3], data[2] % 8U, data[1]};
      const auto bytes = encode_entry(entry);
      std::memcpy(peer.data() + world.theirs.own().anchor().table_offset, bytes.data(), bytes.size());
      store_window_word(peer.data() + kRecordAt + 8, 2 * (value % 100));
      store_be(peer.data() + kRecordAt + 60, crc32c(peer.subspan(kRecordAt, 60)));
      break;
    }
    case 5:
      static_cast<void>(world.ours.send(1, 1, std::as_bytes(std::span(data, data[3] % 13U)), 0));
      break;
    case 6:
      world.access(data[1], value, data[2]);
      break;
    default:
      world.window.end(1).set_scratchpad(data[3] % 2, data[2] % 4 == 0 ? value : kRecordAt);
      world.window.end(1).notify();
      break;
  }
  if (data[3] % 2 == 0) world.turn();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  WindowCall call;
  if (decode_window_call(std::as_bytes(std::span(data, bytes)), call) == WindowCallFault::kNone) {
    const auto again = encode_window_call(call);
    if (std::memcmp(again.data(), data, again.size()) != 0) std::abort();
  }
  const auto world = std::make_unique<World>();
  world->theirs.poll(world->clock.now());
  for (size_t at = 0; at + 12 <= bytes; at += 12) step(*world, data + at);
  world->turn();
  return 0;
}
