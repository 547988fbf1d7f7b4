// PUSH-SEND-02/03, PUSH-RDMAW-04..06, PUSH-IDATA-02/03/07, PUSH-MSG, PUSH-DATA: the cells of a session in
// each
// mode.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/netdev_bytes.h"
#include "messages/session_mad.h"
#include "tests/support/netdev_random.h"
#include "tests/support/requirement.h"
#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"
#include "tests/support/session_talk.h"
#include "tests/support/session_wire.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

// ---- SAN-XPORT --------------------------------------------------------------------------------

/// Request cells and their acknowledgements on a session's channels, for requests in one direction. A cell is
/// named by queue pair, PSN and cell number.
struct Acknowledged {
  std::multiset<std::array<uint32_t, 3>> requests;
  std::multiset<std::array<uint32_t, 3>> answers;
};
Acknowledged acknowledged(const Pipe& pipe, int from) {
  Acknowledged out;
  for (const TracedCell& cell : pipe.trace()) {
    const uint32_t kind = opcode_properties(static_cast<uint8_t>(cell.view.opcode));
    const bool answer = (kind & kOpAcknowledge) != 0;
    if (cell.view.opcode == Opcode::kUdSend || (cell.from == from) == answer) continue;
    if (answer) {
      out.answers.insert({cell.view.dest_qpn.value(), cell.view.ack.psn.value(), cell.view.ack.cell_number});
    } else {
      out.requests.insert({cell.view.src_qpn.value(), cell.view.psn.value(), cell.view.cell_number});
    }
  }
  return out;
}

/// The exchange that opens a session carries the mode of acknowledgement; the unit uses what the host asks
/// for.
TEST(SanXportSession, SAN_XPORT_07_each_cell_has_an_acknowledgement_when_the_host_asks_for_it) {
  for (const TransferMode mode : {TransferMode::kRdma, TransferMode::kSendDataOnly}) {
    SessionPairOptions options = in_mode(mode);
    options.host.acks = AckPolicy::kStrict;
    SessionPair pair(options);
    exchange(pair);
    pair.run(200);
    EXPECT_EQ(pair.unit().peer().acks, AckPolicy::kStrict);
    covers("SAN-XPORT-07");
    for (const int from : {0, 1}) {
      const Acknowledged strict = acknowledged(pair.pipe, from);
      EXPECT_GT(strict.requests.size(), 40U);
      EXPECT_EQ(strict.answers, strict.requests) << "mode " << to_string(mode) << " from " << from;
    }

    SessionPair other(in_mode(mode));
    exchange(other);
    other.run(200);
    EXPECT_EQ(other.unit().peer().acks, AckPolicy::kSelective);
    const Acknowledged selective = acknowledged(other.pipe, 0);
    EXPECT_LT(selective.answers.size(), selective.requests.size() / 2);
  }
}

/// A unit whose reply has another mode than the request breaks the protocol.
TEST(SanXportSession, a_reply_with_another_way_to_acknowledge_opens_nothing) {
  for (const bool changed : {false, true}) {
    SessionPairOptions options = in_mode(TransferMode::kRdma);
    options.open = false;
    SessionPair pair(options);
    int replies = 0;
    pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
      CellView view;
      const bool good = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone;
      SessionMad message;
      if (from != 1 || !good || view.opcode != Opcode::kUdSend) return Verdict::kPass;
      if (decode_session_mad(view.payload, message) != MadError::kNone || message.kind != CmAttribute::kRep)
        return Verdict::kPass;
      ++replies;
      constexpr size_t kAcks = kMadBytes - sizeof(CmRep::private_data) + 30;
      std::byte& acks = bytes[bytes.size() - kCrcBytes - view.payload.size() + kAcks];
      EXPECT_EQ(acks, std::byte{0});
      if (changed) acks = std::byte{1};
      const size_t covered = bytes.size() - kCrcBytes;
      store_be(bytes.data() + covered, crc32c({bytes.data(), covered}));
      return Verdict::kPass;
    });
    pair.host().open();
    pair.run_for(300ms);
    EXPECT_GT(replies, 0);
    EXPECT_EQ(pair.host().state() == SessionState::kOpen, !changed) << "changed " << changed;
  }
}

// ---- PUSH-SEND, PUSH-RDMAW --------------------------------------------------------------------

