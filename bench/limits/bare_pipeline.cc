// bench/limits/bare_pipeline.cc -- the yardstick: the highest rate at which three processes can move checked
// cells.
//
// How it works: host -> switch -> unit over shared rings, and back. Each hop does only what any fabric with
// these layouts must do. The host composes cell and flit headers and copies the payload in under one CRC. The
// switch checks flit and cell CRC, looks the LID up and copies the cell to the output ring in the same pass.
// The unit checks both CRCs and copies the payload to its memory. For every 16 cells a 48-byte ACK cell
// returns through the switch. There are no queue pairs, credits, lanes, arbiter or retries. Rings hold 256
// slots or 256 KiB, whichever is less. Positions are published per `batch` cells and when a process becomes
// idle. Host and unit share a core, so they yield when idle.
// --plain omits headers and ACKs: payload and CRC only.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/prefetch.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"
#include "messages/cell.h"
#include "messages/flit.h"

namespace weft::bench {
namespace {

constexpr uint64_t kRingBytes = 256 * 1024;
constexpr uint64_t kRingSlotsMin = 32;
constexpr uint64_t kRingSlotsMax = 256;
constexpr uint64_t kCellsPerAck = 16;
constexpr uint64_t kMemoryBytes = 64 * 1024;  // source and sink of payload
constexpr Lid kHostLid{1};
constexpr Lid kUnitLid{2};

struct alignas(128) Position {
  std::atomic<uint64_t> value;
};
struct RingShared {
  Position head;  // written by the producer
  Position tail;  // written by the consumer
};

struct Shape {
  uint32_t payload_bytes = 256;
  uint64_t batch = 32;
  bool plain = false;
  [[nodiscard]] uint64_t slot_bytes() const noexcept {
    return (kFlitHeaderBytes + kCellHeaderBytes + payload_bytes + kCrcBytes + 63) / 64 * 64;
  }
  [[nodiscard]] uint64_t slots() const noexcept {
    uint64_t slots = kRingSlotsMin;
    while (slots < kRingSlotsMax && slots * 2 * payload_bytes <= kRingBytes) slots *= 2;
    return slots;
  }
};

/// One end of a ring; both ends pass the same arguments to the constructor.
class Ring {
 public:
  Ring(RingShared* shared, std::byte* slots, const Shape& shape)
      : shared_(shared), slots_(slots), mask_(shape.slots() - 1), slot_bytes_(shape.slot_bytes()) {}

  // Calls of the producer.
  std::byte* claim() noexcept {
    if (next_ - other_ > mask_) {
      other_ = shared_->tail.value.load(std::memory_order_acquire);  // pairs with release()
      if (next_ - other_ > mask_) return nullptr;
    }
    prefetch_to_write(slot(next_ + kPrefetchSlots), slot_bytes_);
    return slot(next_);
  }
  void commit() noexcept { ++next_; }
  void publish() noexcept {
    if (next_ == shown_) return;
    shared_->head.value.store(next_, std::memory_order_release);  // pairs with front()
    shown_ = next_;
  }
  [[nodiscard]] uint64_t unpublished() const noexcept { return next_ - shown_; }

  // Calls of the consumer.
  const std::byte* front() noexcept {
    if (next_ == other_) {
      other_ = shared_->head.value.load(std::memory_order_acquire);  // pairs with publish()
      if (next_ == other_) return nullptr;
    }
    if (other_ - next_ > kPrefetchSlots) prefetch_to_read(slot(next_ + kPrefetchSlots), slot_bytes_);
    return slot(next_);
  }
  void pop() noexcept { ++next_; }
  void release() noexcept {
    if (next_ == shown_) return;
    shared_->tail.value.store(next_, std::memory_order_release);  // pairs with claim()
    shown_ = next_;
  }

 private:
  [[nodiscard]] std::byte* slot(uint64_t position) const noexcept {
    return slots_ + (position & mask_) * slot_bytes_;
  }
  RingShared* shared_;
  std::byte* slots_;
  uint64_t mask_;
  uint64_t slot_bytes_;
  uint64_t next_ = 0;   // own position
  uint64_t shown_ = 0;  // own position last published
  uint64_t other_ = 0;  // last seen position of the other side
};

/// Memory that the three processes share; mapped before they fork.
struct World {
  Shape shape;
  RingShared* rings = nullptr;  // host to switch, switch to unit, unit to switch, switch to host
  std::byte* slots = nullptr;
  std::atomic<bool>* stop = nullptr;
  std::atomic<uint64_t>* delivered = nullptr;
  std::byte* unit_memory = nullptr;
  std::byte* host_memory = nullptr;

