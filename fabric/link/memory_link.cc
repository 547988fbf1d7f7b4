// How it works: one ring of slots per direction. The sender fills and publishes slots. The receiver reads
// from a cursor and frees up to a tail, which follows the slots that its engine has consumed; so every slot
// that might be read again is still there. A repeat moves the cursor back. The receiver does that itself, as
// over shared memory, or the sender does it in answer to a repeat request, as over a wire.
#include "fabric/link/memory_link.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/endian.h"
#include "fabric/link/faulty_carrier.h"

namespace weft::fabric {
namespace {

struct MemoryRing {
  explicit MemoryRing(RingGeometry geometry)
      : shape(geometry), storage(size_t{shape.slot_bytes} * shape.slots) {}

  [[nodiscard]] std::byte* at(uint64_t position) noexcept {
    return storage.data() + (position & (shape.slots - 1)) * shape.slot_bytes;
  }

  RingGeometry shape;
  std::vector<std::byte> storage;
  uint64_t written = 0;    // committed by the sender
  uint64_t published = 0;  // visible to the receiver
  uint64_t cursor = 0;     // next to be read
  uint64_t tail = 0;       // oldest slot still kept
};

class MemoryCarrier final : public Carrier {
 public:
  MemoryCarrier(std::shared_ptr<MemoryRing> tx, std::shared_ptr<MemoryRing> rx,
                const MemoryCableConfig& config, uint32_t end, LinkEngine& peer)
      : tx_(std::move(tx)),
        rx_(std::move(rx)),
        rereads_(config.receiver_rereads),
        observer_(config.observer),
        end_(end),
        peer_(peer) {}

  TxRun claim(uint32_t reserve) noexcept override {
    const auto used = static_cast<uint32_t>(tx_->written - tx_->tail);
    const uint32_t free = tx_->shape.slots - used;
    if (free <= reserve) return {};
    const auto index = static_cast<uint32_t>(tx_->written & (tx_->shape.slots - 1));
    return {tx_->at(tx_->written), tx_->shape.slot_bytes, std::min(free - reserve, tx_->shape.slots - index)};
  }
  void commit(uint32_t slots, uint32_t /*last_bytes*/) noexcept override { tx_->written += slots; }
  void publish(Instant /*now*/) noexcept override {
    for (uint64_t p = tx_->published; observer_ != nullptr && p != tx_->written; ++p) {
      observer_->tamper(end_, flit_at(p));
      observe(p);
    }
    tx_->published = tx_->written;
    peer_.ring();
  }
  [[nodiscard]] uint32_t publish_every() const noexcept override { return kFlitsPerPublish; }
  void retire(uint64_t /*before*/) noexcept override {}
  void resend(uint64_t from) noexcept override {
    from = std::max(from, tx_->tail);
    for (uint64_t p = from; observer_ != nullptr && p < tx_->cursor; ++p) observe(p);
    tx_->cursor = std::min(tx_->cursor, from);
    peer_.ring();
  }

  uint32_t receive(std::span<RxSlot> out) noexcept override {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(out.size(), rx_->published - rx_->cursor));
    for (uint32_t i = 0; i < count; ++i, ++rx_->cursor) {
      out[i] = {rx_->at(rx_->cursor), rx_->shape.slot_bytes, rx_->cursor};
    }
    return count;
  }
  void release(uint64_t before) noexcept override { rx_->tail = std::max(rx_->tail, before); }
  bool reread(uint64_t from) noexcept override {
    if (!rereads_) return false;
    rx_->cursor = std::max(from, rx_->tail);
    return true;
  }

  std::string_view kind() const noexcept override { return "mem"; }
  CarrierState poll(Instant /*now*/) noexcept override { return CarrierState::kUp; }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return rx_->cursor == rx_->published; }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override { return kNever; }

 private:
  void observe(uint64_t position) noexcept { observer_->on_flit(end_, flit_at(position)); }
  [[nodiscard]] std::span<std::byte> flit_at(uint64_t position) noexcept {
    std::byte* flit = tx_->at(position);
    return {flit, kFlitHeaderBytes + size_t{load_be<uint16_t>(flit + 2)}};
  }

  std::shared_ptr<MemoryRing> tx_;
  std::shared_ptr<MemoryRing> rx_;
  bool rereads_;
  FlitObserver* observer_;
  uint32_t end_;
  LinkEngine& peer_;  // lives as long as this carrier: both ends are in one cable
};

/// Encodes and decodes a handshake message, as if it crossed a wire.
LinkHelloError cross(const LinkHello& sent, LinkHello& got) noexcept {
  const LinkHelloWire wire = encode_link_hello(sent);
  return decode_link_hello(bytes_of(wire), got);
}

}  // namespace