TEST(PushSend, PUSH_SEND_02_frames_go_by_rdma_write_and_messages_by_send) {
  covers("PUSH-SEND-02");
  SessionPair pair(in_mode(TransferMode::kRdma));
  exchange(pair);
  const auto wire = read_wire(pair.pipe, 1024);
  EXPECT_EQ(select(wire, 0, WireKind::kWrite).size(), 60U);
  EXPECT_EQ(select(wire, 1, WireKind::kWrite).size(), 40U);
  EXPECT_TRUE(select(wire, 0, WireKind::kPlainSend).empty());
  EXPECT_TRUE(bodies<SendData>(wire, 0).empty());
  EXPECT_GT(select(wire, 0, WireKind::kMessage).size(), 0U);
}

TEST(PushSend, PUSH_SEND_03_neither_side_requests_data) {
  covers("PUSH-SEND-03");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    SessionPair pair(in_mode(mode));
    exchange(pair);
    for (const TracedCell& cell : pair.pipe.trace()) {
      EXPECT_NE(cell.view.opcode, Opcode::kRdmaReadRequest);
      EXPECT_NE(cell.view.opcode, Opcode::kFetchOpRequest);
    }
    const auto wire = read_wire(pair.pipe, 1024);
    for (int from = 0; from < 2; ++from) {
      EXPECT_TRUE(bodies<CfgUtilRequest>(wire, from).empty());
      EXPECT_TRUE(bodies<BufferPoolFlushRequest>(wire, from).empty());
    }
  }
}

TEST(PushRdmaWrite, PUSH_RDMAW_04_exactly_one_indication_per_write) {
  covers("PUSH-RDMAW-04");
  for (const bool forced : {false, true}) {
    SessionPairOptions options = in_mode(TransferMode::kRdma);
    options.host.force_indicate = forced;
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(0, 0, 100, 1000), numbers(0, 100));
    EXPECT_EQ(pair.unit().conservation().frames_indicated, 100U);
    const auto wire = read_wire(pair.pipe, 1024);
    std::vector<std::pair<uint32_t, uint32_t>> written;
    std::vector<std::pair<uint32_t, uint32_t>> indicated;
    const auto adverts = bodies<BufferRecvPool>(wire, 1);
    for (const WireItem& item : wire) {
      if (item.from != 0) continue;
      if (item.kind == WireKind::kWrite) {
        EXPECT_EQ(item.idata.has_value(), !forced);
        for (const PoolAdvert& pool : adverts[0].pools) {
          if (item.va < pool.address ||
              item.va >= pool.address + uint64_t{pool.elements} * pool.element_bytes)
            continue;
          written.emplace_back(pool.pool,
                               static_cast<uint32_t>((item.va - pool.address) / pool.element_bytes));
        }
        if (item.idata)
          indicated.emplace_back(decode_idata(*item.idata).pool, decode_idata(*item.idata).element);
      } else if (const auto* body = item.body<BufferRdmaIndicate>()) {
        EXPECT_TRUE(forced);
        for (const Indication& used : body->used) indicated.emplace_back(used.pool, used.element);
      }
    }
    EXPECT_EQ(written.size(), 100U);
    EXPECT_EQ(indicated, written);
  }
}

TEST(PushRdmaWrite, PUSH_RDMAW_05_what_is_consumed_is_replenished_and_used_again) {
  covers("PUSH-RDMAW-05");
  SessionPairOptions options = in_mode(TransferMode::kRdma);
  options.unit.session.pools = {{2048, 4}};
  options.unit.session.limits.pools_per_class = 1;
  SessionPair pair(options);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run(50);
  EXPECT_FALSE(pair.send(0, 9, 1000)) << "all are used";
  EXPECT_TRUE(bodies<BufferRecvPoolUpdate>(read_wire(pair.pipe, 1024), 1).empty())
      << "nothing was consumed yet";
  EXPECT_EQ(pair.receive(1, 1), numbers(0, 1));
  pair.run(50);
  const auto updates = bodies<BufferRecvPoolUpdate>(read_wire(pair.pipe, 1024), 1);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_EQ(updates[0].runs[0], (PoolRun{.pool = 1, .first = 0, .count = 1}));
  EXPECT_TRUE(pair.send(0, 4, 1000));
  pair.run(50);
  const auto wire = read_wire(pair.pipe, 1024);
  EXPECT_EQ(decode_idata(*select(wire, 0, WireKind::kWrite).back()->idata).element, 0U);
  EXPECT_EQ(pair.receive(1), numbers(1, 4));
}

