// Rules of decisions section 4 that a session and its channels keep against a hostile peer: a key opens one
// session only; a guess ends the session and makes the next one wait longer; addresses and numbers reveal
// nothing; everything a peer can complete at once has room.
#include <gtest/gtest.h>

#include <set>

#include "messages/netdev_bytes.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"
#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"

namespace weft::test {
using namespace session;
namespace {

using namespace std::chrono_literals;
using C = SessionCounter;

constexpr ChannelSizes kSizes{.mode = TransferMode::kRdma,
                              .message_bytes = 4096,
                              .control_sends = 4,
                              .control_recvs = 4,
                              .frame_sends = 4,
                              .indications = 16,
                              .send_ring_bytes = 65536};

/// Two sessions of one unit; the host of the first one has learnt a key of the second one.
TEST(SessionDefence, a_key_of_another_session_is_of_no_use) {
  covers("DECISIONS-4");
  AdapterPair pair(1024);
  std::array<ChannelStore, 3> stores;
  const auto make = [&](int side, ChannelStore& store) {
    return SessionChannels::make(*pair.side(side).adapter, pair.side(side).random, store, kSizes);
  };
  auto made = std::array{make(0, stores[0]), make(1, stores[1]), make(1, stores[2])};
  for (const auto& one : made) ASSERT_TRUE(one.ok());
  SessionChannels& host = **made[0];
  SessionChannels& own = **made[1];
  SessionChannels& other = **made[2];
  ASSERT_TRUE(host.connect(Lid(2), own.control_channel(), own.data_channel()).ok());
  ASSERT_TRUE(own.connect(Lid(1), host.control_channel(), host.data_channel()).ok());
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(4096), std::vector<std::byte>(4096)};
  const adapter::MemoryRegion regions[2] = {own.memory().add(memory[0], true).value(),
                                            other.memory().add(memory[1], true).value()};
  std::byte* at = host.ring().claim(64);
  std::fill_n(at, 64, std::byte{0x5A});
  const adapter::Sge sge = host.ring_sge(at, 64);
  const auto write = [&](const adapter::MemoryRegion& region) {
    EXPECT_EQ(host.post_data({.wr_id = make_wr_id(WorkKind::kFrameSend, 1),
                              .opcode = adapter::SendOpcode::kRdmaWrite,
                              .flags = adapter::kSendSignaled,
                              .sges = {&sge, 1},
                              .remote_addr = region.addr,
                              .rkey = region.rkey}),
              adapter::PostResult::kOk);
    host.ring_data();
    pair.run(20);
    adapter::WorkCompletion done;
    EXPECT_EQ(host.poll_sends({&done, 1}), 1U);
    return done.status;
  };
  EXPECT_EQ(write(regions[0]), adapter::WcStatus::kSuccess);
  EXPECT_EQ(memory[0][63], std::byte{0x5A});
  EXPECT_EQ(write(regions[1]), adapter::WcStatus::kRemoteAccess);
  EXPECT_EQ(memory[1], std::vector<std::byte>(4096));
  EXPECT_EQ(pair.side(1).adapter->access_faults().get(adapter::AccessFault::kWrongPd), 1U);
}

/// Pool memory cannot be read remotely, not even by the peer that wrote it.
TEST(SessionDefence, the_handle_of_a_pool_allows_writing_alone) {
  covers("DECISIONS-4");
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  ASSERT_FALSE(host.pools.empty());
  for (const PoolAdvert& pool : host.pools) {
    const std::optional<adapter::TptEntry> entry = host.adapters[1]->memory().query(pool.handle.value());
    ASSERT_TRUE(entry.has_value());
    EXPECT_TRUE(entry->remote_write);
    EXPECT_FALSE(entry->remote_read || entry->remote_atomic || entry->window_binding);
  }
}

TEST(SessionDefence, a_guessed_key_costs_the_session_and_each_time_more_time) {
  covers("DECISIONS-4");
  SessionPairOptions options;
  options.unit.requests_per_second = 1000;
  ScriptedHost host{options.unit};
  const auto accepted = [&] { return host.acceptor->counters().get(AcceptorCounter::kAccepted); };
  const auto count_all = [&](C counter) {
    uint64_t sum = 0;
    for (NetdevSession* session : host.acceptor->sessions()) sum += session->counters().get(counter);
    return sum;
  };
  uint64_t nonce = 0;
  std::vector<Duration> waits;
  for (uint64_t guess = 1; guess <= 4; ++guess) {
    host.nonce = ++nonce;
    if (guess > 1) host.reopen();
    ASSERT_TRUE(host.connect());
    host.advertise();
    NetdevSession& session = host.unit();
    ASSERT_EQ(session.state(), SessionState::kOpen);
    RemoteElement element = host.element(0);
    element.handle = Rkey(element.handle.value() ^ 0x1000);
    host.write(element, 1, 100, std::nullopt);
    EXPECT_EQ(count_all(C::kKeyRefused), guess);
    EXPECT_EQ(count_all(C::kFramesIn), 0U);
    EXPECT_EQ(session.state(), SessionState::kLost);
    const Instant lost = host.clock.now();
    const uint64_t before = accepted();
    for (int tries = 0; tries < 1000 && accepted() == before; ++tries) {
      host.knock(CmAttribute::kReq, ++nonce);
      host.run(5, 1ms);
    }
    waits.push_back(host.clock.now() - lost);
  }
  EXPECT_GE(waits[0], 90ms);
  for (size_t i = 1; i < waits.size(); ++i) {
    EXPECT_GE(waits[i], waits[i - 1] * 17 / 10) << i;
    EXPECT_LE(waits[i], waits[i - 1] * 23 / 10) << i;
  }
}

/// A peer that knows one incarnation's numbers cannot derive those of the process or of the next incarnation.
TEST(SessionDefence, addresses_keys_and_numbers_are_random_and_never_the_same_twice) {
  covers("DECISIONS-4");
  std::set<uint64_t> addresses;
  std::set<uint32_t> handles;
  std::set<uint32_t> numbers;
  uint32_t pools = 0;
  ScriptedHost host{SessionPairOptions().unit};
  for (uint64_t incarnation = 1; incarnation <= 8; ++incarnation) {
    host.nonce = incarnation;
    host.reopen();
    ASSERT_TRUE(host.connect());
    host.advertise();
    for (const PoolAdvert& pool : host.pools) {
      ++pools;
      addresses.insert(pool.address);
      handles.insert(pool.handle.value());
      // A process address of this machine has its upper 16 bits clear.
      EXPECT_NE(pool.address >> 48, 0U) << std::hex << pool.address;
    }
    for (const SessionQueuePair& channel : {host.answer.control, host.answer.data}) {
      EXPECT_TRUE(numbers.insert(channel.qpn.value()).second) << "QPN";
      EXPECT_TRUE(numbers.insert(channel.psn.value() | 1U << 24).second) << "PSN";
    }
    // The element is not at the advertised address in this process.
    const RemoteElement element = host.element(0);
    host.write(element, 1, 100, encode_idata({element.pool, 0, element.element_bytes}));
    ASSERT_NE(host.unit().front_frame(), nullptr);
    constexpr uint64_t kUserSpace = 0x0000'FFFF'FFFF'FFFF;
    EXPECT_NE(reinterpret_cast<uint64_t>(host.unit().front_frame()->bytes.data()),
              element.address & kUserSpace);
    host.unit().release_frame();
  }
  EXPECT_EQ(addresses.size(), pools);
  EXPECT_EQ(handles.size(), pools);
}

/// A peer writes every element and uses every receive slot of channel 0 while the owner does not poll. The
/// completion queue is large enough for all of it.
TEST(SessionDefence, completions_of_all_elements_and_messages_have_room) {
  covers("DECISIONS-4");
  SessionPairOptions options;
  options.unit.session.pools = {{256, 64}, {2048, 64}};
  options.unit.session.limits.pools_per_class = 2;
  ScriptedHost host{options.unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  for (const uint32_t bytes : {256U, 2048U}) {
    host.say({.context = 1, .body = BufferRecvPoolGet{.packet_bytes = bytes, .packets = 1}});
    host.run(100, options.unit.session.limits.grow_interval / 100);
  }
  ASSERT_EQ(host.pools.size(), 4U);
  const auto poll_adapters = [&] {
    for (int turn = 0; turn < 10; ++turn) {
      host.clock.advance(10us);
      for (const auto& adapter : host.adapters) adapter->poll(host.clock.now());
    }
  };
  std::byte* at = host.channels().ring().claim(100);
  const std::vector<std::byte> frame = make_frame(1, 100 - kVnetBytes);
  std::copy(frame.begin(), frame.end(), at);
  const adapter::Sge sge = host.channels().ring_sge(at, 100);
  for (uint32_t pool = 0; pool < 4; ++pool) {
    for (uint32_t i = 0; i < 64; ++i) {
      const RemoteElement element = host.element(i, pool);
      ASSERT_EQ(host.channels().post_data(
                    {.opcode = adapter::SendOpcode::kRdmaWriteWithImm,
                     .sges = {&sge, 1},
                     .imm = encode_idata({element.pool, element.element, element.element_bytes}),
                     .remote_addr = element.address,
                     .rkey = element.handle}),
                adapter::PostResult::kOk);
      host.channels().ring_data();
      if (i % 16 == 15) poll_adapters();
    }
  }
  for (int message = 0; message < 200; ++message) {
    const std::span<std::byte> slot = host.channels().control_slot();
    if (slot.empty()) break;
    const size_t bytes =
        encode_netdev_bytes({.context = 1, .body = BufferRecvPoolGet{.packet_bytes = 1, .packets = 1}}, slot);
    uint32_t number = 0;
    ASSERT_EQ(host.channels().send_control(static_cast<uint32_t>(bytes), number), adapter::PostResult::kOk);
    poll_adapters();
  }
  EXPECT_EQ(host.adapters[1]->counters().get(adapter::AdapterCounter::kCqOverruns), 0U);
  host.run(50);
  EXPECT_EQ(host.count(C::kFramesIn), 4U * 64);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

TEST(SessionDefence, a_session_whose_completions_would_not_fit_is_refused) {
  covers("DECISIONS-4");
  SessionPairOptions options;
  options.unit.session.pools = {{64, 65536}, {2048, 32}};
  ScriptedHost host{options.unit};
  EXPECT_FALSE(host.connect());
  EXPECT_EQ(host.refusal, SessionRefusal::kNoMemory);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedMemory), 1U);
}

/// Channel 0 carries messages only: an RDMA write of the peer is refused there, whatever its key.
TEST(SessionDefence, nothing_is_written_through_channel_0) {
  covers("DECISIONS-4");
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  ASSERT_EQ(host.unit().state(), SessionState::kOpen);
  Psn next;
  for (const TracedCell* cell : host.pipe.sent_by(0, Opcode::kSend)) {
    if (cell->view.dest_qpn == host.answer.control.qpn) next = cell->view.psn.plus(1);
  }
  const std::array<std::pair<size_t, uint32_t>, 3> as_if_there{
      {{16, host.answer.control.qpn.value()}, {20, host.offer.control.qpn.value()}, {24, next.value()}}};
  host.pipe.set_filter([&](int, std::vector<std::byte>& bytes) {
    CellView view;
    const bool write = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone &&
                       view.opcode == Opcode::kRdmaWrite;
    if (!write) return Verdict::kPass;
    for (const auto& [at, value] : as_if_there) {
      const uint32_t others = load_be<uint32_t>(bytes.data() + at) & ~Psn::kMask;
      store_be(bytes.data() + at, others | value);
    }
    host.pipe.inject(1, bytes);
    return Verdict::kDrop;
  });
  host.pipe.clear_trace();
  NetdevSession& session = host.unit();
  host.write(host.element(0), 1, 100, std::nullopt);
  const auto refused = host.pipe.sent_by(1, Opcode::kNak);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0]->view.ack.code, AckCode::kNotSupported);
  EXPECT_EQ(refused[0]->view.ack.psn, next);
  EXPECT_EQ(session.state(), SessionState::kLost);
  EXPECT_EQ(session.counters().get(C::kKeyRefused), 1U);
  EXPECT_EQ(session.counters().get(C::kLostViolation), 1U)
      << "and not the receives that end with the channel";
  EXPECT_EQ(session.counters().get(C::kFramesIn), 0U);
}

}  // namespace
}  // namespace weft::test
