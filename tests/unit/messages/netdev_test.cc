// Both encodings of the driver's messages: the catalogue's test vectors, the property that both carry the
// same model, and every reason for refusal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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
  std::vector<std::byte> bytes = encoded(flush_request({1}));
  bytes.resize(kNetdevHeaderBytes + 4 * (kNetdevPoolsPerMessageMax + 1));
  NetdevMessage out;
  EXPECT_EQ(decode_netdev_bytes(bytes, out), NetdevError::kCountLimit);
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
/// either.
TEST(NetdevCapnpCodec, absurd_list_counts_are_refused_before_the_loop) {
  NetdevCapnp capnp(4096);
  // Root struct of two data words and one pointer, function bufferRecvPool; its list pointer claims a
  // composite list whose tag says 2^29 entries of 0 words.
  std::vector<std::byte> wire(8 + 8 * 5);
  const auto put = [&](size_t word, uint64_t value) {
    std::memcpy(wire.data() + 8 * word, &value, sizeof value);
  };
  put(0, uint64_t{5} << 32);
  put(1, uint64_t{2} << 32 | uint64_t{1} << 48);  // root: 2 data words, 1 pointer
  put(2, 9);                                      // context
  put(3, 1);                                      // version 1, function 0
  put(4, 1 | uint64_t{7} << 32);                  // list, composite, 0 words
  put(5, uint64_t{(1U << 29) - 1} << 2);          // tag: many entries, no words
  NetdevMessage out;
  const NetdevError error = capnp.decode(wire, out);
  EXPECT_TRUE(error == NetdevError::kCountLimit || error == NetdevError::kNotParsed);
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

}  // namespace
}  // namespace weft