TEST(PushRdmaWrite, PUSH_RDMAW_06_either_side_is_initiator_and_target) {
  covers("PUSH-RDMAW-06");
  SessionPair pair(in_mode(TransferMode::kRdma));
  std::vector<uint32_t> at_host;
  std::vector<uint32_t> at_unit;
  for (uint32_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(pair.send(0, i, 700));
    EXPECT_TRUE(pair.send(1, 1000 + i, 700));
    pair.turn();
    const auto a = pair.receive(0);
    const auto b = pair.receive(1);
    at_host.insert(at_host.end(), a.begin(), a.end());
    at_unit.insert(at_unit.end(), b.begin(), b.end());
    if (i % 8 == 7) pair.run(10);
  }
  pair.run(20);
  const auto a = pair.receive(0);
  at_host.insert(at_host.end(), a.begin(), a.end());
  const auto b = pair.receive(1);
  at_unit.insert(at_unit.end(), b.begin(), b.end());
  EXPECT_EQ(at_unit, numbers(0, 200));
  EXPECT_EQ(at_host, numbers(1000, 200));
  // Each side initiates its writes, with idata, into pools that the other side owns and renews.
  const auto wire = read_wire(pair.pipe, 1024);
  for (int from = 0; from < 2; ++from) {
    std::set<uint32_t> owned;
    for (const auto& body : bodies<BufferRecvPool>(wire, 1 - from)) {
      for (const PoolAdvert& pool : body.pools) owned.insert(pool.pool);
    }
    const auto writes = select(wire, from, WireKind::kWrite);
    EXPECT_EQ(writes.size(), 200U);
    for (const WireItem* write : writes) {
      ASSERT_TRUE(write->idata.has_value());
      EXPECT_EQ(owned.count(decode_idata(*write->idata).pool), 1U);
    }
  }
  EXPECT_GT(pair.host().counters().get(C::kUpdatesOut), 0U);
  EXPECT_GT(pair.unit().counters().get(C::kUpdatesOut), 0U);
}

// ---- PUSH-IDATA -------------------------------------------------------------------------------

TEST(PushIdata, PUSH_IDATA_02_the_triple_of_pool_element_and_size) {
  covers("PUSH-IDATA-02");
  SessionPairOptions options = in_mode(TransferMode::kRdma);
  options.unit.session.pools = {{256, 8}};
  options.unit.session.pool_reference_base = 6;  // the unit's bit makes it 7
  SessionPair pair(options);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_TRUE(pair.send(0, i, 200));
  pair.run(20);
  const auto wire = read_wire(pair.pipe, 1024);
  const auto writes = select(wire, 0, WireKind::kWrite);
  ASSERT_EQ(writes.size(), 6U);
  EXPECT_EQ(writes[5]->idata.value(), 0x07050100U) << "pool 7, element 5, 256 bytes";
}

struct Limit {
  uint32_t base;
  PoolClass pools;
  bool idata;
};

TEST(PushIdata, PUSH_IDATA_03_beyond_the_limits_a_message_describes_the_memory) {
  covers("PUSH-IDATA-03");
  const Limit limits[] = {{254, {2048, 16}, true}, {256, {2048, 16}, false}, {0, {2048, 256}, true},
                          {0, {2048, 257}, false}, {0, {65536, 8}, true},    {0, {65537, 8}, false}};
  for (const Limit& limit : limits) {
    SessionPairOptions options = in_mode(TransferMode::kRdma);
    options.unit.session.pools = {limit.pools};
    options.unit.session.pool_reference_base = limit.base;
    options.unit.session.limits.pools_per_class = 1;
    SessionPair pair(options);
    const uint32_t count = limit.pools.elements + 4;
    EXPECT_EQ(pair.stream(0, 0, count, 1000), numbers(0, count));
    const auto wire = read_wire(pair.pipe, 1024);
    for (const WireItem* write : select(wire, 0, WireKind::kWrite))
      EXPECT_EQ(write->idata.has_value(), limit.idata);
    uint32_t described = 0;
    for (const auto& body : bodies<BufferRdmaIndicate>(wire, 0)) described += body.used.size();
    EXPECT_EQ(described, limit.idata ? 0 : count);
    EXPECT_EQ(pair.unit().counters().get(C::kLostViolation), 0U);
  }
  // References 254 and 256: the host's last one below the limit and its first one above it.
  for (const uint32_t base : {254U, 256U}) {
    SessionPairOptions options = in_mode(TransferMode::kRdma);
    options.host.pools = {{2048, 16}};
    options.host.pool_reference_base = base;
    options.host.limits.pools_per_class = 1;
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(1, 0, 20, 1000), numbers(0, 20));
    const auto wire = read_wire(pair.pipe, 1024);
    for (const WireItem* write : select(wire, 1, WireKind::kWrite))
      EXPECT_EQ(write->idata.has_value(), base < 256) << base;
  }
}

