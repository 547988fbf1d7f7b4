// sim/turns.h -- whose turn it is. Switches and endnodes take turns in random order; a node with nothing to
// do sleeps, as a process would, until a flit waits, its link changes or its deadline comes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"

namespace weft::sim {

/// What takes turns: a switch or an endnode. Owner: the world.
class SimNode {
 public:
  virtual ~SimNode() = default;
  /// False while the node is dead.
  [[nodiscard]] virtual bool alive() const noexcept = 0;
  virtual int poll(Instant now) noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  /// Something waits that a descriptor would tell a sleeping process: flits, or a link that came or went.
  [[nodiscard]] virtual bool disturbed() const noexcept = 0;
};

/// Owner: the world.
class Turns {
 public:
  static constexpr uint32_t kNodesMax = 32;

  /// `skip_ppm`: how often a node that is awake misses its turn. `random` must outlive this.
  Turns(RandomSource& random, uint32_t skip_ppm) noexcept : random_(random), skip_ppm_(skip_ppm) {}

  /// Nodes are numbered as they come.
  void add(std::unique_ptr<SimNode> node);
  [[nodiscard]] uint32_t nodes() const noexcept { return static_cast<uint32_t>(nodes_.size()); }
  /// Something happened to the node that it cannot see: it gets a turn.
  void wake(uint32_t node) noexcept { nodes_[node].awake = true; }
  /// Stops a node as SIGSTOP does: no turns, and its deadlines pass unseen.
  void freeze(uint32_t node, bool frozen) noexcept;

  /// One turn. Returns the work done; a missed turn counts, because it might have had work.
  int take(Instant now) noexcept;
  /// Nodes that had their turn in the last take(), a bit each.
  [[nodiscard]] uint32_t polled() const noexcept { return polled_; }
  /// Those of them that found something to do.
  [[nodiscard]] uint32_t worked() const noexcept { return worked_; }
  /// When the next node must be woken.
  [[nodiscard]] Instant next_deadline() const noexcept;

  /// Most turns in a row that a node has let pass without work though its deadline had come.
  [[nodiscard]] uint32_t late_in_a_row() const noexcept;
  [[nodiscard]] bool alive(uint32_t node) const noexcept { return nodes_[node].node->alive(); }
  /// Turns that frozen nodes did not get though they had something to do.
  [[nodiscard]] uint64_t missed() const noexcept { return missed_; }

  /// For people who look for a bug: turns with work, and turns without any though a deadline had passed.
  [[nodiscard]] uint64_t busy_turns(uint32_t node) const noexcept { return nodes_[node].busy; }
  [[nodiscard]] uint64_t late_turns(uint32_t node) const noexcept { return nodes_[node].late; }

 private:
  struct Entry {
    std::unique_ptr<SimNode> node;
    Instant due{};
    bool awake = true;
    bool frozen = false;
    uint64_t busy = 0;
    uint64_t late = 0;
    uint32_t late_in_a_row = 0;
  };

  int poll(uint32_t node, Instant now) noexcept;

  RandomSource& random_;
  uint32_t skip_ppm_;
  uint32_t polled_ = 0;
  uint32_t worked_ = 0;
  uint64_t missed_ = 0;
  std::vector<Entry> nodes_;
};

}  // namespace weft::sim
