// sim/fabric/sim_fabric.h -- a fabric in one thread and virtual time: switches and links in memory, how they
// are connected, die and come back. Worlds of the simulator, tests and measurements put their endnodes on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"

namespace weft::sim {

/// Sees each flit of a fabric. `link_and_end` is the link number shifted left by one, plus the sending end.
class FabricObserver {
 public:
  virtual ~FabricObserver() = default;
  virtual void on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept = 0;
  /// May change a flit before the other end sees it.
  virtual void tamper(uint32_t link_and_end, std::span<std::byte> flit) noexcept = 0;
};

/// Endnode i has LID i + 1. It is at end 0 of link i; end 1 is port i + 1 of its switch. The links between
/// two switches follow. Their end 1 is at the first switch, end 0 at the second.
struct SimFabricConfig {
  fabric::SwitchConfig switching{};  // of every switch; `switching.link` is what every end of a link offers
  Guid endnode_guid{0x5745'4654'0000'0001ULL};  // of the first endnode; those of the others follow
  uint32_t endnodes = 2;
  uint32_t far = 0;               // bit i: endnode i is at the second switch
  uint32_t trunks = 0;            // links between two switches, of which cells take the first; 0: one switch
  bool receiver_rereads = false;  // true: links like shared memory; false: like a wire
  FabricObserver* observer = nullptr;
  /// What a link has of its own. Called once for each link, while the fabric is made.
  std::function<void(uint32_t link, fabric::MemoryCableConfig& cable)> refine{};
};

/// Owner: the thread of the world.
class SimFabric {
 public:
  /// `random` and the observer must outlive the fabric. No node lives yet.
  SimFabric(SimFabricConfig config, RandomSource& random);
  ~SimFabric();
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  [[nodiscard]] uint32_t links() const noexcept { return static_cast<uint32_t>(links_.size()); }
  [[nodiscard]] uint32_t switches() const noexcept { return static_cast<uint32_t>(switches_.size()); }
  /// Null while the switch is dead.
  [[nodiscard]] fabric::Switch* switch_at(uint32_t index) noexcept { return switches_[index].get(); }
  [[nodiscard]] fabric::MemoryCable& cable(uint32_t link) noexcept { return *links_[link].cable; }
  [[nodiscard]] const fabric::MemoryCable& cable(uint32_t link) const noexcept { return *links_[link].cable; }
  /// The endnode's end of its link.
  [[nodiscard]] fabric::LinkEngine& endnode(uint32_t link) noexcept { return cable(link).end(0); }

  /// Starts all switches, lets all endnodes live and connects all links. @return the first refusal
  [[nodiscard]] LinkRefusal start(Instant now);
  void start_switch(uint32_t index);
  void crash_switch(uint32_t index);
  void set_endnode_alive(uint32_t link, bool alive) { links_[link].endnode_lives = alive; }
  /// Cuts of a link are counted; the link is whole when all of them have ended.
  void cut(uint32_t link, bool on) { links_[link].cuts += on ? 1 : -1; }

  /// From its next link on, the endnode at this link has this LID and, if `other_guid`, another GUID.
  /// Switches continue to send cells for the old LID there until another endnode gets that LID or the switch
  /// restarts.
  void rename(uint32_t link, Lid lid, bool other_guid);
  /// Connects a cable while both of its nodes live and no fault cuts it. @return the result of the handshake
  LinkRefusal wire(uint32_t link, Instant now);

  /// True when flits wait for the switch, or one of its links has come up or gone down.
  [[nodiscard]] bool switch_disturbed(uint32_t index) const noexcept;
  /// True when one end of the link is at this switch.
  [[nodiscard]] bool attached(uint32_t link, uint32_t index) const noexcept;
  [[nodiscard]] bool is_cut(uint32_t link) const noexcept { return links_[link].cuts != 0; }
  /// True when the link transports cells: its upper end, a switch, must have seen it come up, too.
  [[nodiscard]] bool carries(uint32_t link) noexcept;
  /// True when a switch at either end of the link is dead.
  [[nodiscard]] bool switch_is_dead(uint32_t link) const noexcept;

 private:
  class Watch;
  struct LinkSlot {
    std::unique_ptr<Watch> watch;
    std::unique_ptr<fabric::MemoryCable> cable;
    bool endnode_lives = false;  // always true for a link between switches
    int cuts = 0;                // number of cuts in force
    Lid lid;                     // LID of the endnode
    uint64_t guids = 0;          // number of GUIDs that the endnode had before
  };

  [[nodiscard]] bool is_trunk(uint32_t link) const noexcept { return link >= config_.endnodes; }
  /// The switch at end 1 of the link.
  [[nodiscard]] uint32_t upper(uint32_t link) const noexcept {
    return !is_trunk(link) && config_.far != 0 ? config_.far >> link & 1 : 0;
  }
  /// End of the link at this switch.
  [[nodiscard]] uint32_t end_at(uint32_t link, uint32_t index) const noexcept {
    return is_trunk(link) && index == 1 ? 0 : 1;
  }
  [[nodiscard]] fabric::LinkConfig end_config(uint32_t link, uint32_t end) const;
  void add_link(uint32_t link, RandomSource& random);
  void forward(uint32_t index, uint32_t link);

  const SimFabricConfig config_;
  std::vector<LinkSlot> links_;
  std::vector<std::unique_ptr<fabric::Switch>> switches_;
};

}  // namespace weft::sim
