#include "host_driver/nic_report.h"

#include <fmt/format.h>

#include <utility>

#include "base/net/ethernet.h"

namespace weft::host {
namespace {

constexpr std::array<std::pair<Offload, const char*>, 6> kOffloadNames{{{Offload::kChecksum, "checksum"},
                                                                        {Offload::kTso4, "tso4"},
                                                                        {Offload::kTso6, "tso6"},
                                                                        {Offload::kTsoEcn, "tso-ecn"},
                                                                        {Offload::kUso4, "uso4"},
                                                                        {Offload::kUso6, "uso6"}}};

std::vector<std::string> names_of(Offload set) {
  std::vector<std::string> names;
  for (const auto& [offload, name] : kOffloadNames)
    if (has(set, offload)) names.emplace_back(name);
  return names;
}

Status check_open(const session::NetdevSession& session) {
  if (session.state() == session::SessionState::kOpen) return {};
  return Error{
      fmt::format("the session with the unit, lid {}, is {}: its NIC can be asked once that is open; see "
                  "weft status",
                  session.config().unit.value(), to_string(session.state()))};
}

Result<NicFilters> filters_for(const control::NicWish& wish, NicFilters filters) {
  filters.promiscuous = wish.promiscuous.value_or(filters.promiscuous);
  filters.all_multicast = wish.all_multicast.value_or(filters.all_multicast);
  if (!wish.multicast) return filters;
  if (wish.multicast->size() > kMulticastFiltersMax)
    return Error{fmt::format("a NIC has room for {} multicast addresses", kMulticastFiltersMax)};
  filters.multicast = {};
  filters.multicast_count = 0;
  for (const std::string& text : *wish.multicast) {
    const std::optional<MacAddress> mac = parse_mac(text);
    if (!mac || !is_group(*mac)) return Error{fmt::format("'{}' is no multicast address", text)};
    filters.multicast[filters.multicast_count++] = *mac;
  }
  return filters;
}

/// Each difference from the settings the host wants, with its remedy.
std::vector<std::string> faults_of(const NicController& controller, const FramePortInfo& os) {
  std::vector<std::string> faults;
  const NicSettings& wanted = controller.settings();
  const NicFilters& filters = controller.filters();
  if (controller.promiscuous_refused()) faults.emplace_back(kPromiscuousRefused);
  if (const CfgStatus status = controller.last_status(NicRequest::kSetFilters); status != CfgStatus::kGood)
    faults.push_back(
        fmt::format("the unit answered '{}' to the filters; weft logs says why", to_string(status)));
  if (filters.promiscuous && !wanted.filters.promiscuous)
    faults.push_back(
        fmt::format("the interface is promiscuous itself: ip link set dev {} promisc off", os.name));
  if (os.all_multicast && !wanted.filters.all_multicast)
    faults.push_back(fmt::format(
        "the interface wants all multicast itself: ip link set dev {} allmulticast off", os.name));
  if (controller.mac() != wanted.mac)
    faults.push_back(fmt::format(
        "the unit has not taken the interface's address {}, another of its hosts may have it: give "
        "one of them another, in the topology or by ip link set",
        weft::to_string(wanted.mac)));
  if (os.mtu_bytes > kMtuBytesMax)
    faults.push_back(
        fmt::format("the interface has MTU {}, the fabric carries {}: longer frames are dropped; ip link set "
                    "dev {} mtu {}",
                    os.mtu_bytes, kMtuBytesMax, os.name, kMtuBytesMax));
  if (controller.mtu_bytes() < wanted.mtu_bytes)
    faults.push_back(fmt::format(
        "the interface has MTU {}, the unit's NIC less: raise that, in the topology or by ip link "
        "set, or longer frames are dropped",
        wanted.mtu_bytes));
  return faults;
}

}  // namespace

Status ask_nic(HostNetdev& half, const control::NicWish& wish) {
  if (Status open = check_open(half.session()); !open) return open;
  NicController& controller = half.controller();
  if (wish.promiscuous || wish.all_multicast || wish.multicast) {
    Result<NicFilters> filters = filters_for(wish, controller.settings().filters);
    if (!filters) return filters.error();
    controller.set_filters(*filters);
  }
  controller.refresh();
  if (wish.clear) controller.clear_statistics();
  return {};
}

Result<control::NicReport> report_nic(HostNetdev& half) {
  if (Status open = check_open(half.session()); !open) return open.error();
  const NicController& controller = half.controller();
  const NicFilters& filters = controller.filters();
  control::NicReport report;
  report.unit_lid = half.session().config().unit.value();
  report.pending = !controller.settled();
  report.reads = controller.statistics_read();
  report.link_up = half.lan_up();
  report.mac = weft::to_string(controller.mac());
  report.mtu = controller.mtu_bytes();
  report.nic_mtu = controller.capabilities().mtu_bytes;
  report.offloads = names_of(controller.granted());
  report.nic_offloads = names_of(controller.capabilities().offloads);
  report.promiscuous = filters.promiscuous;
  report.all_multicast = filters.all_multicast;
  for (uint32_t i = 0; i < filters.multicast_count; ++i)
    report.multicast.push_back(weft::to_string(filters.multicast[i]));
  report.statistics = controller.statistics();
  if (!report.pending) report.faults = faults_of(controller, half.port().info());
  return report;
}

}  // namespace weft::host
