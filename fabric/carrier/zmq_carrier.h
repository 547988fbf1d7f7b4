// fabric/carrier/zmq_carrier.h -- a carrier over ZeroMQ. One message is a burst of flits behind a 64-bit
// nonce, which names the incarnation of the link. So bursts that a dead incarnation left in queues are
// recognised (decisions 2.10). The retry buffer is a reference to each sent message until its flits are
// acknowledged.
#pragma once

#include <memory>
#include <vector>

#include "base/fixed_ring.h"
#include "fabric/carrier/burst_pool.h"
#include "fabric/carrier/limits.h"
#include "fabric/carrier/zmq_socket.h"
#include "fabric/link/carrier.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Silence after which a peer counts as dead: `given`, or that of the endpoint's kind if `given` is 0.
[[nodiscard]] Duration silence_limit(Duration given, const std::string& endpoint);

/// Nonces have their top bit set. A handshake message begins with a magic whose top bit is clear, so no burst
/// looks like one.
inline constexpr uint64_t kZmqNonceBit = uint64_t{1} << 63;

/// Sends bursts, and on endnodes also receives them. Owner: the link's thread.
class BurstChannel {
 public:
  virtual ~BurstChannel() = default;
  /// Sends a burst. False when it could not be sent; it then counts as lost.
  [[nodiscard]] virtual bool send_burst(ZmqMessage& message) noexcept = 0;
  /// Passes arrived messages to ZmqCarrier::deliver(). Does nothing where another object calls deliver().
  virtual void pump() noexcept = 0;
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// True when nothing has arrived that pump() would take in.
  [[nodiscard]] virtual bool quiet() noexcept = 0;
  /// True once the connection is known to be gone.
  [[nodiscard]] virtual bool gone() const noexcept = 0;
  /// The carrier ends: the channel must not call it again.
  virtual void detach() noexcept = 0;
};

class ZmqCarrier final : public Carrier {
 public:
  ZmqCarrier(std::shared_ptr<BurstChannel> channel, uint64_t nonce, uint32_t flit_payload_bytes,
             Duration silence, Instant now);
  ~ZmqCarrier() override;

  /// Takes a message of this link's connection. False when its nonce is not that of this incarnation. A
  /// message that finds no room is dropped, and the next poll() returns kOverrun.
  [[nodiscard]] bool deliver(ZmqMessage& message) noexcept;

  [[nodiscard]] TxRun claim(uint32_t reserve) noexcept override;
  void commit(uint32_t slots, uint32_t last_bytes) noexcept override;
  void publish(Instant now) noexcept override;
  [[nodiscard]] uint32_t publish_every() const noexcept override { return kFlitsPerBurstMax; }
  void retire(uint64_t before) noexcept override;
  void resend(uint64_t from) noexcept override;
  [[nodiscard]] uint32_t receive(std::span<RxSlot> out) noexcept override;
  void release(uint64_t before) noexcept override;
  [[nodiscard]] bool reread(uint64_t /*from*/) noexcept override { return false; }
  [[nodiscard]] std::string_view kind() const noexcept override { return "zmq"; }
  [[nodiscard]] CarrierState poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override { channel_->wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  static constexpr uint32_t kFlitsPerBurstMax = 64;
  static constexpr uint32_t kPoolBuffers = 16;          // long bursts, being sent or unacknowledged
  static constexpr size_t kCopiedBytesMax = 16 * 1024;  // shorter bursts are copied and keep their buffer
  static constexpr uint32_t kBursts = 2 * kUnacknowledgedFlitsMax;  // kept or waiting, per direction
  /// Windows of the largest flits that may wait to be read or released. A peer has one window on the way and
  /// sends it again when a flit is missed. A peer that needs more breaks the rules (docs/flow_control.md).
  static constexpr uint32_t kWindowsKept = 4;
  struct Burst {
    ZmqMessage message;
    uint64_t end = 0;  // position behind its last slot
  };
  static void drop_front(FixedRing<Burst>& bursts) noexcept {
    bursts.front().message.clear();
    bursts.pop();
  }
  void drop_arrived() noexcept {
    arrived_bytes_ -= arrived_.front().message.bytes().size();
    drop_front(arrived_);
  }
  [[nodiscard]] bool wrap_burst(ZmqMessage& out) noexcept;
  void begin_burst() noexcept;

  std::shared_ptr<BurstChannel> channel_;
  uint64_t nonce_;
  uint32_t slot_bytes_;
  Duration silence_;       // the peer is dead after it
  Duration speak_within_;  // we send at least once in it
  Instant now_;
  Instant heard_at_;
  Instant spoke_at_;

  size_t burst_bytes_max_;
  BurstPool pool_;
  std::vector<std::byte> spare_;  // staging while all buffers of the pool are lent
  std::byte* staging_;            // the burst being filled: a buffer of the pool, or the spare one
  size_t staged_bytes_ = 0;
  bool staged_data_ = false;  // the staged burst has a sequenced flit
  uint64_t tx_position_ = 0;
  FixedRing<Burst> sent_;  // sent, not acknowledged

  FixedRing<Burst> arrived_;  // arrived, not released
  size_t arrived_bytes_ = 0;
  size_t arrived_bytes_max_;
  bool overrun_ = false;
  size_t arrived_read_ = 0;  // bursts of arrived_ that are read to their end
  size_t read_offset_ = 0;   // bytes read of the burst after those
  uint64_t rx_position_ = 0;
};

}  // namespace weft::fabric
