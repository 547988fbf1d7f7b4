#include "messages/session_mad.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/endian.h"

namespace weft {
namespace {

// Values of InfiniBand's fields for a session's queue pairs (session/session_channels.cc).
constexpr uint8_t kRetryCount = 7;
constexpr uint8_t kRnrForEver = 7;
constexpr uint8_t kResponseTimeout = 15;  // 4.096 us * 2^n: 134 ms, after the 100 ms of a repeat
constexpr uint8_t kCmRetries = 15;        // the field's maximum; a host repeats without limit
constexpr uint16_t kPkeyDefault = 0xFFFF;
constexpr uint8_t kMtu4096 = 5;

struct OfferWire {
  Be16 version_min;
  Be16 version_max;
  uint8_t encoding;
  uint8_t mode;
  uint8_t idata_format;
  uint8_t channels;
  Be32 data_qpn;
  Be32 data_psn;
  Be32 frame_bytes_max;
  Be32 features;
  uint8_t mac[6];
  uint8_t acks;
  uint8_t zero;
  Be32 packet_bytes;
  Be32 message_bytes;
};
static_assert(sizeof(OfferWire) == 40 && alignof(OfferWire) == 1);
static_assert(offsetof(OfferWire, data_qpn) == 8 && offsetof(OfferWire, frame_bytes_max) == 16 &&
              offsetof(OfferWire, mac) == 24 && offsetof(OfferWire, acks) == 30 &&
              offsetof(OfferWire, packet_bytes) == 32 && offsetof(OfferWire, message_bytes) == 36);
static_assert(sizeof(OfferWire) <= sizeof(CmReq::private_data));

struct RejWire {
  Be16 refusal;
  Be16 version_min;
  Be16 version_max;
};
static_assert(sizeof(RejWire) == 6);

bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

void put_offer(const SessionOffer& offer, std::span<std::byte> place) noexcept {
  OfferWire wire{};
  wire.version_min.set(offer.version_min);
  wire.version_max.set(offer.version_max);
  wire.encoding = offer.encoding;
  wire.mode = offer.mode;
  wire.idata_format = offer.idata_format;
  wire.channels = offer.channels;
  wire.data_qpn.set(offer.data.qpn.value());
  wire.data_psn.set(offer.data.psn.value());
  wire.frame_bytes_max.set(offer.frame_bytes_max);
  wire.features.set(offer.features);
  std::copy(offer.mac.begin(), offer.mac.end(), wire.mac);
  wire.acks = offer.acks;
  wire.packet_bytes.set(offer.packet_bytes);
  wire.message_bytes.set(offer.message_bytes);
  std::memcpy(place.data(), &wire, sizeof wire);
}

/// A QP number has 24 bits. QPs 0 and 1 are for management, never for a channel.
bool good_channel(uint32_t qpn, uint32_t psn) noexcept {
  return qpn > kQpnGsi.value() && qpn <= kQpnMask && psn <= Psn::kMask;
}

/// @param control_qpn, control_psn  from InfiniBand's fields, 24 bits each
MadError get_offer(std::span<const std::byte> place, uint32_t control_qpn, uint32_t control_psn,
                   SessionOffer& out) noexcept {
  OfferWire wire;
  std::memcpy(static_cast<void*>(&wire), place.data(), sizeof wire);
  if (wire.zero != 0 || !all_zero(place.subspan(sizeof wire))) return MadError::kReserved;
  const uint32_t data_qpn = wire.data_qpn.get();
  const uint32_t data_psn = wire.data_psn.get();
  if (!good_channel(control_qpn, control_psn)) return MadError::kValue;
  const bool data_good = wire.channels == 2   ? good_channel(data_qpn, data_psn) && data_qpn != control_qpn
                         : wire.channels == 1 ? data_qpn == 0 && data_psn == 0
                                              : false;
  if (!data_good || wire.version_min.get() > wire.version_max.get()) return MadError::kValue;
  out.version_min = wire.version_min.get();
  out.version_max = wire.version_max.get();
  out.encoding = wire.encoding;
  out.mode = wire.mode;
  out.idata_format = wire.idata_format;
  out.channels = wire.channels;
  out.control = {.qpn = Qpn(control_qpn), .psn = Psn(control_psn)};
  out.data = {.qpn = Qpn(data_qpn), .psn = Psn(data_psn)};
  out.frame_bytes_max = wire.frame_bytes_max.get();
  out.features = wire.features.get();
  std::copy(std::begin(wire.mac), std::end(wire.mac), out.mac.begin());
  out.acks = wire.acks;
  out.packet_bytes = wire.packet_bytes.get();
  out.message_bytes = wire.message_bytes.get();
  return MadError::kNone;
}

// ---- writing --------------------

CmReq make_req(const SessionMad& mad) noexcept {
  const bool acknowledged = mad.offer.mode != static_cast<uint8_t>(TransferMode::kSendReceive);
  CmReq req{.local_id = mad.labels.local_id,
            .service_id = kSessionServiceId,
            .ca_guid = mad.labels.guid.value(),
            .qpn = mad.offer.control.qpn.value(),
            .psn = mad.offer.control.psn.value(),
            .service = acknowledged ? kCmServiceRc : kCmServiceUc,
            .flow_control = 1,
            .retry_count = kRetryCount,
            .rnr_retry = kRnrForEver,
            .local_response_timeout = kResponseTimeout,
            .remote_response_timeout = kResponseTimeout,
            .max_retries = kCmRetries,
            .pkey = kPkeyDefault,
            .path_mtu = kMtu4096,
            .path = {.local_lid = mad.labels.local_lid.value(),
                     .remote_lid = mad.labels.remote_lid.value(),
                     .subnet_local = 1}};
  put_offer(mad.offer, req.private_data);
  return req;
}

CmRep make_rep(const SessionMad& mad) noexcept {
  CmRep rep{.local_id = mad.labels.local_id,
            .remote_id = mad.labels.remote_id,
            .ca_guid = mad.labels.guid.value(),
            .qpn = mad.offer.control.qpn.value(),
            .psn = mad.offer.control.psn.value(),
            .flow_control = 1,
            .rnr_retry = kRnrForEver};
  put_offer(mad.offer, rep.private_data);
  return rep;
}

CmRej make_rej(const SessionMad& mad) noexcept {
  CmRej rej{.local_id = mad.labels.local_id, .remote_id = mad.labels.remote_id, .reason = kRejectConsumer};
  const RejWire wire{Be16(mad.reason), Be16(mad.version_min), Be16(mad.version_max)};
  std::memcpy(rej.private_data.data(), &wire, sizeof wire);
  return rej;
}

CmBody make_body(const SessionMad& mad) noexcept {
  const SessionLabels& labels = mad.labels;
  switch (mad.kind) {
    case CmAttribute::kReq:
      return make_req(mad);
    case CmAttribute::kRep:
      return make_rep(mad);
    case CmAttribute::kRej:
      return make_rej(mad);
    case CmAttribute::kRtu:
      return CmRtu{.local_id = labels.local_id, .remote_id = labels.remote_id};
    case CmAttribute::kDreq:
      return CmDreq{
          .local_id = labels.local_id, .remote_id = labels.remote_id, .qpn = labels.remote_qpn.value()};
    case CmAttribute::kDrep:
      return CmDrep{.local_id = labels.local_id, .remote_id = labels.remote_id};
    case CmAttribute::kMra:
    case CmAttribute::kSidrReq:
    case CmAttribute::kSidrRep:
      break;
  }
  return {};
}

// ---- reading --------------------

MadError read(const CmReq& req, SessionMad& out) noexcept {
  if (req.service_id != kSessionServiceId) return MadError::kKind;
  out.labels = {.local_id = req.local_id,
                .local_lid = Lid(req.path.local_lid),
                .remote_lid = Lid(req.path.remote_lid),
                .guid = Guid(req.ca_guid)};
  return get_offer(req.private_data, req.qpn, req.psn, out.offer);
}

MadError read(const CmRep& rep, SessionMad& out) noexcept {
  out.labels = {.local_id = rep.local_id, .remote_id = rep.remote_id, .guid = Guid(rep.ca_guid)};
  return get_offer(rep.private_data, rep.qpn, rep.psn, out.offer);
}

MadError read(const CmRej& rej, SessionMad& out) noexcept {
  RejWire wire;
  std::memcpy(static_cast<void*>(&wire), rej.private_data.data(), sizeof wire);
  if (!all_zero(std::span(rej.private_data).subspan(sizeof wire))) return MadError::kReserved;
  if (rej.reason != kRejectConsumer) return MadError::kKind;
  out.labels = {.local_id = rej.local_id, .remote_id = rej.remote_id};
  out.reason = wire.refusal.get();
  out.version_min = wire.version_min.get();
  out.version_max = wire.version_max.get();
  return MadError::kNone;
}

template <class Message>
MadError read_short(const Message& message, SessionMad& out) noexcept {
  out.labels = {.local_id = message.local_id, .remote_id = message.remote_id};
  return all_zero(message.private_data) ? MadError::kNone : MadError::kReserved;
}

MadError read(const CmRtu& rtu, SessionMad& out) noexcept {
  return read_short(rtu, out);
}
MadError read(const CmDreq& dreq, SessionMad& out) noexcept {
  const MadError error = read_short(dreq, out);
  out.labels.remote_qpn = Qpn(dreq.qpn);
  return error;
}
MadError read(const CmDrep& drep, SessionMad& out) noexcept {
  return read_short(drep, out);
}

/// Messages that sessions do not use.
template <class Message>
MadError read(const Message& /*message*/, SessionMad& /*out*/) noexcept {
  return MadError::kKind;
}

CmAttribute kind_of(const CmBody& body) noexcept {
  return std::visit(
      []<class Message>(const Message& /*message*/) {
        if constexpr (std::is_same_v<Message, std::monostate>) {
          return CmAttribute::kMra;
        } else {
          return Message::kAttribute;
        }
      },
      body);
}

}  // namespace

MadBytes encode_session_mad(const SessionMad& mad) noexcept {
  return encode_cm({.transaction = mad.nonce, .body = make_body(mad)});
}

MadError read_session_mad(const CmMad& mad, SessionMad& out) noexcept {
  SessionMad read_so_far{.kind = kind_of(mad.body), .nonce = mad.transaction};
  const MadError error =
      std::visit([&](const auto& message) { return read(message, read_so_far); }, mad.body);
  if (error == MadError::kNone) out = read_so_far;
  return error;
}

MadError decode_session_mad(std::span<const std::byte> in, SessionMad& out) noexcept {
  CmMad mad;
  if (const MadError error = decode_cm(in, mad); error != MadError::kNone) return error;
  return read_session_mad(mad, out);
}

std::string_view to_string(AckPolicy policy) noexcept {
  switch (policy) {
    case AckPolicy::kSelective:
      return "selective";
    case AckPolicy::kStrict:
      return "strict";
  }
  return "?";
}

}  // namespace weft
