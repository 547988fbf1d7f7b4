#include "session/session_port.h"

#include <algorithm>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace weft::session {

// ---- the port --------------------

SessionPort::SessionPort(adapter::ChannelAdapter& adapter, uint8_t port)
    : adapter_(adapter), number_(port), gsi_(adapter, port), dispatcher_(gsi_) {
  const bool claimed = dispatcher_.claim(MadClass::kConnection, kCmClassVersion, {MadMethod::kSend}, *this);
  WEFT_CHECK(claimed, "the first claim of a dispatcher");
}

Status SessionPort::open() noexcept {
  if (gsi_.is_open()) return {};
  Status opened = status_with_memory([&] { return gsi_.open(); });
  if (!opened) gsi_.close();  // what it had made when there was no more memory
  return opened;
}

bool SessionPort::send(SessionMad message, Lid to, ServiceLevel sl) noexcept {
  if (const fabric::CellPortInfo* info = adapter_.ports().info(number_)) {
    message.labels.guid = info->guid;
    message.labels.local_lid = info->lid;
  }
  message.labels.remote_lid = to;
  return gsi_.send(to, encode_session_mad(message), sl);
}

void SessionPort::collect(Instant now) noexcept {
  management::MadDatagram got;
  while (gsi_.receive(got)) {
    const management::MadFate fate = dispatcher_.dispatch(now, got.from, got.bytes);
    if (fate == management::MadFate::kTaken) continue;
    for (SessionMailbox* mailbox : mailboxes_) {
      if (mailbox->wants(got.from)) mailbox->put(SessionReceive::kMalformed, {});
    }
  }
}

bool SessionPort::has_listener() const noexcept {
  return std::any_of(mailboxes_.begin(), mailboxes_.end(),
                     [](const SessionMailbox* mailbox) { return mailbox->peer_ == kLidNone; });
}

void SessionPort::on_mad(const management::MadArrival& mad) noexcept {
  CmMad cm;
  SessionDatagram datagram{.message = {}, .lid = mad.from};
  MadError error = decode_cm(mad.bytes, cm);
  if (error == MadError::kNone) error = read_session_mad(cm, datagram.message);
  const auto* req = std::get_if<CmReq>(&cm.body);
  const bool other_service = req != nullptr && (req->service_id != kSessionServiceId || !has_listener());
  if (other_service) refuse_service(mad.from, cm.transaction, req->local_id);
  const SessionReceive what =
      error == MadError::kNone ? SessionReceive::kMessage : SessionReceive::kMalformed;
  for (SessionMailbox* mailbox : mailboxes_) {
    if (mailbox->wants(mad.from)) mailbox->put(what, datagram);
  }
}

/// Answers a REQ for a service that this port does not have with InfiniBand's REJ reason.
void SessionPort::refuse_service(Lid to, uint64_t transaction, uint32_t asker_id) noexcept {
  const CmRej rej{.remote_id = asker_id, .about = kAboutReq, .reason = kRejectInvalidService};
  static_cast<void>(gsi_.send(to, encode_cm({.transaction = transaction, .body = rej})));
}

SessionPort& SessionPorts::at(uint8_t port) {
  std::unique_ptr<SessionPort>& place = ports_[port];
  if (place == nullptr) place = std::make_unique<SessionPort>(adapter_, port);
  return *place;
}

// ---- a mailbox --------------------

SessionMailbox::SessionMailbox(SessionPort& port, Lid peer) : port_(port), peer_(peer), places_(kPlaces) {
  port_.mailboxes_.push_back(this);
}

SessionMailbox::~SessionMailbox() {
  std::erase(port_.mailboxes_, this);
}

/// If the mailbox is full the message is lost, as if QP1 had no receive slot.
void SessionMailbox::put(SessionReceive what, const SessionDatagram& datagram) noexcept {
  if (count_ == kPlaces) return;
  places_[(first_ + count_++) % kPlaces] = {what, datagram};
}

SessionReceive SessionMailbox::receive(Instant now, SessionDatagram& out) noexcept {
  if (count_ == 0) port_.collect(now);
  if (count_ == 0) return SessionReceive::kNone;
  const Place& place = places_[first_];
  first_ = (first_ + 1) % kPlaces;
  --count_;
  if (place.what == SessionReceive::kMessage) out = place.datagram;
  return place.what;
}

}  // namespace weft::session