TEST(PushIdata, PUSH_IDATA_07_the_format_belongs_to_the_session_and_an_unknown_one_is_refused) {
  covers("PUSH-IDATA-07");
  ScriptedHost host{SessionPairOptions().unit};
  host.offer.idata_format = 2;
  EXPECT_FALSE(host.connect());
  EXPECT_EQ(host.refusal, SessionRefusal::kIdataFormat);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedIdataFormat), 1U);
  host.offer.idata_format = 1;
  EXPECT_TRUE(host.connect());
}

// ---- PUSH-MSG ---------------------------------------------------------------------------------

TEST(PushMsg, PUSH_MSG_01_messages_are_sends_on_the_control_channel) {
  covers("PUSH-MSG-01");
  SessionPairOptions options = in_mode(TransferMode::kRdma);
  options.unit.session.pools = {{2048, 8}};
  options.host.force_indicate = true;
  SessionPair pair(options);
  EXPECT_EQ(pair.stream(0, 0, 100, 1000), numbers(0, 100));
  ask_and_close(pair);
  std::set<NetdevFunction> seen;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.opcode == Opcode::kSend) {
      EXPECT_EQ(item.channel, 0);
      EXPECT_EQ(item.kind, WireKind::kMessage) << "every Send is a message";
      seen.insert(item.message.function());
    } else if (item.kind == WireKind::kWrite) {
      EXPECT_EQ(item.channel, 1);
    }
  }
  for (uint16_t function = 1; function <= 9; ++function) {
    const bool expected = static_cast<NetdevFunction>(function) != NetdevFunction::kSendData;
    EXPECT_EQ(seen.count(static_cast<NetdevFunction>(function)) != 0, expected) << function;
  }
}

TEST(PushMsg, PUSH_MSG_02_every_message_starts_with_function_version_and_context) {
  covers("PUSH-MSG-02");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    SessionPairOptions options = in_mode(mode);
    options.unit.session.pools = {{2048, 8}};
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(0, 0, 50, 1000), numbers(0, 50));
    ask_and_close(pair);
    uint32_t count = 0;
    for (const WireItem& item : read_wire(pair.pipe, 1024)) {
      if (item.kind != WireKind::kMessage) continue;
      ++count;
      ASSERT_GE(item.bytes.size(), 12U);
      EXPECT_EQ(load_be<uint16_t>(item.bytes.data()), static_cast<uint16_t>(item.message.function()));
      EXPECT_EQ(load_be<uint16_t>(item.bytes.data() + 2), 1U);
      EXPECT_EQ(load_be<uint64_t>(item.bytes.data() + 4), item.message.context);
    }
    EXPECT_GT(count, 10U);
  }
}

TEST(PushMsg, PUSH_MSG_03_a_reply_repeats_the_context) {
  covers("PUSH-MSG-03");
  SessionPair pair(in_mode(TransferMode::kRdma, MessageEncoding::kCapnp));
  ask_and_close(pair);
  std::vector<std::pair<int, uint64_t>> asked;
  std::vector<std::pair<int, uint64_t>> answered;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.body<CfgUtilRequest>() != nullptr || item.body<BufferPoolFlushRequest>() != nullptr) {
      asked.emplace_back(item.from, item.message.context);
    } else if (item.body<CfgUtilReply>() != nullptr || item.body<BufferPoolFlushReply>() != nullptr) {
      answered.emplace_back(1 - item.from, item.message.context);
    }
  }
  EXPECT_GE(asked.size(), 6U) << "two requests, keepalives, two flushes";
  std::sort(asked.begin(), asked.end());
  std::sort(answered.begin(), answered.end());
  EXPECT_EQ(answered, asked);
}

