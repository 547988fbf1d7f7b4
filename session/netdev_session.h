// session/netdev_session.h -- push-push messaging (PUSH-DRV-04): one session joins a host half and a unit
// half and moves Ethernet frames both ways without either side requesting data. The driver halves see frames,
// configuration requests and a state; work queues, keys, pools and connections stay behind this header
// (PUSH-DRV-05).
//
// A driver half does, each turn, after its adapter's poll():
//
//   session.poll(now);
//   while (const InboundFrame* frame = session.front_frame()) {        // in the order of indication
//     if (port.write_frame(copy of head, rest) == FrameIo::kBusy) break;  // keeps the element: back-pressure
//     session.release_frame();                                          // the element goes back, in batches
//   }
//   for (int i = 0; i < 4; ++i) {
//     std::span<std::byte> into = session.claim_frame(frame_bytes_max);
//     if (into.empty()) break;                                          // no free element at the peer
//     const FrameReadResult got = port.read_frame(into);
//     if (got.io != FrameIo::kOk) {
//       session.abandon_frame();
//       break;
//     }
//     session.submit_frame(got.bytes);
//   }
//   session.flush();                                                   // sends the submitted frames now
//
// A frame here is `[vnet header, kVnetBytes][Ethernet frame]` in every mode. The modes without RDMA do not
// carry the vnet header: features are masked to none there and the receiver sees an all-zero header
// (decisions 1.17). docs/session.md has the life of a session, the state diagram, flush and loss rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/net/frame_port.h"
#include "base/rng.h"
#include "messages/ids.h"
#include "messages/netdev.h"
#include "messages/session_mad.h"
#include "session/session_counters.h"