  explicit World(const Shape& wanted) : shape(wanted) {
    rings = reinterpret_cast<RingShared*>(map_shared(4 * sizeof(RingShared)));
    slots = map_shared(4 * shape.slots() * shape.slot_bytes());
    auto* flags = map_shared(4096);
    stop = reinterpret_cast<std::atomic<bool>*>(flags);
    delivered = reinterpret_cast<std::atomic<uint64_t>*>(flags + 128);
    unit_memory = map_shared(kMemoryBytes + kCellPayloadBytesMax);
    host_memory = map_shared(kMemoryBytes + kCellPayloadBytesMax);
    for (size_t i = 0; i < kMemoryBytes; ++i) host_memory[i] = static_cast<std::byte>(i * 7);
  }
  [[nodiscard]] Ring ring(size_t index) const {
    return {rings + index, slots + index * shape.slots() * shape.slot_bytes(), shape};
  }
  [[nodiscard]] bool stopped() const noexcept { return stop->load(std::memory_order_relaxed); }
};

uint32_t load_u32(const std::byte* at) noexcept {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
uint64_t load_u64(const std::byte* at) noexcept {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Writes the 16 header bytes of a whole-cell flit: length, sequence, and the CRC over these and the cell's
/// CRC.
void put_flit_header(std::byte* slot, uint32_t cell_bytes, uint64_t sequence,
                     uint32_t cell_crc_wire) noexcept {
  const uint64_t first =
      to_big(uint64_t{kFlitHead | kFlitTail} << 48 | uint64_t{cell_bytes} << 32 | (sequence & 0xFFFF) << 16);
  const uint32_t crc = to_big(crc32c_words(0, first, word_of(0, cell_crc_wire)));
  const uint64_t second = word_of(0, crc);
  std::memcpy(slot, &first, sizeof first);
  std::memcpy(slot + 8, &second, sizeof second);
}

/// Length of the cell in a slot; 0 if the flit's CRC is wrong or its length impossible.
uint32_t check_flit(const std::byte* slot, const Shape& shape) noexcept {
  const uint64_t first = load_u64(slot);
  const uint64_t second = load_u64(slot + 8);
  const auto bytes = static_cast<uint32_t>(to_big(first) >> 32 & 0xFFFF);
  if (bytes < kCellHeaderBytes + kCrcBytes || bytes > shape.slot_bytes() - kFlitHeaderBytes) return 0;
  const uint32_t cell_crc = load_u32(slot + kFlitHeaderBytes + bytes - kCrcBytes);
  const uint32_t crc = crc32c_words(0, first, word_of(static_cast<uint32_t>(second), cell_crc));
  return to_big(crc) == static_cast<uint32_t>(second >> 32) ? bytes : 0;
}

/// Sending half of an endpoint: header template and sequence of one direction.
class Sender {
 public:
  Sender(const World& world, Ring ring, Lid from, Lid to)
      : shape_(world.shape),
        ring_(ring),
        fixed_(make_cell_template(
            {SubnetId(1), SubnetId(1), to, from, VirtualLane(0), ServiceLevel(0), Qpn(2), Qpn(3)})) {}

  /// False when the ring is full.
  bool send(Opcode opcode, const std::byte* payload, uint32_t bytes) noexcept {
    std::byte* slot = ring_.claim();
    if (slot == nullptr) return false;
    if (shape_.plain) {
      const uint32_t crc = crc32c_copy(0, slot + 8, payload, bytes);
      const uint64_t length_crc = word_of(bytes, crc);
      std::memcpy(slot, &length_crc, sizeof length_crc);
    } else {
      send_cell(slot, opcode, payload, bytes);
    }
    ring_.commit();
    if (ring_.unpublished() >= shape_.batch) ring_.publish();
    return true;
  }
  void publish() noexcept { ring_.publish(); }

 private:
  void send_cell(std::byte* slot, Opcode opcode, const std::byte* payload, uint32_t bytes) noexcept {
    std::byte* cell = slot + kFlitHeaderBytes;
    const bool ack = opcode == Opcode::kAck;
    const CellVariable variable{.opcode = opcode,
                                .flags = kCellFirst | kCellLast,
                                .psn = Psn(static_cast<uint32_t>(sequence_)),
                                .payload_bytes = static_cast<uint16_t>(ack ? 0 : bytes)};
    const uint32_t head = compose_cell_header(cell, fixed_, variable);
    const uint32_t crc = to_big(crc32c_copy(head, cell + kCellHeaderBytes, payload, bytes));
    std::memcpy(cell + kCellHeaderBytes + bytes, &crc, sizeof crc);
    put_flit_header(slot, kCellHeaderBytes + bytes + kCrcBytes, sequence_++, crc);
  }

  Shape shape_;
  Ring ring_;
  CellTemplate fixed_;
  uint64_t sequence_ = 0;
};

/// Receiving half of an endpoint: checks cells and copies the payload out.
class Receiver {
 public:
  Receiver(const World& world, Ring ring) : shape_(world.shape), ring_(ring) {}

  /// Takes one cell; false when there is none. Aborts on a wrong CRC, because only correct transfers are
  /// measured.
  bool take(std::byte* to) noexcept {
    const std::byte* slot = ring_.front();
    if (slot == nullptr) return false;
    if (shape_.plain) {
      const uint32_t bytes = load_u32(slot);
      WEFT_CHECK(crc32c_copy(0, to, slot + 8, bytes) == load_u32(slot + 4), "payload CRC");
    } else {
      take_cell(slot, to);
    }
    ring_.pop();
    return true;
  }
  void release() noexcept { ring_.release(); }

 private:
  void take_cell(const std::byte* slot, std::byte* to) noexcept {
    const uint32_t bytes = check_flit(slot, shape_);
    WEFT_CHECK(bytes != 0, "flit CRC");
    const std::byte* cell = slot + kFlitHeaderBytes;
    const uint32_t head =
        crc32c_words(0, load_u64(cell), load_u64(cell + 8), load_u64(cell + 16), load_u64(cell + 24));
    const uint32_t body = bytes - kCellHeaderBytes - kCrcBytes;
    const uint32_t crc = crc32c_copy(head, to, cell + kCellHeaderBytes, body);
    WEFT_CHECK(to_big(crc) == load_u32(cell + bytes - kCrcBytes), "cell CRC");
  }
  Shape shape_;
  Ring ring_;
};

/// Forwards up to one batch. @return the number of cells moved
uint64_t forward(const Shape& shape, Ring& in, Ring* outputs, const uint16_t* port_of_lid,
                 uint64_t& sequence) noexcept {
  uint64_t moved = 0;
  for (; moved < shape.batch; ++moved) {
    const std::byte* slot = in.front();
    if (slot == nullptr) break;
    Ring& out = outputs[shape.plain ? 0 : port_of_lid[CellHead(slot + kFlitHeaderBytes).dlid().value()]];
    std::byte* to = out.claim();
    if (to == nullptr) break;
    if (shape.plain) {
      const uint32_t bytes = load_u32(slot);
      const uint32_t crc = crc32c_copy(0, to + 8, slot + 8, bytes);
      WEFT_CHECK(crc == load_u32(slot + 4), "payload CRC");
      const uint64_t length_crc = word_of(bytes, crc);
      std::memcpy(to, &length_crc, sizeof length_crc);
    } else {
      const uint32_t bytes = check_flit(slot, shape);
      WEFT_CHECK(bytes != 0, "flit CRC");
      const uint32_t covered = bytes - kCrcBytes;
      const uint32_t crc = to_big(crc32c_copy(0, to + kFlitHeaderBytes, slot + kFlitHeaderBytes, covered));
      WEFT_CHECK(crc == load_u32(slot + kFlitHeaderBytes + covered), "cell CRC");
      std::memcpy(to + kFlitHeaderBytes + covered, &crc, sizeof crc);
      put_flit_header(to, bytes, sequence++, crc);
    }
    out.commit();
    in.pop();
  }
  in.release();
  return moved;
}

void run_switch(const World& world, int core) {
  pin_to_core(core);
  std::vector<uint16_t> port_of_lid(65536);
  port_of_lid[kHostLid.value()] = 1;
  port_of_lid[kUnitLid.value()] = 0;
  Ring from_host = world.ring(0);
  Ring from_unit = world.ring(2);
  Ring out[2] = {world.ring(1), world.ring(3)};
  uint64_t sequence[2] = {};
  while (!world.stopped()) {
    uint64_t moved = forward(world.shape, from_host, out, port_of_lid.data(), sequence[0]);
    out[0].publish();
    moved +=
        forward(world.shape, from_unit, world.shape.plain ? out + 1 : out, port_of_lid.data(), sequence[1]);
    out[1].publish();
    if (moved == 0 && core < 0) yield_core();
  }
}

const std::byte* ack_body() {
  static constexpr std::byte kBody[kAckBodyBytes]{};
  return kBody;
}

void run_sink(const World& world, int core) {
  pin_to_core(core);
  Receiver in(world, world.ring(1));
  Sender back(world, world.ring(2), kUnitLid, kHostLid);
  uint64_t delivered = 0;
  uint64_t at = 0;
  while (!world.stopped()) {
    uint64_t taken = 0;
    while (taken < world.shape.batch && in.take(world.unit_memory + at)) {
      ++taken;
      at = (at + world.shape.payload_bytes) % kMemoryBytes;
      if (++delivered % kCellsPerAck == 0 && !world.shape.plain) {
        while (!back.send(Opcode::kAck, ack_body(), kAckBodyBytes) && !world.stopped()) yield_core();
      }
    }
    in.release();
    back.publish();
    world.delivered->store(delivered, std::memory_order_relaxed);
    if (taken == 0) yield_core();
  }
}

/// Keeps the ring full for `seconds` after a short warm-up. @return cells per second at the unit
double run_source(const World& world, double seconds) {
  Sender out(world, world.ring(0), kHostLid, kUnitLid);
  Receiver acks(world, world.ring(3));
  std::byte body[kCellPayloadBytesMax];
  uint64_t at = 0;
  double start = 0;
  uint64_t delivered = 0;
  const double begin = seconds_now();
  for (;;) {
    uint64_t sent = 0;
    while (sent < world.shape.batch &&
           out.send(Opcode::kRdmaWrite, world.host_memory + at, world.shape.payload_bytes)) {
      ++sent;
      at = (at + world.shape.payload_bytes) % kMemoryBytes;
    }
    out.publish();
    while (acks.take(body)) ++sent;
    acks.release();
    if (sent == 0) yield_core();
    const double now = seconds_now();
    if (start == 0 && now - begin > seconds / 4) {
      start = now;
      delivered = world.delivered->load(std::memory_order_relaxed);
    } else if (start != 0 && now - start > seconds) {
      return static_cast<double>(world.delivered->load(std::memory_order_relaxed) - delivered) /
             (now - start);
    }
  }
}

void run_echo(const World& world, int core) {
  pin_to_core(core);
  Receiver in(world, world.ring(1));
  Sender back(world, world.ring(2), kUnitLid, kHostLid);
  while (!world.stopped()) {
    if (!in.take(world.unit_memory)) {
      yield_core();
      continue;
    }
    in.release();
    while (!back.send(Opcode::kSend, world.unit_memory, world.shape.payload_bytes)) yield_core();
    back.publish();
  }
}

/// Median round trip of single cells in microseconds.
double run_ping(const World& world, double seconds) {
  Sender out(world, world.ring(0), kHostLid, kUnitLid);
  Receiver in(world, world.ring(3));
  std::vector<double> samples;
  samples.reserve(1'000'000);
  const double end = seconds_now() + seconds;
  while (samples.size() < samples.capacity()) {
    const double start = seconds_now();
    if (start > end) break;
    (void)out.send(Opcode::kSend, world.host_memory, world.shape.payload_bytes);
    out.publish();
    while (!in.take(world.host_memory)) yield_core();
    in.release();
    samples.push_back((seconds_now() - start) * 1e6);
  }
  return percentile(samples, 0.5);
}

struct Options {
  Shape shape;
  bool ping = false;
  double seconds = 0.3;
  int host_core = 1;
  int switch_core = 0;
  int unit_core = 1;
};

void measure(const Options& options) {
  const World world(options.shape);
  Children children;
  children.start([&] { run_switch(world, options.switch_core); });
  children.start(
      [&] { options.ping ? run_echo(world, options.unit_core) : run_sink(world, options.unit_core); });
  pin_to_core(options.host_core);
  const double value = options.ping ? run_ping(world, options.seconds) : run_source(world, options.seconds);
  world.stop->store(true);
  WEFT_CHECK(children.wait(), "a child failed");
  const char* kind = options.shape.plain ? "plain" : "bare";
  if (options.ping) {
    print_figure(fmt::format("{}_ping_{}", kind, options.shape.payload_bytes), value, "us");
  } else {
    print_figure(fmt::format("{}_cells_{}_batch_{}", kind, options.shape.payload_bytes, options.shape.batch),
                 value, "cells/s");
  }
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("bare_pipeline: three processes over shared rings, no protocol");
  known.add_options()("payload", po::value(&options.shape.payload_bytes)->default_value(256),
                      "payload bytes of a cell");
  known.add_options()("batch", po::value(&options.shape.batch)->default_value(32), "cells per publication");
  known.add_options()("plain", po::bool_switch(&options.shape.plain),
                      "payload and CRC only: no headers, no ACKs");
  known.add_options()("ping", po::bool_switch(&options.ping), "one cell there and back at a time");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.3, "0.3"), "measured time");
  known.add_options()("host-core", po::value(&options.host_core)->default_value(1), "core; -1 = any");
  known.add_options()("switch-core", po::value(&options.switch_core)->default_value(0), "core; -1 = any");
  known.add_options()("unit-core", po::value(&options.unit_core)->default_value(1), "core; -1 = any");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  if (options.shape.payload_bytes > kCellPayloadBytesMax || options.shape.batch == 0) {
    fmt::print(stderr, "bare_pipeline: payload is at most {} bytes, batch at least 1\n",
               kCellPayloadBytesMax);
    return 2;
  }
  measure(options);
  return 0;
}

}  // namespace weft::bench
