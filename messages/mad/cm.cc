#include "messages/mad/cm.h"

#include "base/check.h"
#include "messages/mad/mad_fields.h"

namespace weft {
namespace {

constexpr MadHeader kCmFrame{
    .mad_class = MadClass::kConnection, .class_version = kCmClassVersion, .method = MadMethod::kSend};

/// The private data are the end of the message.
template <class Io, class Message>
void private_part(Io& io, Message& message) noexcept {
  io.bytes(kMadBytes - kMadHeaderBytes - message.private_data.size(), std::span(message.private_data));
}

template <class Io, class Message>
void ids(Io& io, Message& message) noexcept {
  io.number(0, message.local_id);
  io.number(4, message.remote_id);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmPath>& path) noexcept {
  io.number(52, path.local_lid);
  io.number(54, path.remote_lid);
  io.bytes(56, path.local_gid);
  io.bytes(72, path.remote_gid);
  io.bits(88, {12, 20}, path.flow_label);
  io.bits(88, {0, 6}, path.rate);
  io.number(92, path.traffic_class);
  io.number(93, path.hop_limit);
  io.bits(92, {12, 4}, path.sl);
  io.bits(92, {11, 1}, path.subnet_local);
  io.bits(92, {3, 5}, path.ack_timeout);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmReq>& req) noexcept {
  io.number(0, req.local_id);
  io.number(8, req.service_id);
  io.number(16, req.ca_guid);
  io.number(28, req.qkey);
  io.bits(32, {8, 24}, req.qpn);
  io.bits(32, {0, 8}, req.responder_resources);
  io.bits(36, {0, 8}, req.initiator_depth);
  io.bits(40, {3, 5}, req.remote_response_timeout);
  io.bits(40, {1, 2}, req.service);
  io.bits(40, {0, 1}, req.flow_control);
  io.bits(44, {8, 24}, req.psn);
  io.bits(44, {3, 5}, req.local_response_timeout);
  io.bits(44, {0, 3}, req.retry_count);
  io.number(48, req.pkey);
  io.bits(48, {12, 4}, req.path_mtu);
  io.bits(48, {8, 3}, req.rnr_retry);
  io.bits(48, {4, 4}, req.max_retries);
  io.bits(48, {3, 1}, req.srq);
  layout(io, req.path);
  private_part(io, req);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmMra>& mra) noexcept {
  ids(io, mra);
  io.bits(8, {30, 2}, mra.about);
  io.bits(8, {19, 5}, mra.service_timeout);
  private_part(io, mra);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmRej>& rej) noexcept {
  ids(io, rej);
  io.bits(8, {30, 2}, rej.about);
  io.bits(8, {0, 16}, rej.reason);
  private_part(io, rej);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmRep>& rep) noexcept {
  ids(io, rep);
  io.number(8, rep.qkey);
  io.bits(12, {8, 24}, rep.qpn);
  io.bits(20, {8, 24}, rep.psn);
  io.number(24, rep.responder_resources);
  io.number(25, rep.initiator_depth);
  io.bits(24, {11, 5}, rep.ack_delay);
  io.bits(24, {8, 1}, rep.flow_control);
  io.bits(24, {5, 3}, rep.rnr_retry);
  io.bits(24, {4, 1}, rep.srq);
  io.number(28, rep.ca_guid);
  private_part(io, rep);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmRtu>& rtu) noexcept {
  ids(io, rtu);
  private_part(io, rtu);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmDreq>& dreq) noexcept {
  ids(io, dreq);
  io.bits(8, {8, 24}, dreq.qpn);
  private_part(io, dreq);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmDrep>& drep) noexcept {
  ids(io, drep);
  private_part(io, drep);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmSidrReq>& req) noexcept {
  io.number(0, req.request_id);
  io.number(4, req.pkey);
  io.number(8, req.service_id);
  private_part(io, req);
}

template <class Io>
void layout(Io& io, typename Io::template Field<CmSidrRep>& rep) noexcept {
  io.number(0, rep.request_id);
  io.number(4, rep.status);
  io.bits(8, {8, 24}, rep.qpn);
  io.number(12, rep.service_id);
  io.number(20, rep.qkey);
  private_part(io, rep);
}

template <class Io>
void layout(Io& /*io*/, typename Io::template Field<std::monostate>& /*nothing*/) noexcept {}

uint16_t attribute_of(const CmBody& body) noexcept {
  return std::visit(
      []<class Message>(const Message& /*message*/) -> uint16_t {
        if constexpr (std::same_as<Message, std::monostate>) {
          return 0;
        } else {
          return static_cast<uint16_t>(Message::kAttribute);
        }
      },
      body);
}

}  // namespace

MadBytes encode_cm(const CmMad& mad) noexcept {
  WEFT_CHECK(mad.body.index() != 0, "a message to encode");
  MadBytes out{};
  MadHeader header = kCmFrame;
  header.transaction = mad.transaction;
  header.attribute = attribute_of(mad.body);
  encode_mad_header(header, out);
  MadWriter writer(out);
  std::visit([&](const auto& message) { layout(writer, message); }, mad.body);
  return out;
}

MadError decode_cm(std::span<const std::byte> in, CmMad& out) noexcept {
  return decode_mad_body(
      in, kCmFrame, out, [](MadReader& reader, auto& message) { layout(reader, message); }, encode_cm);
}

std::string_view to_string(CmAttribute attribute) noexcept {
  switch (attribute) {
    case CmAttribute::kReq:
      return "REQ";
    case CmAttribute::kMra:
      return "MRA";
    case CmAttribute::kRej:
      return "REJ";
    case CmAttribute::kRep:
      return "REP";
    case CmAttribute::kRtu:
      return "RTU";
    case CmAttribute::kDreq:
      return "DREQ";
    case CmAttribute::kDrep:
      return "DREP";
    case CmAttribute::kSidrReq:
      return "SIDR_REQ";
    case CmAttribute::kSidrRep:
      return "SIDR_REP";
  }
  return "?";
}

}  // namespace weft
