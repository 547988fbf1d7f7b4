#include "tests/support/scripted_host.h"

#include <algorithm>

#include "messages/netdev_bytes.h"

namespace weft::test {

namespace {
constexpr uint32_t kFrameRecvs = 16;
constexpr uint32_t kControlSends = 160;  // more than a unit has receive slots
}  // namespace

ScriptedHost::ScriptedHost(const session::AcceptorConfig& config, TransferMode mode, MessageEncoding encoding)
    : pipe(1024), randoms_{SeededRandom(5), SeededRandom(6)}, encoding_(encoding) {
  clock.advance(std::chrono::seconds(1));
  for (int i = 0; i < 2; ++i) {
    adapters[i] = std::make_unique<adapter::ChannelAdapter>(
        adapter::AdapterConfig{.guid = Guid(0x1001U + static_cast<unsigned>(i)),
                               .number = static_cast<uint8_t>(i + 1)},
        randoms_[i]);
    adapters[i]->ports().attach(pipe.end(i));
  }
  ports = std::make_unique<session::SessionPorts>(*adapters[1]);
  acceptor = std::make_unique<session::SessionAcceptor>(config, *ports, randoms_[1]);
  acceptor->set_events(&events);
  cm_ = std::make_unique<SessionSpeaker>(*adapters[0]);
  EXPECT_TRUE(cm_->open(kQpnGsi).ok());
  offer = {.encoding = static_cast<uint8_t>(encoding),
           .mode = static_cast<uint8_t>(mode),
           .idata_format = static_cast<uint8_t>(IdataFormat::kPoolElementSize),
           .channels = static_cast<uint8_t>(mode == TransferMode::kSendDataOnly ? 1 : 2),
           .control = {},
           .data = {},
           .frame_bytes_max = kJumboFrameBytes,
           .mac = {2, 0, 0, 0, 0, 7},
           .message_bytes = 16384};
  reopen();
  run(2);
}

void ScriptedHost::reopen() {
  const auto mode = static_cast<TransferMode>(offer.mode);
  const session::ChannelSizes sizes{.mode = mode,
                                    .message_bytes = 16384,
                                    .control_sends = kControlSends,
                                    .frame_recvs = mode == TransferMode::kSendReceive ? kFrameRecvs : 0,
                                    .indications = 1024,
                                    .send_ring_bytes = 1U << 20};
  channels_.reset();
  Result<std::unique_ptr<session::SessionChannels>> made =
      session::SessionChannels::make(*adapters[0], randoms_[0], store_, sizes);
  ASSERT_TRUE(made.ok()) << made.error().text;
  channels_ = std::move(*made);
  offer.control = channels_->control_channel();
  offer.data = channels_->data_channel();
  pools.clear();
}

bool ScriptedHost::connect() {
  datagrams.clear();
  cm_->say({.kind = CmAttribute::kReq, .nonce = nonce, .offer = offer}, Lid(2));
  run(20);
  for (const SessionMad& message : datagrams) {
    if (message.kind == CmAttribute::kRej) refusal = static_cast<session::SessionRefusal>(message.reason);
    if (message.kind != CmAttribute::kRep) continue;
    answer = message.offer;
    const Status status = channels_->connect(Lid(2), answer.control, answer.data);
    EXPECT_TRUE(status.ok()) << status.error().text;
    cm_->say({.kind = CmAttribute::kRtu, .nonce = nonce}, Lid(2));
    run(20);
    return true;
  }
  return false;
}

void ScriptedHost::knock(CmAttribute kind, uint64_t with_nonce, int turns) {
  const SessionOffer carried = kind == CmAttribute::kReq ? offer : SessionOffer{};
  ASSERT_TRUE(cm_->say({.kind = kind, .nonce = with_nonce, .offer = carried}, Lid(2)));
  run(turns);
}

void ScriptedHost::say(const NetdevMessage& message) {
  std::vector<std::byte> bytes(16384);
  bytes.resize(encoding_ == MessageEncoding::kBytes ? encode_netdev_bytes(message, bytes)
                                                    : capnp_.encode(message, bytes));
  say_bytes(std::move(bytes));
}

void ScriptedHost::say_bytes(std::vector<std::byte> bytes) {
  const std::span<std::byte> slot = channels_->control_slot();
  ASSERT_GE(slot.size(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), slot.begin());
  uint32_t number = 0;
  ASSERT_EQ(channels_->send_control(static_cast<uint32_t>(bytes.size()), number), adapter::PostResult::kOk);
  run(20);
}

void ScriptedHost::advertise(uint32_t reference, uint32_t elements, uint32_t element_bytes) {
  memory_.push_back(
      std::make_unique<session::PoolMemory>(session::PoolMemory::allocate(size_t{elements} * element_bytes)));
  const bool rdma = reference != kPoolOfReceiveWqes;
  BufferRecvPool body;
  PoolAdvert advert{.pool = reference, .elements = elements, .element_bytes = element_bytes};
  if (rdma) {
    const Refusable<adapter::MemoryRegion> region = channels_->memory().add(memory_.back()->span(), true);
    ASSERT_TRUE(region.ok());
    advert.handle = region.value().rkey;
    advert.address = region.value().addr;
  }
  body.pools.push_back(advert);
  say({.context = 1, .body = body});
}

void ScriptedHost::write(const session::RemoteElement& element, uint32_t number, uint32_t frame_bytes,
                         std::optional<uint32_t> idata) {
  const std::vector<std::byte> frame = make_frame(number, frame_bytes);
  std::byte* at = channels_->ring().claim(static_cast<uint32_t>(frame.size()));
  ASSERT_NE(at, nullptr);
  std::copy(frame.begin(), frame.end(), at);
  (void)channels_->ring().commit(static_cast<uint32_t>(frame.size()));
  const adapter::Sge sge = channels_->ring_sge(at, static_cast<uint32_t>(frame.size()));
  adapter::SendRequest request;
  request.wr_id = session::make_wr_id(session::WorkKind::kFrameSend, number);
  request.opcode = idata ? adapter::SendOpcode::kRdmaWriteWithImm : adapter::SendOpcode::kRdmaWrite;
  request.flags = adapter::kSendSignaled;
  request.sges = {&sge, 1};
  request.imm = idata.value_or(0);
  request.remote_addr = element.address;
  request.rkey = element.handle;
  ASSERT_EQ(channels_->post_data(request), adapter::PostResult::kOk);
  channels_->ring_data();
  run(40);
}

void ScriptedHost::send_plain(uint32_t number, uint32_t frame_bytes) {
  const std::vector<std::byte> frame = make_frame(number, frame_bytes);
  std::byte* at = channels_->ring().claim(static_cast<uint32_t>(frame.size()));
  ASSERT_NE(at, nullptr);
  std::copy(frame.begin(), frame.end(), at);
  (void)channels_->ring().commit(static_cast<uint32_t>(frame.size()));
  const adapter::Sge sge = channels_->ring_sge(at + kVnetBytes, frame_bytes);
  adapter::SendRequest request;
  request.wr_id = session::make_wr_id(session::WorkKind::kFrameSend, number);
  request.flags = adapter::kSendSignaled;
  request.sges = {&sge, 1};
  ASSERT_EQ(channels_->post_data(request), adapter::PostResult::kOk);
  channels_->ring_data();
  run(20);
}

session::RemoteElement ScriptedHost::element(uint32_t index, uint32_t pool) {
  EXPECT_LT(pool, pools.size());
  const PoolAdvert& advert = pools.at(pool);
  return {.pool = advert.pool,
          .element = index,
          .element_bytes = advert.element_bytes,
          .address = advert.address + uint64_t{index} * advert.element_bytes,
          .handle = advert.handle};
}

void ScriptedHost::run(int turns, Duration step) {
  for (int i = 0; i < turns; ++i) {
    adapters[0]->poll(clock.now());
    poll();
    adapters[1]->poll(clock.now());
    acceptor->poll(clock.now());
    clock.advance(step);
  }
}

session::NetdevSession& ScriptedHost::unit() {
  const auto sessions = acceptor->sessions();
  const auto at = std::find_if(sessions.begin(), sessions.end(), [](session::NetdevSession* session) {
    return session->state() != session::SessionState::kLost &&
           session->state() != session::SessionState::kIdle;
  });
  return at != sessions.end() ? **at : *sessions.back();
}

void ScriptedHost::poll() {
  session::SessionDatagram datagram;
  while (cm_->hear(datagram)) datagrams.push_back(datagram.message);
  std::array<adapter::WorkCompletion, 16> done;
  uint32_t count = channels_->poll_sends(done);
  for (uint32_t i = 0; i < count; ++i) {
    if (done[i].status != adapter::WcStatus::kSuccess) failed.push_back(done[i]);
    if (session::work_kind(done[i].wr_id) == session::WorkKind::kControlSend) {
      channels_->control_sent(static_cast<uint32_t>(session::work_number(done[i].wr_id)));
    }
  }
  count = channels_->poll_receives(done);
  for (uint32_t i = 0; i < count; ++i) {
    if (done[i].opcode == adapter::WcOpcode::kRdataIndicate) {
      indicated.push_back(done[i]);
    } else if (done[i].status == adapter::WcStatus::kSuccess &&
               session::work_kind(done[i].wr_id) == session::WorkKind::kControlRecv) {
      const auto slot = static_cast<uint32_t>(session::work_number(done[i].wr_id));
      hear(channels_->control_message(slot, done[i].byte_count));
      EXPECT_TRUE(channels_->repost_control(slot));
    }
  }
}

void ScriptedHost::hear(std::span<const std::byte> bytes) {
  NetdevMessage message;
  const NetdevError error = encoding_ == MessageEncoding::kBytes ? decode_netdev_bytes(bytes, message)
                                                                 : capnp_.decode(bytes, message);
  ASSERT_EQ(error, NetdevError::kNone);
  heard.emplace_back(message.function(), message.context);
  if (const auto* adverts = std::get_if<BufferRecvPool>(&message.body)) {
    pools.insert(pools.end(), adverts->pools.begin(), adverts->pools.end());
  } else if (const auto* update = std::get_if<BufferRecvPoolUpdate>(&message.body)) {
    renewed.insert(renewed.end(), update->runs.begin(), update->runs.end());
  } else if (const auto* reply = std::get_if<CfgUtilReply>(&message.body)) {
    session::CfgReply& out = replies.emplace_back();
    out.status = static_cast<CfgStatus>(reply->status);
    out.bytes = static_cast<uint32_t>(reply->data.size());
    std::copy(reply->data.begin(), reply->data.end(), out.data.begin());
  }
}

}  // namespace weft::test
