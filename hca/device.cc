#include "hca/device.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "base/stats_page.h"
#include "hca/context.h"
#include "hca/device_core.h"

namespace weft::hca {
namespace {

constexpr Duration kFinishPause = 50us;

}  // namespace

Device::Device(const DeviceConfig& config, const Clock& clock, RandomSource& random,
               RandomSource& link_random)
    : core_(std::make_unique<DeviceCore>(config, clock, random, link_random)) {}
Device::~Device() = default;

Status Device::add_link(const fabric::LinkEndpointConfig& config) {
  const Result<fabric::CellPort*> port = core_->ports.add_link(config);
  if (!port) return port.error();
  core_->attach(*port.value());
  return {};
}

void Device::attach(fabric::CellPort& port) {
  core_->ports.add(port);
  core_->attach(port);
}

adapter::NicKeys& Device::use_directory(adapter::KeyDirectory& directory) {
  const Hold hold(*core_);
  return core_->use_directory(directory);
}

Spaces& Device::use_manager(adapter::MemoryManager& manager) {
  const Hold hold(*core_);
  core_->spaces = &core_->adapter.use_manager(manager);
  spaces_ = std::make_unique<Spaces>(*core_, *core_->spaces);
  return *spaces_;
}

void Device::set_helper(Helper* helper) noexcept {
  core_->set_helper(helper);
}

void Device::set_failure_sink(FailureSink* sink) noexcept {
  core_->failures.set_sink(sink);
}

bool Device::publish(StatsPage& page, std::string_view prefix) {
  const Hold hold(*core_);
  return page.publish(std::string(prefix) + ".device", core_->counters) &&
         core_->adapter.publish(page, prefix) && core_->qps.publish(page) && core_->failures.publish(page) &&
         core_->publish_windows(page);
}

bool Device::wait_for_ports(Duration limit) {
  if (core_->forked()) return false;
  const Instant until = core_->clock.now() + limit;
  std::vector<pollfd> fds;
  for (bool up = false;;) {
    const Instant now = core_->clock.now();
    Instant next = std::min(until, core_->tend(now, true));
    if (up) return true;  // peers find this process under its LID
    {
      const Hold hold(*core_);
      core_->caller_turn(now);
      up = true;
      for (uint32_t i = 1; i <= ports(); ++i) up &= core_->adapter.ports().up(static_cast<uint8_t>(i));
      if (up) continue;
      next = core_->prepare_ports() ? std::min(next, core_->adapter.deadline()) : now;
    }
    if (now >= until) return false;
    fds.clear();
    core_->wait_fds(fds);
    const Duration wait = std::max(next > now ? next - now : Duration{}, Duration{});
    const timespec timeout{wait / 1s, (wait % 1s).count()};
    static_cast<void>(ppoll(fds.data(), fds.size(), &timeout, nullptr));
  }
}

MissingPort Device::missing_port() {
  return core_->missing_port();
}

Made<Context> Device::open() {
  if (core_->forked()) return Refusal(Reason::kForked);
  std::shared_ptr<EventFd> descriptor = EventFd::create();
  if (descriptor == nullptr) return Refusal(Reason::kNoDescriptor);
  auto context = std::make_unique<Context>(*core_, std::move(descriptor));
  const Hold hold(*core_);
  core_->events.add(*context);
  return context.release();
}

void Device::close(Context* context) noexcept {
  const std::unique_ptr<Context> owned(context);
  if (core_->forked()) return;
  Object* ended = nullptr;
  bool last = false;
  for (uint32_t look = 0;; ++look) {
    {
      const Hold hold(*core_);
      const bool all = context->release_all(ended);
      if (all || look == kTransferLooks) {
        core_->events.forget(*context);
        last = !core_->events.has_contexts();
        break;
      }
    }
    pause_for_transfer();
  }
  if (last) static_cast<void>(core_->pass_on(core_->clock.now() + kFinishMax));
  while (ended != nullptr) {
    const std::unique_ptr<Object> owned_object(ended);
    ended = ended->refs.older;
  }
}

bool Device::finish() noexcept {
  const int error = errno;  // a signal handler may call this
  const bool finished = !core_->forked() && answers(kFinishMax) && core_->finish(kFinishMax);
  errno = error;
  return finished;
}

bool Device::answers(Duration limit) noexcept {
  const Instant until = core_->clock.now() + limit;
  while (!core_->lock.try_lock()) {
    if (core_->clock.now() >= until) return false;
    std::this_thread::sleep_for(kFinishPause);
  }
  core_->lock.unlock();
  return true;
}

const adapter::AdapterLimits& Device::limits() const noexcept {
  return core_->adapter.limits();
}

uint32_t Device::ports() const noexcept {
  return core_->ports.count();
}

Answer Device::query_port(uint8_t port, PortState& out) noexcept {
  if (core_->forked()) return Answer::kForked;
  if (port == 0 || port > ports()) return Answer::kNoSuchObject;
  Hold hold(*core_);
  core_->caller_turn(hold.now());
  const adapter::Ports& ports = core_->adapter.ports();
  out.up = ports.up(port);
  const fabric::CellPortInfo* info = ports.info(port);
  out.info = info != nullptr ? *info : fabric::CellPortInfo{};
  return Answer::kOk;
}

void Device::fail_qp(Qpn number) noexcept {
  if (core_->forked()) return;
  const Hold hold(*core_);
  Object* found = core_->find_qp(number);
  if (found == nullptr) return;
  static_cast<Qp*>(found)->fail();
  core_->caller_turn(hold.now());
}

uint64_t Device::count(DeviceCounter counter) const noexcept {
  return core_->counters.get(counter);
}

uint64_t Device::count(adapter::AdapterCounter counter) const noexcept {
  return core_->adapter.counters().get(counter);
}

uint64_t Device::count(uint8_t port, adapter::AdapterPortCounter counter) const noexcept {
  return core_->adapter.ports().find(port)->counters.get(counter);
}

Helped Device::help(bool links_ready, bool stays) noexcept {
  return core_->help(links_ready, stays);
}

void Device::wait_fds(std::vector<pollfd>& out) {
  core_->wait_fds(out);
}

}  // namespace weft::hca
