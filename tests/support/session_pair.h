// tests/support/session_pair.h -- a host session and a unit's acceptor over two adapters and a traced pipe,
// or a switch with links of a kind, in virtual time. Side 0 is the host (LID 1), side 1 the unit (LID 2).
// Each driver half is played by the test: frames are made from a number, checked bit by bit on arrival, and
// kept or released as the test says.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/rng.h"
#include "session/netdev_session.h"
#include "session/session_port.h"
#include "tests/support/pipe_port.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

/// What a session told its driver.
class RecordingEvents : public session::AcceptorEvents {
 public:
  struct Reply {
    uint64_t transaction = 0;
    CfgStatus status{};
    std::vector<std::byte> data;
  };
  struct Request {
    CfgClass request_class{};
    uint16_t code = 0;
    std::vector<std::byte> data;
  };

  void on_state(session::NetdevSession&, session::SessionState state) noexcept override {
    states.push_back(state);
  }
  void on_config_request(session::NetdevSession&, const session::CfgRequest& request,
                         session::CfgReply& reply) noexcept override {
    requests.push_back({request.request_class, request.code, {request.data.begin(), request.data.end()}});
    reply = answer;
  }
  void on_config_reply(session::NetdevSession&, uint64_t transaction,
                       const session::CfgReply& reply) noexcept override {
    const auto data = reply.view();
    replies.push_back({transaction, reply.status, {data.begin(), data.end()}});
  }
  session::SessionRefusal admit(const session::SessionPeer& peer) noexcept override {
    admitted.push_back(peer);
    return admit_answer;
  }

  std::vector<session::SessionState> states;
  std::vector<Request> requests;
  std::vector<Reply> replies;
  std::vector<session::SessionPeer> admitted;
  session::CfgReply answer;
  session::SessionRefusal admit_answer = session::SessionRefusal::kNone;
};

/// Frame `number`: vnet header zero, Ethernet header, then bytes that depend on number and place.
std::vector<std::byte> make_frame(uint32_t number, uint32_t frame_bytes);
/// first, first + 1, ...: what `count` frames in order look like.
std::vector<uint32_t> numbers(uint32_t first, uint32_t count);
/// The number of a frame that make_frame() made; fails the test when a bit is wrong.
uint32_t check_frame(std::span<const std::byte> bytes);

struct SessionPairOptions {
  session::SessionConfig host;
  session::AcceptorConfig unit;
  uint32_t cell_payload_bytes = 1024;
  bool open = true;
  /// Instead of the pipe: a switch whose nodes 0 and 1 are host and unit.
  std::optional<TestFabricConfig> fabric;
  SessionPairOptions();
  /// Both sides.
  SessionPairOptions& pools(std::vector<session::PoolClass> classes);
  SessionPairOptions& mode(TransferMode mode, MessageEncoding encoding = MessageEncoding::kCapnp);
};

class SessionPair {
 public:
  explicit SessionPair(const SessionPairOptions& options = {});

  [[nodiscard]] session::NetdevSession& host() { return *host_; }
  /// The unit's session; the newest one that is not lost.
  [[nodiscard]] session::NetdevSession& unit();
  [[nodiscard]] session::NetdevSession& side(int index) { return index == 0 ? host() : unit(); }
  [[nodiscard]] session::SessionAcceptor& acceptor() { return *acceptor_; }
  [[nodiscard]] adapter::ChannelAdapter& adapter(int index) { return *adapters_[static_cast<size_t>(index)]; }

  /// One turn of everything, then time moves on by `step`.
  void turn(Duration step = std::chrono::microseconds(10));
  void run(int turns = 100, Duration step = std::chrono::microseconds(10));
  void run_for(Duration time, Duration step = std::chrono::milliseconds(1));
  /// Time jumps from deadline to deadline once nothing moves, so that a deadline nobody names is missed.
  void run_by_deadlines(Duration time);
  /// Until both sides are open; fails the test after 10 virtual seconds.
  void run_until_open();

  /// Submits frame `number`; false when the session holds the driver.
  bool send(int from, uint32_t number, uint32_t frame_bytes);
  /// Takes what has arrived, checks it and gives the elements back. At most `limit` frames.
  std::vector<uint32_t> receive(int at, uint32_t limit = UINT32_MAX);
  /// Pushes `count` frames through, receiving as it goes; returns the numbers in the order of arrival.
  std::vector<uint32_t> stream(int from, uint32_t first, uint32_t count, uint32_t frame_bytes);
  void expect_conserved();

  /// kill -9: session, acceptor and adapter of one side are gone without a word.
  void kill(int side);
  /// The killed side starts again, the host asking at once. Cells that came meanwhile are still in the wire.
  void revive(int side);
  void restart_host();

  SessionPairOptions options;
  ManualClock clock;
  Pipe pipe;
  std::unique_ptr<TestFabric> fabric;  // null over the pipe
  RecordingEvents host_events;
  RecordingEvents unit_events;

 private:
  void make_host();
  void make_unit();
  /// Returns work done.
  int poll(Instant now);
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] fabric::CellPort& port(int index) {
    return fabric != nullptr ? fabric->lend(static_cast<uint32_t>(index)) : pipe.end(index);
  }

  SeededRandom randoms_[2];
  std::array<std::unique_ptr<adapter::ChannelAdapter>, 2> adapters_;
  std::array<std::unique_ptr<session::SessionPorts>, 2> ports_;
  std::unique_ptr<session::NetdevSession> host_;
  std::unique_ptr<session::SessionAcceptor> acceptor_;
};

}  // namespace weft::test
