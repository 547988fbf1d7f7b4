// rdma_cm/cm_service.h -- connection management of a process: the endnode with QP1, a lock, and the service
// thread. The preloaded object passes the program's calls to it.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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
  std::string addresses{};   // own IP addresses, separated by commas; may be empty
  std::string ports_file{};  // file by which endnodes of this host share their ports; empty: none
  // The endnode has a permanent name: its wildcard address does not include the host's other endnodes.
  bool host_of_its_own = false;
  bool explains = false;
  /// Text to append when a peer does not answer; null: none.
  std::function<std::string()> faults{};
  Duration reader_wait = 200ms;  // 0 or more; see await_reader()
  Duration sleep_max = 500ms;    // a lost wake-up of the service's thread costs at most this
};

/// Any thread. Must end before the device.
class CmService final : NodeView {
 public:
  /// @param device  its first port must be up
  static Result<std::unique_ptr<CmService>> start(hca::Device& device, RandomSource& random,
                                                  const CmServiceConfig& config);
  ~CmService() override;
  CmService(const CmService&) = delete;
  CmService& operator=(const CmService&) = delete;

  /// True in a child after fork(). There all calls fail.
  [[nodiscard]] bool forked() const noexcept { return guard_.forked(); }
  /// Opens a channel. @return a descriptor for the program, or a negative errno.
  [[nodiscard]] int open();
  /// Carries out a command. @return `bytes`, or a negative errno. pthread_cancel() ends a wait for an event,
  /// but no other command.
  [[nodiscard]] ssize_t write(int descriptor, const void* data, size_t bytes);
  /// The program closes the descriptor and keeps `copy`, which names the channel from now on.
  int move(int descriptor, int copy) noexcept;
  /// Call before the descriptor is closed. Programs such as rping close their channel while their event
  /// thread is between two waits. This call gives that thread up to `reader_wait` to return to its wait. The
  /// thread then waits until the process ends, as in the kernel; EBADF would make the program fail. Returns
  /// at once if the thread has ended or the descriptor is O_NONBLOCK.
  void await_reader(int descriptor) noexcept;
  /// Closes the descriptor and destroys the channel's identifiers.
  int close(int descriptor) noexcept;
  /// The process ends: ends its connections and tells their peers. Does nothing if the lock is not free
  /// within 50 ms, because exit() may be called anywhere.
  void end_all() noexcept;
  /// Publishes the counters as `cm*` on a page that outlives this object. False when the page is full.
  [[nodiscard]] bool publish(StatsPage& page);

 private:
  CmService(hca::Device& device, RandomSource& random, const CmServiceConfig& config);
  Status start_thread();
  void run() noexcept;
  void turn() noexcept;
  void take_device_events() noexcept;
  void explain(std::span<const std::byte> command, int error, std::string_view why) const noexcept;
  // Long waits of the program, with WEFT_DEBUG=cm.
  class Waiting;
  void note_destroyed(const Commands::Destroyed& id) noexcept;
  void tell_waits(Instant now) noexcept;
  void tell_destroyers(Instant now) noexcept;

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
  Duration sleep_max_;
  std::timed_mutex lock_;  // protects everything below
  std::condition_variable_any reader_waits_;
  GsiPort gsi_;
  Endnode endnode_;
  Commands commands_;
  /// A thread that has destroyed an identifier: librdmacm may keep it until all events are acknowledged.
  struct Destroyer {
    pid_t thread = 0;
    Commands::Destroyed id;
    Instant since{};
  };
  static constexpr size_t kDestroyersMost = 16;
  std::vector<Destroyer> destroyers_;
  Instant rests_until_ = Instant::min();
  pthread_t thread_{};
  std::atomic<bool> stop_{false};
  bool running_ = false;
  bool device_has_events_ = false;  // used by the service's own thread only
};

}  // namespace weft::rdma_cm
