#include "bench/support/direct_rig.h"

#include <sys/socket.h>

#include <array>
#include <map>
#include <span>
#include <utility>

#include "adapter/bring_up.h"
#include "base/check.h"
#include "fabric/window/process_device.h"

namespace weft::bench {
namespace {

constexpr fabric::OwnWindowConfig kOwn{.slots = 128, .slot_bytes = 4352, .table_entries = 64};
constexpr uint16_t kSenderLid = 1;
constexpr uint16_t kReceiverLid = 2;  // those of the peers that stand still follow
constexpr uint32_t kCellPayload = 256;
constexpr int kTurnsToJoin = 10'000;
constexpr Duration kTurn = std::chrono::microseconds(1);

std::unique_ptr<fabric::WindowEnd> end_of(int socket, RandomSource& random) {
  auto device = fabric::ProcessDevice::create(
      UniqueFd(socket), {.window_bytes = fabric::OwnWindow::bytes_for(kOwn), .pieces = false}, random);
  WEFT_CHECK(device.ok(), "a memory window between two ends of this process");
  return std::make_unique<fabric::WindowEnd>(std::move(*device), kOwn);
}

}  // namespace

/// The ways of one side, all of them open from the start.
class DirectRig::Paths final : public adapter::DirectPaths {
 public:
  void add(Lid peer, std::unique_ptr<fabric::WindowEnd> end) { ways_[peer.value()].window = std::move(end); }
  adapter::DirectPath* claim(Lid peer) noexcept override {
    const auto found = ways_.find(peer.value());
    return found == ways_.end() ? nullptr : &found->second;
  }
  void release(adapter::DirectPath& /*path*/) noexcept override {}
  adapter::DirectPath* arrived(Lid& /*peer*/) noexcept override { return nullptr; }

 private:
  struct Way final : adapter::DirectPath {
    std::unique_ptr<fabric::WindowEnd> window;
    [[nodiscard]] State state() const noexcept override { return State::kOpen; }
    [[nodiscard]] fabric::WindowEnd& end() noexcept override { return *window; }
  };
  std::map<uint16_t, Way> ways_;
};

DirectRig::Side::Side(uint16_t lid)
    : random(lid), wire(Lid(lid), kCellPayload), paths(std::make_unique<Paths>()), memory(4096) {
  adapter::AdapterConfig config;
  config.guid = Guid(lid);
  config.direct = paths.get();
  adapter = std::make_unique<adapter::ChannelAdapter>(config, random);
}
DirectRig::Side::~Side() = default;

DirectRig::DirectRig(uint32_t windows)
    : now_(Instant(std::chrono::seconds(1))), sender_(kSenderLid), receiver_(kReceiverLid) {
  sender_.wire.connect(receiver_.wire);
  receiver_.wire.connect(sender_.wire);
  for (Side* side : {&sender_, &receiver_}) {
    side->adapter->ports().attach(side->wire);
    side->pd = side->adapter->alloc_pd().value();
    side->cq = side->adapter->cqs().create(1024).value();
    side->region =
        side->adapter->memory().regions.reg_mr(side->pd, side->memory, adapter::Access::kLocalWrite).value();
  }
  for (uint32_t i = 0; i < windows; ++i) {
    make_window(Lid(static_cast<uint16_t>(kReceiverLid + i)), i == 0 ? receiver_.paths.get() : nullptr);
    add_qp(sender_);
  }
  add_qp(receiver_);
  const Qpn receiver = receiver_.adapter->qpn(*receiver_.qps[0]);
  for (uint32_t i = 0; i < windows; ++i)
    bring_up(sender_, i, receiver, Lid(static_cast<uint16_t>(kReceiverLid + i)));
  bring_up(receiver_, 0, sender_.adapter->qpn(*sender_.qps[0]), Lid(kSenderLid));
  for (int i = 0; i < kTurnsToJoin; ++i) turn();
}

DirectRig::~DirectRig() {
  sender_.adapter.reset();  // before the windows
  receiver_.adapter.reset();
}

void DirectRig::make_window(Lid peer, Paths* receiver) {
  std::array<int, 2> sockets{};
  WEFT_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) == 0,
             "a pair of sockets");
  std::unique_ptr<fabric::WindowEnd> near = end_of(sockets[0], sender_.random);
  std::unique_ptr<fabric::WindowEnd> far = end_of(sockets[1], receiver_.random);
  const auto up = [](const fabric::WindowEnd& end) { return end.state() == fabric::WindowState::kUp; };
  for (int i = 0; i < kTurnsToJoin && !(up(*near) && up(*far)); ++i) {
    now_ += kTurn;
    near->poll(now_);
    far->poll(now_);
  }
  WEFT_CHECK(up(*near) && up(*far), "the window comes up");
  sender_.paths->add(peer, std::move(near));
  if (receiver != nullptr) {
    receiver->add(Lid(kSenderLid), std::move(far));
  } else {
    still_.push_back(std::move(far));
  }
}

void DirectRig::add_qp(Side& side) {
  adapter::QpConfig config;
  config.pd = side.pd;
  config.send_cq = config.recv_cq = side.cq;
  side.qps.push_back(side.adapter->create_qp(config).value());
}

void DirectRig::bring_up(Side& side, size_t index, Qpn peer, Lid lid) {
  adapter::QpAttr attr;
  attr.access = adapter::Access::kRemoteWrite;
  attr.dest_qpn = peer;
  attr.dlid = lid;
  attr.sq_psn = attr.rq_psn = Psn(1);
  WEFT_CHECK(adapter::bring_up(*side.adapter, *side.qps[index], attr) == adapter::ModifyResult::kOk,
             "a QP comes up");
  WEFT_CHECK(side.adapter->way_of(*side.qps[index]) == adapter::QpWay::kWindow, "the QP uses its window");
}

void DirectRig::turn() {
  now_ += kTurn;
  sender_.adapter->poll(now_);
  receiver_.adapter->poll(now_);
}

void DirectRig::prepare() {
  const adapter::Sge to{
      .addr = receiver_.region.addr, .length = kMessageBytes, .lkey = receiver_.region.lkey};
  adapter::RecvRequest request;
  request.sges = std::span(&to, 1);
  WEFT_CHECK(receiver_.adapter->post_recv(*receiver_.qps[0], request) == adapter::PostResult::kOk, "a post");
}

void DirectRig::send() {
  const adapter::Sge from{.addr = sender_.region.addr, .length = kMessageBytes, .lkey = sender_.region.lkey};
  adapter::SendRequest request;
  request.opcode = adapter::SendOpcode::kSend;
  request.flags = adapter::kSendSignaled;
  request.sges = std::span(&from, 1);
  WEFT_CHECK(sender_.adapter->post_send(*sender_.qps[0], request) == adapter::PostResult::kOk, "a post");
  now_ += kTurn;
  sender_.adapter->poll(now_);
}

void DirectRig::arrive() {
  for (int i = 0; i < 2; ++i) receiver_.adapter->poll(now_);  // takes it; acknowledges it
  std::array<adapter::WorkCompletion, 4> got;
  WEFT_CHECK(receiver_.adapter->cqs().poll(*receiver_.cq, got) == 1, "the message arrives");
}

void DirectRig::finish() {
  sender_.adapter->poll(now_);
  std::array<adapter::WorkCompletion, 4> got;
  WEFT_CHECK(sender_.adapter->cqs().poll(*sender_.cq, got) == 1, "the message completes");
}

}  // namespace weft::bench
