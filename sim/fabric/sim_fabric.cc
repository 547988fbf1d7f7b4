#include "sim/fabric/sim_fabric.h"

#include <utility>

namespace weft::sim {
namespace {

fabric::PortNumber port_of(uint32_t link) noexcept {
  return static_cast<fabric::PortNumber>(link + 1);
}

Guid guid_after(Guid first, uint64_t number) noexcept {
  return Guid(first.value() + number);
}

}  // namespace

/// Adds the link's number to a flit, because a cable knows only its ends.
class SimFabric::Watch final : public fabric::FlitObserver {
 public:
  Watch(FabricObserver& observer, uint32_t link) : observer_(observer), link_(link) {}
  void on_flit(uint32_t from_end, std::span<const std::byte> flit) noexcept override {
    observer_.on_flit(link_ << 1 | from_end, flit);
  }
  void tamper(uint32_t from_end, std::span<std::byte> flit) noexcept override {
    observer_.tamper(link_ << 1 | from_end, flit);
  }

 private:
  FabricObserver& observer_;
  uint32_t link_;
};

SimFabric::SimFabric(SimFabricConfig config, RandomSource& random)
    : config_(std::move(config)),
      links_(config_.endnodes + config_.trunks),
      switches_(config_.trunks == 0 ? 1 : 2) {
  for (uint32_t link = 0; link < links(); ++link) add_link(link, random);
}

/// Switches are destroyed before the links that they use.
SimFabric::~SimFabric() {
  switches_.clear();
}

void SimFabric::add_link(uint32_t link, RandomSource& random) {
  LinkSlot& slot = links_[link];
  slot.endnode_lives = is_trunk(link);
  slot.lid = Lid(port_of(link));
  fabric::MemoryCableConfig config;
  for (uint32_t end = 0; end < 2; ++end) config.ends[end] = end_config(link, end);
  config.grant = {config.ends[0].lid, port_of(link), SubnetId(0)};
  config.receiver_rereads = config_.receiver_rereads;
  if (config_.observer != nullptr) {
    slot.watch = std::make_unique<Watch>(*config_.observer, link);
    config.observer = slot.watch.get();
  }
  if (config_.refine) config_.refine(link, config);
  slot.cable = std::make_unique<fabric::MemoryCable>(config, random);
}

fabric::LinkConfig SimFabric::end_config(uint32_t link, uint32_t end) const {
  fabric::LinkConfig config = config_.switching.link;
  config.is_switch = end == 1 || is_trunk(link);
  if (config.is_switch) {
    config.guid = guid_after(config.guid, end == 1 ? upper(link) : 1);
  } else {
    config.guid = guid_after(config_.endnode_guid, link);
    config.lid = Lid(port_of(link));
  }
  return config;
}

LinkRefusal SimFabric::start(Instant now) {
  for (uint32_t index = 0; index < switches(); ++index) start_switch(index);
  LinkRefusal first = LinkRefusal::kNone;
  for (uint32_t link = 0; link < links(); ++link) {
    set_endnode_alive(link, true);
    if (const LinkRefusal refusal = wire(link, now); first == LinkRefusal::kNone) first = refusal;
  }
  return first;
}

bool SimFabric::attached(uint32_t link, uint32_t index) const noexcept {
  return is_trunk(link) || upper(link) == index;
}

void SimFabric::start_switch(uint32_t index) {
  fabric::SwitchConfig config = config_.switching;
  config.link.guid = guid_after(config.link.guid, index);
  switches_[index] = std::make_unique<fabric::Switch>(config);
  fabric::Switch& made = *switches_[index];
  for (uint32_t link = 0; link < links(); ++link) {
    if (attached(link, index)) made.attach(port_of(link), links_[link].cable->end(end_at(link, index)));
    if (!is_trunk(link)) forward(index, link);
  }
}

/// Cells for the endnode at `link` leave this switch by that link, or by the link to the other switch.
void SimFabric::forward(uint32_t index, uint32_t link) {
  const uint32_t way = attached(link, index) ? link : config_.endnodes;
  switches_[index]->forwarding().set(links_[link].lid, port_of(way));
}

void SimFabric::rename(uint32_t link, Lid lid, bool other_guid) {
  LinkSlot& slot = links_[link];
  slot.lid = lid;
  if (other_guid) ++slot.guids;
  slot.cable->rename(guid_after(config_.endnode_guid, (slot.guids << 16) + link), lid);
  for (uint32_t index = 0; index < switches(); ++index)
    if (switches_[index] != nullptr) forward(index, link);
}

void SimFabric::crash_switch(uint32_t index) {
  switches_[index].reset();
}

LinkRefusal SimFabric::wire(uint32_t link, Instant now) {
  LinkSlot& slot = links_[link];
  const bool wanted = slot.endnode_lives && slot.cuts == 0 && !switch_is_dead(link);
  if (wanted == slot.cable->plugged()) return LinkRefusal::kNone;
  if (wanted) return slot.cable->plug(now);
  slot.cable->unplug();
  return LinkRefusal::kNone;
}

bool SimFabric::switch_is_dead(uint32_t link) const noexcept {
  for (uint32_t index = 0; index < switches(); ++index) {
    if (attached(link, index) && switches_[index] == nullptr) return true;
  }
  return false;
}

bool SimFabric::switch_disturbed(uint32_t index) const noexcept {
  for (uint32_t link = 0; link < links(); ++link) {
    if (!attached(link, index)) continue;
    const uint32_t end = end_at(link, index);
    const fabric::LinkEngine& engine = links_[link].cable->end(end);
    const fabric::Port& port = switches_[index]->port(port_of(link));
    const bool up = engine.state() == fabric::LinkState::kUp;
    if (up != port.up || (up && engine.incarnation() != port.incarnation)) return true;
    if (links_[link].cable->input_waits(end)) return true;
  }
  return false;
}

bool SimFabric::carries(uint32_t link) noexcept {
  const fabric::Switch* at = switches_[upper(link)].get();
  return endnode(link).state() == fabric::LinkState::kUp && at != nullptr && at->port(port_of(link)).up;
}

}  // namespace weft::sim
