// How it works: connect, send HELLO, wait up to kAnswerWait, check the answer, bring the link up. After a
// failure, and when the link goes down, start again after kRetryInterval.
#include "fabric/carrier/shm_connector.h"

#include <array>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "fabric/carrier/shm_carrier.h"
#include "fabric/carrier/unix_socket.h"

namespace weft::fabric {
namespace {

/// A switch admits 16 endnodes at a time, and the endnodes share its cores. An endnode that hangs up sooner
/// loses its place in the queue.
constexpr Duration kAnswerWait = 5s;

class ShmConnector final : public LinkSupervisor {
 public:
  ShmConnector(std::string path, const LinkConfig& config, RandomSource& random)
      : path_(std::move(path)), end_(config), random_(random) {}

  int supervise(LinkSeat& seat, Instant now) noexcept override {
    if (seat.state() == LinkState::kUp) return 0;
    if (was_up_) {
      was_up_ = false;
      socket_.reset();
      retry_at_ = now + kRetryInterval;
      log(LogLevel::kWarn, "link to {} lost", path_);
    }
    if (!socket_.valid() && now < retry_at_) return 0;
    return attempt(seat, now);
  }

  void wait_fds(std::vector<pollfd>& out) const override {
    if (socket_.valid()) out.push_back({socket_.get(), POLLIN, 0});
  }
  Instant deadline() const noexcept override {
    if (was_up_) return kNever;
    return socket_.valid() ? answer_until_ : retry_at_;
  }
  JoinTrouble trouble() const noexcept override {
    return {trouble_, refusal_, socket_.valid() || unanswered_ || passes_with_time(refusal_)};
  }

 private:
  static constexpr Duration kRetryInterval = kLinkRetryInterval;

  /// Rings and error texts need memory. If the program has none left, the attempt is abandoned and repeated
  /// later.
  int attempt(LinkSeat& seat, Instant now) noexcept {
    int work = 0;
    if (!with_memory([&] { work = socket_.valid() ? take_answer(seat, now) : join(now); })) {
      socket_.reset();
      trouble_.clear();
      retry_at_ = now + kRetryInterval;
    }
    return work;
  }

  int join(Instant now) {
    Result<UniqueFd> socket = connect_unix(path_);
    const LinkHelloWire wire = encode_link_hello(end_.hello(random_.next()));
    if (!socket) return fail(now, socket.error().text);
    if (!peer_is_our_user(socket->get())) return fail(now, "the switch runs under another user");
    if (!send_packet(socket->get(), bytes_of(wire), {})) return fail(now, "HELLO could not be sent");
    socket_ = GuardedFd(std::move(*socket));
    unanswered_ = false;
    answer_until_ = now + kAnswerWait;
    return 1;
  }

  int take_answer(LinkSeat& seat, Instant now) {
    LinkHelloWire wire;
    Packet packet;
    if (!socket_.is_ours()) return fail(now, "the program has closed the socket");
    switch (receive_packet(socket_.get(), std::as_writable_bytes(std::span(&wire, 1)), packet)) {
      case PacketIo::kEmpty:
        if (now < answer_until_) return 0;
        unanswered_ = true;
        return fail(now, "the switch does not answer");
      case PacketIo::kClosed:
        return fail(now, "the switch hung up");
      case PacketIo::kOk:
        break;
    }
    LinkHello answer;
    if (packet.bytes != sizeof wire || packet.truncated ||
        decode_link_hello(bytes_of(wire), answer) != LinkHelloError::kNone) {
      return fail(now, "the switch's answer is malformed");
    }
    LinkParams params;
    const LinkRefusal refusal = end_.take(answer, params);
    if (refusal != LinkRefusal::kNone) {
      // If we refuse the answer ourselves, it has no values of the switch to describe.
      const bool theirs = answer.kind == LinkMessageKind::kRefuse;
      return fail(now, theirs ? describe_refusal(answer) : std::string(to_string(refusal)), refusal);
    }
    if (packet.fd_count != kShmWelcomeFds) return fail(now, "the switch sent no shared memory");
    const RingGeometry shape = ring_geometry(params.flit_payload_bytes);
    Result<SharedRegion> region = SharedRegion::adopt(std::move(packet.fds[0]), shm_region_bytes(shape));
    if (!region) return fail(now, region.error().text);
    ShmParts parts{std::move(*region), std::move(socket_)};
    seat.bring_up(make_shm_carrier(std::move(parts), shape, ShmSide::kEndnode), params, now);
    was_up_ = true;
    trouble_.clear();
    refusal_ = LinkRefusal::kNone;
    limiter_ = LogLimiter(kProblemLogInterval);
    log(LogLevel::kInfo, "joined {} as lid {} on port {}", path_, params.lid.value(), params.switch_port);
    return 1;
  }

  int fail(Instant now, std::string_view why, LinkRefusal refusal = LinkRefusal::kNone) {
    socket_.reset();
    trouble_ = why;
    refusal_ = refusal;
    retry_at_ = now + kRetryInterval;
    if (limiter_.allow(now)) log(LogLevel::kWarn, "no link to {}: {}; retrying", path_, why);
    return 0;
  }

  static constexpr Duration kProblemLogInterval = 5s;

  std::string path_;
  JoiningEnd end_;
  RandomSource& random_;
  GuardedFd socket_;
  bool was_up_ = false;
  Instant retry_at_ = Instant::min();
  Instant answer_until_{};
  std::string trouble_;
  LinkRefusal refusal_ = LinkRefusal::kNone;
  bool unanswered_ = false;  // the last HELLO got no answer within kAnswerWait
  LogLimiter limiter_{kProblemLogInterval};
};

}  // namespace

std::unique_ptr<LinkSupervisor> make_shm_connector(const std::string& path, const LinkConfig& config,
                                                   RandomSource& random) {
  return std::make_unique<ShmConnector>(path, config, random);
}

}  // namespace weft::fabric
