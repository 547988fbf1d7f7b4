// session/session_core.h -- the inside of NetdevSession, shared by the files that implement it:
//
//   session_core.cc      poll, timers, loss and teardown, conservation
//   session_connect.cc   opening and closing (connection datagrams), pools of an incarnation
//   session_frames.cc    outbound and inbound frames
//   session_messages.cc  the nine messages, both ways
//
// Nobody outside the channel folder includes this.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fixed_ring.h"
#include "base/log.h"
#include "messages/netdev_capnp.h"
#include "session/buffer_recv_pool.h"
#include "session/cm_endpoint.h"
#include "session/netdev_session.h"
#include "session/remote_pool.h"
#include "session/session_channels.h"

namespace weft::session {

/// Smallest values an opening may name: an Ethernet frame without padding, and a slot that holds every
/// message but SendData.
inline constexpr uint32_t kSessionFrameBytesMin = 60;
inline constexpr uint32_t kSessionMessageBytesMin = 4096;

/// Owner: the session's thread.
class NetdevSession::Core {
 public:
  Core(NetdevSession& self, const SessionConfig& config, adapter::ChannelAdapter& adapter,
       RandomSource& random);
  ~Core();

  // ---- what the facade calls; see netdev_session.h ----------------------------------------------
  void set_events(SessionEvents* events) noexcept { events_ = events; }
  void set_mac(const MacAddress& mac) noexcept { config_.mac = mac; }
  void open() noexcept;
  void close() noexcept;
  int poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  [[nodiscard]] SessionState state() const noexcept { return state_; }
  [[nodiscard]] const SessionPeer& peer() const noexcept { return peer_; }
  [[nodiscard]] const SessionConfig& config() const noexcept { return config_; }
  [[nodiscard]] SessionRefusal refusal() const noexcept { return refusal_; }
  [[nodiscard]] uint64_t incarnation() const noexcept { return incarnation_; }
  [[nodiscard]] std::span<std::byte> claim_frame(uint32_t bytes_max) noexcept;
  void submit_frame(uint32_t bytes) noexcept;
  void abandon_frame() noexcept { claim_at_ = nullptr; }
  void flush() noexcept;
  [[nodiscard]] uint32_t frame_bytes_max() const noexcept;
  [[nodiscard]] const InboundFrame* peek_frame(uint32_t index) noexcept;
  void release_frame() noexcept;
  [[nodiscard]] uint64_t request_config(const CfgRequest& request) noexcept;
  [[nodiscard]] const CounterSet<SessionCounter>& counters() const noexcept { return counters_; }
  [[nodiscard]] const CounterSet<adapter::QpCounter>& channel_counters(uint32_t channel) noexcept {
    return channels_.totals(channel);
  }
  [[nodiscard]] SessionConservation conservation() const noexcept;
  bool publish(StatsPage& page, std::string_view prefix);

  // ---- what the acceptor calls ------------------------------------------------------------------
  /// Unit: builds the session a REQ asks for and answers REP through `listener`, which outlives the session.
  [[nodiscard]] Status accept(const CmDatagram& request, const SessionPeer& peer, CmEndpoint& listener,
                              Instant now);
  /// A datagram of this session: its nonce and source fit.
  void on_datagram(const CmDatagram& datagram) noexcept;
  [[nodiscard]] bool is_session(uint64_t nonce, Lid lid) const noexcept {
    return live() && nonce == peer_.nonce && lid == peer_.lid;
  }
  [[nodiscard]] bool live() const noexcept { return channels_.live(); }
  [[nodiscard]] bool port_up() const noexcept { return channels_.port_up(); }
  /// True while nothing of an older host is left in the object.
  [[nodiscard]] bool reusable() const noexcept { return !live() && inbound_.empty(); }
  /// The same host has come back: this session is over. What had arrived of it stays for the driver.
  void replace() noexcept;
  /// Frames of `earlier`, a session of the same host that is over, go to the driver before those of this one.
  void follow(const Core& earlier) noexcept;
  [[nodiscard]] bool holds_frames() const noexcept { return !inbound_.empty(); }
  /// Drops and counts the frames that the driver has not taken.
  void drop_inbound() noexcept;
  /// True once after a loss by the peer's fault.
  [[nodiscard]] bool take_violation() noexcept { return std::exchange(violation_, false); }

 private:
  using C = SessionCounter;

