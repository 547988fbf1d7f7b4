// How it works: the region begins with one control block per ring, then the slots of ring 0, then those of
// ring 1. All sizes come from the handshake; nothing in the region is believed but the two positions of the
// peer, which the rings check. A sleeper is woken by a packet on the socket of the handshake: each side has
// an end of its own, so no flag that a peer sets on its descriptor can make a call of ours wait, as it could
// on an eventfd that both share (docs/shared_memory.md). The peer's death shows as a hang-up of the socket,
// and what it had published by then still arrives; a frozen peer is back-pressure, nothing more (decisions
// 2.9).
#include "fabric/carrier/shm_carrier.h"

#include <array>

#include "base/check.h"
#include "fabric/carrier/slot_ring.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/link/limits.h"
#include "fabric/link/wake_list.h"

namespace weft::fabric {
namespace {

constexpr size_t kControlBytes = 4096;
constexpr Duration kHangUpCheck =
    20ms;  // one system call each time while the loop spins; asleep, the socket wakes us
/// What a peer published before it hung up is taken within a few turns, or never: a ring that is not emptied,
/// or is still written to, does not keep a dead link up.
constexpr Duration kLastCells = 20ms;
static_assert(2 * sizeof(RingControl) <= kControlBytes);

size_t ring_bytes(RingGeometry shape) noexcept {
  return size_t{shape.slots} * shape.slot_bytes;
}

RingControl& control_at(const SharedRegion& region, size_t ring) noexcept {
  return *reinterpret_cast<RingControl*>(region.bytes().data() + ring * sizeof(RingControl));
}

std::byte* slots_at(const SharedRegion& region, size_t ring, RingGeometry shape) noexcept {
  return region.bytes().data() + kControlBytes + ring * ring_bytes(shape);
}

/// The socket of the handshake.
class SocketBell final : public PeerBell {
 public:
  explicit SocketBell(GuardedFd socket) : socket_(std::move(socket)) {}
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// False once the peer has hung up, or the program that we are part of has closed the socket.
  [[nodiscard]] bool drain() noexcept { return socket_.is_ours() && drain_packets(socket_.get()); }
  void ring() noexcept override {
    // A peer whose socket is full has wake-ups to read already.
    if (socket_.can_wake()) static_cast<void>(send_packet(socket_.get(), std::array{std::byte{1}}, {}));
  }

 private:
  GuardedFd socket_;
};

class ShmCarrier final : public Carrier {
 public:
  ShmCarrier(ShmParts parts, RingGeometry shape, size_t tx_ring)
      : region_(std::move(parts.region)),
        bell_(std::make_shared<SocketBell>(std::move(parts.socket))),
        producer_(control_at(region_, tx_ring), slots_at(region_, tx_ring, shape), shape),
        consumer_(control_at(region_, 1 - tx_ring), slots_at(region_, 1 - tx_ring, shape), shape) {}

  TxRun claim(uint32_t reserve) noexcept override { return producer_.claim(reserve); }
  void commit(uint32_t slots, uint32_t /*last_bytes*/) noexcept override { producer_.commit(slots); }
  void publish(Instant /*now*/) noexcept override {
    if (producer_.publish()) [[unlikely]]
      wake_peer();
  }
  void publish_quietly(Instant /*now*/) noexcept override { producer_.publish_quietly(); }
  bool keeps_all() const noexcept override { return true; }
  uint64_t taken_before() const noexcept override { return producer_.taken_before(); }
  uint32_t publish_every() const noexcept override { return kFlitsPerPublish; }
  // The consumer's tail frees the slots, and it reads again by itself.
  void retire(uint64_t /*before*/) noexcept override {}
  void resend(uint64_t /*from*/) noexcept override {}

  uint32_t receive(std::span<RxSlot> out) noexcept override { return consumer_.receive(out); }
  void release(uint64_t before) noexcept override { consumer_.release(before); }
  bool reread(uint64_t from) noexcept override {
    consumer_.reread(from);
    return true;
  }

  std::string_view kind() const noexcept override { return "shm"; }
  CarrierState poll(Instant now) noexcept override {
    if (producer_.faulty() || consumer_.faulty()) return CarrierState::kFaulty;
    if (now < check_at_ || wakes_ != nullptr) return CarrierState::kUp;
    if (hung_up_at_ == kNever) {
      check_at_ = now + kHangUpCheck;
      if (check_peer() == CarrierState::kUp) return CarrierState::kUp;
      hung_up_at_ = now;
      check_at_ = Instant::min();
    }
    const bool has_more = consumer_.waits() && now - hung_up_at_ < kLastCells;
    return has_more ? CarrierState::kUp : CarrierState::kPeerGone;
  }
  void serve_apart(WakeList& wakes) noexcept override { wakes_ = &wakes; }
  CarrierState check_peer() noexcept override {
    return bell_->drain() ? CarrierState::kUp : CarrierState::kPeerGone;
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    out.push_back({bell_->fd(), POLLIN | POLLRDHUP, 0});
  }
  bool prepare_sleep() noexcept override { return consumer_.prepare_sleep(); }
  void finish_sleep() noexcept override {
    consumer_.finish_sleep();
    check_at_ = Instant::min();  // takes the wake-up from the socket, too
  }
  Instant deadline() const noexcept override { return hung_up_at_ == kNever ? kNever : Instant::min(); }

 private:
  [[gnu::cold]] void wake_peer() noexcept {
    if (wakes_ != nullptr) {
      wakes_->add(bell_);
    } else {
      bell_->ring();
    }
  }

  SharedRegion region_;
  std::shared_ptr<SocketBell> bell_;
  RingProducer producer_;
  RingConsumer consumer_;
  WakeList* wakes_ = nullptr;  // served apart: the owner wakes the peer
  Instant check_at_ = Instant::min();
  Instant hung_up_at_ = kNever;
};

}  // namespace

size_t shm_region_bytes(RingGeometry shape) noexcept {
  return SharedRegion::rounded(kControlBytes + 2 * ring_bytes(shape));
}

std::unique_ptr<Carrier> make_shm_carrier(ShmParts parts, RingGeometry shape, ShmSide side) {
  WEFT_CHECK(parts.region.bytes().size() == shm_region_bytes(shape), "region fits the rings");
  return std::make_unique<ShmCarrier>(std::move(parts), shape, side == ShmSide::kSwitch ? 0 : 1);
}

}  // namespace weft::fabric
