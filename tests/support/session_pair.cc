#include "tests/support/session_pair.h"

#include <algorithm>
#include <numeric>

#include "base/endian.h"

namespace weft::test {

namespace {

constexpr uint32_t kNumberAt = kVnetBytes + kEthernetHeaderBytes;
constexpr uint32_t kLengthAt = kNumberAt + 4;

std::byte pattern(uint32_t number, uint32_t at) {
  return static_cast<std::byte>((number * 131 + at * 7 + (at >> 8)) & 0xFF);
}

}  // namespace

std::vector<std::byte> make_frame(uint32_t number, uint32_t frame_bytes) {
  std::vector<std::byte> frame(kVnetBytes + frame_bytes);
  for (uint32_t i = kVnetBytes; i < frame.size(); ++i) frame[i] = pattern(number, i);
  store_be(frame.data() + kNumberAt, number);
  store_be(frame.data() + kLengthAt, frame_bytes);
  return frame;
}

std::vector<uint32_t> numbers(uint32_t first, uint32_t count) {
  std::vector<uint32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

uint32_t check_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthAt + 4) {
    ADD_FAILURE() << "frame of " << bytes.size() << " bytes";
    return 0;
  }
  const auto number = load_be<uint32_t>(bytes.data() + kNumberAt);
  const std::vector<std::byte> wanted =
      make_frame(number, load_be<uint32_t>(bytes.data() + kLengthAt) & 0xFFFFFF);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), wanted.begin(), wanted.end())) << "frame " << number;
  return number;
}

SessionPairOptions::SessionPairOptions() {
  host.role = session::SessionRole::kHost;
  host.name = "host";
  host.unit = Lid(2);
  host.mac = {2, 0, 0, 0, 0, 1};
  host.pools = {{2048, 32}, {16384, 8}};
  host.frame_bytes_max = 9018;
  host.limits.send_ring_bytes = 256 * 1024;
  host.limits.send_slots = 64;
  unit.session = host;
  unit.session.name = "unit";
  unit.session.mac = {2, 0, 0, 0, 0, 2};
}

SessionPairOptions& SessionPairOptions::pools(std::vector<session::PoolClass> classes) {
  host.pools = classes;
  unit.session.pools = std::move(classes);
  return *this;
}

SessionPairOptions& SessionPairOptions::mode(TransferMode mode, MessageEncoding encoding) {
  host.mode = mode;
  host.encoding = encoding;
  return *this;
}

SessionPair::SessionPair(const SessionPairOptions& with)
    : options(with),
      pipe(with.cell_payload_bytes),
      fabric(with.fabric ? std::make_unique<TestFabric>(*with.fabric) : nullptr),
      randoms_{SeededRandom(11), SeededRandom(22)} {
  clock.advance(std::chrono::seconds(1));
  if (fabric != nullptr) clock.set(fabric->clock.now());
  make_host();
  make_unit();
  turn();
  if (options.open) run_until_open();
}

void SessionPair::make_host() {
  adapters_[0] = std::make_unique<adapter::ChannelAdapter>(
      adapter::AdapterConfig{.guid = Guid(0x1001), .number = 1}, randoms_[0]);
  adapters_[0]->ports().attach(port(0));
  ports_[0] = std::make_unique<session::SessionPorts>(*adapters_[0]);
  host_ = session::NetdevSession::make(options.host, *ports_[0], randoms_[0]);
  host_->set_events(&host_events);
}

void SessionPair::make_unit() {
  adapters_[1] = std::make_unique<adapter::ChannelAdapter>(
      adapter::AdapterConfig{.guid = Guid(0x1002), .number = 2}, randoms_[1]);
  adapters_[1]->ports().attach(port(1));
  ports_[1] = std::make_unique<session::SessionPorts>(*adapters_[1]);
  acceptor_ = std::make_unique<session::SessionAcceptor>(options.unit, *ports_[1], randoms_[1]);
  acceptor_->set_events(&unit_events);
}

void SessionPair::kill(int side) {
  if (side == 0) {
    host_.reset();
  } else {
    acceptor_.reset();
  }
  ports_[static_cast<size_t>(side)].reset();
  adapters_[static_cast<size_t>(side)].reset();
}

void SessionPair::revive(int side) {
  if (side == 1) return make_unit();
  make_host();
  host_->poll(clock.now());
  host_->open();
}

