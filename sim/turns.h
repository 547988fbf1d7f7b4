// sim/turns.h -- decides which node runs next. Switches and endnodes take turns in random order. A node
// without work sleeps, like a process, until a flit waits, its link changes or its deadline comes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"

namespace weft::sim {

/// A switch or an endnode that takes turns. Owner: the world.
class SimNode {
 public:
  virtual ~SimNode() = default;
  /// False while the node is dead.
  [[nodiscard]] virtual bool alive() const noexcept = 0;
  virtual int poll(Instant now) noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  /// True when something waits that would wake a sleeping process through a descriptor: flits, or a link that
  /// came up or went down.
  [[nodiscard]] virtual bool disturbed() const noexcept = 0;
};

/// Owner: the world.
class Turns {
 public:
  static constexpr uint32_t kNodesMax = 32;

  /// `skip_ppm`: probability, in parts per million, that an awake node misses its turn. `random` must outlive
  /// this.
  Turns(RandomSource& random, uint32_t skip_ppm) noexcept : random_(random), skip_ppm_(skip_ppm) {}

  /// Nodes are numbered in the order of these calls.
  void add(std::unique_ptr<SimNode> node);
  [[nodiscard]] uint32_t nodes() const noexcept { return static_cast<uint32_t>(nodes_.size()); }
  /// Gives the node a turn, because something happened to it that it cannot notice.
  void wake(uint32_t node) noexcept { nodes_[node].awake = true; }
  /// Stops a node as SIGSTOP does: it gets no turns, even when its deadlines pass.
  void freeze(uint32_t node, bool frozen) noexcept;

  /// Runs one turn. @return the work done; a missed turn counts, because the node might have had work
  int take(Instant now) noexcept;
  /// Nodes that ran in the last take(), one bit each.
  [[nodiscard]] uint32_t polled() const noexcept { return polled_; }
  /// Those of them that did work.
  [[nodiscard]] uint32_t worked() const noexcept { return worked_; }
  /// Time at which the next node must be woken.
  [[nodiscard]] Instant next_deadline() const noexcept;

  /// Largest number of consecutive turns that a node ran without work although its deadline had passed.
  [[nodiscard]] uint32_t late_in_a_row() const noexcept;
  [[nodiscard]] bool alive(uint32_t node) const noexcept { return nodes_[node].node->alive(); }
  /// Turns that frozen nodes missed although they had something to do.
  [[nodiscard]] uint64_t missed() const noexcept { return missed_; }

  /// For debugging: turns with work, and turns without work although a deadline had passed.
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
