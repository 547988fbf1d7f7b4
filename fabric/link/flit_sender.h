// fabric/link/flit_sender.h -- the sending side of one link end: numbers, the window of data flits that are
// not yet acknowledged, and the carrier's slots. A flit stays in its slot until it is acknowledged, so that a
// repeat copies nothing (SAN-FLIT-04). docs/flow_control.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/counters.h"
#include "fabric/link/carrier.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"
#include "fabric/link/link_counters.h"
#include "fabric/link/link_credits.h"
#include "fabric/link/tx_slots.h"
#include "messages/flit.h"

namespace weft::fabric {

/// Acknowledgement and credit, which every flit carries besides its payload.
struct FlitNews {
  uint16_t acknowledged = 0;  // highest number received in order
  LinkCredits::Total credit;
};

/// Owner: the link's thread.
class FlitSender {
 public:
  explicit FlitSender(CounterSet<LinkCounter>& counters) noexcept : counters_(counters) {}

  /// `carrier` stays until stop().
  void start(Carrier& carrier, bool whole_cell_flits) noexcept;
  /// Counts unacknowledged flits as lost.
  void stop() noexcept;

  // ---- data flits --------------------
  /// The slot of the next flit, beginning with its header; null when the window or the carrier is full.
  [[nodiscard, gnu::always_inline]] std::byte* claim() noexcept {
    return unacknowledged() < kWindow ? slots_.next() : nullptr;
  }
  /// Numbers the claimed flit and writes its header; the payload is written already. Inline, so that the
  /// header is put together in registers.
  [[gnu::always_inline]] void commit(const TxFlit& flit, const FlitNews& news, Instant now) noexcept {
    position_[++sent_ % kWindow] = slots_.position();
    if (whole_cell_) [[likely]] {
      compose_cell_flit(slots_.current(), fields_of(flit, news), flit.cell_crc);
    } else {
      compose_part(flit, news);
    }
    slots_.fill(kFlitHeaderBytes + flit.payload_bytes);
    if (slots_.worth_publishing()) [[unlikely]]
      publish_part(now);
  }

  // ---- flits without data --------------------
  /// True when a slot is free for a flit without data.
  [[nodiscard]] bool claim_control() noexcept { return slots_.next_of_all() != nullptr; }
  void commit_control(FlitKind kind, uint8_t flags, const FlitNews& news) noexcept;

  // ---- to the peer --------------------
  [[nodiscard]] uint32_t unpublished() const noexcept { return slots_.unpublished(); }
  void publish(Instant now) noexcept {
    if (slots_.publish(now)) count_burst();
  }
  /// As publish(), without waking the peer: for flits without data.
  void publish_quietly(Instant now) noexcept { slots_.publish_quietly(now); }
  /// Adds the flits sent since the last call to the counter.
  void count_sent() noexcept;

  // ---- acknowledgements and repeats --------------------
  enum class Heard : uint8_t { kOld, kProgress, kBeyondSent };
  /// Takes the highest number that the peer has received in order.
  [[nodiscard]] Heard hear(uint16_t acknowledged) noexcept {
    const int ahead = flit_distance(acknowledged, acknowledged_);
    if (ahead <= 0) return Heard::kOld;
    if (static_cast<uint64_t>(ahead) > unacknowledged()) return Heard::kBeyondSent;
    acknowledged_ += static_cast<uint64_t>(ahead);
    retire_due_ = true;
    return Heard::kProgress;
  }
  /// Gives acknowledged slots back to the carrier.
  void retire() noexcept {
    if (!retire_due_) return;
    retire_due_ = false;
    carrier_->retire(unacknowledged() == 0 ? slots_.position() : oldest());
  }
  /// Sends all unacknowledged flits again.
  void repeat(Instant now) noexcept;
  /// The same for a peer that asks. False: it has asked kRepeatsServedMax times since its last new
  /// acknowledgement.
  [[nodiscard]] bool serve_repeat(Instant now) noexcept;
  /// Data flits sent and not yet acknowledged.
  [[nodiscard]] uint64_t unacknowledged() const noexcept { return sent_ - acknowledged_; }
  [[nodiscard]] uint64_t acknowledged() const noexcept { return acknowledged_; }
  /// Carrier position of the data flit sent last.
  [[nodiscard]] uint64_t newest() const noexcept { return position_[sent_ % kWindow]; }

 private:
  static constexpr uint32_t kWindow = kUnacknowledgedFlitsMax;

  [[nodiscard, gnu::always_inline]] FlitFields fields_of(FlitKind kind, uint8_t flags,
                                                         const FlitNews& news) const noexcept {
    FlitFields fields;
    fields.kind = kind;
    fields.flags = flags;
    fields.sequence = static_cast<uint16_t>(sent_);
    fields.acknowledged = news.acknowledged;
    fields.credit_vl = news.credit.vl;
    fields.credit = news.credit.flits;
    return fields;
  }
  [[nodiscard, gnu::always_inline]] FlitFields fields_of(const TxFlit& flit,
                                                         const FlitNews& news) const noexcept {
    FlitFields fields = fields_of(FlitKind::kData, flit.flags, news);
    fields.vl = flit.vl;
    fields.payload_bytes = static_cast<uint16_t>(flit.payload_bytes);
    return fields;
  }
  /// Writes the header of a flit that is a part of a cell. Not inline, so that the fields of whole cells stay
  /// in registers.
  [[gnu::noinline]] void compose_part(const TxFlit& flit, FlitNews news) noexcept;
  /// Carrier position of the oldest unacknowledged flit. There must be one.
  [[nodiscard]] uint64_t oldest() const noexcept { return position_[(acknowledged_ + 1) % kWindow]; }
  void publish_part(Instant now) noexcept;
  void count_burst() noexcept;

  CounterSet<LinkCounter>& counters_;
  Carrier* carrier_ = nullptr;
  TxSlots slots_;
  uint64_t sent_ = 0;  // data flits; also the number of the newest one
  uint64_t acknowledged_ = 0;
  uint64_t asked_at_ = 0;  // `acknowledged_` when the peer asked for a repeat
  uint32_t asked_ = 0;     // times it has asked since then
  bool whole_cell_ = true;
  bool retire_due_ = false;
  uint64_t counted_ = 0;                      // how many of sent_ the counter has
  uint64_t published_ = 0;                    // how many of sent_ are published
  std::array<uint64_t, kWindow> position_{};  // carrier position by number modulo kWindow
};

}  // namespace weft::fabric