void SessionPair::restart_host() {
  kill(0);
  revive(0);
}

session::NetdevSession& SessionPair::unit() {
  const auto sessions = acceptor_->sessions();
  const auto at = std::find_if(sessions.begin(), sessions.end(), [](session::NetdevSession* session) {
    return session->state() != session::SessionState::kLost &&
           session->state() != session::SessionState::kIdle;
  });
  EXPECT_FALSE(sessions.empty()) << "no session yet";
  return at != sessions.end() ? **at : *sessions.back();
}

void SessionPair::turn(Duration step) {
  (void)poll(clock.now());
  if (fabric != nullptr) {
    fabric->step(step);
    clock.set(fabric->clock.now());
  } else {
    clock.advance(step);
  }
}

int SessionPair::poll(Instant now) {
  int work = 0;
  if (host_ != nullptr) work += adapters_[0]->poll(now) + host_->poll(now);
  if (acceptor_ != nullptr) work += adapters_[1]->poll(now) + acceptor_->poll(now);
  return work;
}

Instant SessionPair::deadline() const {
  Instant next = kNever;
  if (host_ != nullptr) next = std::min({next, adapters_[0]->deadline(), host_->deadline()});
  if (acceptor_ != nullptr) next = std::min({next, adapters_[1]->deadline(), acceptor_->deadline()});
  return next;
}

void SessionPair::run_by_deadlines(Duration time) {
  constexpr Duration kStep = std::chrono::microseconds(10);
  for (const Instant end = clock.now() + time; clock.now() < end;) {
    const Instant soonest = clock.now() + kStep;
    const Instant next = poll(clock.now()) != 0 ? soonest : std::max(deadline(), soonest);
    clock.advance(std::min(next, end) - clock.now());
  }
}

void SessionPair::run(int turns, Duration step) {
  for (int i = 0; i < turns; ++i) turn(step);
}

void SessionPair::run_for(Duration time, Duration step) {
  const Instant end = clock.now() + time;
  while (clock.now() < end) turn(step);
}

void SessionPair::run_until_open() {
  host_->poll(clock.now());
  host_->open();
  for (int i = 0; i < 100000; ++i) {
    turn(std::chrono::microseconds(100));
    if (host_->state() == session::SessionState::kOpen && !acceptor_->sessions().empty() &&
        unit().state() == session::SessionState::kOpen) {
      return;
    }
  }
  FAIL() << "host " << to_string(host_->state()) << ", sessions at the unit " << acceptor_->sessions().size();
}

bool SessionPair::send(int from, uint32_t number, uint32_t frame_bytes) {
  session::NetdevSession& session = side(from);
  const std::span<std::byte> into = session.claim_frame(kVnetBytes + frame_bytes);
  if (into.empty()) return false;
  const std::vector<std::byte> frame = make_frame(number, frame_bytes);
  EXPECT_GE(into.size(), frame.size());
  if (into.size() < frame.size()) return false;
  std::copy(frame.begin(), frame.end(), into.begin());
  session.submit_frame(static_cast<uint32_t>(frame.size()));
  return true;
}

std::vector<uint32_t> SessionPair::receive(int at, uint32_t limit) {
  std::vector<uint32_t> out;
  session::NetdevSession& session = side(at);
  while (out.size() < limit) {
    const session::InboundFrame* frame = session.front_frame();
    if (frame == nullptr) break;
    out.push_back(check_frame(frame->bytes));
    session.release_frame();
  }
  return out;
}

std::vector<uint32_t> SessionPair::stream(int from, uint32_t first, uint32_t count, uint32_t frame_bytes) {
  std::vector<uint32_t> out;
  uint32_t sent = 0;
  for (int turns = 0; out.size() < count && turns < 200000; ++turns) {
    for (int burst = 0; burst < 4 && sent < count; ++burst) {
      if (!send(from, first + sent, frame_bytes)) break;
      ++sent;
    }
    turn();
    const std::vector<uint32_t> got = receive(1 - from);
    out.insert(out.end(), got.begin(), got.end());
    expect_conserved();
  }
  return out;
}

void SessionPair::expect_conserved() {
  EXPECT_TRUE(host_->conservation().holds());
  for (session::NetdevSession* session : acceptor_->sessions()) EXPECT_TRUE(session->conservation().holds());
}

}  // namespace weft::test
