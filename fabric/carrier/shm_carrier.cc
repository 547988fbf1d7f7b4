// How it works: the region begins with one control block per ring. The slots of ring 0 follow, then those of
// ring 1. All sizes come from the handshake. The only values read from the region are the peer's two
// positions, and the rings check them. A packet on the socket of the handshake wakes a sleeping peer. Each
// side has its own end of the socket, so no flag that a peer sets on its descriptor can make a call of ours
// wait. An eventfd shared by both sides would allow that (docs/shared_memory.md). If the peer dies, the
// socket shows a hang-up; flits that the peer published before still arrive. A frozen peer only causes
// back-pressure (decisions 2.9).
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
/// Interval of the hang-up check while the loop spins: one system call each. In a sleep the socket wakes us.
constexpr Duration kHangUpCheck = 20ms;
/// After a hang-up the loop takes the peer's last flits within a few turns. If the ring still has flits after
/// this time, because we do not read it or the peer still writes, the link goes down all the same.
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

/// Wake-ups by the socket of the handshake.
class SocketBell final : public PeerBell {
 public:
  explicit SocketBell(GuardedFd socket) : socket_(std::move(socket)) {}
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// False once the peer has hung up, or the program around us has closed the socket.
  [[nodiscard]] bool drain() noexcept { return socket_.is_ours() && drain_packets(socket_.get()); }
  void ring() noexcept override {
    // If the peer's socket is full, the peer has wake-ups to read already.
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
  // The consumer's tail frees the slots, and the consumer rereads slots by itself.
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
    check_at_ = Instant::min();  // the next poll() also takes the wake-up from the socket
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
  WakeList* wakes_ = nullptr;  // set: served apart, the owner wakes the peer
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
