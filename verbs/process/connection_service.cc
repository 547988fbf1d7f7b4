// The connection management of this process. The preloaded object (preload/) finds these functions by name;
// their symbol version is node WEFT_1.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "rdma_cm/cm_service.h"
#include "verbs/addresses.h"
#include "verbs/c_call.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/fault_note.h"
#include "verbs/process/per_process.h"
#include "verbs/process/process_node.h"
#include "verbs/process/system_tree.h"

namespace weft::verbs {
namespace {

PerProcess<rdma_cm::CmService>& current() noexcept {
  static PerProcess<rdma_cm::CmService>& instance = PerProcess<rdma_cm::CmService>::make();
  return instance;
}

/// Runs before the process has other threads: if fork() happened while another thread created the object, the
/// child would wait for that thread for ever.
[[gnu::constructor]] void make_service_at_load() {
  static_cast<void>(current());
}

/// File that lists the ports in use. It stands beside the switch's socket, if that is a file. There is one
/// per network namespace, because IP addresses belong to a namespace.
std::string ports_file(const std::string& endpoint) {
  const size_t path = endpoint.find('/');
  const bool is_file = endpoint.starts_with("shm:") || endpoint.starts_with("ipc:");
  if (!is_file || path == std::string::npos) return {};
  return fmt::format("{}/ports-{:016x}", endpoint.substr(path, endpoint.rfind('/') - path),
                     rdma_cm::NodeAddresses::host_number());
}

Result<std::unique_ptr<rdma_cm::CmService>> start() {
  ProcessNode* node = ProcessNode::get();
  if (node == nullptr) return Error{"no fabric"};
  const hca::PortState port = node->port();
  const ibv_gid gid = gid_at(*node, 1, 0);
  const char* addresses = secure_getenv("WEFT_IP");
  rdma_cm::CmServiceConfig config{
      .identity = {.guid = node->guid(),
                   .lid = port.info.lid,
                   .mtu = static_cast<uint8_t>(mtu_of(port.info.cell_payload_bytes))},
      .addresses = addresses != nullptr ? addresses : "",
      .ports_file = ports_file(node->settings().endpoint),
      .host_of_its_own = node->settings().lid != kLidNone,
      .explains = debug_names("cm"),
      .faults = [node] { return fault_note(node->settings().endpoint, node->guid()); }};
  std::memcpy(config.identity.gid.data(), gid.raw, config.identity.gid.size());
  Result<std::unique_ptr<rdma_cm::CmService>> made =
      rdma_cm::CmService::start(node->device(), node->random(), config);
  if (made && node->page() != nullptr && !(*made)->publish(*node->page()))
    explain("the counters of connection management do not fit the page");
  return made;
}

/// The service of this process, or of this child after fork(); null when there is no fabric.
rdma_cm::CmService* service() {
  return current().get([]() -> std::unique_ptr<rdma_cm::CmService> {
    Result<std::unique_ptr<rdma_cm::CmService>> made = start();
    if (made) return std::move(*made);
    explain("no connection management: {}", made.error().text);
    return nullptr;
  });
}

/// The directory in which this process shows its device; empty when WEFT_SYSFS is not set. Each process has
/// its own, even within one `weft run`. The inode of the PID namespace distinguishes equal process ids of two
/// namespaces.
std::string system_root() {
  const char* all = secure_getenv("WEFT_SYSFS");
  struct stat space {};
  if (all == nullptr || stat("/proc/self/ns/pid", &space) != 0) return {};
  return fmt::format("{}/{}.{}", all, space.st_ino, getpid());
}

/// Runs at exit() or the end of main() and does what a kernel does for a process that has ended. Does nothing
/// if exit() was called by a signal handler that interrupted a call of the device.
[[gnu::destructor]] void end_orderly() noexcept {
  ProcessNode* node = ProcessNode::joined();
  if (node == nullptr || !node->device().answers(hca::kFinishMax)) return;
  rdma_cm::CmService* known = current().last();
  if (known != nullptr) known->end_all();
  static_cast<void>(node->device().finish());
  remove_system_tree(*node);
}

}  // namespace
}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): the C calls below are all of this file

/// A descriptor that takes the commands of /dev/infiniband/rdma_cm; -1 with errno.
WEFT_VERBS_API int weft_cm_open() {
  return guarded(-1, [] {
    weft::rdma_cm::CmService* known = service();
    const int descriptor = known != nullptr ? known->open() : -ENODEV;
    return descriptor >= 0 ? descriptor : failed(-descriptor);
  });
}

WEFT_VERBS_API ssize_t weft_cm_write(int descriptor, const void* data, size_t bytes) {
  weft::rdma_cm::CmService* known = current().last();
  const ssize_t done = known != nullptr ? known->write(descriptor, data, bytes) : -EBADF;
  return done >= 0 ? done : failed(static_cast<int>(-done));
}

/// After dup() of the channel and close() of `descriptor`, the copy takes over the channel.
WEFT_VERBS_API int weft_cm_move(int descriptor, int copy) {
  weft::rdma_cm::CmService* known = current().last();
  const int done = known != nullptr ? known->move(descriptor, copy) : -EBADF;
  return done == 0 ? 0 : failed(-done);
}

/// Call before weft_cm_close(), while write() still leads to the channel.
WEFT_VERBS_API void weft_cm_await_reader(int descriptor) {
  if (weft::rdma_cm::CmService* known = current().last(); known != nullptr) known->await_reader(descriptor);
}

WEFT_VERBS_API int weft_cm_close(int descriptor) {
  weft::rdma_cm::CmService* known = current().last();
  const int done = known != nullptr ? known->close(descriptor) : -EBADF;
  return done == 0 ? 0 : failed(-done);
}

/// Writes the files that show our device below /sys/class, or renews their counters. Stores in `out` the
/// directory that stands for /sys. Returns 0, or -1 when there is none.
WEFT_VERBS_API int weft_system_root(char* out, size_t bytes) {
  return guarded(-1, [&] {
    const std::string root = system_root();
    ProcessNode* node = root.empty() || root.size() >= bytes ? nullptr : ProcessNode::get();
    if (node == nullptr) return -1;
    if (!write_system_tree(*node, root)) explain("WEFT_SYSFS: {} cannot be written", root);
    std::memcpy(out, root.c_str(), root.size() + 1);
    return 0;
  });
}
