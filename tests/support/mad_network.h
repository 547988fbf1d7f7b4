// tests/support/mad_network.h -- endnodes in one process that send each other management datagrams in virtual
// time: each takes a while, and may be lost, doubled or overtaken.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "rdma_cm/connection.h"

namespace weft::test {

class MadNetwork;

class MadNode : public rdma_cm::MadPort {
 public:
  MadNode(MadNetwork& network, Lid lid);
  [[nodiscard]] bool send(Lid to, const MadBytes& mad) noexcept override;
  [[nodiscard]] bool flood(const MadBytes& mad) noexcept override;
  [[nodiscard]] Lid lid() const noexcept { return lid_; }

  virtual void receive(Instant now, Lid from, const CmMad& mad) = 0;
  virtual void poll(Instant now) = 0;

 private:
  MadNetwork& network_;
  Lid lid_;
};

class MadNetwork {
 public:
  explicit MadNetwork(uint64_t seed = 1) : random(seed) {}

  /// Lets so much time pass.
  void run(Duration time) {
    const Instant until = clock.now() + time;
    while (clock.now() < until) {
      clock.advance(1ms);
      while (!on_the_way_.empty() && on_the_way_.begin()->first <= clock.now()) {
        const Letter letter = on_the_way_.begin()->second;
        on_the_way_.erase(on_the_way_.begin());
        CmMad mad;
        const MadError error = decode_mad(letter.bytes, mad);
        if (error != MadError::kNone) ++malformed;
        const auto node = nodes.find(letter.to.value());
        if (error == MadError::kNone && node != nodes.end())
          node->second->receive(clock.now(), letter.from, mad);
      }
      for (const auto& [lid, node] : nodes) node->poll(clock.now());
    }
  }
  void carry(Lid from, Lid to, const MadBytes& bytes) {
    CmMad mad;
    if (decode_mad(bytes, mad) == MadError::kNone && lose_next.erase(mad.kind) != 0) return;
    if (random.chance_ppm(loss_ppm)) return;
    const uint64_t copies = random.chance_ppm(double_ppm) ? 2 : 1;
    for (uint64_t i = 0; i < copies; ++i) {
      const Duration delay =
          100us + (disorder.count() != 0 ? Duration(random.below(static_cast<uint64_t>(disorder.count())))
                                         : Duration{});
      on_the_way_.emplace(clock.now() + delay, Letter{from, to, bytes});
    }
  }

  ManualClock clock;
  SeededRandom random;
  std::map<uint16_t, MadNode*> nodes;
  uint32_t loss_ppm = 0;
  uint32_t double_ppm = 0;
  Duration disorder{};
  std::set<MadKind> lose_next;  // of each of these kinds the next one is lost
  int malformed = 0;

 private:
  struct Letter {
    Lid from;
    Lid to;
    MadBytes bytes;
  };
  std::multimap<Instant, Letter> on_the_way_;
};

inline MadNode::MadNode(MadNetwork& network, Lid lid) : network_(network), lid_(lid) {
  network_.nodes[lid.value()] = this;
}
inline bool MadNode::send(Lid to, const MadBytes& mad) noexcept {
  network_.carry(lid_, to, mad);
  return true;
}
inline bool MadNode::flood(const MadBytes& mad) noexcept {
  for (const auto& [lid, node] : network_.nodes) {
    if (node != this) network_.carry(lid_, Lid(lid), mad);
  }
  return true;
}

}  // namespace weft::test