TEST(PushMsg, PUSH_MSG_04_a_bad_message_is_dropped_and_counted_and_the_session_goes_on) {
  covers("PUSH-MSG-04");
  struct Bad {
    std::string_view hex;
    C counter;
  };
  const Bad all[] = {
      {"0005", C::kMsgTooShort},
      {"0063 0001 0000000000000001", C::kMsgUnknownFunction},
      {"0002 0007 0000000000000001 00000800 00000040", C::kMsgWrongVersion},
      {"0002 0001 0000000000000001 00000800 00000040 00", C::kMsgLengthMismatch},
      {"0008 0001 0000000000000003 0001 0002 00000400 02000000002A", C::kMsgLengthMismatch},
      {"0001 0001 0000000000000002 00000006 ffffffff 00000100 00000A01 0000000000100000 0000000000000000",
       C::kMsgBadValue},
      {"0006 0001 0000000000000002 00000004 01020304", C::kMsgNotExpected},
      {"0005 0001 00000000000000ff", C::kFlushReplyUnknown},
      {"0009 0001 00000000000000ff 0001 0002 0000 0000 00000000", C::kConfigReplyUnknown}};
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  std::map<C, uint64_t> expected;
  testing::internal::CaptureStderr();
  for (const Bad& bad : all) {
    host.say_bytes(from_hex(bad.hex));
    EXPECT_EQ(host.count(bad.counter), ++expected[bad.counter]) << bad.hex;
    EXPECT_EQ(host.unit().state(), SessionState::kOpen);
    host.say({.context = 9, .body = CfgUtilRequest{.request_class = 2, .code = 3, .data = {}}});
    EXPECT_EQ(host.replies.size(), static_cast<size_t>(&bad - all) + 1) << "the next good message works";
  }
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("message from lid 1 dropped: too-short"), std::string::npos) << logged;
}

// ---- PUSH-DATA --------------------------------------------------------------------------------

TEST(PushData, PUSH_DATA_01_send_data_carries_packet_and_size_and_has_no_reply) {
  covers("PUSH-DATA-01");
  SessionPair pair(in_mode(TransferMode::kSendDataOnly));
  EXPECT_EQ(pair.stream(0, 0, 10, 999), numbers(0, 10));
  const auto wire = read_wire(pair.pipe, 1024);
  uint32_t number = 0;
  std::set<uint64_t> contexts;
  for (const WireItem& item : wire) {
    if (item.body<SendData>() == nullptr) continue;
    EXPECT_EQ(load_be<uint32_t>(item.bytes.data() + 12), 999U);
    ASSERT_EQ(item.bytes.size(), 16U + 999);
    const auto frame = make_frame(number++, 999);
    EXPECT_TRUE(std::equal(frame.begin() + kVnetBytes, frame.end(), item.bytes.begin() + 16));
    contexts.insert(item.message.context);
  }
  EXPECT_EQ(number, 10U);
  EXPECT_EQ(contexts.size(), 10U) << "each is a transaction of its own";
  for (const WireItem* item : select(wire, 1, WireKind::kMessage)) {
    EXPECT_TRUE(item->body<BufferRecvPool>() != nullptr || item->body<BufferRecvPoolUpdate>() != nullptr);
  }
}

TEST(PushData, PUSH_DATA_02_one_channel_moves_packets_and_refuses_over_long_ones) {
  covers("PUSH-DATA-02");
  for (const MessageEncoding encoding : {MessageEncoding::kBytes, MessageEncoding::kCapnp}) {
    SessionPairOptions options = in_mode(TransferMode::kSendDataOnly, encoding);
    options.unit.session.frame_bytes_max = 1514;
    SessionPair pair(options);
    EXPECT_EQ(pair.host().frame_bytes_max(), kVnetBytes + 1514);
    EXPECT_EQ(pair.stream(0, 0, 100, 1514), numbers(0, 100));
    EXPECT_EQ(pair.stream(1, 0, 100, 1514), numbers(0, 100));
    const auto into = pair.host().claim_frame(9000);
    EXPECT_EQ(into.size(), kVnetBytes + 1514) << "room for no more than the session carries";
    pair.host().submit_frame(kVnetBytes + 1515);
    EXPECT_EQ(pair.host().counters().get(C::kFrameTooLong), 1U);
    pair.run(20);
    EXPECT_TRUE(pair.receive(1).empty()) << "not cut, not sent";
    for (const WireItem& item : read_wire(pair.pipe, 1024)) EXPECT_LE(item.channel, 0) << "one channel";
  }
  // A scripted peer that sends more data than the slot holds, or than was agreed on, is refused too.
  AcceptorConfig unit = SessionPairOptions().unit;
  unit.session.frame_bytes_max = 1514;
  ScriptedHost host{unit, TransferMode::kSendDataOnly};
  ASSERT_TRUE(host.connect());
  host.advertise(kPoolOfReceiveWqes, 8, 1514);
  uint32_t refused = 0;
  for (const size_t bytes : {size_t{1600}, size_t{1515}}) {
    const std::vector<std::byte> long_data(bytes);
    host.say({.context = 1, .body = SendData{.data = long_data}});
    EXPECT_EQ(host.count(C::kMsgTooLong), ++refused) << bytes;
  }
  EXPECT_EQ(host.count(C::kFramesIn), 0U);
}

