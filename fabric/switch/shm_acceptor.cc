// How it works: an endnode that connects is a guest and has one second to send HELLO. Admission names the
// engine. A new region is made for this incarnation and is sent with WELCOME. The engine goes up at once, the
// endnode when it has read the answer; flits sent meanwhile wait in the ring. By the endnode's socket a peer
// wakes a resting link, and the socket shows the peer's death. One epoll set holds the sockets of all links.
// If a socket is ready, the engine's bell rings. While the loop runs, the set is polled every
// kListenInterval, and only if some link rests. While the loop sleeps, it waits for the set.
#include "fabric/switch/shm_acceptor.h"

#include <fmt/format.h>
#include <sys/epoll.h>
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
/// Pause between attempts to accept when the guest table is full or descriptors have run out.
constexpr Duration kAcceptPause = 100ms;
constexpr Duration kHelloWait = 1s;
/// Interval between polls of the epoll set: one system call each, and the longest delay of the first cell of
/// an idle link.
constexpr Duration kListenInterval = 20us;
constexpr size_t kEventsMax = 64;
constexpr size_t kGuestsMax = 16;
constexpr int kBacklog = 1024;  // a job may start this number of programs at once

}  // namespace

Result<std::unique_ptr<ShmAcceptor>> ShmAcceptor::create(const std::string& path, Admission& admission) {
  Result<UniqueFd> listener = listen_unix(path, kBacklog);
  if (!listener) return listener.error();
  UniqueFd links(epoll_create1(EPOLL_CLOEXEC));
  if (!links.valid()) return errno_error("cannot wait for links", errno);
  return std::unique_ptr<ShmAcceptor>(
      new ShmAcceptor(path, std::move(*listener), std::move(links), admission));  // tidy: private constructor
}

ShmAcceptor::ShmAcceptor(std::string path, UniqueFd listener, UniqueFd links, Admission& admission)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      links_(std::move(links)),
      admission_(admission) {
  guests_.reserve(kGuestsMax);
}

ShmAcceptor::~ShmAcceptor() {
  unlink(path_.c_str());
}

int ShmAcceptor::poll(Instant now) noexcept {
  int work = now >= listen_at_ ? listen_for_links(now) : 0;
  if (now < check_at_) return work;
  check_at_ = now + kAcceptCheck;
  let_in(now);
  work += static_cast<int>(std::erase_if(guests_, [&](Guest& guest) { return serve(guest, now); }));
  return work;
}

int ShmAcceptor::listen_for_links(Instant now) noexcept {
  listen_at_ = now + kListenInterval;
  if (!admission_.links_rest()) return 0;
  std::array<epoll_event, kEventsMax> events;
  const int count = epoll_wait(links_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) static_cast<LinkEngine*>(events[static_cast<size_t>(i)].data.ptr)->ring();
  return std::max(count, 0);
}

void ShmAcceptor::let_in(Instant now) noexcept {
  accepts_ = false;
  while (guests_.size() < kGuestsMax) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      accepts_ = errno == EAGAIN || errno == EWOULDBLOCK;
      if (!accepts_ && limiter_.allow(now)) {
        log(LogLevel::kError, "{}: no process can join: {}", path_, std::generic_category().message(errno));
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
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = link.engine;  // the set drops a socket when the engine closes it
  const bool heard = epoll_ctl(links_.get(), EPOLL_CTL_ADD, guest.socket.get(), &event) == 0;
  ShmParts parts{std::move(*region), GuardedFd(std::move(guest.socket))};
  link.engine->bring_up(make_shm_carrier(std::move(parts), shape, ShmSide::kSwitch), link.params, now);
  if (heard) link.engine->expect_bell();
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
  // While we cannot accept, the listener would stay ready and the loop would never sleep.
  if (accepts_) out.push_back({listener_.get(), POLLIN, 0});
  out.push_back({links_.get(), POLLIN, 0});
  for (const Guest& guest : guests_) out.push_back({guest.socket.get(), POLLIN, 0});
}

Instant ShmAcceptor::deadline() const noexcept {
  Instant due = accepts_ ? kNever : check_at_ + kAcceptPause;
  for (const Guest& guest : guests_) due = std::min(due, guest.until);
  return due;
}

}  // namespace weft::fabric