namespace weft::adapter {
enum class QpCounter : uint8_t;  // adapter/counters.h
}  // namespace weft::adapter

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::session {

class NetdevSession;
class SessionPorts;  // session/session_port.h

enum class SessionRole : uint8_t { kHost, kUnit };

/// kIdle      never opened, or closed by close(); a host session stays here until open()
/// kConnecting the host has sent REQ, no answer yet; repeats it by itself kOpening connected; waits for RTU
/// (unit) or the first advertisement of the peer
/// kOpen      frames move
/// kClosing   pools are being flushed
/// kLost      the peer is gone or broke the rules; a host session reconnects by itself
enum class SessionState : uint8_t { kIdle, kConnecting, kOpening, kOpen, kClosing, kLost, kCount };
[[nodiscard]] std::string_view to_string(SessionState state) noexcept;

/// Why the unit refuses a session; carried by the CM REJ. A LID that sends requests too often gets no answer.
enum class SessionRefusal : uint8_t {
  kNone = 0,
  kVersion = 1,
  kEncoding = 2,
  kMode = 3,         // not allowed here, or the adapter has no inbound RDMA (C-16)
  kIdataFormat = 4,  // PUSH-IDATA-07
  kFrameBytes = 5,   // smaller than an Ethernet frame
  kMacTaken = 6,     // another session has this MAC address (decisions 2.22)
  kSessionsFull = 7,
  kNoMemory = 8,
  kMalformed = 9,
  kPolicy = 10,          // the driver half refused
  kUnknownSession = 11,  // answer to an RTU: no such session here
  kLidFull = 12,         // this LID has as many sessions under other MAC addresses as one LID may have
  kCount,
};
[[nodiscard]] std::string_view to_string(SessionRefusal refusal) noexcept;

/// Receive memory of one size that this side offers (decisions 2.18).
struct PoolClass {
  uint32_t element_bytes = 0;  // kOwnElementBytesMin..kPoolElementBytesMax; vnet header included
  uint32_t elements = 0;       // 1..kOwnElementsTogetherMax in all classes
};

/// Bounds on the work that a peer can cause and on waiting times; each has a counter (decisions section 4).
struct SessionLimits {
  uint32_t pools_per_class = 2;  // growth on BufferRecvPoolGet ends here (PUSH-POOL-08)
  /// Least time between two pools made on demand, so that a peer that flushes and asks in turn causes little
  /// work.
  Duration grow_interval = std::chrono::milliseconds(10);
  uint32_t peer_pools = 64;             // advertisements we remember
  uint64_t peer_elements = 1U << 17;    // over all of them
  uint32_t send_ring_bytes = 4U << 20;  // registered memory for outbound frames; at least 4 largest frames
  uint32_t send_slots = 512;            // outbound frames in flight
  uint32_t config_requests = 16;        // transactions waiting for a reply
  /// Freed elements are renewed once they are a quarter of a pool, or this long after the first one was
  /// freed.
  Duration renew_delay = std::chrono::microseconds(200);
  Duration connect_interval = std::chrono::milliseconds(100);
  Duration connect_interval_max =
      std::chrono::seconds(10);  // after violations the interval doubles up to this
  Duration keepalive_interval = std::chrono::milliseconds(500);
  Duration silence_max = std::chrono::milliseconds(1500);  // decisions 2.13
  /// When our port comes back, the peer may stay silent for this long, because its own port may come back
  /// later.
  Duration port_up_grace = std::chrono::milliseconds(1900);
  Duration probe_after = std::chrono::milliseconds(600);  // host: after this silence, an RTU asks the unit
                                                          // whether it knows the session
  Duration port_down_max = std::chrono::seconds(10);      // a switch may be away this long (decisions 2.12)
  Duration config_timeout = std::chrono::seconds(1);
  Duration flush_timeout = std::chrono::milliseconds(500);
};

struct SessionConfig {
  SessionRole role = SessionRole::kHost;
  std::string name = "session";                        // for logs
  TransferMode mode = TransferMode::kRdma;             // host: wanted
  MessageEncoding encoding = MessageEncoding::kCapnp;  // host: wanted
  AckPolicy acks = AckPolicy::kSelective;              // host: wanted; of modes with acknowledged channels
  /// Our receive memory, smallest element first. In modes without RDMA the first class's count is the number
  /// of receive WQEs.
  std::vector<PoolClass> pools = {{2048, 256}, {65536, 32}};
  uint32_t frame_bytes_max = kGsoFrameBytesMax;  // largest Ethernet frame we take, without vnet header
  Offload features = Offload::kNone;             // our port's; the session uses those that both sides have
  MacAddress mac{};                              // of our port
  bool force_indicate = false;                   // BufferRDMAIndicate for every write (PUSH-RDMAW-04)
  /// First reference of our pools, before the side's own bit; kept below 2^31 (PUSH-IDATA-03).
  uint32_t pool_reference_base = 0;
  bool random_pool_context = false;  // PUSH-POOL-04: the peer must not care
  Lid unit{};                        // host: where to connect
  ServiceLevel sl{};
  uint8_t port = 1;  // of the adapter
  SessionLimits limits{};
};

/// The peer's data from REQ or REP. Valid from kOpening on.
struct SessionPeer {
  Lid lid{};
  uint64_t nonce = 0;  // of the session
  MacAddress mac{};    // or the one that the driver half has set later
  MacAddress mac_at_opening{};
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  AckPolicy acks = AckPolicy::kSelective;
  uint32_t frame_bytes_max = 0;               // agreed: the smaller of both
  Offload features = Offload::kNone;          // agreed: those of both sides; none without RDMA
  Offload offered_features = Offload::kNone;  // the peer's own
};

/// A frame that arrived, in place in our pool element. A hostile peer can rewrite the bytes until the element
/// is released: copy the head, check the copy, use the copy (decisions 2.16, section 4).
struct InboundFrame {
  std::span<const std::byte> bytes{};  // vnet header and frame; at least kVnetBytes + 14
  uint32_t pool = 0;
  uint32_t element = 0;
};

struct CfgRequest {
  CfgClass request_class = CfgClass::kUtility;
  uint16_t code = 0;                  // MacConfigCode or UtilityCode
  std::span<const std::byte> data{};  // <= kCfgDataBytesMax; copied by the callee where kept
};
/// Filled in by the answering side; `status` kGood and no data to begin with.
struct CfgReply {
  CfgStatus status = CfgStatus::kGood;
  uint32_t bytes = 0;
  std::array<std::byte, kCfgDataBytesMax> data{};
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return {data.data(), bytes}; }
};

/// Calls of a session to its driver half. Called from poll(), close() or open() on the owner's thread; must
/// not block, throw or destroy the session. claim_frame(), release_frame() and request_config() may be called
/// from inside.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  /// `state` has just been entered. kOpen is the hook to replay filters, MTU and MAC (decisions 2.21).
  virtual void on_state(NetdevSession& session, SessionState state) noexcept = 0;
  /// A request of the peer; the reply is sent when this returns. Not called for keepalives.
  virtual void on_config_request(NetdevSession& session, const CfgRequest& request,
                                 CfgReply& reply) noexcept = 0;
  /// The answer to request_config(); exactly once per transaction, also after a time-out or the session's
  /// loss.
  virtual void on_config_reply(NetdevSession& session, uint64_t transaction,
                               const CfgReply& reply) noexcept = 0;
};

