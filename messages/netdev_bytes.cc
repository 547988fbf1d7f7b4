// How it works. Behind the 12-byte header each function has a fixed part, or a list of entries of one size.
// The number of entries follows from the message's length. A list whose size is not a multiple of the
// entry's, or a data size field that differs from the bytes behind it, is a length mismatch. Counts are
// checked before the loop.
#include "messages/netdev_bytes.h"

#include <cstring>

#include "base/endian.h"

namespace weft {

namespace {

struct HeaderWire {
  Be16 function;
  Be16 version;
  Be64 context;
};
static_assert(sizeof(HeaderWire) == kNetdevHeaderBytes && offsetof(HeaderWire, context) == 4);

// Entries of lists: wire structs and their conversions.

struct PoolAdvertWire {
  Be32 pool;
  Be32 elements;
  Be32 element_bytes;
  Be32 handle;
  Be64 address;
  Be64 context;
};
static_assert(sizeof(PoolAdvertWire) == 32 && offsetof(PoolAdvertWire, handle) == 12 &&
              offsetof(PoolAdvertWire, address) == 16 && offsetof(PoolAdvertWire, context) == 24);
PoolAdvertWire to_wire(const PoolAdvert& advert) noexcept {
  return {Be32(advert.pool),           Be32(advert.elements), Be32(advert.element_bytes),
          Be32(advert.handle.value()), Be64(advert.address),  Be64(advert.context)};
}
PoolAdvert from_wire(const PoolAdvertWire& wire) noexcept {
  return {.pool = wire.pool.get(),
          .elements = wire.elements.get(),
          .element_bytes = wire.element_bytes.get(),
          .handle = Rkey(wire.handle.get()),
          .address = wire.address.get(),
          .context = wire.context.get()};
}

struct PoolRunWire {
  Be32 pool;
  Be32 first;
  Be32 count;
};
static_assert(sizeof(PoolRunWire) == 12 && offsetof(PoolRunWire, count) == 8);
PoolRunWire to_wire(const PoolRun& run) noexcept {
  return {Be32(run.pool), Be32(run.first), Be32(run.count)};
}
PoolRun from_wire(const PoolRunWire& wire) noexcept {
  return {.pool = wire.pool.get(), .first = wire.first.get(), .count = wire.count.get()};
}

Be32 to_wire(uint32_t pool) noexcept {
  return Be32(pool);
}
uint32_t from_wire(Be32 wire) noexcept {
  return wire.get();
}

struct IndicationWire {
  Be32 pool;
  Be32 element;
  Be32 element_bytes;
  Be32 data_bytes;
};
static_assert(sizeof(IndicationWire) == 16 && offsetof(IndicationWire, data_bytes) == 12);
IndicationWire to_wire(const Indication& used) noexcept {
  return {Be32(used.pool), Be32(used.element), Be32(used.element_bytes), Be32(used.data_bytes)};
}
Indication from_wire(const IndicationWire& wire) noexcept {
  return {.pool = wire.pool.get(),
          .element = wire.element.get(),
          .element_bytes = wire.element_bytes.get(),
          .data_bytes = wire.data_bytes.get()};
}

/// Wire struct of one entry of a list message.
template <ListBody Body>
using EntryWire = decltype(to_wire((std::declval<Body>().*Body::kList)[0]));

// Fixed parts.

struct PoolGetWire {
  Be32 packet_bytes;
  Be32 packets;
};
static_assert(sizeof(PoolGetWire) == 8);

struct CfgRequestWire {
  Be16 request_class;
  Be16 code;
  Be32 data_bytes;
};
static_assert(sizeof(CfgRequestWire) == 8);

struct CfgReplyWire {
  Be16 request_class;
  Be16 code;
  Be16 status;
  Be16 zero;
  Be32 data_bytes;
};
static_assert(sizeof(CfgReplyWire) == 12 && offsetof(CfgReplyWire, data_bytes) == 8);

// ---- sizes --------------------

struct BodySize {
  template <ListBody Body>
  size_t operator()(const Body& body) const noexcept {
    return (body.*Body::kList).size() * sizeof(EntryWire<Body>);
  }
  size_t operator()(const BufferRecvPoolGet&) const noexcept { return sizeof(PoolGetWire); }
  size_t operator()(const BufferPoolFlushReply&) const noexcept { return 0; }
  size_t operator()(const SendData& body) const noexcept { return sizeof(Be32) + body.data.size(); }
  size_t operator()(const CfgUtilRequest& body) const noexcept {
    return sizeof(CfgRequestWire) + body.data.size();
  }
  size_t operator()(const CfgUtilReply& body) const noexcept {
    return sizeof(CfgReplyWire) + body.data.size();
  }
};

// ---- encoding --------------------

template <class T>
std::byte* put(std::byte* to, const T& wire) noexcept {
  std::memcpy(to, &wire, sizeof wire);
  return to + sizeof wire;
}
void put_data(std::byte* to, std::span<const std::byte> data) noexcept {
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
}
Be32 size_field(std::span<const std::byte> data) noexcept {
  return Be32(static_cast<uint32_t>(data.size()));
}

struct EncodeBody {
  std::byte* to;

