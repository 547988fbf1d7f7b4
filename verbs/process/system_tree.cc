#include "verbs/process/system_tree.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include "adapter/counters.h"
#include "adapter/port.h"
#include "base/clock.h"
#include "base/private_files.h"
#include "base/process_limits.h"
#include "verbs/addresses.h"
#include "verbs/process/identity.h"
#include "verbs/process/per_process.h"
#include "verbs/process/process_node.h"

namespace weft::verbs {
namespace {

namespace fs = std::filesystem;
using adapter::AdapterCounter;
using adapter::AdapterPortCounter;

/// Writes a file atomically, because readers and other writing threads may come at any time.
bool put(const fs::path& file, std::string_view text) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  static std::atomic<uint32_t> written{0};
  const fs::path next = file.string() + fmt::format(".{}.{}", getpid(), written.fetch_add(1));
  {
    const QuietFileSize quiet;
    std::ofstream out(next);
    out << text << '\n';
    if (!out.flush()) return false;
  }
  fs::rename(next, file, failed);
  return !failed;
}

std::string guid_text(Guid guid) {
  const uint64_t bits = guid.value();
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", bits >> 48, bits >> 32 & 0xFFFF, bits >> 16 & 0xFFFF,
                     bits & 0xFFFF);
}

std::string gid_text(const ibv_gid& gid) {
  std::string out;
  for (size_t i = 0; i < sizeof gid.raw; i += 2)
    out += fmt::format("{}{:02x}{:02x}", i != 0 ? ":" : "", gid.raw[i], gid.raw[i + 1]);
  return out;
}

/// Cells that passed the link: `all` without those between two QPs of the port. `looped` is read first, so
/// the difference is never negative.
uint64_t on_link(const hca::Device& device, uint8_t port, AdapterPortCounter all,
                 AdapterPortCounter looped) noexcept {
  const uint64_t inside = device.count(port, looped);
  return device.count(port, all) - inside;
}

/// A counter of a port under its InfiniBand name. A packet of these counters is a cell here; data is counted
/// in units of four bytes.
struct NamedCounter {
  const char* name;
  uint64_t (*value)(const hca::Device& device, uint8_t port);
};
constexpr uint64_t kDataUnitBytes = 4;
constexpr std::array<NamedCounter, 7> kCounters{{
    {"port_xmit_packets",
     [](const hca::Device& device, uint8_t port) {
       return on_link(device, port, AdapterPortCounter::kCellsSent, AdapterPortCounter::kCellsLooped);
     }},
    {"port_rcv_packets",
     [](const hca::Device& device, uint8_t port) {
       return on_link(device, port, AdapterPortCounter::kCellsReceived, AdapterPortCounter::kCellsLooped);
     }},
    {"port_xmit_data",
     [](const hca::Device& device, uint8_t port) {
       return on_link(device, port, AdapterPortCounter::kBytesSent, AdapterPortCounter::kBytesLooped) /
              kDataUnitBytes;
     }},
    {"port_rcv_data",
     [](const hca::Device& device, uint8_t port) {
       return on_link(device, port, AdapterPortCounter::kBytesReceived, AdapterPortCounter::kBytesLooped) /
              kDataUnitBytes;
     }},
    {"port_rcv_errors", [](const hca::Device& device,
                           uint8_t port) { return device.count(port, AdapterPortCounter::kBadCells); }},
    {"port_rcv_constraint_errors",
     [](const hca::Device& device, uint8_t port) {
       return device.count(port, AdapterPortCounter::kOtherPartition);
     }},
    {"link_downed",
     [](const hca::Device& device, uint8_t port) { return device.count(port, AdapterPortCounter::kDowns); }},
}};

/// How long written counters count as current: programs that look for a device read many of its files at
/// once.
constexpr Duration kFreshFor = 20ms;

/// Writes the files that do not change while the process runs.
bool put_device(ProcessNode& node, const fs::path& root) {
  const fs::path classes = root / "class";
  const fs::path nodes = root / "dev/infiniband";
  const std::string guid = guid_text(node.guid());
  const fs::path device = classes / "infiniband" / device_name();
  return put(nodes / "uverbs0", "") && put(nodes / "rdma_cm", "") &&
         put(classes / "infiniband_verbs/abi_version", "6") &&
         put(classes / "infiniband_verbs/uverbs0/ibdev", device_name()) &&
         put(classes / "infiniband_verbs/uverbs0/abi_version", "1") &&
         put(classes / "infiniband_verbs/uverbs0/dev", "231:192") &&
         put(classes / "misc/rdma_cm/abi_version", "4") && put(classes / "misc/rdma_cm/dev", "10:58") &&
         put(device / "node_type", "1: CA") && put(device / "node_guid", guid) &&
         put(device / "sys_image_guid", guid) && put(device / "fw_ver", kFirmware) &&
         put(device / "hw_rev", "0") && put(device / "hca_type", "Weft") &&
         put(device / "board_id", "Weft") && put(device / "node_desc", node.settings().name) &&
         put(device / "device/numa_node", "-1") &&
         put(device / "device/net/lo/ifindex", fmt::format("{}", if_nametoindex("lo"))) &&
         put(device / "device/vendor", fmt::format("{:#x}", kVendorId)) &&
         put(device / "device/device", fmt::format("{:#06x}", kVendorPart));
}

