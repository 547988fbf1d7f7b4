// How it works. Encoding builds in one fixed segment. If the builder would need a second segment, it fails,
// and the message counts as not fitting. Decoding checks the frame itself (one segment, whose size equals the
// bytes behind it). Then it reads with a traversal limit of twice the words and a nesting limit of 8. Every
// Cap'n Proto exception ends in one catch here and becomes one error: kNotParsed.
#include "messages/netdev_capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>

#include "generated/messages/netdev.capnp.h"

namespace weft {

namespace {

namespace wire = ::weft::schema;

constexpr size_t kFrameBytes = 8;  // {segments - 1, words}, little-endian
constexpr int kNestingMax = 8;

kj::ArrayPtr<const kj::byte> as_kj(std::span<const std::byte> data) {
  return {reinterpret_cast<const kj::byte*>(data.data()), data.size()};
}
std::span<const std::byte> from_kj(kj::ArrayPtr<const kj::byte> data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

// ---- encoding --------------------

void set_entry(wire::PoolAdvert::Builder to, const PoolAdvert& advert) {
  to.setPoolReference(advert.pool);
  to.setElements(advert.elements);
  to.setElementSize(advert.element_bytes);
  to.setMemoryHandle(advert.handle.value());
  to.setMemoryAddress(advert.address);
  to.setPoolContext(advert.context);
}
void set_entry(wire::PoolRun::Builder to, const PoolRun& run) {
  to.setPoolReference(run.pool);
  to.setFirstElement(run.first);
  to.setElements(run.count);
}
void set_entry(wire::Indication::Builder to, const Indication& used) {
  to.setPoolReference(used.pool);
  to.setElementIndex(used.element);
  to.setElementSize(used.element_bytes);
  to.setDataLength(used.data_bytes);
}

template <class List, class Entries>
void set_list(List to, const Entries& entries) {
  for (uint32_t i = 0; i < entries.size(); ++i) set_entry(to[i], entries[i]);
}

/// Sets the fields that requests and replies share.
template <class Builder, class Body>
void set_cfg(Builder to, const Body& body) {
  to.setRequestClass(body.request_class);
  to.setRequestCode(body.code);
  if (!body.data.empty()) to.setData(as_kj(body.data));
}

struct BuildBody {
  wire::NetdevMessage::Builder to;

  void operator()(const BufferRecvPool& body) {
    set_list(to.initBufferRecvPool(body.pools.size()), body.pools);
  }
  void operator()(const BufferRecvPoolGet& body) {
    auto get = to.initBufferRecvPoolGet();
    get.setPacketSize(body.packet_bytes);
    get.setPackets(body.packets);
  }
  void operator()(const BufferRecvPoolUpdate& body) {
    set_list(to.initBufferRecvPoolUpdate(body.runs.size()), body.runs);
  }
  void operator()(const BufferPoolFlushRequest& body) {
    auto list = to.initBufferPoolFlushRequest(body.pools.size());
    for (uint32_t i = 0; i < body.pools.size(); ++i) list.set(i, body.pools[i]);
  }
  void operator()(const BufferPoolFlushReply&) { to.setBufferPoolFlushReply(); }
  void operator()(const SendData& body) { to.setSendData(as_kj(body.data)); }
  void operator()(const BufferRdmaIndicate& body) {
    set_list(to.initBufferRdmaIndicate(body.used.size()), body.used);
  }
  void operator()(const CfgUtilRequest& body) { set_cfg(to.initCfgUtilRequest(), body); }
  void operator()(const CfgUtilReply& body) {
    auto reply = to.initCfgUtilReply();
    set_cfg(reply, body);
    reply.setStatus(body.status);
  }
};

// ---- decoding --------------------

PoolAdvert entry_of(wire::PoolAdvert::Reader from) {
  return {.pool = from.getPoolReference(),
          .elements = from.getElements(),
          .element_bytes = from.getElementSize(),
          .handle = Rkey(from.getMemoryHandle()),
          .address = from.getMemoryAddress(),
          .context = from.getPoolContext()};
}
PoolRun entry_of(wire::PoolRun::Reader from) {
  return {.pool = from.getPoolReference(), .first = from.getFirstElement(), .count = from.getElements()};
}
Indication entry_of(wire::Indication::Reader from) {
  return {.pool = from.getPoolReference(),
          .element = from.getElementIndex(),
          .element_bytes = from.getElementSize(),
          .data_bytes = from.getDataLength()};
}
uint32_t entry_of(uint32_t pool) {
  return pool;
}

template <ListBody Body, class List>
NetdevError read_list(List from, NetdevMessage::Body& out) {
  auto& entries = out.emplace<Body>().*Body::kList;
  if (from.size() == 0) return NetdevError::kTooShort;
  if (from.size() > entries.kCapacity) return NetdevError::kCountLimit;
  for (auto entry : from) entries.push_back(entry_of(entry));
  return NetdevError::kNone;
}

NetdevError read_data(kj::ArrayPtr<const kj::byte> in, uint32_t bytes_max, std::span<const std::byte>& out) {
  if (in.size() > bytes_max) return NetdevError::kCountLimit;
  out = from_kj(in);
  return NetdevError::kNone;
}

template <class Reader, class Body>
NetdevError read_cfg(Reader from, Body& out) {
  out.request_class = from.getRequestClass();
  out.code = from.getRequestCode();
  return read_data(from.getData(), kCfgDataBytesMax, out.data);
}

NetdevError read_body(wire::NetdevMessage::Reader from, NetdevMessage::Body& out) {
  switch (from.which()) {
    case wire::NetdevMessage::BUFFER_RECV_POOL:
      return read_list<BufferRecvPool>(from.getBufferRecvPool(), out);
    case wire::NetdevMessage::BUFFER_RECV_POOL_GET: {
      const auto get = from.getBufferRecvPoolGet();
      out = BufferRecvPoolGet{.packet_bytes = get.getPacketSize(), .packets = get.getPackets()};
      return NetdevError::kNone;
    }
    case wire::NetdevMessage::BUFFER_RECV_POOL_UPDATE:
      return read_list<BufferRecvPoolUpdate>(from.getBufferRecvPoolUpdate(), out);
    case wire::NetdevMessage::BUFFER_POOL_FLUSH_REQUEST:
      return read_list<BufferPoolFlushRequest>(from.getBufferPoolFlushRequest(), out);
    case wire::NetdevMessage::BUFFER_POOL_FLUSH_REPLY:
      out = BufferPoolFlushReply{};
      return NetdevError::kNone;
    case wire::NetdevMessage::SEND_DATA:
      return read_data(from.getSendData(), kPoolElementBytesMax, out.emplace<SendData>().data);
    case wire::NetdevMessage::BUFFER_RDMA_INDICATE:
      return read_list<BufferRdmaIndicate>(from.getBufferRdmaIndicate(), out);
    case wire::NetdevMessage::CFG_UTIL_REQUEST:
      return read_cfg(from.getCfgUtilRequest(), out.emplace<CfgUtilRequest>());
    case wire::NetdevMessage::CFG_UTIL_REPLY: {
      auto& reply = out.emplace<CfgUtilReply>();
      reply.status = from.getCfgUtilReply().getStatus();
      return read_cfg(from.getCfgUtilReply(), reply);
    }
  }
  return NetdevError::kUnknownFunction;
}

NetdevError read_message(kj::ArrayPtr<const capnp::word> segment, NetdevMessage& out) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = segment.size() * 2;
  options.nestingLimit = kNestingMax;
  const kj::ArrayPtr<const capnp::word> segments[1] = {segment};
  capnp::SegmentArrayMessageReader reader(kj::arrayPtr(segments, 1), options);
  const auto from = reader.getRoot<wire::NetdevMessage>();
  if (from.getProtocolVersion() != kNetdevVersion) return NetdevError::kWrongVersion;
  NetdevMessage message{.context = from.getTransactionContext(), .body = {}};
  if (const NetdevError error = read_body(from, message.body); error != NetdevError::kNone) return error;
  if (const NetdevError error = check_netdev_values(message); error != NetdevError::kNone) return error;
  out = message;
  return NetdevError::kNone;
}

uint32_t load_le32(const uint64_t& word, unsigned shift) noexcept {
  static_assert(std::endian::native == std::endian::little, "Cap'n Proto words are little-endian");
  return static_cast<uint32_t>(word >> shift);
}

}  // namespace

NetdevCapnp::NetdevCapnp(uint32_t message_bytes_max)
    : words_(message_bytes_max / sizeof(uint64_t) + 1),
      encode_words_(std::make_unique<uint64_t[]>(words_)),
      decode_words_(std::make_unique<uint64_t[]>(words_)) {}

NetdevCapnp::~NetdevCapnp() = default;

size_t NetdevCapnp::encode(const NetdevMessage& message, std::span<std::byte> out) noexcept {
  if (out.size() < kFrameBytes + sizeof(uint64_t)) return 0;
  const size_t words = std::min(words_, out.size() / sizeof(uint64_t) - 1);
  try {
    std::memset(encode_words_.get(), 0, words * sizeof(uint64_t));
    capnp::MallocMessageBuilder builder(
        kj::arrayPtr(reinterpret_cast<capnp::word*>(encode_words_.get()), words),
        capnp::AllocationStrategy::FIXED_SIZE);
    auto root = builder.initRoot<wire::NetdevMessage>();
    root.setTransactionContext(message.context);
    root.setProtocolVersion(kNetdevVersion);
    std::visit(BuildBody{root}, message.body);
    const auto segments = builder.getSegmentsForOutput();
    if (segments.size() != 1) return 0;
    const uint64_t frame = uint64_t{segments[0].size()} << 32;
    std::memcpy(out.data(), &frame, kFrameBytes);
    std::memcpy(out.data() + kFrameBytes, segments[0].begin(), segments[0].size() * sizeof(uint64_t));
    return kFrameBytes + segments[0].size() * sizeof(uint64_t);
  } catch (const kj::Exception&) {
    return 0;
  }
}

NetdevError NetdevCapnp::decode(std::span<const std::byte> in, NetdevMessage& out) noexcept {
  if (in.size() < kFrameBytes + sizeof(uint64_t)) return NetdevError::kTooShort;
  if (in.size() % sizeof(uint64_t) != 0) return NetdevError::kLengthMismatch;
  if (in.size() / sizeof(uint64_t) > words_) return NetdevError::kCountLimit;
  std::memcpy(decode_words_.get(), in.data(), in.size());
  const uint64_t frame = decode_words_[0];
  if (load_le32(frame, 0) != 0) return NetdevError::kNotParsed;  // a second segment
  const size_t words = load_le32(frame, 32);
  if (words != in.size() / sizeof(uint64_t) - 1) return NetdevError::kLengthMismatch;
  try {
    return read_message(kj::arrayPtr(reinterpret_cast<const capnp::word*>(decode_words_.get() + 1), words),
                        out);
  } catch (const kj::Exception&) {
    return NetdevError::kNotParsed;
  }
}

}  // namespace weft
