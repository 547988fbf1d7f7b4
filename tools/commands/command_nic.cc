// weft nic.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/command_line.h"
#include "base/net/ethernet.h"
#include "base/stats_page.h"
#include "base/words.h"
#include "control/control_client.h"
#include "tools/commands/command.h"
#include "tools/show/blockers.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kNicTimeout = 3s;  // for the host and the unit behind it
constexpr Duration kNicLookInterval = 2ms;

struct NicOptions {
  std::string fabric, promiscuous, all_multicast;
  std::vector<std::string> multicast;
  Arguments place;  // HOST or HOST:INTERFACE
  bool clear = false;
  bool json = false;
};

/// Parses "on" or "off". An empty text leaves `out` unset.
bool parse_switch(const std::string& text, std::optional<bool>& out) {
  if (text.empty()) return true;
  if (text == "on" || text == "off") out = text == "on";
  return out.has_value();
}

/// Adds the addresses of a list. Returns an error text if the list is wrong, else an empty one.
std::string add_multicast(const std::string& list, std::vector<std::string>& out) {
  for (size_t at = 0; list != "none" && at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string text = list.substr(at, end - at);
    const std::optional<MacAddress> mac = parse_mac(text);
    if (!mac || !is_group(*mac))
      return fmt::format(
          "option --multicast needs multicast addresses like 01:00:5e:00:00:fb, or none, not '{}'", text);
    out.push_back(weft::to_string(*mac));
    at = end + 1;
  }
  return {};
}

/// Fills the wish from the options. Returns an error text if an option is wrong, else an empty one.
std::string complete(const NicOptions& options, control::NicWish& wish) {
  wish.clear = options.clear;
  if (!parse_switch(options.promiscuous, wish.promiscuous))
    return fmt::format("option --promisc needs on or off, not '{}'", options.promiscuous);
  if (!parse_switch(options.all_multicast, wish.all_multicast))
    return fmt::format("option --all-multicast needs on or off, not '{}'", options.all_multicast);
  if (options.multicast.empty()) return {};
  wish.multicast.emplace();
  for (const std::string& list : options.multicast) {
    if (std::string fault = add_multicast(list, *wish.multicast); !fault.empty()) return fault;
  }
  if (wish.multicast->size() > kMulticastFiltersMax)
    return fmt::format("option --multicast: at most {} addresses", kMulticastFiltersMax);
  return {};
}

/// NICs are asked only through a host that uses them; fails for other nodes.
Result<RecordedProcess> host_of(const RunRecord& record, const std::string& name) {
  Result<RecordedProcess> node = chosen_node(record, name);
  if (!node.ok() || node.value().program == "weft-host") return node;
  std::vector<std::string> hosts;
  for (const RecordedProcess& process : record.processes)
    if (process.program == "weft-host") hosts.push_back(process.name);
  return Error{fmt::format("node '{}' is no host; a unit's NIC is asked through a host that uses it: {}",
                           name, joined(hosts))};
}

/// The control endpoint of one host.
class NicClient {
 public:
  explicit NicClient(std::string path) : path_(std::move(path)) {}

  Result<std::vector<std::string>> interfaces();
  /// Sends `wish` and waits until the unit has answered all of it.
  Result<control::NicReport> ask(const control::NicWish& wish);

 private:
  control::ControlClient client_;
  std::string path_;
};

Result<std::vector<std::string>> NicClient::interfaces() {
  Result<control::ControlReply> reply = client_.ask(path_, {}, kNicTimeout);
  if (!reply.ok()) return reply.error();
  return reply.value().info.interfaces;
}

Result<control::NicReport> NicClient::ask(const control::NicWish& wish) {
  const MonotonicClock clock;
  const Instant end = clock.now() + kNicTimeout;
  control::ControlRequest request;
  request.action = control::ControlAction::kNicAsk;
  request.nic = wish;
  Result<control::ControlReply> reply = client_.ask(path_, request, kNicTimeout);
  if (!reply.ok()) return reply.error();
  const uint64_t reads_before = reply.value().nic.reads;
  request.action = control::ControlAction::kNicReport;
  while (reply.value().nic.pending) {
    if (clock.now() >= end)
      return Error{fmt::format("the unit, lid {}, does not answer; weft stat shows what blocks",
                               reply.value().nic.unit_lid)};
    std::this_thread::sleep_for(kNicLookInterval);
    reply = client_.ask(path_, request, kNicTimeout);
    if (!reply.ok()) return reply.error();
  }
  if (reply.value().nic.reads == reads_before)
    return Error{"the session with the unit was interrupted; ask again"};
  return reply.value().nic;
}

