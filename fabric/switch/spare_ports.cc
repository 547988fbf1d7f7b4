// How it works: ports and LIDs are lent separately. A port is bound to a LID while its link is up. Only then
// does the forwarding table lead to the port. So cells for an endnode that has gone are dropped under their
// own counter (drop_no_route) and never reach the next endnode at that port. LIDs are lent in turn: first
// those that no endnode has had, then in the order in which their rest ends. An endnode that comes back names
// its GUID, uses the same key, and shows the nonce of its last incarnation or the identity of its first join.
// It then gets the LID of its GUID. The store keeps all of this over a restart of the switch. A GUID that is
// new here is accepted, and gets the LID that it asks for if no endnode ever had that LID. When a LID goes to
// another endnode, the old endnode's lease is erased, so there are never more leases than LIDs.
#include "fabric/switch/spare_ports.h"

#include <algorithm>

namespace weft::fabric {
namespace {

/// Bits of an EUI-64 that no hardware uses: locally administered, not a group.
constexpr uint64_t kLocalBit = uint64_t{1} << 57;
constexpr uint64_t kGroupBit = uint64_t{1} << 56;

}  // namespace

JoinPace::JoinPace(const SpareConfig& config) noexcept
    : interval_(2 * config.rest / std::max(1U, anonymous_lids(config.lid_count()))),
      burst_((config.ports + 1) / 2) {}

bool JoinPace::allow(std::string_view origin, Instant now) {
  auto at = std::find_if(origins_.begin(), origins_.end(),
                         [&](const Origin& one) { return one.last != Instant::min() && one.name == origin; });
  if (at == origins_.end()) {
    at = std::min_element(origins_.begin(), origins_.end(),
                          [](const Origin& a, const Origin& b) { return a.last < b.last; });
    *at = {std::string(origin), now, now};
  }
  at->last = now;
  at->full_until = std::max(at->full_until, now);
  if (at->full_until + interval_ - now > burst_ * interval_) return false;
  at->full_until += interval_;
  return true;
}

/// The engine of a port, and the supervisor that notices when its link goes down.
class SparePorts::SparePort final : public LinkSupervisor {
 public:
  SparePort(SparePorts& owner, PortNumber number, const LinkTimers& timers)
      : engine(timers), number_(number), owner_(owner) {
    engine.set_supervisor(this);
  }
  int supervise(LinkSeat& /*seat*/, Instant now) noexcept override {
    if (lid == kFree || engine.state() == LinkState::kUp) return 0;
    owner_.gone(*this, now);
    return 1;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }
  [[nodiscard]] bool announces_all() const noexcept override { return true; }

  static constexpr uint32_t kFree = UINT32_MAX;
  LinkEngine engine;
  uint32_t lid = kFree;
  [[nodiscard]] PortNumber number() const noexcept { return number_; }

