// How it works: a guest has a second to say HELLO. Admission names the engine; a region is made for this
// incarnation alone and leaves with the WELCOME. The engine goes up at once, the endnode when it
// has read the answer: what is sent meanwhile waits in the ring.
#include "fabric/switch/shm_acceptor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "fabric/carrier/shm_carrier.h"
#include "fabric/carrier/unix_socket.h"

namespace weft::fabric {
namespace {

constexpr Duration kAcceptCheck = 5ms;
/// Between attempts to let somebody in when guests or descriptors have run out.
constexpr Duration kAcceptPause = 100ms;
constexpr Duration kHelloWait = 1s;
constexpr size_t kGuestsMax = 16;
constexpr int kBacklog = 64;

}  // namespace

Result<std::unique_ptr<ShmAcceptor>> ShmAcceptor::create(const std::string& path, Admission& admission) {
  Result<UniqueFd> listener = listen_unix(path, kBacklog);
  if (!listener) return listener.error();
  return std::unique_ptr<ShmAcceptor>(
      new ShmAcceptor(path, std::move(*listener), admission));  // tidy: private constructor
}

ShmAcceptor::ShmAcceptor(std::string path, UniqueFd listener, Admission& admission)
    : path_(std::move(path)), listener_(std::move(listener)), admission_(admission) {
  guests_.reserve(kGuestsMax);
}

ShmAcceptor::~ShmAcceptor() {
  unlink(path_.c_str());
}

int ShmAcceptor::poll(Instant now) noexcept {
  if (now < check_at_) return 0;
  check_at_ = now + kAcceptCheck;
  let_in(now);
  return static_cast<int>(std::erase_if(guests_, [&](Guest& guest) { return serve(guest, now); }));
}

void ShmAcceptor::let_in(Instant now) noexcept {
  accepts_ = false;
  while (guests_.size() < kGuestsMax) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      accepts_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (!accepts_ && limiter_.allow(now)) {
        log(LogLevel::kError, "{}: nobody can join: {}", path_, std::generic_category().message(errno));
      }
      return;
    }
    if (!peer_is_our_user(socket.get())) {
      admission_.counters().add(AdmissionCounter::kForeignUser);
      continue;
    }
    guests_.push_back({std::move(socket), now + kHelloWait});
  }
}

bool ShmAcceptor::serve(Guest& guest, Instant now) noexcept {
  LinkHelloWire wire;
  Packet packet;
  switch (receive_packet(guest.socket.get(), std::as_writable_bytes(std::span(&wire, 1)), packet)) {
    case PacketIo::kEmpty:
      if (now < guest.until) return false;
      admission_.counters().add(AdmissionCounter::kSilent);
      return true;
    case PacketIo::kClosed:
      return true;
    case PacketIo::kOk:
      break;
  }
  LinkHello hello;
  const bool whole = packet.bytes == sizeof wire && !packet.truncated && packet.fd_count == 0;
  if (!whole || decode_link_hello(bytes_of(wire), hello) != LinkHelloError::kNone) {
    admission_.counters().add(AdmissionCounter::kMalformed);
    return true;
  }
  AdmittedLink link;
  const std::string origin = fmt::format("process {}", peer_process(guest.socket.get()));
  const LinkRefusal reason = admission_.admit(hello, {origin, {}}, Takeover::kRefuse, now, link);
  if (reason == LinkRefusal::kNone) {
    welcome(guest, link, now);
  } else {
    refuse(guest, hello, reason, now);
  }
  return true;
}

void ShmAcceptor::welcome(Guest& guest, const AdmittedLink& link, Instant now) noexcept {
  const RingGeometry shape = ring_geometry(link.params.flit_payload_bytes);
  Result<SharedRegion> region = SharedRegion::create("weft-link", shm_region_bytes(shape));
  if (!region) {
    log(LogLevel::kError, "port {}: no memory or descriptors for a link", link.params.switch_port);
    return;
  }
  const LinkHelloWire wire = encode_link_hello(link.welcome);
  const std::array<int, kShmWelcomeFds> fds{region->fd()};
  if (!send_packet(guest.socket.get(), bytes_of(wire), fds)) return;
  ShmParts parts{std::move(*region), std::move(guest.socket)};
  link.engine->bring_up(make_shm_carrier(std::move(parts), shape, ShmSide::kSwitch), link.params, now);
  log(LogLevel::kInfo, "port {}: lid {} guid {:016x} joined over shared memory", link.params.switch_port,
      link.params.lid.value(), link.params.peer_guid.value());
}

void ShmAcceptor::refuse(Guest& guest, const LinkHello& hello, LinkRefusal reason, Instant now) noexcept {
  if (limiter_.allow(now)) {
    log(LogLevel::kWarn, "refused guid {:016x}: {}", hello.guid.value(), to_string(reason));
  }
  const LinkHelloWire wire = encode_link_hello(admission_.refusal(hello, reason));
  static_cast<void>(send_packet(guest.socket.get(), bytes_of(wire), {}));
}

void ShmAcceptor::wait_fds(std::vector<pollfd>& out) const {
  // Not while nobody can be let in: the listener would stay ready and the loop never sleep.
  if (accepts_) out.push_back({listener_.get(), POLLIN, 0});
  for (const Guest& guest : guests_) out.push_back({guest.socket.get(), POLLIN, 0});
}

Instant ShmAcceptor::deadline() const noexcept {
  Instant due = accepts_ ? kNever : check_at_ + kAcceptPause;
  for (const Guest& guest : guests_) due = std::min(due, guest.until);
  return due;
}

}  // namespace weft::fabric
