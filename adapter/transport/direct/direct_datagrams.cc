// How it works: a UD QP keeps for each LID to which it has sent whether a window leads there. The first
// datagram to a LID asks for a window and takes the switch, as do all until the window is up. Then the cell
// writer gets the DatagramCarrier in place of the QP's port, and writes the cell into the slot of a record.
// The receiver's adapter takes the cell as one that came by a port.
#include "adapter/transport/direct/direct_datagrams.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "adapter/queues/qp_list.h"
#include "adapter/transport/direct/direct_outlet.h"
#include "messages/multicast.h"
#include "messages/window_record.h"

namespace weft::adapter {

// ---- one datagram --------------------

void DatagramCarrier::aim(QueuePair& qp, Qpn to, DirectPeer& peer) noexcept {
  if (peer_ != &peer) finish();
  peer_ = &peer;
  qp_ = &qp;
  to_ = to;
}

void DatagramCarrier::finish() noexcept {
  if (std::exchange(put_, false)) windows_.flush(*peer_);
  peer_ = nullptr;
}

const fabric::CellPortInfo& DatagramCarrier::info() const noexcept {
  return engine_.ports.front()->info();
}

/// A window that is cut off loses its datagrams, as a cable does.
std::byte* DatagramCarrier::claim(VirtualLane /*vl*/, uint32_t cell_bytes) noexcept {
  DirectPeer& peer = *peer_;
  const bool cut = peer.window->cut();
  const std::span<std::byte> room = cut ? std::span<std::byte>() : peer.window->slot();
  drops_ = false;
  if (room.size() >= kDatagramRecordBytes + cell_bytes) [[likely]] {
    peer.full_since = kNever;
    room_ = room.data();
    return room_ + kDatagramRecordBytes;
  }
  if (peer.full_since == kNever || peer.full_at != peer.window->taken()) {
    peer.full_since = engine_.now;
    peer.full_at = peer.window->taken();
  }
  drops_ = cut || engine_.now - peer.full_since >= kDatagramWaitMax;
  if (drops_) return scrap_.data();
  DatagramQp& kept = datagrams_of(*qp_);
  if (kept.waits_at == &peer) return nullptr;
  wait_no_more(*qp_);
  kept.waits_at = &peer;
  peer.datagrams_waiting.push_back(qp_);
  put_ = true;  // the window gets a turn
  return nullptr;
}

void DatagramCarrier::wait_no_more(QueuePair& qp) noexcept {
  if (DirectPeer* const at = std::exchange(datagrams_of(qp).waits_at, nullptr); at != nullptr)
    std::erase(at->datagrams_waiting, &qp);
}

void DatagramCarrier::commit(VirtualLane /*vl*/, uint32_t cell_bytes, uint32_t /*cell_crc*/) noexcept {
  engine_.bytes_sent -= cell_bytes;  // no port sends them
  wait_no_more(*qp_);
  if (drops_) return engine_.count(AdapterCounter::kDropFifoFull);
  const auto header = encode_datagram_record();
  std::memcpy(room_, header.data(), header.size());
  peer_->window->post(to_.value(), qp_->qpn.value(), kDatagramRecordBytes + cell_bytes,
                      cookie_of(0, kDatagramPlace));
  datagrams_of(*qp_).has_sent = put_ = true;
}

// ---- which way --------------------

/// Windows know the first port alone. QP0 and QP1 stay at the switch, which limits what they send.
bool DirectDatagrams::suits(const QueuePair& qp, const SendWqe& wqe) const noexcept {
  const AdapterPort& port = *engine_.ports[qp.port - 1U];
  const bool management = is_management(qp.qpn) || is_management(wqe.dest.qpn);
  const bool leaves = wqe.is_global && subnet_of(wqe.route.dgid) != port.info().subnet;
  return qp.config.type == QpType::kUd && qp.port == 1 && !management && !leaves &&
         !is_multicast(wqe.dest.lid) && !port.has(wqe.dest.lid);
}

/// Null: there is no memory for it, or too many are kept.
DatagramWay* DirectDatagrams::way_of(QueuePair& qp, Lid lid) noexcept {
  try {
    if (qp.kept == nullptr) qp.kept = std::make_unique<DatagramQp>();
    DatagramQp& kept = datagrams_of(qp);
    if (kept.last != nullptr && kept.last_lid == lid) [[likely]]
      return kept.last;
    auto found = kept.ways.find(lid.value());
    if (found == kept.ways.end()) {
      if (kept.ways.size() >= kDatagramLidsMax) return nullptr;
      found = kept.ways.try_emplace(lid.value()).first;
    }
    kept.last_lid = lid;
    kept.last = &found->second;
    return kept.last;
  } catch (const std::bad_alloc&) {  // the switch needs no memory
    return nullptr;
  }
}

void DirectDatagrams::ask(QueuePair& qp, DatagramWay& way, Lid lid) noexcept {
  try {
    DirectPeer* const peer = windows_.peer_of(lid);
    if (peer == nullptr) return put_off(way);
    peer->datagrams_waiting.reserve(peer->datagrams.size() + 1);
    peer->datagrams.push_back(&qp);
    peer->visits = false;
    way.peer = peer;
  } catch (const std::bad_alloc&) {
    put_off(way);
  }
}

/// No window leads to this LID, and the next datagrams do not ask for one.
void DirectDatagrams::put_off(DatagramWay& way) noexcept {
  way = {.ask_at = engine_.now + way.pause, .pause = std::min(2 * way.pause, kDatagramAskMax)};
}

/// The window is up, its records hold every cell of the port, the peer knows the port's present LID, and is
/// not of an earlier version, without datagrams.
bool DirectDatagrams::carries(DirectPeer& peer) const noexcept {
  const AdapterPort& port = *engine_.ports.front();
  const uint32_t most = kDatagramRecordBytes + cell_bytes_max(port.info().cell_payload_bytes);
  if (!peer.open() || peer.own_lid != port.lid() || peer.window->record_bytes_max() < most) return false;
  if (!peer.takes_datagrams)
    peer.takes_datagrams = peer.window->device().peer_scratchpad(fabric::kScratchpadDatagrams) != 0;
  return peer.takes_datagrams;
}

/// The peer whose window carries a datagram; null: the QP's port does.
DirectPeer* DirectDatagrams::peer_for(QueuePair& qp, const SendWqe& wqe) noexcept {
  if (!suits(qp, wqe)) return nullptr;
  DatagramWay* const way = way_of(qp, wqe.dest.lid);
  if (way == nullptr) return nullptr;
  if (way->peer == nullptr && engine_.now >= way->ask_at) ask(qp, *way, wqe.dest.lid);
  return way->peer != nullptr && carries(*way->peer) ? way->peer : nullptr;
}

fabric::CellPort* DirectDatagrams::carrier_of(QueuePair& qp, const SendWqe& wqe) noexcept {
  if (DirectPeer* const peer = peer_for(qp, wqe); peer != nullptr) {
    carrier_.aim(qp, wqe.dest.qpn, *peer);
    return &carrier_;
  }
  if (qp.config.type == QpType::kUd && qp.kept != nullptr) datagrams_of(qp).by_port = true;
  return nullptr;
}

void DirectDatagrams::ran(QueuePair& qp, bool& blocked) noexcept {
  carrier_.finish();
  if (!waits(qp)) return;
  blocked = false;
  SendList::unlink(qp);  // its completions have called for a turn
}

bool DirectDatagrams::waits(const QueuePair& qp) const noexcept {
  return qp.config.type == QpType::kUd && qp.kept != nullptr && datagrams_of(qp).waits_at != nullptr;
}

bool DirectDatagrams::goes_by_window(const QueuePair& qp, bool& by_port) const noexcept {
  const auto* const kept = static_cast<const DatagramQp*>(qp.kept.get());
  bool by_window = false;
  by_port = kept == nullptr || kept->ways.empty();
  if (kept == nullptr) return false;
  for (const auto& [lid, way] : kept->ways) {
    const bool window = way.peer != nullptr && carries(*way.peer);
    by_window |= window;
    by_port |= !window;
  }
  return by_window;
}

// ---- ends --------------------

void DirectDatagrams::forget(QueuePair& qp) noexcept {
  if (qp.kept == nullptr) return;
  for (const auto& [lid, way] : datagrams_of(qp).ways) {
    if (way.peer == nullptr) continue;
    DirectPeer& peer = *way.peer;
    peer.datagrams.erase(std::find(peer.datagrams.begin(), peer.datagrams.end(), &qp));
    std::erase(peer.datagrams_waiting, &qp);
    windows_.left(peer);
  }
  qp.kept.reset();
}

void DirectDatagrams::leave(DirectPeer& peer) noexcept {
  wake(peer);
  for (QueuePair* qp : peer.datagrams) {
    for (auto& [lid, way] : datagrams_of(*qp).ways) {
      if (way.peer != &peer) continue;
      if (peer.up) way.pause = kDatagramAskEvery;  // this program has windows
      put_off(way);
    }
  }
  peer.datagrams.clear();
}

void DirectDatagrams::look(DirectPeer& peer) noexcept {
  if (engine_.now >= due_of(peer) || peer.window->cut() || peer.window->slot().data() != nullptr) wake(peer);
}

/// Those that found room the last time come behind the others: one with many datagrams would take all of it.
void DirectDatagrams::wake(DirectPeer& peer) noexcept {
  for (const bool has_sent : {false, true}) {
    for (QueuePair* qp : peer.datagrams_waiting) {
      DatagramQp& kept = datagrams_of(*qp);
      if (kept.waits_at != nullptr && kept.has_sent == has_sent) wake(*qp);
    }
  }
  peer.datagrams_waiting.clear();
}

void DirectDatagrams::wake(QueuePair& qp) noexcept {
  datagrams_of(qp).waits_at = nullptr;
  datagrams_of(qp).has_sent = false;
  engine_.schedule.want_send(qp);
}

/// Another QP may have found room since.
Instant DirectDatagrams::due_of(const DirectPeer& peer) noexcept {
  if (peer.datagrams_waiting.empty()) return kNever;
  return peer.full_since == kNever ? Instant::min() : peer.full_since + kDatagramWaitMax;
}

}  // namespace weft::adapter