bool in_force(const control::NicWish& wish, const control::NicReport& report) {
  return wish.promiscuous.value_or(report.promiscuous) == report.promiscuous &&
         wish.all_multicast.value_or(report.all_multicast) == report.all_multicast &&
         wish.multicast.value_or(report.multicast) == report.multicast;
}

std::string unit_name(const StateDir& dir, uint16_t lid) {
  for (const auto& [name, number] : load_lids(dir.file("lids")))
    if (number.value() == lid) return name;
  return {};
}

std::string listed(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, " "));
}

std::string json_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + json_text(word);
  return "[" + out + "]";
}

/// Facts that the NIC's statistics do not contain: frames lost by kernel, interface or driver halves, by
/// counter name, and the faults that host and unit report about their interfaces.
struct FarAndNear {
  std::vector<std::pair<std::string, uint64_t>> losses;
  std::vector<std::string> faults;
};

void add_side(const StateDir& dir, const std::string& node, const std::vector<std::string>& prefixes,
              FarAndNear& out) {
  auto page = read_stats_page(dir.file(node + ".stats"));
  if (!page.ok()) return;  // the unit belongs to another launcher
  for (const auto& [name, value] : page.value())
    if (counts_losses(name) &&
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&counter = name](const auto& prefix) { return counter.starts_with(prefix); }))
      out.losses.emplace_back(fmt::format("{}.{}", node, name), value);
  control::ControlClient client;
  Result<control::ControlReply> reply = client.ask(dir.file(node + ".ctl"), {}, kNicTimeout);
  if (reply.ok() && !reply.value().info.fault.empty())
    out.faults.push_back(fmt::format("{}: {}", node, reply.value().info.fault));
}

FarAndNear look_at_both(const StateDir& dir, const std::string& host, uint16_t unit_lid) {
  FarAndNear out;
  add_side(dir, host, {fmt::format("unit.{}.", unit_lid)}, out);
  add_side(dir, unit_name(dir, unit_lid), {"unit.nic.", "unit.driver.", "unit.writer."}, out);
  return out;
}

std::string nic_json(const StateDir& dir, const std::string& host, const control::NicReport& r,
                     const FarAndNear& both) {
  const NicStatistics& s = r.statistics;
  std::string losses;
  for (const auto& [name, value] : both.losses)
    losses += fmt::format("{}{}:{}", losses.empty() ? "" : ",", json_text(name), value);
  return fmt::format(
      "{{\"node\":{},\"interface\":{},\"unit\":{},\"unit_lid\":{},\"link_up\":{},\"mac\":{},\"mtu\":{},"
      "\"nic_mtu\":{},\"offloads\":{},\"nic_offloads\":{},\"promiscuous\":{},\"all_multicast\":{},"
      "\"multicast\":{},\"statistics\":{{\"frames_in\":{},\"bytes_in\":{},\"frames_out\":{},\"bytes_out\":{},"
      "\"drops\":{},\"errors\":{}}},\"losses\":{{{}}},\"faults\":{}}}",
      json_text(host), json_text(r.interface), json_text(unit_name(dir, r.unit_lid)), r.unit_lid, r.link_up,
      json_text(r.mac), r.mtu, r.nic_mtu, json_list(r.offloads), json_list(r.nic_offloads), r.promiscuous,
      r.all_multicast, json_list(r.multicast), s.frames_in, s.bytes_in, s.frames_out, s.bytes_out, s.drops,
      s.errors, losses, json_list(r.faults));
}