  /// An outbound frame from submit to completion. In out_: first those posted, then those placed, then one
  /// waiting.
  struct OutFrame {
    std::byte* at = nullptr;     // vnet header, in the send ring
    uint32_t bytes = 0;          // vnet header included
    uint64_t ring_position = 0;  // frees the ring up to here
    RemoteElement target;
    bool by_message = false;  // described by BufferRDMAIndicate
  };
  struct Inbound {
    InboundFrame frame;  // no bytes: a refused frame whose element goes back in its turn
    RecvPool* pool = nullptr;
  };
  struct OwnPool {
    std::unique_ptr<RecvPool> pool;
    uint32_t pool_class = 0;  // index into config_.pools
    bool advert_pending = false;
  };
  struct Transaction {
    uint64_t context = 0;  // 0: unused
    CfgClass request_class{};
    uint16_t code = 0;
    Instant deadline{};
    bool internal = false;  // keepalive
  };
  struct FlushReplyDue {
    uint64_t context = 0;
    uint64_t after_frame = 0;  // due when all frames before this number are completed
  };
  struct FlushAsked {
    uint64_t context = 0;  // 0: not asked
    bool done = false;
  };

  // session_core.cc
  void enter(SessionState state) noexcept;
  void fail(SessionCounter reason) noexcept;
  void work_failed(std::string_view what, adapter::WcStatus status) noexcept;
  void violation(SessionCounter reason) noexcept;
  void teardown() noexcept;
  void drop_frames() noexcept;
  int tick() noexcept;
  void check_port() noexcept;
  [[nodiscard]] Instant silent_until() const noexcept;
  [[nodiscard]] Instant probe_due() const noexcept;
  void probe() noexcept;
  void expire_transactions(bool all) noexcept;
  void update_gauges() noexcept;
  int poll_sends() noexcept;
  int poll_receives() noexcept;
  void on_receive(const adapter::WorkCompletion& done) noexcept;
  void heard() noexcept { heard_at_ = now_; }
  [[nodiscard]] bool moving() const noexcept {
    return live() && !loss_ &&
           (state_ == SessionState::kOpen || state_ == SessionState::kOpening ||
            state_ == SessionState::kClosing);
  }

  // session_connect.cc
  [[nodiscard]] ChannelSizes sizes_for(TransferMode mode) const noexcept;
  [[nodiscard]] uint32_t own_frame_max(TransferMode mode) const noexcept;
  [[nodiscard]] uint32_t receive_slots() const noexcept;
  Status begin_incarnation(TransferMode mode);
  Status make_pools();
  Status make_receive_slots();
  Status add_pool(uint32_t pool_class);
  [[nodiscard]] CmOffer make_offer() const noexcept;
  int poll_connect() noexcept;
  void ask() noexcept;
  void no_memory(const Status& status) noexcept;
  void on_reply(const CmDatagram& datagram) noexcept;
  [[nodiscard]] bool good_reply(const CmOffer& offer) const noexcept;
  void on_reject(const CmDatagram& datagram) noexcept;
  void send_cm(CmKind kind) noexcept;
  void opened() noexcept;
  void step_close() noexcept;
  void finish_close() noexcept;
  [[nodiscard]] CmEndpoint* cm() noexcept { return listener_ != nullptr ? listener_ : own_cm_.get(); }

  // session_frames.cc
  [[nodiscard]] bool can_submit() noexcept;
  void place_frames() noexcept;
  void post_frame(bool last) noexcept;
  [[nodiscard]] uint32_t encode_send_data(OutFrame& frame, std::byte*& at) noexcept;
  void complete_frames(uint64_t number) noexcept;
  void on_rdata(const adapter::WorkCompletion& done) noexcept;
  void on_frame_recv(const adapter::WorkCompletion& done) noexcept;
  void on_send_data(std::span<const std::byte> data) noexcept;
  bool indicate(RecvPool& pool, uint32_t element, uint32_t bytes) noexcept;
  [[nodiscard]] bool check_fault(IndicationFault fault) noexcept;
  [[nodiscard]] RecvPool* own_pool(uint32_t reference) noexcept;
  [[nodiscard]] uint32_t first_reference() const noexcept;
  void pool_missing(uint32_t reference) noexcept;
  void drop_spent_pools() noexcept;
  void skip_refused() noexcept;
  [[nodiscard]] bool behind_earlier() noexcept;
  void free_front() noexcept;
  bool repost_receive(RecvPool& pool, uint32_t element) noexcept;

  // session_messages.cc
  [[nodiscard]] bool send_message(const NetdevMessage& message) noexcept;
  [[nodiscard]] size_t encode(const NetdevMessage& message, std::span<std::byte> out) noexcept;
  int send_pending() noexcept;
  bool send_adverts() noexcept;
  bool send_flush_replies() noexcept;
  bool send_indications() noexcept;
  bool send_updates() noexcept;
  void maybe_get() noexcept;
  void send_keepalive() noexcept;
  [[nodiscard]] bool owes_promise() const noexcept;
  [[nodiscard]] bool renewal_due() const noexcept;
  [[nodiscard]] bool can_renew() const noexcept;
  void on_message(std::span<const std::byte> bytes) noexcept;
  void refuse_message(NetdevError error) noexcept;
  void handle(uint64_t context, const BufferRecvPool& body) noexcept;
  void handle(uint64_t context, const BufferRecvPoolGet& body) noexcept;
  void handle(uint64_t context, const BufferRecvPoolUpdate& body) noexcept;
  void handle(uint64_t context, const BufferPoolFlushRequest& body) noexcept;
  void handle(uint64_t context, const BufferPoolFlushReply& body) noexcept;
  void handle(uint64_t context, const SendData& body) noexcept;
  void handle(uint64_t context, const BufferRdmaIndicate& body) noexcept;
  void handle(uint64_t context, const CfgUtilRequest& body) noexcept;
  void handle(uint64_t context, const CfgUtilReply& body) noexcept;
  void learn_pool(const PoolAdvert& advert) noexcept;
  void answer_request(const CfgUtilRequest& request, CfgReply& reply) noexcept;
  void on_keepalive(const CfgUtilRequest& request, CfgReply& reply) noexcept;
  [[nodiscard]] uint64_t start_transaction(const CfgRequest& request, bool internal) noexcept;
  void flush_own_pool(RecvPool& pool) noexcept;
  bool ask_flush(const BufferPoolFlushRequest& body, FlushAsked& asked) noexcept;

