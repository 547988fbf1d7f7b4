// How it works: a running program holds a lock on its page (base/stats_page.h). The kernel releases the lock
// when the program ends, even if it was killed, so ended programs are not listed. The GUID on the page leads
// to the program's port.
#include "tools/show/program_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/parse_number.h"
#include "base/stats_page.h"
#include "tools/launch/node_names.h"
#include "tools/show/counter_words.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr Duration kProgramTimeout = std::chrono::seconds(1);
constexpr std::string_view kGuest = "guest ";
constexpr std::string_view kPage = ".stats";
std::string command_of(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)) >> std::ws, name);
  return name;
}

/// Stores one counter of the page in the program's entry.
void take(const std::string& name, uint64_t value, ProgramNode& out) {
  if (name == "node.guid") out.guid = value;
  if (name.starts_with("node.guid.") && value != 0) out.more_guids.push_back(value);
  if (name == "node.ipv4") out.ipv4 = static_cast<uint32_t>(value);
  if (name == "qps") out.qps = value;
  if (!name.starts_with("qp.") || value == 0) return;
  const std::string what = name.substr(name.rfind('.') + 1);
  // The first gauge of each QP.
  if (what == "number") out.shown.emplace_back().number = static_cast<uint32_t>(value);
  if (out.shown.empty()) return;
  ProgramQp& qp = out.shown.back();
  if (what == "service") qp.service = counter_state(name, value);
  if (what == "qp_state") qp.state = counter_state(name, value);
  if (what == "peer_lid") qp.peer_lid = static_cast<uint16_t>(value);
  if (what == "way") qp.way = counter_state(name, value);
  if (what == "peer_number") qp.peer_number = static_cast<uint32_t>(value);
}

/// Paths of the pages of a fabric's programs, sorted.
std::vector<fs::path> pages_in(const StateDir& dir) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir.file("programs"), ignored))
    if (entry.path().extension() == kPage) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<ProgramNode> running_programs(const StateDir& dir) {
  std::vector<ProgramNode> out;
  for (const fs::path& path : pages_in(dir)) {
    const std::optional<pid_t> holder = stats_page_holder(path);
    if (!holder.has_value()) continue;
    const auto page = read_stats_page(path);
    if (!page.ok()) continue;
    ProgramNode program;
    program.name = path.stem();
    program.pid = *holder;
    if (*holder != 0) program.program = command_of(*holder);
    for (const auto& [name, value] : page.value()) take(name, value, program);
    for (ProgramQp& qp : program.shown)
      if (qp.state.empty()) qp.state = counter_state("qp.0.qp_state", 0);
    out.push_back(std::move(program));
  }
  return out;
}

std::vector<std::string> ended_programs(const StateDir& dir) {
  std::vector<std::string> out;
  for (const fs::path& path : pages_in(dir))
    if (!stats_page_holder(path).has_value()) out.push_back(path.stem());
  return out;
}

std::string program_page(const StateDir& dir, const std::string& name) {
  return dir.file(fmt::format("programs/{}{}", name, kPage));
}

std::optional<uint64_t> guest_guid(std::string_view peer) {
  if (!peer.starts_with(kGuest)) return {};
  return parse_number<uint64_t>(std::string(peer.substr(kGuest.size())), 16);
}

void add_spare_ports(const std::string& node, const control::NodeInfo& info, SpareView& view) {
  for (const control::PortInfo& port : info.ports) {
    if (port.peer == "spare") ++view.free[node];
    if (const std::optional<uint64_t> guid = guest_guid(port.peer); guid.has_value())
      view.guests.push_back({node, port.number, port.lid, *guid});
  }
}

Result<SpareView> look_at_spare_ports(control::ControlClient& client, const StateDir& dir,
                                      const RunRecord& record) {
  SpareView view;
  for (const SpareRecord& spare : record.spare) {
    Result<control::ControlReply> reply = client.ask(dir.file(spare.node + ".ctl"), {}, kProgramTimeout);
    if (!reply.ok()) return Error{fmt::format("switch '{}': {}", spare.node, reply.error().text)};
    view.free[spare.node] = 0;
    add_spare_ports(spare.node, reply->info, view);
  }
  return view;
}

GuestNames guest_names(const StateDir& dir, const std::vector<ProgramNode>& programs) {
  GuestNames out;
  for (const auto& [name, identity] : known_names(dir)) out[identity.guid.value()] = name;
  for (const ProgramNode& program : programs) {
    if (program.guid != 0) out[program.guid] = program.name;
    for (size_t i = 0; i < program.more_guids.size(); ++i)
      out[program.more_guids[i]] = fmt::format("{}.{}", program.name, i + 2);
  }
  return out;
}

}  // namespace weft::tools
