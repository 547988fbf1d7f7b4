#include "sim/sim_fabric.h"

namespace weft::sim {
namespace {

constexpr uint64_t kSwitchGuid = 0x5745'4654'5357'0000ULL;
constexpr uint64_t kEndnodeGuid = 0x5745'4654'0000'0000ULL;

fabric::PortNumber port_of(uint32_t link) noexcept {
  return static_cast<fabric::PortNumber>(link + 1);
}

}  // namespace

/// Adds the link's number to a flit, because a cable knows only its ends.
class SimFabric::Watch final : public fabric::FlitObserver {
 public:
  Watch(Observer& observer, uint32_t link) : observer_(observer), link_(link) {}
  void on_flit(uint32_t from_end, std::span<const std::byte> flit) noexcept override {
    observer_.on_flit(link_ << 1 | from_end, flit);
  }
  void tamper(uint32_t from_end, std::span<std::byte> flit) noexcept override {
    observer_.tamper(link_ << 1 | from_end, flit);
  }

 private:
  Observer& observer_;
  uint32_t link_;
};

SimFabric::SimFabric(const FabricPlan& plan, RandomSource& random, Observer& observer)
    : plan_(plan), switches_(plan.switches()) {
  links_.resize(plan.links());
  for (uint32_t link = 0; link < links(); ++link) add_link(link, random, observer);
}

/// Switches are destroyed before the links that they use.
SimFabric::~SimFabric() {
  switches_.clear();
}

void SimFabric::add_link(uint32_t link, RandomSource& random, Observer& observer) {
  LinkSlot& slot = links_[link];
  slot.watch = std::make_unique<Watch>(observer, link);
  slot.endnode_lives = is_trunk(link);
  slot.lid = Lid(port_of(link));
  fabric::MemoryCableConfig config;
  for (uint32_t end = 0; end < 2; ++end) config.ends[end] = end_config(link, end);
  config.grant = {config.ends[0].lid, port_of(link), SubnetId(0)};
  config.receiver_rereads = plan_.receiver_rereads;
  config.observer = slot.watch.get();
  slot.cable = std::make_unique<fabric::MemoryCable>(config, random);
}

fabric::LinkConfig SimFabric::end_config(uint32_t link, uint32_t end) const {
  fabric::LinkConfig config;
  config.cell_payload_bytes = plan_.cell_payload_bytes;
  config.flit_payload_bytes = plan_.flit_payload_bytes;
  config.lanes = plan_.lanes;
  config.credits_per_lane = plan_.credits_per_lane;
  config.cut_through = plan_.cut_through;
  config.is_switch = end == 1 || is_trunk(link);
  config.guid =
      Guid(config.is_switch ? kSwitchGuid + (is_trunk(link) ? 1 - end : 0) : kEndnodeGuid + link + 1);
  if (!config.is_switch) config.lid = Lid(static_cast<uint16_t>(link + 1));
  return config;
}

bool SimFabric::attached(uint32_t link, uint32_t index) const noexcept {
  return is_trunk(link) || plan_.switch_of(link + 1) == index;
}

void SimFabric::start_switch(uint32_t index) {
  fabric::SwitchConfig config;
  config.link = end_config(0, 1);
  config.ports = links();
  config.links_awake = 0;  // every idle link sleeps
  switches_[index] = std::make_unique<fabric::Switch>(config);
  fabric::Switch& made = *switches_[index];
  for (uint32_t link = 0; link < links(); ++link) {
    if (attached(link, index)) made.attach(port_of(link), links_[link].cable->end(end_at(link, index)));
    if (!is_trunk(link)) forward(index, link);
  }
}

/// Cells for the endnode at `link` leave this switch by that link, or by the link to the other switch.
void SimFabric::forward(uint32_t index, uint32_t link) {
  const uint32_t way = attached(link, index) ? link : plan_.endnodes;
  switches_[index]->forwarding().set(links_[link].lid, port_of(way));
}

void SimFabric::rename(uint32_t link, Lid lid, bool other_guid) {
  LinkSlot& slot = links_[link];
  slot.lid = lid;
  if (other_guid) ++slot.guids;
  slot.cable->rename(Guid(kEndnodeGuid + (slot.guids << 16) + link + 1), lid);
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
  const uint32_t upper = is_trunk(link) ? 0 : plan_.switch_of(link + 1);
  return links_[link].cable->end(0).state() == fabric::LinkState::kUp && switches_[upper] != nullptr &&
         switches_[upper]->port(port_of(link)).up;
}

}  // namespace weft::sim
