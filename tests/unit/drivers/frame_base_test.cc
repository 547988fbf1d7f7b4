// Helpers of the drivers: Ethernet parsing, checksums, vnet headers, segmentation, the writer with its
// fall-backs, configuration data.
#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/net/checksum.h"
#include "base/net/frame_writer.h"
#include "base/rng.h"
#include "messages/cfg_data.h"
#include "tests/support/memory_frame_port.h"
#include "tests/support/reason_table.h"

namespace weft {
namespace {

using Bytes = std::vector<std::byte>;
constexpr MacAddress kTo{0x02, 0, 0, 0, 0, 1};

TEST(Ethernet, addresses_are_read_and_printed) {
  EXPECT_EQ(parse_mac("02:00:00:00:00:2a"), (MacAddress{2, 0, 0, 0, 0, 0x2A}));
  EXPECT_EQ(to_string(MacAddress{2, 0, 0, 0, 0, 0x2A}), "02:00:00:00:00:2a");
  for (const char* bad :
       {"", "02:00:00:00:00", "02:00:00:00:00:2g", "02-00-00-00-00-2a", "02:00:00:00:00:2a "}) {
    EXPECT_FALSE(parse_mac(bad).has_value()) << bad;
  }
  EXPECT_TRUE(is_group(kMacBroadcast));
  EXPECT_FALSE(is_station(kMacNone));
  EXPECT_FALSE(is_station(kMacBroadcast));
  EXPECT_TRUE(is_station(kTo));
}

TEST(Ethernet, layouts_behind_tags_and_every_cut) {
  Bytes frame(14 + 8 + 20 + 8);
  store_be(frame.data() + 12, kEtherTypeQinq);
  store_be(frame.data() + 16, kEtherTypeVlan);
  store_be(frame.data() + 20, kEtherTypeIpv4);
  frame[22] = std::byte{0x45};
  frame[31] = std::byte{kIpProtocolUdp};
  FrameLayout layout;
  ASSERT_TRUE(parse_frame(frame, layout));
  EXPECT_EQ(layout.network_offset, 22u);
  EXPECT_EQ(layout.transport_offset, 42u);
  EXPECT_EQ(layout.protocol, kIpProtocolUdp);
  for (size_t bytes = 0; bytes < 42; ++bytes) {
    EXPECT_FALSE(parse_frame(std::span<const std::byte>(frame).first(bytes), layout)) << bytes;
  }
  frame[28] = std::byte{0x00};
  frame[29] = std::byte{0x01};  // a later fragment has no transport header
  ASSERT_TRUE(parse_frame(frame, layout));
  EXPECT_EQ(layout.transport_offset, 0u);
}

TEST(Checksum, equals_the_definition_for_every_length) {
  SeededRandom random(3);
  Bytes data(80);
  random.fill(data);
  for (size_t bytes = 0; bytes <= data.size(); ++bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; ++i) sum += static_cast<uint64_t>(data[i]) << (i % 2 == 0 ? 8 : 0);
    EXPECT_EQ(checksum_fold(checksum_add(0, std::span<const std::byte>(data).first(bytes))),
              checksum_fold(sum));
  }
  // RFC 1071 section 3.
  const std::array<std::byte, 8> example{std::byte{0x00}, std::byte{0x01}, std::byte{0xF2}, std::byte{0x03},
                                         std::byte{0xF4}, std::byte{0xF5}, std::byte{0xF6}, std::byte{0xF7}};
  EXPECT_EQ(checksum_fold(checksum_add(0, example)), static_cast<uint16_t>(~0xDDF2));
}

TEST(Checksum, completing_outside_the_frame_is_refused) {
  Bytes frame(60);
  EXPECT_TRUE(complete_checksum(frame, 34, 6));
  EXPECT_TRUE(complete_checksum(frame, 58, 0));
  EXPECT_FALSE(complete_checksum(frame, 59, 0));
  EXPECT_FALSE(complete_checksum(frame, 61, 0));
  EXPECT_FALSE(complete_checksum(frame, 34, 25));
  EXPECT_FALSE(complete_checksum(frame, 0xFFFF, 0xFFFF));
}

TEST(VnetHeader, is_little_endian_and_survives_a_round_trip) {
  const VnetHeader header{.flags = 1,
                          .gso_type = 4,
                          .header_bytes = 0x0102,
                          .gso_bytes = 0x0304,
                          .checksum_start = 0x0506,
                          .checksum_offset = 0x0708};
  std::array<std::byte, kVnetBytes> wire{};
  store_vnet(wire.data(), header);
  EXPECT_EQ(wire[2], std::byte{0x02});
  EXPECT_EQ(wire[3], std::byte{0x01});
  const VnetHeader back = load_vnet(wire.data());
  EXPECT_EQ(back.checksum_start, 0x0506);
  EXPECT_EQ(back.checksum_offset, 0x0708);
  EXPECT_EQ(back.gso_bytes, 0x0304);
}

/// A GSO frame over UDP or TCP, IPv4 or IPv6, vnet header in front.
Bytes gso_frame(uint8_t version, uint8_t protocol, uint32_t payload, uint16_t segment) {
  const uint32_t ip_bytes = version == 4 ? 20 : 40;
  const uint32_t l4_bytes = protocol == kIpProtocolTcp ? 32 : 8;
  Bytes bytes(kVnetBytes + 14 + ip_bytes + l4_bytes + payload);
  std::byte* frame = bytes.data() + kVnetBytes;
  std::memcpy(frame, kTo.data(), 6);
  store_be(frame + 12, version == 4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  std::byte* ip = frame + 14;
  if (version == 4) {
    ip[0] = std::byte{0x45};
    store_be(ip + 2, static_cast<uint16_t>(20 + l4_bytes + payload));
    store_be(ip + 4, uint16_t{0xFFFE});  // wraps within the frame
    ip[9] = std::byte{protocol};
    store_be(ip + 12, uint32_t{0x0A000001});
    store_be(ip + 16, uint32_t{0x0A000002});
  } else {
    ip[0] = std::byte{0x60};
    store_be(ip + 4, static_cast<uint16_t>(l4_bytes + payload));
    ip[6] = std::byte{protocol};
    ip[23] = std::byte{1};
    ip[39] = std::byte{2};
  }
  std::byte* l4 = ip + ip_bytes;
  if (protocol == kIpProtocolTcp) {
    store_be(l4 + 4, uint32_t{0xFFFFFF00});
    l4[12] = std::byte{0x80};
    l4[13] = std::byte{0x99};  // CWR, ACK, PSH, FIN
  } else {
    store_be(l4 + 4, static_cast<uint16_t>(8 + payload));
  }
  for (uint32_t i = 0; i < payload; ++i) l4[l4_bytes + i] = static_cast<std::byte>(i * 13 + (i >> 8));
  const VnetGso gso = protocol == kIpProtocolUdp ? VnetGso::kUdp
                      : version == 4             ? VnetGso::kTcp4
                                                 : VnetGso::kTcp6;
  store_vnet(bytes.data(), {.flags = kVnetNeedsChecksum,
                            .gso_type = static_cast<uint8_t>(gso),
                            .header_bytes = static_cast<uint16_t>(14 + ip_bytes + l4_bytes),
                            .gso_bytes = segment,
                            .checksum_start = static_cast<uint16_t>(14 + ip_bytes),
                            .checksum_offset = static_cast<uint16_t>(protocol == kIpProtocolTcp ? 16 : 6)});
  return bytes;
}

void check_segment(std::span<const std::byte> frame, uint8_t version, uint8_t protocol, bool first,
                   bool last) {
  FrameLayout layout;
  ASSERT_TRUE(parse_frame(frame, layout));
  ASSERT_EQ(layout.ip_version, version);
  const std::byte* ip = frame.data() + layout.network_offset;
  const std::span<const std::byte> l4 = frame.subspan(layout.transport_offset);
  if (version == 4) {
    EXPECT_EQ(checksum_fold(checksum_add(0, std::span(ip, 20))), 0);
    EXPECT_EQ(load_be<uint16_t>(ip + 2), frame.size() - 14);
  } else {
    EXPECT_EQ(load_be<uint16_t>(ip + 4), l4.size());
  }
  EXPECT_TRUE(transport_checksum_ok(ip, version, protocol, l4));
  if (protocol == kIpProtocolTcp) {
    const auto flags = static_cast<uint8_t>(l4[13]);
    EXPECT_EQ((flags & 0x80) != 0, first);
    EXPECT_EQ((flags & 0x09) != 0, last);
  } else {
    EXPECT_EQ(load_be<uint16_t>(l4.data() + 4), l4.size());
  }
}

TEST(Segmenter, every_kind_is_cut_into_good_frames_with_all_bytes) {
  Segmenter segmenter;
  Bytes out(70000);
  for (const uint8_t version : {uint8_t{4}, uint8_t{6}}) {
    for (const uint8_t protocol : {kIpProtocolTcp, kIpProtocolUdp}) {
      for (const uint32_t payload : {1u, 1000u, 1001u, 5000u, 60000u}) {
        const Bytes big = gso_frame(version, protocol, payload, 1000);
        ASSERT_EQ(check_vnet(load_vnet(big.data()), std::span(big).subspan(kVnetBytes),
                             static_cast<uint32_t>(big.size()) - kVnetBytes),
                  VnetError::kNone);
        ASSERT_TRUE(segmenter.start(std::span(big).first(100 > big.size() ? big.size() : 100),
                                    std::span(big).subspan(100 > big.size() ? big.size() : 100)));
        const uint32_t headers = static_cast<uint32_t>(big.size()) - payload - kVnetBytes;
        uint32_t seen = 0;
        for (uint32_t count = 0; segmenter.active(); ++count) {
          const uint32_t bytes = segmenter.next(out);
          ASSERT_GT(bytes, kVnetBytes + headers);
          const std::span<const std::byte> frame = std::span(out).subspan(kVnetBytes, bytes - kVnetBytes);
          check_segment(frame, version, protocol, count == 0, !segmenter.active());
          const uint32_t part = bytes - kVnetBytes - headers;
          EXPECT_EQ(std::memcmp(frame.data() + headers, big.data() + kVnetBytes + headers + seen, part), 0);
          if (protocol == kIpProtocolTcp) {
            EXPECT_EQ(load_be<uint32_t>(frame.data() + headers - 32 + 4), 0xFFFFFF00 + seen);
          }
          seen += part;
        }
        EXPECT_EQ(seen, payload);
      }
    }
  }
}

TEST(Segmenter, a_frame_that_fills_its_memory_is_taken_and_none_beyond) {
  Segmenter segmenter;
  const Bytes frame(kSegmenterBytesMax + 1);
  EXPECT_FALSE(segmenter.start(frame, {}));
  EXPECT_TRUE(segmenter.start(std::span(frame).first(kSegmenterBytesMax), {}));
}

TEST(Segmenter, headers_that_contradict_the_frame_are_refused) {
  Segmenter segmenter;
  Bytes frame = gso_frame(4, kIpProtocolTcp, 1000, 100);
  frame[kVnetBytes + 14 + 20 + 12] = std::byte{0x10};  // TCP header of 4 bytes
  EXPECT_FALSE(segmenter.start(frame, {}));
  frame[kVnetBytes + 14 + 20 + 12] = std::byte{0xF0};
  EXPECT_FALSE(segmenter.start(std::span<const std::byte>(frame).first(kVnetBytes + 14 + 20 + 22), {}));
  EXPECT_FALSE(segmenter.active());
  EXPECT_EQ(segmenter.next_bytes(), 0u);
}

TEST(FrameWriter, a_busy_port_gets_every_piece_in_order) {
  test::MemoryFramePort port(kTo);
  FrameWriter writer(port);
  const Bytes big = gso_frame(4, kIpProtocolUdp, 5000, 1000);
  FrameHead head;
  ASSERT_TRUE(copy_head(big, head));
  port.writes_allowed = 2;
  EXPECT_EQ(writer.write(head, std::span(big).subspan(head.size)), FrameIo::kOk);
  EXPECT_TRUE(writer.holding());
  EXPECT_EQ(writer.write(head, std::span(big).subspan(head.size)), FrameIo::kBusy);
  port.writes_allowed = 100;
  EXPECT_TRUE(writer.flush());
  EXPECT_EQ(port.written.size(), 5u);
  EXPECT_EQ(writer.counters().get(WriterCounter::kSegmented), 1u);
  EXPECT_EQ(writer.counters().get(WriterCounter::kSegmentsWritten), 5u);
}

TEST(FrameWriter, an_open_checksum_is_filled_in_for_a_port_that_cannot) {
  test::MemoryFramePort port(kTo);
  FrameWriter writer(port);
  Bytes frame = gso_frame(4, kIpProtocolUdp, 100, 1000);
  VnetHeader vnet = load_vnet(frame.data());
  vnet.gso_type = 0;
  store_vnet(frame.data(), vnet);
  std::byte* ip = frame.data() + kVnetBytes + 14;
  store_be(ip + 26, static_cast<uint16_t>(~checksum_fold(pseudo_header_sum(ip, 4, kIpProtocolUdp, 108))));
  FrameHead head;
  ASSERT_TRUE(copy_head(frame, head));
  EXPECT_EQ(writer.write(head, std::span(frame).subspan(head.size)), FrameIo::kOk);
  ASSERT_EQ(port.written.size(), 1u);
  const std::span<const std::byte> got = std::span<const std::byte>(port.written[0]).subspan(kVnetBytes);
  EXPECT_TRUE(transport_checksum_ok(got.data() + 14, 4, kIpProtocolUdp, got.subspan(34)));
  EXPECT_NE(load_be<uint16_t>(got.data() + 40), 0);
}

/// However small the pieces, one turn stays bounded, and in the end all are written.
TEST(FrameWriter, a_frame_of_many_pieces_is_written_in_bounded_turns) {
  test::MemoryFramePort port(kTo);
  FrameWriter writer(port);
  constexpr uint32_t kPieces = 500;
  const Bytes frame = gso_frame(4, kIpProtocolTcp, kPieces * 32, 32);
  FrameHead head;
  ASSERT_TRUE(copy_head(frame, head));
  EXPECT_EQ(writer.write(head, std::span(frame).subspan(head.size)), FrameIo::kOk);
  EXPECT_EQ(port.written.size(), kPiecesPerFlush);
  ASSERT_TRUE(writer.holding());
  for (size_t turn = 2; writer.holding(); ++turn) {
    writer.flush();
    ASSERT_LE(port.written.size(), turn * kPiecesPerFlush);
  }
  EXPECT_EQ(port.written.size(), kPieces);
}

/// A port that cuts by itself is not asked to make tens of thousands of pieces either.
TEST(FrameWriter, a_port_with_offloads_gets_no_frame_of_too_many_pieces) {
  test::MemoryFramePort port(kTo, kOffloadsAll, 9000, 65524);
  FrameWriter writer(port);
  for (const auto& [segment, answer] :
       {std::pair{uint16_t{29}, FrameIo::kDropped}, {uint16_t{30}, FrameIo::kOk}}) {
    const Bytes frame = gso_frame(6, kIpProtocolTcp, 30 * kGsoPiecesMax, segment);
    FrameHead head;
    ASSERT_TRUE(copy_head(frame, head));
    EXPECT_EQ(writer.write(head, std::span(frame).subspan(head.size)), answer) << segment;
  }
  EXPECT_EQ(writer.counters().get(WriterCounter::kTooManySegments), 1U);
  Segmenter segmenter;
  EXPECT_FALSE(segmenter.start(gso_frame(4, kIpProtocolUdp, 60'000, 7), {}));
}

TEST(VnetHeader, the_longest_piece_of_a_frame_is_known_before_it_is_cut) {
  for (const uint8_t version : {uint8_t{4}, uint8_t{6}}) {
    const uint32_t ip = version == 4 ? 20 : 40;
    for (const uint8_t protocol : {kIpProtocolTcp, kIpProtocolUdp}) {
      const uint32_t headers = 14 + ip + (protocol == kIpProtocolTcp ? 32 : 8);
      for (const uint32_t payload : {500U, 3000U, 3001U}) {
        const Bytes frame = gso_frame(version, protocol, payload, 1000);
        const std::span<const std::byte> ethernet = std::span(frame).subspan(kVnetBytes);
        const GsoCut cut = cut_of(load_vnet(frame.data()), ethernet.first(100), headers + payload);
        EXPECT_EQ(cut.frame_bytes, headers + std::min(payload, 1000U));
        EXPECT_EQ(cut.pieces, (payload + 999) / 1000);
        EXPECT_EQ(cut_of({}, ethernet, headers + payload).frame_bytes, headers + payload);
      }
    }
  }
}

struct BadVnet {
  VnetError reason;
  VnetHeader header;
};
/// Over a TCP segment of 1000 bytes, IPv4.
constexpr std::array kBadVnets{
    BadVnet{VnetError::kFlags, {.flags = 0x80}},
    BadVnet{VnetError::kFlags, {.gso_type = 77}},
    BadVnet{VnetError::kChecksum,
            {.flags = kVnetNeedsChecksum, .checksum_start = 34, .checksum_offset = 0xFFFF}},
    BadVnet{VnetError::kChecksum, {.flags = kVnetNeedsChecksum, .checksum_start = 13, .checksum_offset = 16}},
    BadVnet{VnetError::kChecksum, {.gso_type = 1, .gso_bytes = 100}},
    BadVnet{VnetError::kGsoSize,
            {.flags = kVnetNeedsChecksum, .gso_type = 1, .checksum_start = 34, .checksum_offset = 16}},
    BadVnet{VnetError::kProtocol,
            {.flags = kVnetNeedsChecksum,
             .gso_type = 5,
             .gso_bytes = 100,
             .checksum_start = 34,
             .checksum_offset = 6}},
};
static_assert(test::names_every_reason(kBadVnets, VnetError::kFlags, VnetError::kCount));

TEST(VnetHeader, each_refusal_has_its_name) {
  const Bytes frame = gso_frame(4, kIpProtocolTcp, 1000, 100);
  const std::span<const std::byte> ethernet = std::span(frame).subspan(kVnetBytes);
  const auto bytes = static_cast<uint32_t>(ethernet.size());
  for (const BadVnet& one : kBadVnets) {
    EXPECT_EQ(to_string(check_vnet(one.header, ethernet, bytes)), to_string(one.reason));
  }
  EXPECT_EQ(check_vnet(load_vnet(frame.data()), ethernet, bytes), VnetError::kNone);
}

/// What is cut apart has its checksum in the IP packet, behind all tags.
TEST(VnetHeader, the_checksum_of_what_is_cut_begins_behind_the_tags) {
  const Bytes plain = gso_frame(4, kIpProtocolTcp, 1000, 100);
  const auto ethernet = std::span(plain).subspan(kVnetBytes);
  Bytes tagged(ethernet.begin(), ethernet.begin() + 12);
  tagged.resize(16);
  store_be(tagged.data() + 12, kEtherTypeVlan);
  tagged.insert(tagged.end(), ethernet.begin() + 12, ethernet.end());
  VnetHeader header = load_vnet(plain.data());
  const auto bytes = static_cast<uint32_t>(tagged.size());
  for (const auto& [start, error] :
       {std::pair(38, VnetError::kNone), std::pair(18, VnetError::kNone), std::pair(17, VnetError::kProtocol),
        std::pair(14, VnetError::kProtocol), std::pair(13, VnetError::kChecksum)}) {
    header.checksum_start = static_cast<uint16_t>(start);
    EXPECT_EQ(to_string(check_vnet(header, tagged, bytes)), to_string(error)) << start;
  }
}

struct WriterCase {
  WriterCounter reason;
  FrameIo answer;
  Bytes (*frame)();
  bool port_drops = false;
};
constexpr std::array kWriterCases{
    WriterCase{WriterCounter::kChecksumsFilled, FrameIo::kOk,
               [] {
                 Bytes frame = gso_frame(4, kIpProtocolUdp, 100, 1000);
                 frame[1] = std::byte{0};  // no GSO, the checksum is still open
                 return frame;
               }},
    WriterCase{WriterCounter::kSegmentsDropped, FrameIo::kOk,
               [] { return gso_frame(4, kIpProtocolUdp, 900, 1000); }, true},
    WriterCase{WriterCounter::kNotSegmentable, FrameIo::kDropped,
               [] {
                 Bytes frame = gso_frame(4, kIpProtocolTcp, 1000, 100);
                 frame[kVnetBytes + 14 + 20 + 12] = std::byte{0x10};  // TCP header of 4 bytes
                 return frame;
               }},
    WriterCase{WriterCounter::kTooManySegments, FrameIo::kDropped,
               [] { return gso_frame(4, kIpProtocolTcp, 60'000, 1); }},
};
static_assert(test::names_every_reason(kWriterCases, WriterCounter::kChecksumsFilled, WriterCounter::kCount));

TEST(FrameWriter, what_the_port_cannot_do_and_what_nobody_can_is_counted_by_name) {
  for (const WriterCase& one : kWriterCases) {
    test::MemoryFramePort port(kTo);
    port.drop = one.port_drops;
    FrameWriter writer(port);
    const Bytes frame = one.frame();
    FrameHead head;
    ASSERT_TRUE(copy_head(frame, head));
    EXPECT_EQ(writer.write(head, std::span(frame).subspan(head.size)), one.answer);
    EXPECT_EQ(port.written.size(), one.reason == WriterCounter::kChecksumsFilled ? 1U : 0U);
    EXPECT_FALSE(writer.holding());
    test::expect_only(writer.counters(), one.reason, WriterCounter::kChecksumsFilled, WriterCounter::kCount);
  }
}

TEST(CfgData, round_trips_and_refusals) {
  Bytes out(1024);
  NicFilters filters;
  filters.promiscuous = true;
  filters.multicast_count = 2;
  filters.multicast[0] = kMacBroadcast;
  filters.multicast[1] = {1, 2, 3, 4, 5, 6};
  const uint32_t bytes = encode_filters(filters, out);
  EXPECT_EQ(bytes, 20u);
  NicFilters back;
  ASSERT_TRUE(decode_filters(std::span<const std::byte>(out).first(bytes), back));
  EXPECT_TRUE(back.promiscuous);
  EXPECT_EQ(back.multicast[1], filters.multicast[1]);
  EXPECT_FALSE(decode_filters(std::span<const std::byte>(out).first(bytes - 1), back));
  filters.multicast[1] = {2, 2, 3, 4, 5, 6};
  encode_filters(filters, out);
  EXPECT_FALSE(decode_filters(std::span<const std::byte>(out).first(bytes), back)) << "one station's address";
  store_be(out.data() + 4, uint32_t{65});
  EXPECT_FALSE(decode_filters(std::span<const std::byte>(out).first(8 + 6 * 65), back));
  store_be(out.data(), uint32_t{0x80});
  store_be(out.data() + 4, uint32_t{0});
  EXPECT_FALSE(decode_filters(std::span<const std::byte>(out).first(8), back));
  MacAddress mac{};
  encode_mac(kMacBroadcast, out);
  EXPECT_FALSE(decode_mac(std::span<const std::byte>(out).first(6), mac));
  encode_mac(kTo, out);
  EXPECT_TRUE(decode_mac(std::span<const std::byte>(out).first(6), mac));
  EXPECT_FALSE(decode_mac(std::span<const std::byte>(out).first(7), mac));
  const NicStatistics figures{1, 2, 3, 4, 5, 6};
  NicStatistics read;
  EXPECT_EQ(encode_statistics(figures, out), kNicStatisticsBytes);
  ASSERT_TRUE(decode_statistics(std::span<const std::byte>(out).first(48), read));
  EXPECT_EQ(read, figures);
  EXPECT_FALSE(decode_statistics(std::span<const std::byte>(out).first(47), read));
}

}  // namespace
}  // namespace weft