/// Where every element and frame of a session is; the simulator checks the sums at each step.
struct SessionConservation {
  // Our pools: elements = exposed + indicated + freed.
  uint64_t own_elements = 0;
  uint64_t own_exposed = 0;    // the peer may write
  uint64_t own_indicated = 0;  // waiting for the driver or held by it
  uint64_t own_freed = 0;      // released, renewal not yet sent
  // The peer's pools as we know them: elements = free + consumed.
  uint64_t peer_elements = 0;
  uint64_t peer_free = 0;
  uint64_t peer_consumed = 0;
  // Outbound frames of this incarnation: submitted = completed + in flight + waiting.
  uint64_t frames_submitted = 0;
  uint64_t frames_completed = 0;
  uint64_t frames_in_flight = 0;
  uint64_t frames_waiting = 0;
  /// Inbound frames: indicated = released + queued.
  uint64_t frames_indicated = 0;
  uint64_t frames_released = 0;
  uint64_t frames_queued = 0;
  [[nodiscard]] bool holds() const noexcept {
    return own_elements == own_exposed + own_indicated + own_freed &&
           peer_elements == peer_free + peer_consumed &&
           frames_submitted == frames_completed + frames_in_flight + frames_waiting &&
           frames_indicated == frames_released + frames_queued;
  }
};

/// One end of a session. Owner: the thread that polls the adapter. The ports, random source and events
/// outlive it. Allocates when an incarnation opens and when a pool grows, never per frame. After a loss a
/// host session connects again by itself; frames posted before it are never sent again (decisions 2.12).
/// SessionEndpoint implements it (session/endpoint.h); driver halves see only this interface.
class NetdevSession {
 public:
  [[nodiscard]] static std::unique_ptr<NetdevSession> make(const SessionConfig& config, SessionPorts& ports,
                                                           RandomSource& random);
  NetdevSession() = default;
  virtual ~NetdevSession() = default;
  NetdevSession(const NetdevSession&) = delete;
  NetdevSession& operator=(const NetdevSession&) = delete;

  /// The receiver of events; null for none. May be changed between polls.
  virtual void set_events(SessionEvents* events) noexcept = 0;

  /// Sets the address of our port that the next REQ carries. To change it at a connected unit, use a
  /// configuration request.
  virtual void set_mac(const MacAddress& mac) noexcept = 0;
  /// Unit: the host has another address from now on, by a configuration request. The acceptor knows the
  /// session by it, as it did by that of the REQ.
  virtual void set_peer_mac(const MacAddress& mac) noexcept = 0;

  /// Host: starts to connect (and to reconnect after each loss). Only in kIdle; no effect in other states.
  virtual void open() noexcept = 0;
  /// Flushes all pools both ways, disconnects and ends in kIdle after at most flush_timeout. Earlier frames
  /// are completed first, as far as the time allows.
  virtual void close() noexcept = 0;

  /// One bounded turn: completions, messages, renewals, timers. Returns work done.
  virtual int poll(Instant now) noexcept = 0;
  /// When poll() wants to run next though nothing arrives.
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  [[nodiscard]] virtual SessionState state() const noexcept = 0;
  /// True while the link of the session's port is up; the session may be open without it for a while.
  [[nodiscard]] virtual bool port_up() const noexcept = 0;
  [[nodiscard]] virtual const SessionPeer& peer() const noexcept = 0;
  [[nodiscard]] virtual const SessionConfig& config() const noexcept = 0;
  /// Host: why the last attempt to connect failed; kNone once one has succeeded, or while none was answered.
  [[nodiscard]] virtual SessionRefusal refusal() const noexcept = 0;
  /// Counts the incarnations of this object, from 1 at the first kOpening.
  [[nodiscard]] virtual uint64_t incarnation() const noexcept = 0;

