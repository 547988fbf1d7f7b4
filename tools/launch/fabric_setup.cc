#include "tools/launch/fabric_setup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <variant>

#include "base/private_files.h"
#include "base/process_limits.h"
#include "tools/launch/child_process.h"

namespace weft::tools {
namespace {

constexpr size_t kOwnDescriptors = 64;
constexpr size_t kStateBytes = 64 * 1024;
constexpr size_t kStateBytesPerNode = 320 * 1024;  // stats page, sockets, the first lines of a log
constexpr size_t kStateBytesPerPort = 16 * 1024;   // counters of one spare port

size_t node_count(const Topology& topology) {
  return topology.hosts.size() + topology.units.size() + topology.switches.size();
}

size_t spare_port_count(const Topology& topology) {
  size_t spare = 0;
  for (const SwitchNode& node : topology.switches) spare += node.spare_ports;
  return spare;
}

}  // namespace

size_t state_bytes_needed(const Topology& topology) {
  return kStateBytes + node_count(topology) * kStateBytesPerNode +
         spare_port_count(topology) * kStateBytesPerPort;
}

Status FabricSetup::claim() {
  Result<StateDir> dir = StateDir::create(topology_.fabric);
  if (!dir.ok()) return dir.error();
  if (Status locked = dir.value().lock(); !locked.ok()) return locked;
  dir_ = std::move(dir).value();
  clean_up_leftovers(*dir_, dir_->load());
  return check_room();
}

Status FabricSetup::check_room() const {
  // Descriptors of this process: two for each process, and the interfaces. The processes have the same limit;
  // a switch needs the most, four for each port.
  const size_t own = kOwnDescriptors + 4 * (node_count(topology_) + spare_port_count(topology_));
  if (Status allowed = allow_descriptors(own); !allowed.ok()) return allowed;
  return dir_->check_space(state_bytes_needed(topology_));
}

Status FabricSetup::make(int lifeline, LogLevel log_level, std::vector<NodeProcess>& nodes) {
  if (Status written = write_lids(); !written.ok()) return written;
  if (Status written = write_allow_files(); !written.ok()) return written;
  // Directory for the pages of programs that join a spare port, with or without weft run.
  const std::string programs = dir_->file("programs");
  if (mkdir(programs.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error("cannot make " + programs, errno);
  if (const Result<UniqueFd> ours = open_private_directory(AT_FDCWD, programs, "directory"); !ours.ok())
    return ours.error();
  keeper_.emplace(interface_tag(topology_.fabric));
  for (NodeCommand& command : node_commands(topology_, lids_, dir_->path(), log_level))
    if (Status added = add_node(std::move(command), lifeline, nodes); !added.ok()) return added;
  return {};
}

Status FabricSetup::write_lids() {
  lids_ = assign_lids(topology_, load_lids(dir_->file("lids")));
  std::ofstream out(dir_->file("lids"), std::ios::trunc);
  for (const auto& [name, lid] : lids_)
    out << fmt::format("{:016x} {} {}\n", stable_guid(topology_.fabric, name).value(), lid.value(), name);
  if (!out.flush()) return errno_error("cannot write " + dir_->file("lids"), errno);
  return dir_->note_start();
}

Status FabricSetup::write_allow_files() const {
  if (topology_.curve_dir.empty()) return {};
  if (Status keys = check_curve_keys(topology_); !keys.ok()) return keys;
  for (uint32_t i = 0; i < topology_.switches.size(); ++i) {
    Result<std::string> text = curve_allow_text(topology_, i);
    if (!text.ok()) return text.error();
    if (!has_curve(topology_, i)) continue;
    std::ofstream out(dir_->file(topology_.switches[i].name + ".allow"), std::ios::trunc);
    if (!(out << text.value()) || !out.flush()) return errno_error("cannot write key list", errno);
  }
  return {};
}

Result<int> FabricSetup::netns_fd(const std::string& name, const std::vector<NodeProcess>& nodes) {
  if (name.empty()) return -1;
  auto& entry = namespaces_[name];
  if (entry == nullptr) {
    Result<std::unique_ptr<NetNamespace>> opened = NetNamespace::open(name);
    if (!opened.ok()) return opened.error();
    entry = std::move(opened).value();
    save(nodes, false);
  }
  return entry->fd();
}

Status FabricSetup::add_node(NodeCommand command, int lifeline, std::vector<NodeProcess>& nodes) {
  const std::string path = find_program(command.program());
  if (path.empty())
    return Error{fmt::format("program {} is missing; build it or install Weft", command.program())};
  const std::string fault = std::visit([](const auto& spec) { return node::spec_fault(spec); }, command.spec);
  if (!fault.empty()) return Error{fmt::format("node '{}': {}", command.name, fault)};
  Result<int> ns_fd = netns_fd(command.netns, nodes);
  if (!ns_fd.ok()) return Error{fmt::format("node '{}': {}", command.name, ns_fd.error().text)};
  std::vector<UniqueFd> descriptors;
  for (const HandedDescriptor& wanted : command.descriptors) {
    Result<UniqueFd> fd = keeper_->open(command.name, wanted, command.netns, ns_fd.value());
    if (!fd.ok()) return Error{fmt::format("node '{}': {}", command.name, fd.error().text)};
    if (wanted.kind == node::PortDescriptor::kTap)
      interfaces_.push_back({wanted.interface.name, command.netns});
    descriptors.push_back(std::move(fd).value());
  }
  nodes.emplace_back(std::move(command), path, *dir_, ns_fd.value(), lifeline, std::move(descriptors));
  return {};
}

void FabricSetup::save(const std::vector<NodeProcess>& nodes, bool ready) {
  RunRecord record;
  record.launcher = getpid();
  record.launcher_ticks = process_start_ticks(getpid());
  record.topology = topology_path_;
  record.ready = ready;
  record.ends_unused = ends_unused_;
  if (topology_.links.cell_payload_bytes != fabric::kCellPayloadBytesDefault)
    record.cell_payload = topology_.links.cell_payload_bytes;
  record.flit_payload = topology_.links.flit_payload_bytes;
  record.direct = topology_.direct;
  record.interfaces = interfaces_;
  if (keeper_.has_value()) record.borrowed = keeper_->borrowed();
  for (const auto& [name, netns] : namespaces_)
    if (netns != nullptr && netns->holder() != 0)
      record.processes.push_back(
          {"netns-" + name, "holder", netns->holder(), process_start_ticks(netns->holder()), 0});
  for (const NodeProcess& node : nodes) {
    const NodeCommand& command = node.command();
    record.processes.push_back(node.record());
    const auto* spec = std::get_if<node::SwitchSpec>(&command.spec);
    if (spec != nullptr && spec->spare_ports != 0)
      record.spare.push_back({command.name, spec->spare_ports, spec->spare_lid.value(), spec->spare_lids});
    for (uint32_t i = 0; i < command.peers.size(); ++i)
      record.ports.push_back({command.name, i + 1, command.peers[i]});
  }
  unsaved_ = !dir_->save(record).ok();
}

void FabricSetup::release() {
  if (!dir_.has_value()) return;
  keeper_.reset();  // closes the last copies of the descriptors, which deletes the TAPs
  namespaces_.clear();
  dir_->remove_runtime_files();
  dir_.reset();
}

}  // namespace weft::tools
