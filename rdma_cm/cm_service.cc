// How it works. The thread that writes a command carries it out, under the lock. The service's own thread
// handles the datagrams that QP1 has received and the timers. It sleeps until QP1's completion channel, a
// kick or the next deadline wakes it. A program that waits for an event waits in read() of its descriptor,
// without the lock, so that signals and O_NONBLOCK have the same effect as with the kernel's file.
#include "rdma_cm/cm_service.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "base/cancel_shield.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/stats_page.h"
#include "base/unique_fd.h"
#include "rdma_cm/command_parts.h"
#include "rdma_cm/wait_texts.h"

namespace weft::rdma_cm {
namespace {

constexpr Duration kLockAtExit = 50ms;
/// How often await_reader() asks whether the reader still lives.
constexpr Duration kReaderLook = 5ms;
constexpr size_t kCommandBytesMax = 1024;
constexpr int kDatagramsPerTurn = 256;
/// Waits after which a line is printed. Programs answer within milliseconds; people start the second program
/// within some seconds.
constexpr Duration kLongWait = 2s;
constexpr Duration kLongDestroy = 1s;
// If a turn stops at its limit, the thread need not be told: when the turn armed the channel, at most all
// receive slots were full. So a datagram that is left came later and has made the channel readable.
static_assert(kDatagramsPerTurn >= GsiPort::kRecvSlots);

/// Adds the number of the host and the identity of this process.
NodeIdentity with_host(NodeIdentity identity, RandomSource& random) {
  identity.host = NodeAddresses::host_number();
  identity.process = this_process(random.next() | 1);  // 0 means none
  return identity;
}

}  // namespace

CmService::CmService(hca::Device& device, RandomSource& random, const CmServiceConfig& config)
    : device_(device),
      identity_(with_host(config.identity, random)),
      addresses_(clock_, identity_.lid, config.addresses),
      ports_(config.ports_file),
      host_of_its_own_(config.host_of_its_own),
      explains_(config.explains),
      faults_(config.faults),
      reader_wait_(config.reader_wait),
      sleep_max_(config.sleep_max),
      endnode_(random, gsi_, *this),
      commands_(endnode_) {}

Result<std::unique_ptr<CmService>> CmService::start(hca::Device& device, RandomSource& random,
                                                    const CmServiceConfig& config) {
  std::unique_ptr<CmService> service(new CmService(device, random, config));  // tidy: private
  if (!service->kick_.valid()) return errno_error("a descriptor for connection management", errno);
  if (Status opened = service->gsi_.open(device); !opened) return opened.error();
  if (Status started = service->start_thread(); !started) return started.error();
  return service;
}

CmService::~CmService() {
  if (guard_.forked() || !running_) return;
  stop_ = true;
  kick_.wake();
  pthread_join(thread_, nullptr);
}

bool CmService::publish(StatsPage& page) {
  const std::lock_guard guard(lock_);
  return page.publish("cm", endnode_.manager().counters()) &&
         page.publish("cm.address", endnode_.resolver().counters()) &&
         page.publish("cm.peer", endnode_.watch().counters()) &&
         page.publish("cm.command", commands_.counters());
}

// ---- the program's calls --------------------

int CmService::open() {
  if (forked()) return -EIO;
  const std::lock_guard guard(lock_);
  const CmFile* file = endnode_.open();
  return file != nullptr ? file->descriptor->fd() : -EMFILE;
}

/// A thread of the program waits for an event of the channel.
class CmService::Waiting {
 public:
  Waiting(CmService& service, int descriptor) noexcept : service_(service), descriptor_(descriptor) {}
  ~Waiting() {
    if (!begun_) return;
    const CancelShield shield;
    const std::lock_guard guard(service_.lock_);
    if (CmFile* file = service_.endnode_.file_of(descriptor_); file != nullptr) file->waits_since = kNever;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Under the lock.
  void begin(CmFile& file) noexcept {
    begun_ = service_.explains_;
    if (begun_) file.waits_since = service_.clock_.now();
  }

 private:
  CmService& service_;
  int descriptor_;
  bool begun_ = false;
};

ssize_t CmService::write(int descriptor, const void* data, size_t bytes) {
  if (forked()) return -EIO;
  if (bytes > kCommandBytesMax) return -EINVAL;
  const std::span command(static_cast<const std::byte*>(data), bytes);
  const bool waits = Commands::asks_for_event(command);
  std::shared_ptr<hca::EventFd> events;
  int error = EAGAIN;
  std::string_view why;
  Waiting waiting(*this, descriptor);
  do {
    if (waits && events != nullptr) {
      const hca::Answer unit = events->take();
      if (unit != hca::Answer::kOk) return unit == hca::Answer::kInterrupted ? -EINTR : -EAGAIN;
    }
    const CancelShield shield;
    const std::lock_guard guard(lock_);
    CmFile* file = endnode_.file_of(descriptor);
    if (file == nullptr) return -EBADF;
    if (waits && events == nullptr) {
      events = file->descriptor;
      waiting.begin(*file);
      reader_waits_.notify_all();
      continue;
    }
    error = commands_.execute(clock_.now(), *file, command);
    why = commands_.why();
    if (explains_ && error == 0) note_destroyed(commands_.destroyed());
    if (waits && error == 0) file->reader = gettid();
    if (endnode_.deadline() < rests_until_) kick_.wake();
  } while (waits && error == EAGAIN);
  explain(command, error, why);
  return error == 0 ? static_cast<ssize_t>(bytes) : -error;
}

int CmService::move(int descriptor, int copy) noexcept {
  if (forked()) return -EIO;
  const CancelShield shield;
  const std::lock_guard guard(lock_);
  CmFile* file = endnode_.file_of(descriptor);
  if (file == nullptr) return -EBADF;
  const bool moved = with_memory([&] {
    file->descriptor = std::make_shared<hca::EventFd>(GuardedFd(UniqueFd(), false));
    file->descriptor->use(GuardedFd(UniqueFd(copy), false));
  });
  return moved ? 0 : -ENOMEM;
}

void CmService::await_reader(int descriptor) noexcept {
  if (forked()) return;
  const CancelShield shield;
  std::unique_lock guard(lock_);
  const CmFile* file = endnode_.file_of(descriptor);
  if (file == nullptr || file->reader == 0 || file->reader == gettid()) return;
  const bool waits = (fcntl(descriptor, F_GETFL) & O_NONBLOCK) == 0;
  if (!waits) return;
  // While a thread waits for an event of the channel, it also holds a reference to the channel's descriptor.
  const auto found = [&] {
    file = endnode_.file_of(descriptor);
    return file == nullptr || file->descriptor.use_count() > 1;
  };
  // The kernel still knows a thread for a moment after it has been joined.
  const pid_t reader = file->reader;
  for (Duration left = reader_wait_; left > Duration() && tgkill(getpid(), reader, 0) == 0;
       left -= kReaderLook) {
    if (reader_waits_.wait_for(guard, std::min(left, kReaderLook), found)) return;
  }
}

int CmService::close(int descriptor) noexcept {
  const CancelShield shield;
  if (forked()) return ::close(descriptor);
  const std::lock_guard guard(lock_);
  CmFile* file = endnode_.file_of(descriptor);
  if (file == nullptr) return -EBADF;
  endnode_.close(clock_.now(), *file);
  return 0;
}

void CmService::end_all() noexcept {
  if (forked()) return;
  const std::unique_lock guard(lock_, kLockAtExit);
  if (guard.owns_lock()) endnode_.destroy_all(clock_.now());
}

void CmService::explain(const CmFailure& failure) noexcept {
  if (!explains_) return;
  const bool silent = failure.status == -ETIMEDOUT && faults_ != nullptr;
  static_cast<void>(with_memory([&] {
    log_write(LogLevel::kWarn,
              fmt::format("rdma_cm: {}{}", describe(failure), silent ? faults_() : std::string()));
  }));
}

void CmService::explain(std::span<const std::byte> command, int error, std::string_view why) const noexcept {
  if (!explains_ || command.size() < sizeof(rdma_ucm_cmd_hdr)) return;
  const uint32_t number = read_body<rdma_ucm_cmd_hdr>(command).cmd;
  // A successful LISTEN is explained too, because a client has to wait for it.
  const bool listens = error == 0 && number == RDMA_USER_CM_CMD_LISTEN;
  if ((error == 0 && !listens && why.empty()) || Commands::is_probe(command)) return;
  std::array<char, 64> space{};
  const char* text = error == 0 ? "done" : strerror_r(error, space.data(), space.size());
  // The user asked for these lines, so they are written at any log level.
  static_cast<void>(with_memory([&] {
    log_write(listens ? LogLevel::kInfo : LogLevel::kWarn,
              why.empty() ? fmt::format("rdma_cm: {}: {}", command_name(number), text)
                          : fmt::format("rdma_cm: {}: {}: {}", command_name(number), text, why));
  }));
}

void CmService::note_destroyed(const Commands::Destroyed& id) noexcept {
  if (id.uid == 0 || id.events == 0) return;
  static_cast<void>(with_memory([&] {
    if (destroyers_.size() == kDestroyersMost) destroyers_.erase(destroyers_.begin());
    destroyers_.push_back({.thread = gettid(), .id = id, .since = clock_.now()});
  }));
}

void CmService::tell_waits(Instant now) noexcept {
  for (CmFile& file : endnode_.files()) {
    if (file.waits_since == kNever || now - file.waits_since < kLongWait) continue;
    file.waits_since = kNever;  // one line for each wait
    static_cast<void>(with_memory([&] {
      const WaitText text = describe_wait(file);
      log_write(text.normal ? LogLevel::kInfo : LogLevel::kWarn, fmt::format("rdma_cm: {}", text.line));
    }));
  }
}

/// A thread that still sleeps within librdmacm's struct of the identifier waits for acknowledgements.
void CmService::tell_destroyers(Instant now) noexcept {
  static_cast<void>(with_memory([&] {
    std::erase_if(destroyers_, [&](const Destroyer& each) {
      if (now - each.since < kLongDestroy) return false;
      std::array<char, 256> line{};
      const UniqueFd file(::open(fmt::format("/proc/self/task/{}/syscall", each.thread).c_str(), O_CLOEXEC));
      const ssize_t got = file.valid() ? read(file.get(), line.data(), line.size()) : 0;
      if (got > 0 && waits_in(each.id.uid, std::string_view(line.data(), static_cast<size_t>(got))))
        log_write(LogLevel::kWarn, fmt::format("rdma_cm: {}", describe_destroy(each.id.events)));
      return true;
    });
  }));
}

// ---- the thread --------------------

Status CmService::start_thread() {
  const auto run = [](void* self) -> void* {
    static_cast<CmService*>(self)->run();
    return nullptr;
  };
  if (const int failed = start_worker(thread_, "weft-cm", run, this); failed != 0)
    return errno_error("the thread of connection management", failed);
  running_ = true;
  return {};
}

/// Under the lock. A restarted switch may have assigned another LID. A failed device counts as removed.
void CmService::take_device_events() noexcept {
  hca::AsyncEvent event;
  while (gsi_.next_event(event)) {
    if (event.kind == hca::EventKind::kDeviceFatal) endnode_.on_device(CmEvent::kDeviceRemoval);
    if (event.kind != hca::EventKind::kLidChange) continue;
    hca::PortState port;
    if (device_.query_port(identity_.port, port) != hca::Answer::kOk) continue;
    identity_.lid = port.info.lid;
    addresses_.set_lid(identity_.lid);
    endnode_.on_device(CmEvent::kAddressChange);
  }
}

/// Under the lock.
void CmService::turn() noexcept {
  if (std::exchange(device_has_events_, false)) take_device_events();
  gsi_.clear();
  gsi_.arm();
  GsiDatagram datagram;
  for (int left = kDatagramsPerTurn; left > 0 && gsi_.receive(datagram); --left)
    endnode_.receive(clock_.now(), datagram.from, datagram.mad);
  const Instant now = clock_.now();
  endnode_.poll(now);
  if (explains_) {
    tell_waits(now);
    tell_destroyers(now);
  }
  rests_until_ = endnode_.deadline();
}

void CmService::run() noexcept {
  for (;;) {
    Instant until;
    {
      const std::lock_guard guard(lock_);
      turn();
      until = rests_until_;
    }
    if (stop_) return;
    const Instant now = clock_.now();
    if (until <= now) continue;
    const Duration wait = std::min(until - now, sleep_max_);
    const timespec timeout{wait / 1s, (wait % 1s).count()};
    std::array<pollfd, 3> fds{pollfd{kick_.fd(), POLLIN, 0}, pollfd{gsi_.fd(), POLLIN, 0},
                              pollfd{gsi_.events_fd(), POLLIN, 0}};
    if (ppoll(fds.data(), fds.size(), &timeout, nullptr) <= 0) continue;
    if (fds[0].revents != 0) kick_.clear();
    if (fds[2].revents != 0) device_has_events_ = true;
  }
}

}  // namespace weft::rdma_cm