bool put_gids(ProcessNode& node, uint8_t number, const fs::path& port) {
  const bool roce = node.settings().roce;
  bool done = true;
  for (int index = 0; index < gid_count(node); ++index) {
    const std::string name = std::to_string(index);
    done = done && put(port / "gids" / name, gid_text(gid_at(node, number, index))) &&
           put(port / "gid_attrs/types" / name,
               gid_type_at(node, index) == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
    if (roce) done = done && put(port / "gid_attrs/ndevs" / name, "lo");
  }
  return done;
}

bool put_port(ProcessNode& node, uint8_t number, const fs::path& port) {
  const hca::PortState state = node.port(number);
  const bool roce = node.settings().roce;
  return put(port / "state", state.up ? "4: ACTIVE" : "1: DOWN") &&
         put(port / "phys_state", state.up ? "5: LinkUp" : "3: Disabled") &&
         put(port / "rate", "100 Gb/sec (4X EDR)") &&
         put(port / "lid", fmt::format("{:#x}", roce ? 0 : state.info.lid.value())) &&
         put(port / "sm_lid", fmt::format("{:#x}", roce ? 0 : kSubnetManagerLid)) &&
         put(port / "sm_sl", "0") && put(port / "lid_mask_count", "0") &&
         put(port / "cap_mask", fmt::format("{:#010x}", port_capabilities(roce))) &&
         put(port / "link_layer", roce ? "Ethernet" : "InfiniBand") && put_gids(node, number, port) &&
         put(port / "pkeys/0", fmt::format("{:#06x}", pkey_at(node, number, 0)));
}

/// Writes all counters of the enum E by their own names. `value(counter)` reads one.
template <class E, class Value>
bool put_counters(const fs::path& folder, Value&& value) {
  constexpr CounterNames<E> kNames = counter_labels(E{});
  bool put_all = true;
  for (size_t i = 0; i < kNames.size(); ++i)
    put_all &= put(folder / kNames[i], fmt::format("{}", value(static_cast<E>(i))));
  return put_all;
}

/// Those of a port have an InfiniBand name, or their own.
bool put_port_counters(const hca::Device& device, uint8_t number, const fs::path& port) {
  bool put_all = true;
  for (const NamedCounter& counter : kCounters)
    put_all &= put(port / "counters" / counter.name, fmt::format("{}", counter.value(device, number)));
  return put_all && put_counters<AdapterPortCounter>(port / "hw_counters", [&](AdapterPortCounter counter) {
           return device.count(number, counter);
         });
}

/// The tree written last. A child after fork() has another node and gets another tree.
struct Shown {
  ForkedMutex mutex;
  const ProcessNode* node = nullptr;
  std::string root;
  Instant fresh_until = Instant::min();
};
Shown& shown() {
  static Shown& instance = *std::make_unique<Shown>().release();
  return instance;
}

/// Runs before the process has other threads: if fork() happened while another thread created the object, the
/// child would wait for that thread for ever.
[[gnu::constructor]] void make_tree_at_load() {
  static_cast<void>(shown());
}

}  // namespace

bool write_system_tree(ProcessNode& node, const std::string& root) {
  Shown& last = shown();
  const std::lock_guard one_at_a_time(last.mutex);
  const fs::path ports = fs::path(root) / "class/infiniband" / device_name() / "ports";
  const Instant now = MonotonicClock().now();
  // The directory may be missing: if a process outlives its `weft run`, a later run may remove the
  // tree.
  if (last.node != &node || access(ports.c_str(), F_OK) != 0) {
    if (!put_device(node, root)) return false;
    last.node = &node;
    last.root = root;
  } else if (now < last.fresh_until) {
    return true;
  }
  const hca::Device& device = node.device();
  if (!put_counters<AdapterCounter>(ports.parent_path() / "hw_counters",
                                    [&](AdapterCounter counter) { return device.count(counter); }))
    return false;
  for (uint32_t i = 1; i <= device.ports(); ++i) {
    const fs::path port = ports / std::to_string(i);
    const auto number = static_cast<uint8_t>(i);
    if (!put_port_counters(device, number, port) || !put_port(node, number, port)) return false;
  }
  last.fresh_until = now + kFreshFor;
  return true;
}

void remove_system_tree(const ProcessNode& node) noexcept {
  const Shown& last = shown();
  if (last.node == &node) remove_tree(AT_FDCWD, last.root);
}

}  // namespace weft::verbs
