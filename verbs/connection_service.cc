// The connection management of this process, for the preloaded object (preload/): names of node WEFT_1.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "rdma_cm/cm_service.h"
#include "verbs/addresses.h"
#include "verbs/c_call.h"
#include "verbs/explain.h"
#include "verbs/process_node.h"
#include "verbs/system_tree.h"

namespace weft::verbs {
namespace {

/// Never destroyed before the process ends: threads of the program may use it until then.
struct Current {
  std::mutex starting;
  std::atomic<rdma_cm::CmService*> service{nullptr};
};
Current& current() noexcept {
  static auto* instance = std::make_unique<Current>().release();
  return *instance;
}

ibv_mtu mtu_of(const hca::PortState& port) noexcept {
  ibv_mtu mtu = IBV_MTU_256;
  for (const ibv_mtu larger : {IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (mtu_bytes(larger) <= port.info.cell_payload_bytes) mtu = larger;
  }
  return mtu;
}

/// WEFT_DEBUG names us.
bool explains_cm() noexcept {
  const char* words = std::getenv("WEFT_DEBUG");
  return words != nullptr && (',' + std::string(words) + ',').find(",cm,") != std::string::npos;
}

Result<std::unique_ptr<rdma_cm::CmService>> start() {
  ProcessNode* node = ProcessNode::get();
  if (node == nullptr) return Error{"no fabric"};
  const hca::PortState port = node->port();
  const ibv_gid gid = own_gid(*node);
  rdma_cm::NodeIdentity identity{
      .guid = node->guid(), .lid = port.info.lid, .mtu = static_cast<uint8_t>(mtu_of(port))};
  std::memcpy(identity.gid.data(), gid.raw, identity.gid.size());
  const char* addresses = std::getenv("WEFT_IP");
  return rdma_cm::CmService::start(node->device(), node->random(), identity,
                                   addresses != nullptr ? addresses : "", explains_cm());
}

/// The service of this process, or of this child after fork(); null when there is no fabric.
rdma_cm::CmService* service() {
  const auto usable = [](rdma_cm::CmService* one) { return one != nullptr && !one->forked(); };
  rdma_cm::CmService* known = current().service.load(std::memory_order_acquire);
  if (usable(known)) return known;
  const std::lock_guard guard(current().starting);
  known = current().service.load(std::memory_order_acquire);
  if (usable(known)) return known;
  Result<std::unique_ptr<rdma_cm::CmService>> made = start();
  if (!made) {
    explain("no connection management: {}", made.error().text);
    return nullptr;
  }
  known = made->release();
  current().service.store(known, std::memory_order_release);
  return known;
}

const char* system_root() noexcept {
  return std::getenv("WEFT_SYSFS");
}

/// exit(), or the end of main(): what a kernel does for a process that has ended is done before it ends.
[[gnu::destructor]] void end_connections() noexcept {
  rdma_cm::CmService* known = current().service.load(std::memory_order_acquire);
  if (known != nullptr) known->end_all();
}

}  // namespace
}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): the C calls below are all of this file

/// A descriptor that takes the commands of /dev/infiniband/rdma_cm; -1 with errno.
WEFT_VERBS_API int weft_cm_open() {
  return guarded(-1, [] {
    weft::rdma_cm::CmService* known = service();
    const int descriptor = known != nullptr ? known->open() : -ENODEV;
    if (descriptor >= 0) return descriptor;
    errno = -descriptor;
    return -1;
  });
}

WEFT_VERBS_API ssize_t weft_cm_write(int descriptor, const void* data, size_t bytes) {
  weft::rdma_cm::CmService* known = current().service.load(std::memory_order_acquire);
  const ssize_t done = known != nullptr ? known->write(descriptor, data, bytes) : -EBADF;
  if (done >= 0) return done;
  errno = static_cast<int>(-done);
  return -1;
}

WEFT_VERBS_API int weft_cm_close(int descriptor) {
  weft::rdma_cm::CmService* known = current().service.load(std::memory_order_acquire);
  const int done = known != nullptr ? known->close(descriptor) : -EBADF;
  if (done == 0) return 0;
  errno = -done;
  return -1;
}

/// Writes the files that show our device below /sys/class, or their counters anew.
WEFT_VERBS_API void weft_show_device() {
  guarded(0, [] {
    ProcessNode* node = system_root() != nullptr ? ProcessNode::get() : nullptr;
    if (node != nullptr && !write_system_tree(*node, system_root()))
      explain("WEFT_SYSFS={}: cannot be written", system_root());
    return 0;
  });
}
