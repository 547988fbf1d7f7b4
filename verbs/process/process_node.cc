#include "verbs/process/process_node.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "adapter/memory/fault_handler.h"
#include "base/endian.h"
#include "base/environment.h"
#include "base/guarded_fd.h"
#include "base/log.h"
#include "base/process_limits.h"
#include "rdma_cm/node_addresses.h"
#include "verbs/explain/explain.h"
#include "verbs/process/per_process.h"

namespace weft::verbs {
namespace {

/// Per wait for the port. A switch on this machine answers within a millisecond, a switch over tcp within
/// tens of milliseconds.
constexpr Duration kJoinMax = 1s;
/// How long to wait for a switch that answers and cannot admit us yet, because hundreds of processes start at
/// once or because freed LIDs are still reserved. It is longer than hundreds of ranks take to start on one
/// machine, and half the time for which a freed LID is reserved.
constexpr Duration kLaterMax = 30s;
/// Entries of a process's page: its counters and its QPs.
constexpr uint32_t kPageEntries = 2528;
/// Descriptors that joining needs: two for the helper thread, one each for page and link, and spare ones for
/// use during the join.
constexpr size_t kDescriptors = 8;
/// Processes of the same name that can have a page each.
constexpr uint32_t kSameNameMax = 256;

PerProcess<ProcessNode>& current() noexcept {
  static PerProcess<ProcessNode>& instance = PerProcess<ProcessNode>::make();
  return instance;
}

/// Runs before the process has other threads: if fork() happened while another thread created the object, the
/// child would wait for that thread for ever.
[[gnu::constructor]] void make_node_at_load() {
  static_cast<void>(current());
}

/// The link of NIC `nic`. GUID, LID and lasting name are those of the first one; the switch assigns the
/// others.
fabric::LinkEndpointConfig endpoint_config(const Settings& settings, uint8_t nic) {
  fabric::LinkEndpointConfig config;
  const auto& more = settings.more_endpoints;
  config.endpoint = nic == 0 || more.empty() ? settings.endpoint : more[(nic - 1U) % more.size()];
  config.curve_secret_file = settings.curve_secret;
  config.curve_server_file = settings.curve_server;
  config.silence = settings.silence;
  config.link.any_port = nic != 0 || settings.lid == kLidNone || settings.identity != 0;
  if (nic == 0) {
    config.link.guid = settings.guid;
    config.link.lid = settings.lid;
    config.link.identity = settings.identity;
  }
  config.link.cell_payload_bytes = settings.cell_payload_bytes;
  config.link.flit_payload_bytes = settings.flit_payload_bytes;
  return config;
}

/// A file there is memory of a device, such as a PCI BAR: another kernel may share it, so no lock in it says
/// that the peer lives.
constexpr std::string_view kDeviceMemory = "/sys/";

/// Keeps the program's actions for SIGSEGV and SIGBUS beside our fault handler: the object that `weft run`
/// preloads sees when the program sets them (preload/hooks_signals.cc). Without that object, a program that
/// sets an action replaces our handler, and each thread finds that out by itself.
void keep_programs_signals() noexcept {
  using Keep = void (*)(decltype(&adapter::set_program_action), void (*)());
  const auto keep = reinterpret_cast<Keep>(dlsym(RTLD_DEFAULT, "weft_preload_keep_signals"));
  if (keep == nullptr || !adapter::install_fault_handler()) return;
  keep(adapter::set_program_action, [] { adapter::forget_guard(); });
}

}  // namespace

ProcessNode::ProcessNode(const Settings& settings)
    : settings_(settings),
      failure_lines_(settings.endpoint),
      device_({.guid = settings.guid,
               .strict_memory = settings.strict_memory,
               .direct_programs = settings.direct_dir,
               .direct_file = settings.direct_file,
               .direct_file_side = settings.direct_file_side,
               .direct_file_locks = !settings.direct_file.starts_with(kDeviceMemory),
               .nics = settings.adapters},
              clock_, random_, link_random_),
      helper_(device_, clock_) {
  if (explains()) device_.set_failure_sink(&failure_lines_);
  if (settings.adapters > 1) keys_.serve(device_.use_directory(keys_));
}

LongWaits* ProcessNode::waits() noexcept {
  return explains() && !forked() ? &failure_lines_.waits() : nullptr;
}

ProcessNode* ProcessNode::joined() noexcept {
  return current().known();
}

ProcessNode* ProcessNode::get() {
  return current().get([]() -> std::unique_ptr<ProcessNode> {
    // Without WEFT_FABRIC the program may only be looking for hardware, so nothing is printed.
    if (environment_variable("WEFT_FABRIC").empty()) {
      explain("WEFT_FABRIC is not set: no device");
      return nullptr;
    }
    Result<Settings> settings = read_settings();
    if (!settings) {
      explain_once(fmt::format("no device: {}", settings.error().text));
      return nullptr;
    }
    Result<std::unique_ptr<ProcessNode>> made = join(*settings);
    if (made) return std::move(*made);
    explain_once(fmt::format("no device: {}", made.error().text));
    return nullptr;
  });
}

Result<std::unique_ptr<ProcessNode>> ProcessNode::join(const Settings& settings) {
  // The preloaded object, if loaded, keeps the program from closing our descriptors.
  DescriptorKeeper keeper;
  keeper.keep = reinterpret_cast<decltype(keeper.keep)>(dlsym(RTLD_DEFAULT, "weft_keep_descriptor"));
  keeper.keeps = reinterpret_cast<decltype(keeper.keeps)>(dlsym(RTLD_DEFAULT, "weft_keeps_descriptor"));
  guard_descriptors(keeper);
  log_setup(settings.name, explains() ? LogLevel::kInfo : LogLevel::kError, LogTime::kOfDay);
  std::vector<fabric::LinkEndpointConfig> endpoints;
  for (uint8_t nic = 0; nic < settings.adapters; ++nic) {
    endpoints.push_back(endpoint_config(settings, nic));
    if (Status good = fabric::check_link_endpoint(endpoints.back()); !good) return good.error();
  }
  if (Status room = check_spare_descriptors(kDescriptors + settings.adapters - 1U); !room)
    return room.error();
  std::unique_ptr<ProcessNode> node(new ProcessNode(settings));  // tidy: private constructor
  keep_programs_signals();
  if (Status opened = node->open_page(); !opened)
    explain("the tools will not see this program: {}", opened.error().text);
  for (const fabric::LinkEndpointConfig& endpoint : endpoints) {
    if (Status added = node->device_.add_link(endpoint); !added) return added.error();
  }
  if (Status up = node->wait_for_port(); !up) return up.error();
  node->guid_ = node->port().info.guid;
  node->failure_lines_.set_guid(node->guid_);
  node->show_guids();
  return node;
}

Status ProcessNode::wait_for_port() {
  const Instant until = clock_.now() + kLaterMax;
  while (!device_.wait_for_ports(kJoinMax)) {
    const hca::MissingPort missing = device_.missing_port();
    if (missing.later && clock_.now() < until) {
      explain("{}: waiting for the switch: {}", settings_.endpoint, missing.why);
      continue;
    }
    if (missing.refusal == LinkRefusal::kLidTaken && settings_.identity != 0) return name_in_use();
    if (!missing.why.empty()) return Error{fmt::format("{}: {}", settings_.endpoint, missing.why)};
    return Error{settings_.endpoint + " does not answer; is the fabric up?"};
  }
  return {};
}

/// Names the process that uses the name: the first process of a name has the first page.
Error ProcessNode::name_in_use() const {
  const std::optional<pid_t> holder =
      settings_.dir.empty() ? std::nullopt
                            : stats_page_holder(settings_.dir + "/" + settings_.name + ".stats");
  const std::string by = holder.value_or(0) != 0 ? fmt::format("pid {}", *holder) : "another process";
  return Error{
      fmt::format("name '{}' is in use by {}: a name has one process at a time", settings_.name, by)};
}

Status ProcessNode::open_page() {
  if (settings_.dir.empty()) return {};
  const std::string own = settings_.dir + "/" + settings_.name;
  for (uint32_t i = 1; i <= kSameNameMax && !page_.has_value(); ++i) {
    const std::string path = i == 1 ? own + ".stats" : fmt::format("{}-{}.stats", own, i);
    if (stats_page_holder(path).has_value()) continue;
    Result<StatsPage> made = StatsPage::create_held(path, kPageEntries);
    if (made) {
      page_ = std::move(*made);
      failure_lines_.set_page(path);
    } else if (!stats_page_holder(path).has_value()) {  // no other process took the page in between
      return made.error();
    }
  }
  if (!page_.has_value()) return Error{own + ".stats: too many processes of this name"};
  shown_guids_.push_back(page_->add("node.guid"));
  for (uint8_t port = 2; port <= settings_.adapters; ++port)
    shown_guids_.push_back(page_->add(fmt::format("node.guid.{}", port)));
  show_wanted_address();
  device_.publish(*page_, "adapter");
  if (settings_.adapters > 1) (void)keys_.publish(*page_);
  return {};
}

/// By the GUID of each port tools find the switch and port where it is.
void ProcessNode::show_guids() noexcept {
  for (size_t i = 0; i < shown_guids_.size(); ++i) {
    const Guid guid = port(static_cast<uint8_t>(i + 1)).info.guid;
    if (shown_guids_[i] != nullptr) shown_guids_[i]->store(guid.value(), std::memory_order_relaxed);
  }
}

/// Shows the IPv4 address that WEFT_IP sets. Without it tools derive the address from the LID.
void ProcessNode::show_wanted_address() {
  const char* wanted = secure_getenv("WEFT_IP");
  CounterCell* const shown = page_->add("node.ipv4");
  if (wanted == nullptr || shown == nullptr) return;
  const rdma_cm::IpAddress own = rdma_cm::NodeAddresses(clock_, kLidNone, wanted).own(4);
  if (!own.same_ip(rdma_cm::ipv4_of(kLidNone)))
    shown->store(load_be<uint32_t>(&own.ip[12]), std::memory_order_relaxed);
}

hca::PortState ProcessNode::port(uint8_t number) noexcept {
  hca::PortState out;
  static_cast<void>(device_.query_port(number, out));
  return out;
}

}  // namespace weft::verbs