  // ---- outbound --------------------
  /// Registered send memory for one frame of up to `bytes_max` bytes, vnet header included. Empty when the
  /// peer has no free element, our send memory is in flight, a frame still waits for a larger element, or the
  /// session is not open: do not read the frame then. Claiming again gives the same memory.
  [[nodiscard]] virtual std::span<std::byte> claim_frame(uint32_t bytes_max) noexcept = 0;
  /// Hands the claimed frame over; `bytes` <= the claim. It leaves at the next flush() or poll(). A frame
  /// longer than the agreed maximum is refused and counted, never cut (PUSH-DATA-02).
  virtual void submit_frame(uint32_t bytes) noexcept = 0;
  /// Releases the claim unused.
  virtual void abandon_frame() noexcept = 0;
  /// Posts what was submitted and rings the doorbell once.
  virtual void flush() noexcept = 0;
  /// vnet header plus frame, as the session agreed; 0 while not open.
  [[nodiscard]] virtual uint32_t frame_bytes_max() const noexcept = 0;

  // ---- inbound --------------------
  /// The oldest frame not yet released; null when there is none. Valid until release_frame(), also across a
  /// loss.
  [[nodiscard]] const InboundFrame* front_frame() noexcept { return peek_frame(0); }
  /// The `index`-th oldest (0 = front), for drivers that look ahead; null when there are fewer.
  [[nodiscard]] virtual const InboundFrame* peek_frame(uint32_t index) noexcept = 0;
  /// Releases the front frame's element for new writes; the peer is told in a batch.
  virtual void release_frame() noexcept = 0;

  // ---- configuration --------------------
  /// Sends a request to the peer. Returns the transaction (never 0), or 0 if the session is not open, the
  /// data is too long or `config_requests` transactions are waiting.
  [[nodiscard]] virtual uint64_t request_config(const CfgRequest& request) noexcept = 0;

  // ---- for tests, tools and the simulator --------------------
  [[nodiscard]] virtual const CounterSet<SessionCounter>& counters() const noexcept = 0;
  /// Of the queue pairs of channel 0 or 1, over all incarnations.
  [[nodiscard]] virtual const CounterSet<adapter::QpCounter>& channel_counters(uint32_t channel) noexcept = 0;
  [[nodiscard]] virtual SessionConservation conservation() const noexcept = 0;
  /// Puts the counters on the page as `prefix.NAME`. False when the page is full.
  virtual bool publish(StatsPage& page, std::string_view prefix) = 0;
};

// ---- unit side --------------------

struct AcceptorConfig {
  SessionConfig session;  // for each session; role, unit and mode are not used
  /// Most hosts at the same time. A host that came back while the driver still holds frames of its last
  /// session counts twice until the driver has released them.
  uint32_t hosts_max = 16;
  /// Most sessions of one LID, under different MAC addresses, so that no single host takes every place.
  uint32_t sessions_per_lid = 4;
  bool allow_rdma = true;
  bool allow_send_receive = true;
  bool allow_send_data_only = true;
  uint32_t requests_per_second = 50;  // per LID, decisions section 4
};

/// Calls of the acceptor to its driver half, besides the events of each session.
class AcceptorEvents : public SessionEvents {
 public:
  /// A host requests a session. Everything but policy has been checked.
  virtual SessionRefusal admit(const SessionPeer& peer) noexcept = 0;
};

/// Listens on QP1 of its port and owns the unit's sessions. A session object is reused for a later host once
/// its session is lost or closed and its inbound frames have been released. Owner: the thread that polls the
/// adapter.
class SessionAcceptor {
 public:
  SessionAcceptor(const AcceptorConfig& config, SessionPorts& ports, RandomSource& random);
  ~SessionAcceptor();
  SessionAcceptor(const SessionAcceptor&) = delete;
  SessionAcceptor& operator=(const SessionAcceptor&) = delete;

  void set_events(AcceptorEvents* events) noexcept;
  /// Counters of the acceptor as `prefix.NAME`, of its sessions as `prefix.session.INDEX.NAME` as they come.
  void publish(StatsPage& page, std::string_view prefix);

  /// Polls the listener and all sessions.
  int poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  /// Closes all sessions; poll until all_idle().
  void close() noexcept;
  [[nodiscard]] bool all_idle() const noexcept;

  /// Every session object made so far, oldest first; some may be idle or lost, see state().
  [[nodiscard]] std::span<NetdevSession* const> sessions() noexcept;
  [[nodiscard]] const CounterSet<AcceptorCounter>& counters() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace weft::session