class MemoryCable::Core final : public LinkSupervisor {
 public:
  Core(const MemoryCableConfig& config, RandomSource& random)
      : config_(config), random_(random), engines_{LinkEngine(config.timers), LinkEngine(config.timers)} {
    for (LinkEngine& engine : engines_) engine.set_supervisor(this);
  }

  LinkRefusal plug(Instant now) noexcept {
    unplug();
    LinkHello hello;
    LinkHello welcome;
    LinkParams params[2];
    if (cross(make_hello(config_.ends[0], random_.next()), hello) != LinkHelloError::kNone)
      return LinkRefusal::kVersion;
    LinkGrant grant = config_.grant;
    if (grant.lid == kLidNone) grant.lid = hello.lid;
    LinkRefusal refusal = answer_hello(config_.ends[1], hello, grant, welcome, params[1]);
    if (refusal != LinkRefusal::kNone) return refusal;
    LinkHello answer;
    if (cross(welcome, answer) != LinkHelloError::kNone) return LinkRefusal::kVersion;
    refusal = take_welcome(config_.ends[0], answer, params[0]);
    if (refusal != LinkRefusal::kNone) return refusal;
    RingGeometry shape = ring_geometry(params[0].flit_payload_bytes);
    if (config_.ring_slots != 0) shape.slots = config_.ring_slots;
    for (auto& ring : to_end_) ring = std::make_shared<MemoryRing>(shape);
    join(0, params[0], now);
    join(1, params[1], now);
    plugged_ = true;
    return LinkRefusal::kNone;
  }

  void unplug() noexcept {
    plugged_ = false;
    replug_at_ = kNever;
    for (LinkEngine& engine : engines_) engine.take_down();
  }

  /// A fault at one end resets the link: both ends go down and come back after `replug_delay`.
  int supervise(LinkSeat& /*seat*/, Instant now) noexcept override {
    const bool both_up = engines_[0].state() == LinkState::kUp && engines_[1].state() == LinkState::kUp;
    if (!plugged_ || both_up) return 0;
    if (replug_at_ == kNever) {
      for (LinkEngine& engine : engines_) engine.take_down();
      replug_at_ = now + config_.replug_delay;
    }
    if (now < replug_at_) return 0;
    replug_at_ = kNever;
    plugged_ = plug(now) == LinkRefusal::kNone;
    return 1;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  Instant deadline() const noexcept override { return plugged_ ? replug_at_ : kNever; }
  bool announces_all() const noexcept override { return true; }
  [[nodiscard]] bool input_waits(uint32_t end) const noexcept {
    return engines_[end].state() == LinkState::kUp && to_end_[end]->cursor != to_end_[end]->published;
  }

  MemoryCableConfig config_;
  RandomSource& random_;
  FaultCounts counts_[2];
  bool plugged_ = false;
  Instant replug_at_ = kNever;
  LinkEngine engines_[2];

 private:
  void join(uint32_t end, const LinkParams& params, Instant now) noexcept {
    const uint32_t sender = 1 - end;
    auto carrier =
        std::make_unique<MemoryCarrier>(to_end_[sender], to_end_[end], config_, end, engines_[sender]);
    const uint32_t slot_bytes = to_end_[end]->shape.slot_bytes;
    engines_[end].bring_up(std::make_unique<FaultyCarrier>(std::move(carrier), slot_bytes, random_,
                                                           config_.faults[sender], counts_[sender]),
                           params, now);
    engines_[end].expect_bell();
  }

  std::shared_ptr<MemoryRing> to_end_[2];  // of the present incarnation; null before the first
};

MemoryCable::MemoryCable(const MemoryCableConfig& config, RandomSource& random)
    : core_(std::make_unique<Core>(config, random)) {}
MemoryCable::~MemoryCable() = default;

LinkRefusal MemoryCable::plug(Instant now) noexcept {
  return core_->plug(now);
}
void MemoryCable::rename(Guid guid, Lid lid) noexcept {
  core_->config_.ends[0].guid = guid;
  core_->config_.ends[0].lid = core_->config_.grant.lid = lid;
}
void MemoryCable::unplug() noexcept {
  core_->unplug();
}
bool MemoryCable::plugged() const noexcept {
  return core_->plugged_;
}
LinkEngine& MemoryCable::end(uint32_t index) noexcept {
  WEFT_DCHECK(index < 2, "a cable has two ends");
  return core_->engines_[index];
}
bool MemoryCable::input_waits(uint32_t index) const noexcept {
  return core_->input_waits(index);
}
void MemoryCable::set_faults(uint32_t from_end, const FlitFaults& faults) noexcept {
  core_->config_.faults[from_end] = faults;
}
const FaultCounts& MemoryCable::fault_counts(uint32_t from_end) const noexcept {
  return core_->counts_[from_end];
}

}  // namespace weft::fabric
