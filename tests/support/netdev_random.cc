#include "tests/support/netdev_random.h"

#include <cctype>

namespace weft::test {

namespace {

uint32_t u32(RandomSource& random) {
  return static_cast<uint32_t>(random.next());
}
uint16_t u16(RandomSource& random) {
  return static_cast<uint16_t>(random.next());
}
/// 1 to `most`, small and largest values more often than even chances give.
uint32_t count(RandomSource& random, uint32_t most) {
  switch (random.below(4)) {
    case 0:
      return 1;
    case 1:
      return most;
    default:
      return 1 + static_cast<uint32_t>(random.below(most));
  }
}
std::span<const std::byte> data(RandomSource& random, uint32_t bytes, std::vector<std::byte>& store) {
  store.resize(bytes);
  random.fill(store);
  return store;
}

PoolAdvert advert(RandomSource& random) {
  PoolAdvert out{.pool = u32(random) & 0x7FFF'FFFF,
                 .elements = count(random, kPoolElementsMax),
                 .element_bytes = count(random, kPoolElementBytesMax),
                 .handle = Rkey(u32(random) | 1),
                 .address = random.next() >> 1,
                 .context = random.next()};
  if (random.below(8) == 0) {
    out.pool = kPoolOfReceiveWqes;
    out.handle = Rkey();
    out.address = 0;
  }
  return out;
}

NetdevMessage::Body random_list(RandomSource& random, NetdevFunction function) {
  const uint32_t entries = count(random, 64);
  if (function == NetdevFunction::kBufferRecvPool) {
    BufferRecvPool body;
    for (uint32_t i = 0; i < entries; ++i) body.pools.push_back(advert(random));
    return body;
  }
  if (function == NetdevFunction::kBufferRecvPoolUpdate) {
    BufferRecvPoolUpdate body;
    for (uint32_t i = 0; i < entries; ++i) {
      const bool whole = random.below(4) == 0;
      body.runs.push_back({.pool = u32(random),
                           .first = whole ? 0 : static_cast<uint32_t>(random.below(kPoolElementsMax)),
                           .count = whole ? 0 : count(random, kPoolElementsMax)});
    }
    return body;
  }
  if (function == NetdevFunction::kBufferPoolFlushRequest) {
    BufferPoolFlushRequest body;
    for (uint32_t i = 0; i < entries; ++i) body.pools.push_back(u32(random));
    return body;
  }
  BufferRdmaIndicate body;
  for (uint32_t i = 0; i < entries; ++i) {
    body.used.push_back({.pool = u32(random),
                         .element = static_cast<uint32_t>(random.below(kPoolElementsMax)),
                         .element_bytes = count(random, kPoolElementBytesMax),
                         .data_bytes = static_cast<uint32_t>(random.below(kPoolElementBytesMax + 1))});
  }
  return body;
}

}  // namespace

NetdevMessage random_netdev_message(RandomSource& random, NetdevFunction function,
                                    std::vector<std::byte>& store) {
  NetdevMessage out{.context = random.next(), .body = {}};
  const auto cfg_bytes = static_cast<uint32_t>(random.below(kCfgDataBytesMax + 1));
  switch (function) {
    case NetdevFunction::kBufferRecvPool:
    case NetdevFunction::kBufferRecvPoolUpdate:
    case NetdevFunction::kBufferPoolFlushRequest:
    case NetdevFunction::kBufferRdmaIndicate:
      out.body = random_list(random, function);
      break;
    case NetdevFunction::kBufferRecvPoolGet:
      out.body = BufferRecvPoolGet{.packet_bytes = count(random, kPoolElementBytesMax),
                                   .packets = count(random, kPoolElementsMax)};
      break;
    case NetdevFunction::kBufferPoolFlushReply:
      out.body = BufferPoolFlushReply{};
      break;
    case NetdevFunction::kSendData:
      out.body = SendData{.data = data(random, count(random, 9100), store)};
      break;
    case NetdevFunction::kCfgUtilRequest:
      out.body = CfgUtilRequest{
          .request_class = u16(random), .code = u16(random), .data = data(random, cfg_bytes, store)};
      break;
    case NetdevFunction::kCfgUtilReply:
      out.body = CfgUtilReply{.request_class = u16(random),
                              .code = u16(random),
                              .status = u16(random),
                              .data = data(random, cfg_bytes, store)};
      break;
  }
  return out;
}

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> out;
  int digits = 0;
  unsigned value = 0;
  for (const char c : text) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
    const int digit = std::isdigit(static_cast<unsigned char>(c)) != 0 ? c - '0' : std::tolower(c) - 'a' + 10;
    value = value * 16 + static_cast<unsigned>(digit);
    if (++digits % 2 == 0) {
      out.push_back(static_cast<std::byte>(value));
      value = 0;
    }
  }
  return out;
}

}  // namespace weft::test
