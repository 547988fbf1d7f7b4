// How it works: a probe copies each slot when it is committed and shows it when it is published, or sent
// again: ZeroMQ carriers repeat whole bursts that have data in them. A carrier that lets the receiver read
// again sends nothing twice: there the second reading is shown. Arrived slots are taken from the carrier at
// once and kept until the engine asks, so that arrivals can be counted.
#include "tests/support/link_probe.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "base/endian.h"
#include "messages/flit.h"

namespace weft::test {

class CarrierProbe final : public fabric::Carrier {
 public:
  CarrierProbe(std::unique_ptr<fabric::Carrier> inner, LinkProbe& link, uint32_t end)
      : inner_(std::move(inner)), link_(link), end_(link.ends_[end]) {
    end_.published = end_.arrived = 0;
    end_.probe = this;
  }
  ~CarrierProbe() override {
    if (end_.probe == this) end_.probe = nullptr;
  }

  fabric::TxRun claim(uint32_t reserve) noexcept override { return run_ = inner_->claim(reserve); }
  void commit(uint32_t slots, uint32_t last_bytes) noexcept override {
    for (uint32_t i = 0; i < slots; ++i) {
      const std::byte* slot = run_.first + size_t{i} * run_.stride;
      const size_t bytes =
          i + 1 == slots ? last_bytes : kFlitHeaderBytes + size_t{load_be<uint16_t>(slot + 2)};
      sent_.emplace_back(slot, slot + bytes);
    }
    inner_->commit(slots, last_bytes);
  }
  void publish(Instant now) noexcept override {
    const uint64_t end = first_sent_ + sent_.size();
    if (end != published_) bursts_.push_back({published_, end});
    show(std::exchange(published_, end), end);
    inner_->publish(now);
  }
  [[nodiscard]] uint32_t publish_every() const noexcept override { return inner_->publish_every(); }
  void retire(uint64_t before) noexcept override {
    for (; !bursts_.empty() && bursts_.front().end <= before; bursts_.pop_front()) {
      for (; first_sent_ < bursts_.front().end; ++first_sent_) sent_.pop_front();
    }
    inner_->retire(before);
  }
  void resend(uint64_t from) noexcept override {
    if (inner_->kind() == "zmq") {
      for (const Burst& burst : bursts_) {
        if (burst.end > from && has_data(burst)) show(burst.begin, burst.end);
      }
    }
    inner_->resend(from);
  }

  [[nodiscard]] uint32_t receive(std::span<fabric::RxSlot> out) noexcept override {
    take_in();
    const size_t count = std::min(out.size(), arrived_.size());
    std::copy_n(arrived_.begin(), count, out.begin());
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<uint32_t>(count);
  }
  void release(uint64_t before) noexcept override { inner_->release(before); }
  [[nodiscard]] bool reread(uint64_t from) noexcept override {
    if (!inner_->reread(from)) return false;
    arrived_.clear();
    return true;
  }

  [[nodiscard]] std::string_view kind() const noexcept override { return inner_->kind(); }
  [[nodiscard]] fabric::CarrierState poll(Instant now) noexcept override { return inner_->poll(now); }
  void wait_fds(std::vector<pollfd>& out) const override { inner_->wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return arrived_.empty() && inner_->prepare_sleep(); }
  void finish_sleep() noexcept override { inner_->finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override { return inner_->deadline(); }

  void take_in() noexcept {
    std::array<fabric::RxSlot, 64> slots;
    while (const uint32_t count = inner_->receive(slots)) {
      for (const fabric::RxSlot& slot : std::span(slots).first(count)) {
        if (slot.position < seen_ && slot.size >= kFlitHeaderBytes) {
          const size_t bytes = kFlitHeaderBytes + size_t{load_be<uint16_t>(slot.bytes + 2)};
          link_.observer_.on_flit(1 - end_.index, {slot.bytes, std::min<size_t>(bytes, slot.size)});
        }
        seen_ = std::max(seen_, slot.position + 1);
        arrived_.push_back(slot);
      }
      end_.arrived += count;
    }
  }

 private:
  struct Burst {
    uint64_t begin = 0, end = 0;  // slots published together
  };
  [[nodiscard]] std::vector<std::byte>& slot(uint64_t at) noexcept {
    return sent_[static_cast<size_t>(at - first_sent_)];
  }
  void show(uint64_t from, uint64_t to) noexcept {
    for (uint64_t at = from; at < to; ++at) link_.observer_.on_flit(end_.index, slot(at));
    end_.published += to - from;
  }
  [[nodiscard]] bool has_data(const Burst& burst) noexcept {
    for (uint64_t at = burst.begin; at < burst.end; ++at) {
      if (static_cast<uint8_t>(slot(at).front()) >> 4 == static_cast<uint8_t>(FlitKind::kData)) return true;
    }
    return false;
  }

  std::unique_ptr<fabric::Carrier> inner_;
  LinkProbe& link_;
  LinkProbe::End& end_;
  fabric::TxRun run_;
  std::deque<std::vector<std::byte>> sent_;  // of bursts not yet retired, from position first_sent_ on
  uint64_t first_sent_ = 0;
  std::deque<Burst> bursts_;  // published, not yet retired
  uint64_t published_ = 0;
  std::deque<fabric::RxSlot> arrived_;
  uint64_t seen_ = 0;
};

LinkProbe::LinkProbe(fabric::FlitObserver& observer, RandomSource& random, uint32_t slot_bytes)
    : observer_(observer), random_(random), slot_bytes_(slot_bytes) {
  for (uint32_t i = 0; i < 2; ++i) {
    ends_[i].link = this;
    ends_[i].index = i;
  }
}
LinkProbe::~LinkProbe() = default;

void LinkProbe::watch(uint32_t end, fabric::LinkEngine& engine) {
  engine.set_carrier_wrapper(&ends_[end]);
}

std::unique_ptr<fabric::Carrier> LinkProbe::End::wrap(std::unique_ptr<fabric::Carrier> carrier) {
  const uint32_t sender = 1 - index;
  return std::make_unique<fabric::FaultyCarrier>(
      std::make_unique<CarrierProbe>(std::move(carrier), *link, index), link->slot_bytes_, link->random_,
      link->faults_[sender], link->counts_[sender]);
}

bool LinkProbe::settled() {
  for (const End& end : ends_) {
    if (end.probe != nullptr) end.probe->take_in();
  }
  return ends_[0].published <= ends_[1].arrived && ends_[1].published <= ends_[0].arrived;
}

}  // namespace weft::test