  [[nodiscard]] bool rdma() const noexcept { return peer_.mode == TransferMode::kRdma; }

  NetdevSession& self_;
  SessionConfig config_;
  adapter::ChannelAdapter& adapter_;
  RandomSource& random_;
  SessionEvents* events_ = nullptr;
  CounterSet<SessionCounter> counters_;
  CounterSet<SessionGauge> gauges_;

  SessionState state_ = SessionState::kIdle;
  std::optional<SessionCounter> loss_;  // decided, teardown() follows at the end of this poll
  bool violation_ = false;
  SessionPeer peer_;
  uint64_t incarnation_ = 0;
  Instant now_{};

  // connection
  std::unique_ptr<CmEndpoint> own_cm_;  // host
  CmEndpoint* listener_ = nullptr;      // unit
  Qpn peer_cm_qpn_;
  uint32_t peer_message_bytes_ = 0;
  bool connected_ = false;  // we may send
  SessionRefusal refusal_ = SessionRefusal::kNone;
  Instant connect_at_{};
  Duration connect_delay_{};  // grows after violations and refusals
  Instant heard_at_{};
  Instant keepalive_at_ = kNever;
  Instant port_down_since_ = kNever;
  Instant port_up_at_{};  // as far as this incarnation has seen it come back
  Instant probed_at_{};
  Instant opened_at_{};
  Instant close_deadline_ = kNever;
  uint64_t missed_packets_ = 0;

  static constexpr size_t kCompletionsPerTurn = 64;
  std::array<adapter::WorkCompletion, kCompletionsPerTurn>
      completions_;  // here: clearing it each turn costs time
  SessionChannels channels_;
  NetdevCapnp capnp_;
  LogLimiter message_log_{std::chrono::seconds(1)};
  std::vector<uint32_t> slot_indications_;  // by control slot: frames described in it

  // our pools
  std::vector<OwnPool> own_pools_;
  uint32_t next_reference_ = 0;     // given in order, never twice in an incarnation
  uint32_t next_receive_slot_ = 0;  // modes without RDMA: slots are used in turn
  Instant renew_at_ = kNever;
  Instant grow_at_{};  // no pool is made on demand before

  // outbound
  RemotePools remote_;
  FixedRing<OutFrame> out_;
  uint64_t out_first_ = 0;  // number of out_.front()
  size_t out_posted_ = 0;
  size_t out_placed_ = 0;
  uint32_t unsignalled_ = 0;
  uint64_t unsignalled_bytes_ = 0;
  bool doorbell_ = false;
  bool held_ = false;           // the driver has been told to wait
  bool waited_ = false;         // the waiting frame has been counted
  bool indicate_mode_ = false;  // this direction describes frames by BufferRDMAIndicate
  std::byte* claim_at_ = nullptr;
  uint32_t claim_bytes_ = 0;
  FixedRing<Indication> indications_;
  Instant get_at_{};
  Duration get_interval_{};
  uint64_t frames_submitted_ = 0;
  uint64_t frames_completed_ = 0;

  // inbound
  FixedRing<Inbound> inbound_;
  const Core* earlier_ = nullptr;  // while it holds frames of that incarnation, we show none
  uint64_t earlier_incarnation_ = 0;
  uint64_t frames_indicated_ = 0;
  uint64_t frames_released_ = 0;
  uint64_t frames_arrived_ = 0;   // of this incarnation
  uint64_t frames_promised_ = 0;  // the peer's count in its keepalive before last
  /// Our counts in the last two keepalives: a promise is only looked at when the next one comes.
  std::array<uint64_t, 2> frames_told_{};

  // transactions
  std::vector<Transaction> transactions_;
  uint32_t transactions_open_ = 0;
  uint64_t next_context_ = 1;
  FixedRing<FlushReplyDue> flush_replies_;
  FlushAsked own_flush_;   // our pools, at close
  FlushAsked peer_flush_;  // the peer's pools, at close
};

}  // namespace weft::session
