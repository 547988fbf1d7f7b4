// tests/support/mad_network.h -- endnodes in one process that send each other management datagrams in virtual
// time: each takes a while, and may be lost, doubled or overtaken.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "messages/mad/cm.h"
#include "messages/mad/endnode.h"
#include "rdma_cm/connection.h"

namespace weft::test {

class MadNetwork;

class MadNode : public rdma_cm::MadPort {
 public:
  MadNode(MadNetwork& network, Lid lid);
  [[nodiscard]] bool send(Lid to, const MadBytes& mad) noexcept override;
  [[nodiscard]] bool flood(const MadBytes& mad) noexcept override;
  [[nodiscard]] Lid lid() const noexcept { return lid_; }

  /// A datagram of any class; ends in one of the two below.
  virtual void receive(Instant now, Lid from, const MadBytes& mad);
  virtual void on_cm(Instant /*now*/, Lid /*from*/, const CmMad& /*mad*/) {}
  virtual void on_endnode(Instant /*now*/, Lid /*from*/, const EndnodeMad& /*mad*/) {}
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
        const auto node = nodes.find(letter.to.value());
        if (!is_good(letter.bytes))
          ++malformed;
        else if (node != nodes.end())
          node->second->receive(clock.now(), letter.from, letter.bytes);
      }
      for (const auto& [lid, node] : nodes) node->poll(clock.now());
    }
  }
  void carry(Lid from, Lid to, const MadBytes& bytes) {
    MadHeader header;
    if (decode_mad_header(bytes, header) == MadError::kNone && header.mad_class == MadClass::kConnection &&
        lose_next.erase(static_cast<CmAttribute>(header.attribute)) != 0)
      return;
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
  std::set<CmAttribute> lose_next;  // of each of these messages the next one is lost
  int malformed = 0;

 private:
  struct Letter {
    Lid from;
    Lid to;
    MadBytes bytes;
  };
  static bool is_good(const MadBytes& bytes) {
    CmMad cm;
    EndnodeMad endnode;
    return decode_cm(bytes, cm) == MadError::kNone || decode_endnode(bytes, endnode) == MadError::kNone;
  }
  std::multimap<Instant, Letter> on_the_way_;
};

inline MadNode::MadNode(MadNetwork& network, Lid lid) : network_(network), lid_(lid) {
  network_.nodes[lid.value()] = this;
}
inline void MadNode::receive(Instant now, Lid from, const MadBytes& mad) {
  CmMad cm;
  EndnodeMad endnode;
  if (decode_cm(mad, cm) == MadError::kNone) on_cm(now, from, cm);
  if (decode_endnode(mad, endnode) == MadError::kNone) on_endnode(now, from, endnode);
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
