// sim/sim_fabric.h -- the fabric of a simulated world: switches and links, how they are connected, die and
// come back. Link n - 1 joins endnode n to its switch. If there are two switches, the last link joins them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "sim/plan/world_plan.h"

namespace weft::sim {

/// Owner: the world.
class SimFabric {
 public:
  /// Sees each flit of a link. `link_and_end` is the link number shifted left by one, plus the sending end.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept = 0;
    /// May change a flit before the other end sees it.
    virtual void tamper(uint32_t link_and_end, std::span<std::byte> flit) noexcept = 0;
  };

  /// All references must outlive the fabric. No node lives yet.
  SimFabric(const FabricPlan& plan, RandomSource& random, Observer& observer);
  ~SimFabric();
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  [[nodiscard]] uint32_t links() const noexcept { return static_cast<uint32_t>(links_.size()); }
  [[nodiscard]] uint32_t switches() const noexcept { return static_cast<uint32_t>(switches_.size()); }
  /// Null while the switch is dead.
  [[nodiscard]] fabric::Switch* switch_at(uint32_t index) noexcept { return switches_[index].get(); }
  [[nodiscard]] fabric::MemoryCable& cable(uint32_t link) noexcept { return *links_[link].cable; }

  void start_switch(uint32_t index);
  void crash_switch(uint32_t index);
  void set_endnode_alive(uint32_t node, bool alive) { links_[node - 1].endnode_lives = alive; }
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
  /// The nodes at the ends of a link, one bit each.
  [[nodiscard]] uint32_t nodes_of(uint32_t link) const noexcept {
    if (is_trunk(link)) return 1U << plan_.switch_node(0) | 1U << plan_.switch_node(1);
    return 1U << (link + 1) | 1U << plan_.switch_node(plan_.switch_of(link + 1));
  }
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

  [[nodiscard]] bool is_trunk(uint32_t link) const noexcept { return link == plan_.endnodes; }
  /// End of the link at this switch.
  [[nodiscard]] uint32_t end_at(uint32_t link, uint32_t index) const noexcept {
    return is_trunk(link) && index == 1 ? 0 : 1;
  }
  [[nodiscard]] fabric::LinkConfig end_config(uint32_t link, uint32_t end) const;
  void add_link(uint32_t link, RandomSource& random, Observer& observer);
  void forward(uint32_t index, uint32_t link);

  const FabricPlan& plan_;
  std::vector<LinkSlot> links_;
  std::vector<std::unique_ptr<fabric::Switch>> switches_;
};

}  // namespace weft::sim