  template <ListBody Body>
  void operator()(const Body& body) noexcept {
    for (const auto& entry : body.*Body::kList) to = put(to, to_wire(entry));
  }
  void operator()(const BufferRecvPoolGet& body) noexcept {
    put(to, PoolGetWire{Be32(body.packet_bytes), Be32(body.packets)});
  }
  void operator()(const BufferPoolFlushReply&) noexcept {}
  void operator()(const SendData& body) noexcept { put_data(put(to, size_field(body.data)), body.data); }
  void operator()(const CfgUtilRequest& body) noexcept {
    put_data(put(to, CfgRequestWire{Be16(body.request_class), Be16(body.code), size_field(body.data)}),
             body.data);
  }
  void operator()(const CfgUtilReply& body) noexcept {
    put_data(put(to, CfgReplyWire{Be16(body.request_class), Be16(body.code), Be16(body.status), Be16(0),
                                  size_field(body.data)}),
             body.data);
  }
};

// ---- decoding --------------------

template <class T>
T get(const std::byte* from) noexcept {
  T wire;
  std::memcpy(static_cast<void*>(&wire), from, sizeof wire);
  return wire;
}

/// Takes a fixed part from the front; false when the message is too short for it.
template <class Wire>
bool take(std::span<const std::byte>& in, Wire& out) noexcept {
  if (in.size() < sizeof out) return false;
  out = get<Wire>(in.data());
  in = in.subspan(sizeof out);
  return true;
}

template <ListBody Body>
NetdevError decode_body(std::span<const std::byte> in, Body& out) noexcept {
  using Wire = EntryWire<Body>;
  auto& list = out.*Body::kList;
  if (in.empty()) return NetdevError::kTooShort;
  if (in.size() % sizeof(Wire) != 0) return NetdevError::kLengthMismatch;
  if (in.size() / sizeof(Wire) > list.kCapacity) return NetdevError::kCountLimit;
  for (size_t at = 0; at < in.size(); at += sizeof(Wire))
    list.push_back(from_wire(get<Wire>(in.data() + at)));
  return NetdevError::kNone;
}

/// Checks the data size field against the bytes that follow it.
NetdevError decode_data(std::span<const std::byte> in, uint32_t data_bytes, uint32_t data_bytes_max,
                        std::span<const std::byte>& out) noexcept {
  if (in.size() != data_bytes) return NetdevError::kLengthMismatch;
  if (in.size() > data_bytes_max) return NetdevError::kCountLimit;
  out = in;
  return NetdevError::kNone;
}

NetdevError decode_body(std::span<const std::byte> in, BufferRecvPoolGet& out) noexcept {
  PoolGetWire wire;
  if (!take(in, wire)) return NetdevError::kTooShort;
  out = {.packet_bytes = wire.packet_bytes.get(), .packets = wire.packets.get()};
  return in.empty() ? NetdevError::kNone : NetdevError::kLengthMismatch;
}

NetdevError decode_body(std::span<const std::byte> in, BufferPoolFlushReply&) noexcept {
  return in.empty() ? NetdevError::kNone : NetdevError::kLengthMismatch;
}

NetdevError decode_body(std::span<const std::byte> in, SendData& out) noexcept {
  Be32 data_bytes;
  if (!take(in, data_bytes)) return NetdevError::kTooShort;
  return decode_data(in, data_bytes.get(), kPoolElementBytesMax, out.data);
}

NetdevError decode_body(std::span<const std::byte> in, CfgUtilRequest& out) noexcept {
  CfgRequestWire wire;
  if (!take(in, wire)) return NetdevError::kTooShort;
  out.request_class = wire.request_class.get();
  out.code = wire.code.get();
  return decode_data(in, wire.data_bytes.get(), kCfgDataBytesMax, out.data);
}

NetdevError decode_body(std::span<const std::byte> in, CfgUtilReply& out) noexcept {
  CfgReplyWire wire;
  if (!take(in, wire)) return NetdevError::kTooShort;
  if (wire.zero.get() != 0) return NetdevError::kBadValue;
  out.request_class = wire.request_class.get();
  out.code = wire.code.get();
  out.status = wire.status.get();
  return decode_data(in, wire.data_bytes.get(), kCfgDataBytesMax, out.data);
}

template <class Body>
NetdevError decode_as(uint64_t context, std::span<const std::byte> in, NetdevMessage& out) noexcept {
  NetdevMessage message{.context = context, .body = Body{}};
  const NetdevError error = decode_body(in, std::get<Body>(message.body));
  if (error != NetdevError::kNone) return error;
  if (const NetdevError value = check_netdev_values(message); value != NetdevError::kNone) return value;
  out = message;
  return NetdevError::kNone;
}

}  // namespace

size_t netdev_bytes_size(const NetdevMessage& message) noexcept {
  return kNetdevHeaderBytes + std::visit(BodySize{}, message.body);
}

size_t encode_netdev_bytes(const NetdevMessage& message, std::span<std::byte> out) noexcept {
  const size_t bytes = netdev_bytes_size(message);
  if (bytes > out.size()) return 0;
  std::byte* body = put(out.data(), HeaderWire{Be16(static_cast<uint16_t>(message.function())),
                                               Be16(kNetdevVersion), Be64(message.context)});
  std::visit(EncodeBody{body}, message.body);
  return bytes;
}

void encode_send_data_header(uint64_t context, uint32_t data_bytes, std::byte* to) noexcept {
  const auto function = static_cast<uint16_t>(NetdevFunction::kSendData);
  put(put(to, HeaderWire{Be16(function), Be16(kNetdevVersion), Be64(context)}), Be32(data_bytes));
}

NetdevError decode_netdev_bytes(std::span<const std::byte> in, NetdevMessage& out) noexcept {
  if (in.size() < kNetdevHeaderBytes) return NetdevError::kTooShort;
  const auto header = get<HeaderWire>(in.data());
  if (header.version.get() != kNetdevVersion) return NetdevError::kWrongVersion;
  const std::span<const std::byte> rest = in.subspan(kNetdevHeaderBytes);
  const uint64_t context = header.context.get();
  switch (static_cast<NetdevFunction>(header.function.get())) {
    case NetdevFunction::kBufferRecvPool:
      return decode_as<BufferRecvPool>(context, rest, out);
    case NetdevFunction::kBufferRecvPoolGet:
      return decode_as<BufferRecvPoolGet>(context, rest, out);
    case NetdevFunction::kBufferRecvPoolUpdate:
      return decode_as<BufferRecvPoolUpdate>(context, rest, out);
    case NetdevFunction::kBufferPoolFlushRequest:
      return decode_as<BufferPoolFlushRequest>(context, rest, out);
    case NetdevFunction::kBufferPoolFlushReply:
      return decode_as<BufferPoolFlushReply>(context, rest, out);
    case NetdevFunction::kSendData:
      return decode_as<SendData>(context, rest, out);
    case NetdevFunction::kBufferRdmaIndicate:
      return decode_as<BufferRdmaIndicate>(context, rest, out);
    case NetdevFunction::kCfgUtilRequest:
      return decode_as<CfgUtilRequest>(context, rest, out);
    case NetdevFunction::kCfgUtilReply:
      return decode_as<CfgUtilReply>(context, rest, out);
  }
  return NetdevError::kUnknownFunction;
}

}  // namespace weft