TEST(PushData, PUSH_DATA_03_advertisement_then_write_then_indication) {
  covers("PUSH-DATA-03 PUSH-RDMAW-01");
  for (const bool forced : {false, true}) {
    SessionPairOptions options = in_mode(TransferMode::kRdma);
    options.host.force_indicate = forced;
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(0, 0, 20, 3000), numbers(0, 20));
    const auto wire = read_wire(pair.pipe, 1024);
    std::vector<PoolAdvert> advertised;
    uint32_t written = 0;
    uint32_t indicated = 0;
    for (const WireItem& item : wire) {
      if (const auto* body = item.body<BufferRecvPool>(); body != nullptr && item.from == 1) {
        advertised.insert(advertised.end(), body->pools.begin(), body->pools.end());
      }
      if (item.from == 0 && item.kind == WireKind::kWrite) {
        // Address and handle belong to a pool that was advertised before.
        EXPECT_TRUE(std::any_of(advertised.begin(), advertised.end(), [&](const PoolAdvert& pool) {
          return pool.handle == item.rkey && item.va >= pool.address &&
                 item.va - pool.address < uint64_t{pool.elements} * pool.element_bytes;
        }));
        ++written;
        indicated += item.idata.has_value() ? 1U : 0U;
      }
      if (const auto* body = item.body<BufferRdmaIndicate>()) indicated += body->used.size();
      EXPECT_LE(indicated, written);
    }
    EXPECT_EQ(written, 20U);
    EXPECT_EQ(indicated, 20U);
  }
}

/// Decisions 2.17: the message is sent only after the write has completed, so it cannot overtake the write.
TEST(PushData, PUSH_DATA_03_the_message_waits_for_the_write_to_complete) {
  covers("PUSH-DATA-03");
  SessionPairOptions options = in_mode(TransferMode::kRdma);
  options.host.force_indicate = true;
  SessionPair pair(options);
  bool hold = true;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
    CellView view;
    EXPECT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
    return hold && from == 0 && view.opcode == Opcode::kRdmaWrite ? Verdict::kDrop : Verdict::kPass;
  });
  EXPECT_TRUE(pair.send(0, 1, 1000));
  pair.run(50);
  EXPECT_TRUE(bodies<BufferRdmaIndicate>(read_wire(pair.pipe, 1024), 0).empty());
  hold = false;
  pair.run_for(600ms);
  EXPECT_EQ(bodies<BufferRdmaIndicate>(read_wire(pair.pipe, 1024), 0).size(), 1U);
  EXPECT_EQ(pair.receive(1), numbers(1, 1));
}

TEST(PushData, PUSH_DATA_04_the_message_carries_large_references_and_sizes) {
  covers("PUSH-DATA-04");
  for (const MessageEncoding encoding : {MessageEncoding::kBytes, MessageEncoding::kCapnp}) {
    SessionPairOptions options = in_mode(TransferMode::kRdma, encoding);
    options.host.pools = {{100000, 4}};
    options.host.pool_reference_base = 300;
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(1, 0, 20, 9000), numbers(0, 20));
    uint32_t count = 0;
    for (const auto& body : bodies<BufferRdmaIndicate>(read_wire(pair.pipe, 1024), 1)) {
      for (const Indication& used : body.used) {
        ++count;
        EXPECT_TRUE(used.pool == 300 || used.pool == 302) << used.pool;
        EXPECT_EQ(used.element_bytes, 100000U);
        EXPECT_EQ(used.data_bytes, kVnetBytes + 9000);
      }
    }
    EXPECT_EQ(count, 20U);
  }
}

}  // namespace
}  // namespace weft::session
