#include "messages/mad/endnode.h"

#include "messages/mad/mad_fields.h"

namespace weft {
namespace {

constexpr MadHeader kEndnodeFrame{
    .mad_class = MadClass::kEndnode, .class_version = kEndnodeClassVersion, .method = MadMethod::kSend};

template <class Io, class Address>
void address_layout(Io& io, Address& address) noexcept {
  io.number(0, address.host);
  io.number(8, address.family);
  io.number(9, address.owns);
  io.number(10, address.port_space);
  io.number(12, address.port);
  io.bytes(16, address.ip);
  io.number(32, address.guid);
}

template <class Io>
void layout(Io& io, typename Io::template Field<WhoHas>& question) noexcept {
  address_layout(io, question.address);
}

template <class Io>
void layout(Io& io, typename Io::template Field<Has>& answer) noexcept {
  address_layout(io, answer.address);
}

template <class Io>
void layout(Io& /*io*/, typename Io::template Field<WhoIsThere>& /*question*/) noexcept {}

template <class Io>
void layout(Io& io, typename Io::template Field<IsThere>& answer) noexcept {
  io.number(0, answer.process.incarnation);
  io.number(8, answer.process.space);
  io.number(16, answer.process.started);
  io.number(24, answer.process.pid);
}

}  // namespace

MadBytes encode_endnode(const EndnodeMad& mad) noexcept {
  MadBytes out{};
  MadHeader header = kEndnodeFrame;
  header.transaction = mad.transaction;
  MadWriter writer(out);
  std::visit(
      [&]<class Message>(const Message& message) {
        header.attribute = static_cast<uint16_t>(Message::kAttribute);
        layout(writer, message);
      },
      mad.body);
  encode_mad_header(header, out);
  return out;
}

MadError decode_endnode(std::span<const std::byte> in, EndnodeMad& out) noexcept {
  return decode_mad_body(
      in, kEndnodeFrame, out, [](MadReader& reader, auto& message) { layout(reader, message); },
      encode_endnode);
}

std::string_view to_string(EndnodeAttribute attribute) noexcept {
  switch (attribute) {
    case EndnodeAttribute::kWhoHas:
      return "who has";
    case EndnodeAttribute::kHas:
      return "has";
    case EndnodeAttribute::kWhoIsThere:
      return "who is there";
    case EndnodeAttribute::kIsThere:
      return "is there";
  }
  return "?";
}

}  // namespace weft
