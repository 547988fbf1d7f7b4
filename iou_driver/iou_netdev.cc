// Sessions, configuration and poll() of the unit half; iou_switching.cc moves the frames.
#include "iou_driver/iou_netdev.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/ethernet.h"

namespace weft::iou {
namespace {

constexpr Duration kBusyRetry = std::chrono::milliseconds(1);

}  // namespace

IouNetdev::IouNetdev(session::SessionAcceptor& acceptor, FramePort& nic, const NicPolicy& policy)
    : acceptor_(acceptor), nic_(nic), policy_(policy), config_(nic, policy), nic_writer_(nic) {
  held_.bytes.resize(kSegmenterBytesMax);
  acceptor_.set_events(this);
}

IouNetdev::~IouNetdev() {
  acceptor_.set_events(nullptr);
}

bool IouNetdev::publish(StatsPage& page, std::string_view prefix) {
  const std::string name(prefix);
  acceptor_.publish(page, name + ".acceptor");
  return page.publish(name + ".driver", counters_) && page.publish(name + ".nic", nic_.counters()) &&
         page.publish(name + ".writer", nic_writer_.counters()) &&
         page.publish(name + ".config", config_.counters());
}

int IouNetdev::poll(Instant now) noexcept {
  if (now != now_) last_turn_ = std::exchange(now_, now);
  int work = nic_.poll(now);
  work += acceptor_.poll(now);
  work += take_from_hosts();
  work += take_from_nic();
  tell_link_state();
  for (uint32_t i = 0; i < client_count_; ++i) {
    if (clients_[i].active) clients_[i].session->flush();
  }
  return work;
}

Instant IouNetdev::deadline() const noexcept {
  Instant next = acceptor_.deadline();
  next = std::min(next, nic_held_ ? std::max(nic_.deadline(), now_ + kBusyRetry) : nic_.deadline());
  if (nic_writer_.holding() || held_.length != 0) next = std::min(next, now_ + kBusyRetry);
  for (uint32_t i = 0; i < client_count_; ++i) {
    // A frame still at the front waits for a NIC or another host, and no descriptor reports when that is
    // free.
    if (clients_[i].session->front_frame() != nullptr) next = std::min(next, now_ + kBusyRetry);
  }
  return next;
}

void IouNetdev::wait_fds(std::vector<pollfd>& out) const {
  if (!nic_held_) nic_.wait_fds(out);
}

uint32_t IouNetdev::active_count() const noexcept {
  uint32_t count = 0;
  for (const UnitClient& client : clients()) count += client.active ? 1 : 0;
  return count;
}

/// True while a session has frames that have not gone everywhere yet.
bool IouNetdev::holds_frames() const noexcept {
  return std::any_of(clients().begin(), clients().end(),
                     [](const UnitClient& client) { return client.session->front_frame() != nullptr; });
}

UnitClient* IouNetdev::client_of(const session::NetdevSession& session) noexcept {
  for (uint32_t i = 0; i < client_count_; ++i) {
    if (clients_[i].session == &session) return &clients_[i];
  }
  return nullptr;
}

/// The endnode's own, else one that no present host uses, and for which nothing has waited for longest.
WaitBudget& IouNetdev::budget_of(Lid lid) noexcept {
  WaitBudget* oldest = nullptr;
  for (WaitBudget& budget : budgets_) {
    if (budget.lid() == lid) return budget;
    const bool in_use = std::any_of(clients().begin(), clients().end(), [&](const UnitClient& client) {
      return client.present && client.budget == &budget;
    });
    if (!in_use && (oldest == nullptr || budget.waited_at() < oldest->waited_at())) oldest = &budget;
  }
  WEFT_CHECK(oldest != nullptr, "as many budgets as clients, one of which is being opened");
  *oldest = WaitBudget(lid);
  return *oldest;
}

session::SessionRefusal IouNetdev::admit(const session::SessionPeer& peer) noexcept {
  if (!is_station(peer.mac)) {
    counters_.add(UnitCounter::kHostsRefusedMac);
    return session::SessionRefusal::kPolicy;
  }
  if (config_.is_nics_own(peer.mac)) {
    counters_.add(UnitCounter::kHostsRefusedMac);
    return session::SessionRefusal::kMacTaken;
  }
  for (const UnitClient& client : clients()) {
    // The same node coming back replaces its own session.
    if (client.present && client.mac == peer.mac && client.session->peer().lid != peer.lid) {
      counters_.add(UnitCounter::kHostsRefusedMac);
      return session::SessionRefusal::kMacTaken;
    }
  }
  counters_.add(UnitCounter::kHostsAdmitted);
  return session::SessionRefusal::kNone;
}

void IouNetdev::on_state(session::NetdevSession& session, session::SessionState state) noexcept {
  UnitClient* client = client_of(session);
  if (client == nullptr) {
    if (state != session::SessionState::kOpening || client_count_ == kUnitClientsMax) return;
    client = &clients_[client_count_++];
    client->session = &session;
  }
  // Channel 1 may be faster than channel 0: frames can be here before the session is open.
  if (state == session::SessionState::kOpening) {
    client->reset(session.peer(), nic_.info().mtu_bytes);
    client->budget = &budget_of(session.peer().lid);
  }
  client->present = state != session::SessionState::kLost && state != session::SessionState::kIdle;
  client->active = state == session::SessionState::kOpen;
  update_nic_offloads();
}

void IouNetdev::on_config_request(session::NetdevSession& session, const session::CfgRequest& request,
                                  session::CfgReply& reply) noexcept {
  UnitClient* client = client_of(session);
  if (client == nullptr) {
    reply.status = CfgStatus::kFailed;
    return;
  }
  config_.apply(*client, clients(), request, reply);
  update_nic_offloads();
}

void IouNetdev::on_config_reply(session::NetdevSession& session, uint64_t transaction,
                                const session::CfgReply& reply) noexcept {
  UnitClient* client = client_of(session);
  if (client == nullptr || transaction != client->link_transaction) return;
  client->link_transaction = 0;
  if (reply.status != CfgStatus::kGood) client->link_known = false;
}

void IouNetdev::tell_link_state() noexcept {
  const bool up = nic_.carrier();
  for (uint32_t i = 0; i < client_count_; ++i) {
    UnitClient& client = clients_[i];
    if (!client.active || client.link_transaction != 0) continue;
    if (client.link_known && client.link_told == up) continue;
    std::array<std::byte, 4> data{};
    encode_u32(up ? 1 : 0, data);
    const session::CfgRequest request{.request_class = CfgClass::kUtility,
                                      .code = static_cast<uint16_t>(UtilityCode::kLinkState),
                                      .data = data};
    client.link_transaction = client.session->request_config(request);
    if (client.link_transaction == 0) continue;
    client.link_told = up;
    client.link_known = true;
    counters_.add(UnitCounter::kLinkEvents);
  }
}

/// Sets the NIC's offloads to those that every host takes.
void IouNetdev::update_nic_offloads() noexcept {
  Offload common = active_count() == 0 ? Offload::kNone : nic_.info().offloads;
  for (const UnitClient& client : clients()) {
    if (client.active) common = common & client.features;
  }
  if (common == nic_offloads_) return;
  const Status set = nic_.set_offloads(common);
  if (set.ok()) {
    nic_offloads_ = common;
  } else {
    counters_.add(UnitCounter::kNicOffloadErrors);
    log(LogLevel::kWarn, "{}", set.error().text);
  }
}

}  // namespace weft::iou