std::string nic_table(const StateDir& dir, const std::string& host, const control::NicReport& r,
                      const FarAndNear& both) {
  const auto word = [](bool on) { return on ? "on" : "off"; };
  const NicStatistics& s = r.statistics;
  std::string text = fmt::format("{}:{}, NIC of unit {} (lid {})\n", host, r.interface,
                                 unit_name(dir, r.unit_lid), r.unit_lid);
  const auto row = [&text](std::string_view name, const auto& value) {
    text += fmt::format("  {:<14} {}\n", name, value);
  };
  row("link", r.link_up ? "up" : "down");
  row("address", r.mac);
  row("mtu", fmt::format("{} (of the NIC {})", r.mtu, r.nic_mtu));
  row("offloads", fmt::format("{} (of the NIC {})", listed(r.offloads), listed(r.nic_offloads)));
  row("promiscuous", word(r.promiscuous));
  row("all-multicast", word(r.all_multicast));
  row("multicast", listed(r.multicast));
  row("frames in", s.frames_in);
  row("bytes in", s.bytes_in);
  row("frames out", s.frames_out);
  row("bytes out", s.bytes_out);
  row("drops", s.drops);
  row("errors", s.errors);
  for (const auto& [name, value] : both.losses)
    if (value != 0) row("lost", fmt::format("{} ({})", value, name));
  for (const std::string& fault : r.faults) row("note", fault);
  text.pop_back();
  return text;
}

/// The named interface, or all. If something is to be changed and the host has several interfaces, one must
/// be named.
Result<std::vector<std::string>> chosen_interfaces(NicClient& client, const std::string& host,
                                                   const std::string& interface, bool changes) {
  if (!interface.empty()) return std::vector<std::string>{interface};
  Result<std::vector<std::string>> all = client.interfaces();
  if (!all.ok() || !changes || all.value().size() == 1) return all;
  std::vector<std::string> places;
  for (const std::string& name : all.value()) places.push_back(fmt::format("{}:{}", host, name));
  return Error{fmt::format("node '{}' has several interfaces; choose: {}", host, joined(places))};
}

int run(const NicOptions& options, control::NicWish wish) {
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("nic", dir.error().text);
  const size_t colon = options.place[0].find(':');
  const std::string host = options.place[0].substr(0, colon);
  const std::string interface = colon == std::string::npos ? "" : options.place[0].substr(colon + 1);
  Result<RecordedProcess> node = host_of(dir.value().load(), host);
  if (!node.ok()) return failure("nic", node.error().text);
  NicClient client(dir.value().file(host + ".ctl"));
  const bool filters = wish.promiscuous || wish.all_multicast || wish.multicast;
  Result<std::vector<std::string>> names = chosen_interfaces(client, host, interface, wish.clear || filters);
  if (!names.ok()) return failure("nic", names.error().text);
  std::vector<std::string> shown;
  std::string refused;
  for (const std::string& name : names.value()) {
    wish.interface = name;
    Result<control::NicReport> report = client.ask(wish);
    if (!report.ok()) return failure("nic", report.error().text);
    control::NicReport& nic = report.value();
    const FarAndNear both = look_at_both(dir.value(), host, nic.unit_lid);
    nic.faults.insert(nic.faults.end(), both.faults.begin(), both.faults.end());
    shown.push_back(options.json ? nic_json(dir.value(), host, nic, both)
                                 : nic_table(dir.value(), host, nic, both));
    if (!in_force(wish, nic)) refused = fmt::format("not in force: {}", joined(nic.faults));
  }
  print_line(options.json ? fmt::format("{{\"nics\":[{}]}}", fmt::join(shown, ","))
                          : fmt::format("{}", fmt::join(shown, "\n")));
  return refused.empty() ? kExitDone : failure("nic", refused);
}

}  // namespace

int command_nic(const Arguments& arguments) {
  NicOptions options;
  CommandLine line("weft nic", "weft nic [options] HOST[:INTERFACE]",
                   "Shows the LAN NIC that a host uses through its I/O unit: link, address, MTU, offloads, "
                   "filters, and the statistics of this\nhost's frames. Sets the filters, which stay while "
                   "the host runs; address and MTU follow the host's interface (ip link set).");
  line.text("fabric,f", "NAME", options.fabric, "which fabric, when several run");
  line.flag("clear", options.clear, "resets the statistics after reading them");
  line.text("promisc", "STATE", options.promiscuous,
            "on: all frames of the LAN, which needs promiscuous = \"allowed\" or bridge = true at the unit; "
            "or off");
  line.text("all-multicast", "STATE", options.all_multicast,
            "on: frames to all multicast addresses, as at the start; off: to those of --multicast");
  line.texts("multicast", "MACS", options.multicast, "multicast addresses separated by commas, or none");
  line.flag("json", options.json, "one JSON object");
  line.words("HOST", options.place, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  control::NicWish wish;
  if (const std::string wrong = complete(options, wish); !wrong.empty()) return line.wrong_use(wrong);
  return run(options, wish);
}

}  // namespace weft::tools
