// Both encodings of the driver's messages: the catalogue's test vectors, the property that both carry the
// same model, and every reason for refusal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/endian.h"
#include "messages/netdev_bytes.h"
#include "messages/netdev_capnp.h"
#include "tests/support/netdev_random.h"
#include "tests/support/requirement.h"

namespace weft {
namespace {

using test::from_hex;

std::vector<std::byte> encoded(const NetdevMessage& message) {
  std::vector<std::byte> out(20000);
  out.resize(encode_netdev_bytes(message, out));
  return out;
}

void expect_vector(const NetdevMessage& message, std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  EXPECT_EQ(encoded(message), bytes);
  NetdevMessage back;
  ASSERT_EQ(decode_netdev_bytes(bytes, back), NetdevError::kNone);
  EXPECT_TRUE(back == message);
}

NetdevError decode_hex(std::string_view hex) {
  const std::vector<std::byte> bytes = from_hex(hex);
  NetdevMessage out;
  return decode_netdev_bytes(bytes, out);
}

NetdevMessage flush_request(std::initializer_list<uint32_t> pools) {
  BufferPoolFlushRequest body;
  for (const uint32_t pool : pools) body.pools.push_back(pool);
  return {.context = 0x0102030405060708, .body = body};
}

TEST(NetdevBytes, catalogue_vectors) {
  expect_vector(flush_request({7, 9}), "0004 0001 0102030405060708 00000007 00000009");
  expect_vector({.context = 0x0102030405060708, .body = BufferPoolFlushReply{}},
                "0005 0001 0102030405060708");
  expect_vector({.context = 1, .body = BufferRecvPoolGet{.packet_bytes = 2048, .packets = 64}},
                "0002 0001 0000000000000001 00000800 00000040");
  BufferRecvPool pool;
  pool.pools.push_back({.pool = 7,
                        .elements = 32,
                        .element_bytes = 256,
                        .handle = Rkey(0xA01),
                        .address = 0x100000,
                        .context = 0});
  expect_vector(
      {.context = 2, .body = pool},
      "0001 0001 0000000000000002 00000007 00000020 00000100 00000A01 0000000000100000 0000000000000000");
  const auto mac = from_hex("02000000002a");
  expect_vector({.context = 3, .body = CfgUtilRequest{.request_class = 1, .code = 2, .data = mac}},
                "0008 0001 0000000000000003 0001 0002 00000006 02000000002A");
}

/// The functions for which the catalogue has no vector; the bytes stand in docs/wire_format.md.
TEST(NetdevBytes, vectors_of_the_other_functions) {
  BufferRecvPoolUpdate update;
  update.runs.push_back({.pool = 7, .first = 3, .count = 2});
  update.runs.push_back({.pool = 9, .first = 0, .count = 0});
  expect_vector({.context = 4, .body = update},
                "0003 0001 0000000000000004 00000007 00000003 00000002 00000009 00000000 00000000");
  const auto packet = from_hex("77656674");
  expect_vector({.context = 5, .body = SendData{.data = packet}},
                "0006 0001 0000000000000005 00000004 77656674");
  BufferRdmaIndicate indicate;
  indicate.used.push_back({.pool = 300, .element = 5, .element_bytes = 100000, .data_bytes = 1526});
  expect_vector({.context = 6, .body = indicate},
                "0007 0001 0000000000000006 0000012c 00000005 000186a0 000005f6");
  const auto mac = from_hex("02000000002a");
  expect_vector({.context = 3, .body = CfgUtilReply{.request_class = 1, .code = 3, .status = 0, .data = mac}},
                "0009 0001 0000000000000003 0001 0003 0000 0000 00000006 02000000002a");
  expect_vector({.context = 3, .body = CfgUtilReply{.request_class = 1, .code = 2, .status = 3, .data = {}}},
                "0009 0001 0000000000000003 0001 0002 0003 0000 00000000");
}

TEST(NetdevBytes, refusals_have_their_own_names) {
  EXPECT_EQ(decode_hex(""), NetdevError::kTooShort);
  EXPECT_EQ(decode_hex("0005 0001 01020304050607"), NetdevError::kTooShort);
  EXPECT_EQ(decode_hex("0005 0002 0102030405060708"), NetdevError::kWrongVersion);
  EXPECT_EQ(decode_hex("000a 0001 0102030405060708"), NetdevError::kUnknownFunction);
  EXPECT_EQ(decode_hex("0000 0001 0102030405060708"), NetdevError::kUnknownFunction);
  EXPECT_EQ(decode_hex("0005 0001 0102030405060708 00"), NetdevError::kLengthMismatch);
  EXPECT_EQ(decode_hex("0004 0001 0102030405060708"), NetdevError::kTooShort);
  EXPECT_EQ(decode_hex("0004 0001 0102030405060708 0000000700"), NetdevError::kLengthMismatch);
  EXPECT_EQ(decode_hex("0002 0001 0000000000000001 00000800"), NetdevError::kTooShort);
  EXPECT_EQ(decode_hex("0002 0001 0000000000000001 00000800 00000040 00"), NetdevError::kLengthMismatch);
  EXPECT_EQ(decode_hex("0002 0001 0000000000000001 00000000 00000040"), NetdevError::kBadValue);
  EXPECT_EQ(decode_hex("0008 0001 0000000000000003 0001 0002 00000007 02000000002A"),
            NetdevError::kLengthMismatch);
  EXPECT_EQ(decode_hex("0008 0001 0000000000000003 0001 0002 ffffffff 02000000002A"),
            NetdevError::kLengthMismatch);
  EXPECT_EQ(decode_hex("0009 0001 0000000000000003 0001 0002 0000 0001 00000000"), NetdevError::kBadValue);
  EXPECT_EQ(decode_hex("0006 0001 0000000000000003 00000000"), NetdevError::kBadValue);
}

TEST(NetdevBytes, more_entries_than_the_model_allows_are_refused) {
  struct Case {
    uint16_t function;
    uint32_t entry_bytes;
  };
  for (const Case& one : {Case{1, 32}, Case{3, 12}, Case{4, 4}, Case{7, 16}}) {
    std::vector<std::byte> bytes(kNetdevHeaderBytes + 65 * one.entry_bytes);
    store_be(bytes.data(), one.function);
    store_be(bytes.data() + 2, kNetdevVersion);
    NetdevMessage out;
    EXPECT_EQ(decode_netdev_bytes(bytes, out), NetdevError::kCountLimit) << one.function;
  }
  std::vector<std::byte> request(20 + kCfgDataBytesMax + 1);
  store_be(request.data(), uint16_t{8});
  store_be(request.data() + 2, kNetdevVersion);
  store_be(request.data() + 16, kCfgDataBytesMax + 1);
  NetdevMessage out;
  EXPECT_EQ(decode_netdev_bytes(request, out), NetdevError::kCountLimit);
}

TEST(NetdevBytes, a_message_that_does_not_fit_writes_nothing) {
  std::array<std::byte, 23> small;
  small.fill(std::byte{0x55});
  EXPECT_EQ(encode_netdev_bytes(flush_request({1, 2, 3}), small), 0U);
  EXPECT_TRUE(std::all_of(small.begin(), small.end(), [](std::byte b) { return b == std::byte{0x55}; }));
}

/// House rule: both encodings carry the same model.
TEST(NetdevEncodings, every_message_survives_either_encoding) {
  SeededRandom random(7);
  NetdevCapnp capnp(16384);
  std::vector<std::byte> wire(16384);
  std::vector<std::byte> store;
  for (int round = 0; round < 2000; ++round) {
    const auto function = static_cast<NetdevFunction>(1 + round % 9);
    const NetdevMessage message = test::random_netdev_message(random, function, store);
    ASSERT_EQ(message.function(), function);
    NetdevMessage from_bytes;
    const size_t bytes = encode_netdev_bytes(message, wire);
    ASSERT_EQ(bytes, netdev_bytes_size(message));
    ASSERT_EQ(decode_netdev_bytes(std::span(wire).first(bytes), from_bytes), NetdevError::kNone);
    ASSERT_TRUE(from_bytes == message) << to_string(function);
    NetdevMessage from_capnp;
    const size_t capnp_bytes = capnp.encode(message, wire);
    ASSERT_NE(capnp_bytes, 0U);
    ASSERT_EQ(capnp.decode(std::span(wire).first(capnp_bytes), from_capnp), NetdevError::kNone);
    ASSERT_TRUE(from_capnp == message) << to_string(function);
  }
}

/// The edges of every field, one at a time, and the first value beyond: both encodings agree on each.
struct Edge {
  const char* what;
  NetdevMessage message;
  bool good = true;
};

template <class Body>
Edge list_edge(const char* what,
               std::initializer_list<std::decay_t<decltype((Body().*Body::kList)[0])>> entries,
               bool good = true) {
  Body body;
  for (const auto& entry : entries) (body.*Body::kList).push_back(entry);
  return {what, {.context = 1, .body = body}, good};
}

std::vector<Edge> pool_edges() {
  const PoolAdvert plain{
      .pool = 1, .elements = 1, .element_bytes = 1, .handle = Rkey(1), .address = 0, .context = 0};
  const auto with = [&](auto change) {
    PoolAdvert advert = plain;
    change(advert);
    return advert;
  };
  const auto edge = [&](const char* what, auto change, bool good = true) {
    return list_edge<BufferRecvPool>(what, {with(change)}, good);
  };
  return {edge("smallest pool", [](PoolAdvert&) {}),
          edge("largest reference", [](PoolAdvert& a) { a.pool = 0xFFFF'FFFE; }),
          edge("most elements", [](PoolAdvert& a) { a.elements = kPoolElementsMax; }),
          edge(
              "one element more", [](PoolAdvert& a) { a.elements = kPoolElementsMax + 1; }, false),
          edge(
              "no elements", [](PoolAdvert& a) { a.elements = 0; }, false),
          edge("largest element", [](PoolAdvert& a) { a.element_bytes = kPoolElementBytesMax; }),
          edge(
              "larger element", [](PoolAdvert& a) { a.element_bytes = kPoolElementBytesMax + 1; }, false),
          edge(
              "no size", [](PoolAdvert& a) { a.element_bytes = 0; }, false),
          edge("largest handle", [](PoolAdvert& a) { a.handle = Rkey(UINT32_MAX); }),
          edge(
              "no handle", [](PoolAdvert& a) { a.handle = Rkey(); }, false),
          edge("last address", [](PoolAdvert& a) { a.address = UINT64_MAX - 1; }),
          edge(
              "wrapping address", [](PoolAdvert& a) { a.address = UINT64_MAX; }, false),
          edge("largest context", [](PoolAdvert& a) { a.context = UINT64_MAX; }),
          edge("receive WQEs", [](PoolAdvert& a) { a.pool = kPoolOfReceiveWqes, a.handle = Rkey(); }),
          edge(
              "receive WQEs with a handle", [](PoolAdvert& a) { a.pool = kPoolOfReceiveWqes; }, false),
          edge(
              "WQEs at 1", [](PoolAdvert& a) { a.pool = kPoolOfReceiveWqes, a.handle = {}, a.address = 1; },
              false)};
}

std::vector<Edge> other_edges() {
  const auto get = [](const char* what, uint32_t bytes, uint32_t packets, bool good = true) {
    return Edge{
        what, {.context = 1, .body = BufferRecvPoolGet{.packet_bytes = bytes, .packets = packets}}, good};
  };
  const uint32_t last = kPoolElementsMax - 1;
  return {get("smallest get", 1, 1),
          get("largest get", kPoolElementBytesMax, kPoolElementsMax),
          get("too large", kPoolElementBytesMax + 1, 1, false),
          get("too many", 1, kPoolElementsMax + 1, false),
          get("no size", 0, 1, false),
          get("no packets", 1, 0, false),
          list_edge<BufferRecvPoolUpdate>("whole pool", {{UINT32_MAX, 0, 0}}),
          list_edge<BufferRecvPoolUpdate>("last element", {{0, last, 1}}),
          list_edge<BufferRecvPoolUpdate>("all elements", {{0, 0, kPoolElementsMax}}),
          list_edge<BufferRecvPoolUpdate>("beyond the last", {{0, last + 1, 1}}, false),
          list_edge<BufferRecvPoolUpdate>("too many", {{0, 0, kPoolElementsMax + 1}}, false),
          list_edge<BufferRecvPoolUpdate>("whole pool from 1", {{0, 1, 0}}, false),
          list_edge<BufferPoolFlushRequest>("edges of references", {0, 1, UINT32_MAX - 1, UINT32_MAX}),
          list_edge<BufferRdmaIndicate>("empty frame", {{0, 0, 1, 0}}),
          list_edge<BufferRdmaIndicate>("largest",
                                        {{UINT32_MAX, last, kPoolElementBytesMax, kPoolElementBytesMax}}),
          list_edge<BufferRdmaIndicate>("beyond the last", {{0, last + 1, 1, 0}}, false),
          list_edge<BufferRdmaIndicate>("no size", {{0, 0, 0, 0}}, false),
          list_edge<BufferRdmaIndicate>("size", {{0, 0, kPoolElementBytesMax + 1, 0}}, false),
          list_edge<BufferRdmaIndicate>("data", {{0, 0, 1, kPoolElementBytesMax + 1}}, false),
          {"largest context", {.context = UINT64_MAX, .body = BufferPoolFlushReply{}}},
          {"no context", {.context = 0, .body = BufferPoolFlushReply{}}}};
}

std::vector<Edge> data_edges() {
  static const std::vector<std::byte> bytes(kJumboFrameBytes, std::byte{0xA5});
  const auto data = [](size_t count) { return std::span(bytes).first(count); };
  const auto request = [](std::span<const std::byte> with) {
    return NetdevMessage{.context = 1, .body = CfgUtilRequest{UINT16_MAX, UINT16_MAX, with}};
  };
  const auto reply = [](std::span<const std::byte> with) {
    return NetdevMessage{.context = 1, .body = CfgUtilReply{0, 0, UINT16_MAX, with}};
  };
  return {{"one byte", {.context = 1, .body = SendData{data(1)}}},
          {"a jumbo frame", {.context = 1, .body = SendData{data(kJumboFrameBytes)}}},
          {"no data", {.context = 1, .body = SendData{}}, false},
          {"request without data", request({})},
          {"request of odd length", request(data(7))},
          {"largest request", request(data(kCfgDataBytesMax))},
          {"reply without data", reply({})},
          {"largest reply", reply(data(kCfgDataBytesMax))},
          {"longer request", request(data(kCfgDataBytesMax + 1)), false},
          {"longer reply", reply(data(kCfgDataBytesMax + 1)), false}};
}

TEST(NetdevEncodings, edges_survive_and_what_is_beyond_is_refused_alike) {
  NetdevCapnp capnp(16384);
  std::vector<Edge> edges = pool_edges();
  for (const auto& more : {other_edges(), data_edges()}) edges.insert(edges.end(), more.begin(), more.end());
  std::vector<std::byte> wire(16384);
  for (const Edge& edge : edges) {
    SCOPED_TRACE(std::string(to_string(edge.message.function())) + ", " + edge.what);
    NetdevMessage from_bytes;
    const size_t bytes = encode_netdev_bytes(edge.message, wire);
    const NetdevError by_bytes = decode_netdev_bytes(std::span(wire).first(bytes), from_bytes);
    EXPECT_EQ(by_bytes == NetdevError::kNone, edge.good) << to_string(by_bytes);
    EXPECT_EQ(from_bytes == edge.message, edge.good);
    std::vector<std::byte> capnp_wire(16385);
    // Not aligned to words: the decoder has a copy of its own.
    const size_t capnp_bytes = capnp.encode(edge.message, std::span(capnp_wire).subspan(1));
    ASSERT_NE(capnp_bytes, 0U);
    NetdevMessage from_capnp;
    EXPECT_EQ(capnp.decode(std::span(capnp_wire).subspan(1, capnp_bytes), from_capnp), by_bytes);
    EXPECT_EQ(from_capnp == edge.message, edge.good);
  }
}

TEST(NetdevEncodings, lists_hold_one_to_sixty_four_entries) {
  NetdevCapnp capnp(16384);
  std::vector<std::byte> wire(16384);
  for (const uint32_t entries : {0U, 1U, 63U, 64U}) {
    BufferPoolFlushRequest body;
    for (uint32_t i = 0; i < entries; ++i) EXPECT_TRUE(body.pools.push_back(i));
    EXPECT_EQ(body.pools.full(), entries == 64);
    const NetdevMessage message{.context = 1, .body = body};
    NetdevMessage out;
    const NetdevError wanted = entries == 0 ? NetdevError::kTooShort : NetdevError::kNone;
    EXPECT_EQ(decode_netdev_bytes(std::span(wire).first(encode_netdev_bytes(message, wire)), out), wanted);
    const size_t bytes = capnp.encode(message, wire);
    EXPECT_EQ(capnp.decode(std::span(wire).first(bytes), out), wanted);
    if (entries != 64) continue;
    // One word more in the segment, two entries more in the list: word 0 frame, 1 root, 2-3 data, 4 list.
    const std::span<std::byte> longer = std::span(wire).first(bytes + 8);
    std::fill(longer.end() - 8, longer.end(), std::byte{0});
    longer[4] = static_cast<std::byte>(longer.size() / 8 - 1);
    uint64_t list = 0;
    std::memcpy(&list, longer.data() + 32, sizeof list);
    list += uint64_t{2} << 35;
    std::memcpy(longer.data() + 32, &list, sizeof list);
    EXPECT_EQ(capnp.decode(longer, out), NetdevError::kCountLimit);
  }
}

TEST(NetdevError, every_reason_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i < static_cast<uint8_t>(NetdevError::kCount); ++i) {
    const std::string_view name = to_string(static_cast<NetdevError>(i));
    EXPECT_NE(name, "?");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(NetdevCapnpCodec, too_small_a_buffer_is_said_not_overrun) {
  NetdevCapnp capnp(4096);
  std::vector<std::byte> wire(4096);
  const size_t needed = capnp.encode(flush_request({1, 2, 3}), wire);
  ASSERT_NE(needed, 0U);
  for (size_t bytes = 0; bytes < needed; ++bytes) {
    EXPECT_EQ(capnp.encode(flush_request({1, 2, 3}), std::span(wire).first(bytes)), 0U);
  }
}

TEST(NetdevCapnpCodec, framing_is_checked) {
  NetdevCapnp capnp(4096);
  std::vector<std::byte> wire(4096);
  NetdevMessage out;
  wire.resize(capnp.encode(flush_request({1, 2, 3}), wire));
  EXPECT_EQ(capnp.decode(std::span(wire).first(15), out), NetdevError::kTooShort);
  EXPECT_EQ(capnp.decode(std::span(wire).first(wire.size() - 1), out), NetdevError::kLengthMismatch);
  EXPECT_EQ(capnp.decode(std::span(wire).first(wire.size() - 8), out), NetdevError::kLengthMismatch);
  wire[0] = std::byte{1};
  EXPECT_EQ(capnp.decode(wire, out), NetdevError::kNotParsed);
  std::vector<std::byte> huge(8192);
  EXPECT_EQ(capnp.decode(huge, out), NetdevError::kCountLimit);
}

TEST(NetdevCapnpCodec, version_and_unknown_function_have_their_own_names) {
  NetdevCapnp capnp(4096);
  std::vector<std::byte> wire(4096);
  wire.resize(capnp.encode({.context = 1, .body = BufferPoolFlushReply{}}, wire));
  NetdevMessage out;
  ASSERT_EQ(capnp.decode(wire, out), NetdevError::kNone);
  // Frame 8 bytes, root pointer 8, then the struct: context 64, version 16, union tag 16.
  std::vector<std::byte> version = wire;
  version[24] = std::byte{2};
  EXPECT_EQ(capnp.decode(version, out), NetdevError::kWrongVersion);
  std::vector<std::byte> function = wire;
  function[26] = std::byte{77};
  EXPECT_EQ(capnp.decode(function, out), NetdevError::kUnknownFunction);
}

/// A list that claims 2^29 entries of no size costs the sender nothing; it must cost the reader nothing
/// either. Sixty-four runs of no size would each renew a whole pool.
TEST(NetdevCapnpCodec, absurd_list_counts_are_refused_before_the_loop) {
  NetdevCapnp capnp(4096);
  // Root struct of two data words and one pointer; its list pointer claims a composite list whose tag says so
  // many entries of 0 words.
  std::vector<std::byte> wire(8 + 8 * 5);
  const auto put = [&](size_t word, uint64_t value) {
    std::memcpy(wire.data() + 8 * word, &value, sizeof value);
  };
  put(0, uint64_t{5} << 32);
  put(1, uint64_t{2} << 32 | uint64_t{1} << 48);  // root: 2 data words, 1 pointer
  put(2, 9);                                      // context
  put(4, 1 | uint64_t{7} << 32);                  // list, composite, 0 words
  constexpr std::array<std::pair<uint64_t, uint64_t>, 2> kClaims{{{0, (1U << 29) - 1}, {2, 64}}};
  for (const auto& [function, entries] : kClaims) {
    put(3, 1 | function << 16);  // version 1; bufferRecvPool or bufferRecvPoolUpdate
    put(5, entries << 2);        // tag: many entries, no words
    NetdevMessage out;
    EXPECT_EQ(capnp.decode(wire, out), NetdevError::kNotParsed) << "the traversal limit counts them";
  }
}

/// Any bit flip gives a message that passes the checks or a named refusal; never a crash or an exception.
TEST(NetdevEncodings, bit_flips_are_survived) {
  SeededRandom random(11);
  NetdevCapnp capnp(16384);
  std::vector<std::byte> wire(16384);
  std::vector<std::byte> store;
  for (int round = 0; round < 3000; ++round) {
    const auto function = static_cast<NetdevFunction>(1 + round % 9);
    const NetdevMessage message = test::random_netdev_message(random, function, store);
    const bool use_capnp = (round & 1) != 0;
    const size_t bytes = use_capnp ? capnp.encode(message, wire) : encode_netdev_bytes(message, wire);
    const std::span<std::byte> in = std::span(wire).first(bytes);
    for (int flips = 0; flips < 4; ++flips) {
      in[random.below(std::min<size_t>(bytes, 64))] ^= static_cast<std::byte>(1U << random.below(8));
    }
    NetdevMessage out;
    const NetdevError error = use_capnp ? capnp.decode(in, out) : decode_netdev_bytes(in, out);
    if (error == NetdevError::kNone) {
      EXPECT_EQ(check_netdev_values(out), NetdevError::kNone);
    }
  }
}

TEST(Idata, limits_are_inclusive) {
  test::covers("PUSH-IDATA-02");
  EXPECT_EQ(encode_idata({.pool = 7, .element = 5, .element_bytes = 256}), 0x07050100U);
  EXPECT_EQ(encode_idata({.pool = 0, .element = 255, .element_bytes = 65536}), 0x00FF0000U);
  EXPECT_EQ(decode_idata(0x00FF0000), (PoolElement{.pool = 0, .element = 255, .element_bytes = 65536}));
  EXPECT_EQ(decode_idata(0x07050100), (PoolElement{.pool = 7, .element = 5, .element_bytes = 256}));
  EXPECT_TRUE(fits_idata(255, 256, 65536));
  EXPECT_FALSE(fits_idata(256, 256, 65536));
  EXPECT_FALSE(fits_idata(255, 257, 65536));
  EXPECT_FALSE(fits_idata(255, 256, 65537));
}

TEST(OwnPool, is_within_what_a_node_may_offer_to_the_last_byte_and_element) {
  EXPECT_EQ(own_pool_fault(kOwnElementBytesMin, 1, 1), "");
  EXPECT_EQ(own_pool_fault(kPoolElementBytesMax, 1, kOwnElementsTogetherMax), "");
  const std::string why = "elements of 72 to 16777216 bytes, 1 to 32704 of them in all pools";
  EXPECT_EQ(own_pool_fault(kOwnElementBytesMin - 1, 1, 1), why);
  EXPECT_EQ(own_pool_fault(kPoolElementBytesMax + 1, 1, 1), why);
  EXPECT_EQ(own_pool_fault(2048, 0, 0), why);
  EXPECT_EQ(own_pool_fault(2048, 1, uint64_t{kOwnElementsTogetherMax} + 1), why);
}

}  // namespace
}  // namespace weft
