// rdma_cm/cm_service.h -- connection management of a process: the endnode with QP1, a lock, and the thread
// that serves it. What the preloaded object calls ends here.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/worker_thread.h"
#include "hca/device.h"
#include "hca/fork_guard.h"
#include "rdma_cm/commands.h"
#include "rdma_cm/gsi_port.h"
#include "rdma_cm/host_ports.h"
#include "rdma_cm/node_addresses.h"
#include "rdma_cm/process_mark.h"

namespace weft::rdma_cm {

struct CmServiceConfig {
  NodeIdentity identity{};
  std::string addresses{};   // own IP addresses with commas between, or nothing
  std::string ports_file{};  // where endnodes of this host tell each other of their ports; empty: nowhere
  bool host_of_its_own =
      false;  // has a name that stays: its wildcard address is not that of the host's others
  bool explains = false;
  /// What else is to be said where a peer does not answer; null: nothing.
  std::function<std::string()> faults{};
  Duration reader_wait = 200ms;  // 0 or more; await_reader() says for what
};

/// Any thread. Lives as long as the device.
class CmService final : NodeView {
 public:
  /// @param device  whose first port is up
  static Result<std::unique_ptr<CmService>> start(hca::Device& device, RandomSource& random,
                                                  const CmServiceConfig& config);
  ~CmService() override;
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  /// In a child after fork() nothing works any more.
  [[nodiscard]] bool forked() const noexcept { return guard_.forked(); }
  /// A descriptor for a program, or minus an errno.
  [[nodiscard]] int open();
  /// A command. @return `bytes`, or minus an errno. pthread_cancel() ends a wait for an event, and no other
  /// command.
  [[nodiscard]] ssize_t write(int descriptor, const void* data, size_t bytes);
  /// The program closes the descriptor and keeps a copy, by which it is known from now on.
  int move(int descriptor, int copy) noexcept;
  /// Call before the descriptor is closed. Programs such as rping close their channel while their thread for
  /// events is between two waits. That thread gets up to `reader_wait` to come back: it then waits until the
  /// process ends, as in the kernel, where EBADF would make the program fail. A thread that has ended, or a
  /// descriptor that is O_NONBLOCK, is not waited for.
  void await_reader(int descriptor) noexcept;
  /// Closes the descriptor and ends what hangs on it.
  int close(int descriptor) noexcept;
  /// The process ends: its connections do too, and their peers are told. Nothing happens when the lock is not
  /// to be had soon, for exit() may be called anywhere.
  void end_all() noexcept;
  /// Puts the counters on a page that outlives this, as `cm*`; false when it is full.
  [[nodiscard]] bool publish(StatsPage& page);

 private:
  CmService(hca::Device& device, RandomSource& random, const CmServiceConfig& config);
  Status start_thread();
  void run() noexcept;
  void turn() noexcept;
  void take_device_events() noexcept;
  void explain(std::span<const std::byte> command, int error, std::string_view why) const noexcept;

  [[nodiscard]] NodeIdentity identity() noexcept override { return identity_; }
  [[nodiscard]] bool owns(const IpAddress& address) noexcept override { return addresses_.owns(address); }
  [[nodiscard]] IpAddress own(uint8_t family) noexcept override { return addresses_.own(family); }
  [[nodiscard]] int hold_port(uint16_t port_space, const IpAddress& address, bool shared) noexcept override {
    return host_of_its_own_ && address.is_any() ? 0 : ports_.take(port_space, address, shared);
  }
  void release_port(uint16_t port_space, const IpAddress& address) noexcept override {
    if (!host_of_its_own_ || !address.is_any()) ports_.give_back(port_space, address);
  }
  [[nodiscard]] bool port_taken(uint16_t port_space, const IpAddress& address) noexcept override {
    return ports_.taken(port_space, address);
  }
  [[nodiscard]] Presence presence(const MadProcess& process) noexcept override {
    return presence_of(process, identity_.process);
  }
  void explain(const CmFailure& failure) noexcept override;
  void fail_qp(uint32_t qpn) noexcept override { device_.fail_qp(Qpn(qpn)); }

  hca::Device& device_;
  MonotonicClock clock_;
  NodeIdentity identity_;
  NodeAddresses addresses_;
  HostPorts ports_;
  bool host_of_its_own_;
  bool explains_;
  std::function<std::string()> faults_;
  hca::ForkGuard guard_;
  WakeUp kick_;
  Duration reader_wait_;
  std::timed_mutex lock_;  // of everything below
  std::condition_variable_any reader_waits_;
  GsiPort gsi_;
  Endnode endnode_;
  Commands commands_;
  Instant rests_until_ = Instant::min();
  pthread_t thread_{};
  std::atomic<bool> stop_{false};
  bool running_ = false;
  bool device_has_events_ = false;  // the service's own thread alone
};

}  // namespace weft::rdma_cm