 private:
  PortNumber number_;
  SparePorts& owner_;
};

SparePorts::SparePorts(Switch& fabric, const SpareConfig& config, PortNumber first_port, RandomSource& random,
                       const LinkTimers& timers, LeaseStore* store)
    : fabric_(fabric),
      config_(config),
      first_port_(first_port),
      random_(random),
      pace_(config),
      store_(store),
      fresh_left_(anonymous()) {
  for (uint32_t i = 0; i < config.ports; ++i) {
    const auto number = static_cast<PortNumber>(first_port + i);
    ports_.push_back(std::make_unique<SparePort>(*this, number, timers));
    fabric_.attach(number, ports_.back()->engine);
    free_ports_.push_back(static_cast<PortNumber>(first_port + config.ports - 1 - i));
  }
  // Without a store, a restarted switch does not know the owner of any LID. It begins at a random LID, so
  // that endnodes that come back most likely find their LID free.
  fresh_ = static_cast<uint32_t>(random_.below(std::max(fresh_left_, 1U)));
}

SparePorts::~SparePorts() = default;

LinkEngine& SparePorts::engine(size_t index) noexcept {
  return ports_[index]->engine;
}

/// Endnodes of the previous switch process may come back; their LIDs rest from now on. No rest is longer than
/// config_.rest from now: the store may have times of an earlier boot of the machine.
void SparePorts::load_leases(Instant now) {
  loaded_ = true;
  if (store_ == nullptr) return;
  for (Lease& lease : store_->load()) {
    if (lease.lid >= lid_count() || lids_.contains(lease.lid) || by_guid_.contains(lease.guid.value()))
      continue;
    lease.free_at = std::min(lease.free_at, now + config_.rest);
    by_guid_[lease.guid.value()] = lease.lid;
    if (lease.lid < anonymous()) resting_.emplace(lease.free_at, lease.lid);
    static_cast<Lease&>(lids_[lease.lid]) = std::move(lease);
  }
}

LinkRefusal SparePorts::choose(const LinkHello& hello, const Joiner& joiner, Takeover takeover, Instant now,
                               bool guid_is_listed, Choice& out) {
  if (!loaded_) load_leases(now);
  uint32_t lid = 0;
  const LinkRefusal refusal = hello.guid == Guid{} ? find_new(hello, joiner, now, lid)
                                                   : find_own(hello, joiner, guid_is_listed, now, lid);
  if (refusal != LinkRefusal::kNone) return refusal;
  const auto lent = lids_.find(lid);
  const bool is_here = lent != lids_.end() && lent->second.port != kPortNone;
  if (!is_here && free_ports_.empty()) return LinkRefusal::kNoPort;
  out.port = is_here ? lent->second.port : free_ports_.back();
  SparePort& port = *ports_[out.port - first_port_];
  if (port.engine.state() == LinkState::kUp && takeover == Takeover::kRefuse) return LinkRefusal::kLidTaken;
  Guid guid = hello.guid;
  if (guid == Guid{}) guid = is_here ? lent->second.guid : make_guid();
  out.lid = lid;
  out.engine = &port.engine;
  out.grant = {Lid(static_cast<uint16_t>(config_.first_lid.value() + lid)), out.port, fabric_.config().subnet,
               guid};
  return LinkRefusal::kNone;
}

/// An endnode that names its GUID.
LinkRefusal SparePorts::find_own(const LinkHello& hello, const Joiner& joiner, bool guid_is_listed,
                                 Instant now, uint32_t& lid) {
  const uint32_t wish = uint32_t{hello.lid.value()} - config_.first_lid.value();
  const bool wishes = hello.lid != kLidNone;
  if (wishes && (hello.lid < config_.first_lid || wish >= lid_count())) return LinkRefusal::kLidInvalid;
  const auto known = by_guid_.find(hello.guid.value());
  if (known != by_guid_.end()) {
    const Lent& lent = lids_[known->second];
    const bool shown = hello.identity != 0 && joiner.key == lent.key &&
                       (hello.identity == lent.nonce || hello.identity == lent.nonce_before ||
                        hello.identity == lent.brought);
    if (!shown) return LinkRefusal::kNotOwner;
    lid = known->second;
    return LinkRefusal::kNone;
  }
  if (guid_is_listed) return LinkRefusal::kNotOwner;
  if (!wishes || !may_wish(wish, joiner, now)) return find_free(joiner, now, lid);
  if (free_ports_.empty()) return LinkRefusal::kNoPort;
  if (!pace_.allow(joiner.origin, now)) return LinkRefusal::kRate;
  lid = wish;
  return LinkRefusal::kNone;
}

/// May an endnode with a GUID that is new here have this LID? LIDs of names are for processes of our user,
/// whose launcher keeps the list of names. If that list was started again, a LID whose rest has ended may be
/// taken over.
bool SparePorts::may_wish(uint32_t lid, const Joiner& joiner, Instant now) const noexcept {
  const bool of_names = lid >= anonymous();
  if (of_names && !joiner.key.empty()) return false;
  const auto lent = lids_.find(lid);
  if (lent == lids_.end()) return true;
  return of_names && lent->second.key.empty() && lent->second.free_at <= now;
}

/// An endnode that has no GUID yet, or that missed the WELCOME with its GUID.
LinkRefusal SparePorts::find_new(const LinkHello& hello, const Joiner& joiner, Instant now, uint32_t& lid) {
  const auto again = hello.identity != 0 ? by_nonce_.find(hello.identity) : by_nonce_.end();
  if (again != by_nonce_.end() && lids_[again->second].key == joiner.key) {
    lid = again->second;
    return LinkRefusal::kNone;
  }
  return find_free(joiner, now, lid);
}

LinkRefusal SparePorts::find_free(const Joiner& joiner, Instant now, uint32_t& lid) {
  if (free_ports_.empty()) return LinkRefusal::kNoPort;
  skip_lent();
  const bool rested = !resting_.empty() && resting_.begin()->first <= now;
  if (fresh_left_ == 0 && !rested) return LinkRefusal::kNoLid;
  if (!pace_.allow(joiner.origin, now)) return LinkRefusal::kRate;
  lid = fresh_left_ != 0 ? fresh_ : resting_.begin()->second;
  return LinkRefusal::kNone;
}

/// Moves to the next LID that no endnode has or had; amortised O(1).
void SparePorts::skip_lent() noexcept {
  for (; fresh_left_ != 0 && lids_.contains(fresh_); --fresh_left_) fresh_ = (fresh_ + 1) % anonymous();
}

void SparePorts::take(const Choice& choice, const LinkHello& hello, const Joiner& joiner) {
  Lent& lent = lids_[choice.lid];
  lent.lid = choice.lid;
  if (lent.guid != choice.grant.guid) {
    by_guid_.erase(lent.guid.value());
    by_guid_[choice.grant.guid.value()] = choice.lid;
    lent.brought = hello.guid != Guid{} ? hello.identity : 0;
  }
  if (lent.port == kPortNone) {
    free_ports_.pop_back();  // the port that choose() named
    resting_.erase({lent.free_at, choice.lid});
  } else {
    by_nonce_.erase(lent.nonce);
  }
  lent.guid = choice.grant.guid;
  lent.nonce_before = hello.identity;
  lent.nonce = hello.boot_nonce;
  lent.port = choice.port;
  lent.free_at = kNever;
  lent.key = joiner.key;
  by_nonce_[lent.nonce] = choice.lid;
  ports_[choice.port - first_port_]->lid = choice.lid;
  ports_[choice.port - first_port_]->engine.ring();  // so that gone() is called if the link does not come up
  fabric_.forwarding().set(choice.grant.lid, choice.port);
  if (store_ != nullptr) store_->keep(lent);
}

/// The link of a port went down or never came up.
void SparePorts::gone(SparePort& port, Instant now) {
  Lent& lent = lids_[port.lid];
  fabric_.forwarding().forget(Lid(static_cast<uint16_t>(config_.first_lid.value() + port.lid)));
  by_nonce_.erase(lent.nonce);
  lent.port = kPortNone;
  lent.free_at = now + config_.rest;
  if (port.lid < anonymous()) resting_.emplace(lent.free_at, port.lid);
  free_ports_.push_back(port.number());
  port.lid = SparePort::kFree;
  if (store_ != nullptr) store_->keep(lent);
}

Guid SparePorts::make_guid() noexcept {
  for (;;) {
    const Guid guid((random_.next() & ~kGroupBit) | kLocalBit);
    if (!by_guid_.contains(guid.value())) return guid;
  }
}

}  // namespace weft::fabric
