// tests/support/scripted_host.h -- a host whose every message the test writes: it opens a session with a real
// acceptor and then says, writes and indicates what no honest host would. Uses the byte encoding unless told
// otherwise.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "messages/netdev_capnp.h"
#include "session/netdev_session.h"
#include "session/remote_pool.h"
#include "session/session_channels.h"
#include "tests/support/session_pair.h"
#include "tests/support/session_speaker.h"

namespace weft::test {

/// A unit that offers few elements.
inline session::AcceptorConfig unit_config() {
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 8}, {16384, 4}};
  return options.unit;
}

class ScriptedHost {
 public:
  explicit ScriptedHost(const session::AcceptorConfig& unit, TransferMode mode = TransferMode::kRdma,
                        MessageEncoding encoding = MessageEncoding::kBytes);

  /// The offer of the next REQ, correct to begin with.
  SessionOffer offer;
  uint64_t nonce = 0x1234;

  /// New queue pairs, keys and offer, as after a restart; the next connect() needs another nonce.
  void reopen();
  /// Sends REQ; true when REP came (then RTU follows), false on REJ or silence. `refusal` has the reason.
  bool connect();
  session::SessionRefusal refusal = session::SessionRefusal::kNone;
  SessionOffer answer;  // of the unit

  /// One message; a REQ carries `offer`.
  void knock(CmAttribute kind, uint64_t with_nonce, int turns = 20);
  void say(const NetdevMessage& message);
  void say_bytes(std::vector<std::byte> bytes);
  /// Advertises one pool of this host's own and grants the unit everything it needs to be open.
  void advertise(uint32_t reference = 0, uint32_t elements = 8, uint32_t element_bytes = 2048);
  /// RDMA write of make_frame(number, frame_bytes).
  void write(const session::RemoteElement& element, uint32_t number, uint32_t frame_bytes,
             std::optional<uint32_t> idata);
  void send_plain(uint32_t number, uint32_t frame_bytes);
  /// Element `index` of the unit's first pool, as advertised.
  [[nodiscard]] session::RemoteElement element(uint32_t index, uint32_t pool = 0);

  void run(int turns = 100, Duration step = std::chrono::microseconds(10));
  /// The unit's session; the one that is alive, if any.
  [[nodiscard]] session::NetdevSession& unit();
  [[nodiscard]] uint64_t count(session::SessionCounter counter) { return unit().counters().get(counter); }

  ManualClock clock;
  Pipe pipe;
  RecordingEvents events;
  std::vector<PoolAdvert> pools;                           // advertised by the unit
  std::vector<adapter::WorkCompletion> indicated;          // writes of the unit into our memory
  std::vector<adapter::WorkCompletion> failed;             // work requests of ours that failed
  std::vector<std::pair<NetdevFunction, uint64_t>> heard;  // messages of the unit: function and context
  std::vector<session::CfgReply> replies;
  std::vector<PoolRun> renewed;
  std::vector<SessionMad> datagrams;
  std::unique_ptr<adapter::ChannelAdapter> adapters[2];
  std::unique_ptr<session::SessionPorts> ports;  // of the unit
  std::unique_ptr<session::SessionAcceptor> acceptor;
  session::SessionChannels& channels() { return *channels_; }

 private:
  void poll();
  void hear(std::span<const std::byte> bytes);

  SeededRandom randoms_[2];
  MessageEncoding encoding_;
  NetdevCapnp capnp_{32768};
  std::unique_ptr<SessionSpeaker> cm_;
  session::ChannelStore store_;
  std::unique_ptr<session::SessionChannels> channels_;
  std::vector<std::unique_ptr<session::PoolMemory>> memory_;
};

}  // namespace weft::test
