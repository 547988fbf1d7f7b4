// How it works: fields() of each kind of process names its options once, in order. Two codecs use it:
// OptionReader declares the options on a CommandLine, which fills in the fields; OptionWriter records each
// field's values as texts. encode() compares these with the texts of a default spec and writes the
// differences. A list of structs (the ports of a host, the neighbours of a switch) becomes one repeated
// option per field (node/spec_lists.h).
#include "node/spec_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <type_traits>

#include "base/command_line.h"
#include "base/names.h"
#include "base/net/ethernet.h"
#include "base/parse_number.h"
#include "base/time_span.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_handshake.h"
#include "node/spec_lists.h"
#include "node/spec_values.h"

namespace weft::node {
namespace {

/// The textual form of a value, for people and for the two codecs.
template <class Value>
struct Form {
  const char* value_name;
  std::function<Result<Value>(const std::string&)> parse;
  std::function<std::string(const Value&)> print;
};

Form<std::string> text(const char* value_name) {
  return {value_name, [](const std::string& given) { return Result<std::string>(given); },
          [](const std::string& value) { return value; }};
}

template <class Number>
Form<Number> number(const char* value_name, Number lowest, Number highest) {
  return {value_name,
          [lowest, highest](const std::string& given) -> Result<Number> {
            const std::optional<Number> value = parse_number<Number>(given);
            if (!value || *value < lowest || *value > highest)
              return Error{fmt::format("not a whole number from {} to {}", lowest, highest)};
            return *value;
          },
          [](const Number& value) { return fmt::to_string(value); }};
}

Form<int> descriptor() {
  return number<int>("N", -1, INT32_MAX);
}

Form<Guid> guid() {
  return {"HEX", parse_guid, guid_text};
}

Form<Lid> lid() {
  return {"LID", parse_lid, [](const Lid& value) { return fmt::to_string(value.value()); }};
}

Form<LogLevel> level() {
  return {"LEVEL", parse_level, [](const LogLevel& value) { return std::string(level_text(value)); }};
}

Form<std::optional<MacAddress>> station() {
  return {"MAC", parse_station,
          [](const std::optional<MacAddress>& value) { return value ? weft::to_string(*value) : "auto"; }};
}

/// 0, or a valid MTU of an interface.
Form<uint32_t> mtu() {
  return {"BYTES",
          [](const std::string& given) -> Result<uint32_t> {
            const std::optional<uint32_t> value = parse_number<uint32_t>(given);
            if (!value || (*value != 0 && (*value < kMtuMin || *value > kMtuMax)))
              return Error{fmt::format("not a whole number from {} to {}", kMtuMin, kMtuMax)};
            return *value;
          },
          [](const uint32_t& value) { return fmt::to_string(value); }};
}

Form<bool> on_off() {
  return {"STATE",
          [](const std::string& given) -> Result<bool> {
            if (given != "on" && given != "off") return Error{"on or off"};
            return given == "on";
          },
          [](const bool& value) { return std::string(value ? "on" : "off"); }};
}

/// A file in a list; "none" where there is no file.
Form<std::string> file_or_none() {
  constexpr const char* kNone = "none";
  return {"FILE", [](const std::string& given) { return Result<std::string>(given == kNone ? "" : given); },
          [](const std::string& value) { return value.empty() ? kNone : value; }};
}

std::string print_os(const OsName& os) {
  return to_string(os);
}
std::string print_nic(const NicName& nic) {
  return to_string(nic);
}
template <class Word>
std::string print_word(const Word& word) {
  return std::string(to_string(word));
}

/// "NAME=REST".
Form<NamedText> named(const char* form) {
  return {form, [form](const std::string& given) { return parse_named(given, form); },
          [](const NamedText& value) { return value.name + "=" + value.rest; }};
}

/// Declares options whose values go into the fields. The fields outlive the reading.
class OptionReader {
 public:
  explicit OptionReader(CommandLine& line) : line_(line) {}

  template <class Value>
  void one(const char* name, const Form<Value>& form, Value& field, const char* help) {
    line_.value(
        name, form.value_name, false,
        [&field, parse = form.parse](const std::string& given) {
          Result<Value> value = parse(given);
          if (value) field = std::move(*value);
          return value.error().text;
        },
        help);
  }
  /// Declares a mandatory option; `remedy` says what to write.
  template <class Value>
  void required(const char* name, const Form<Value>& form, Value& field, const char* remedy,
                const char* help) {
    required_.emplace_back(name, remedy);
    one(name, form, field, help);
  }
  template <class Value>
  void many(const char* name, const Form<Value>& form, std::vector<Value>& field, const char* help) {
    line_.value(
        name, form.value_name, true,
        [&field, parse = form.parse](const std::string& given) {
          Result<Value> value = parse(given);
          if (value) field.push_back(std::move(*value));
          return value.error().text;
        },
        help);
  }
  void flag(const char* name, bool& field, const char* help) { line_.flag(name, field, help); }

  /// The error for missing mandatory options, after parse(); empty if there is none.
  [[nodiscard]] std::string missing() const {
    for (const auto& [name, remedy] : required_)
      if (!line_.given(name)) return fmt::format("--{} is missing: {}", name, remedy);
    return {};
  }

 private:
  CommandLine& line_;
  std::vector<std::pair<const char*, const char*>> required_;
};

/// Records every option with its values.
class OptionWriter {
 public:
  struct Option {
    const char* name;
    bool flag;
    bool always;
    std::vector<std::string> values;
  };

  template <class Value>
  void one(const char* name, const Form<Value>& form, const Value& field, const char* /*help*/) {
    options_.push_back({name, false, false, {form.print(field)}});
  }
  template <class Value>
  void required(const char* name, const Form<Value>& form, const Value& field, const char* /*remedy*/,
                const char* /*help*/) {
    options_.push_back({name, false, true, {form.print(field)}});
  }
  template <class Value>
  void many(const char* name, const Form<Value>& form, const std::vector<Value>& field,
            const char* /*help*/) {
    Option option{name, false, false, {}};
    for (const Value& value : field) option.values.push_back(form.print(value));
    options_.push_back(std::move(option));
  }
  void flag(const char* name, bool field, const char* /*help*/) {
    options_.push_back({name, true, false, {field ? "true" : "false"}});
  }

  /// Options that differ from `defaults`, which were recorded in the same order.
  [[nodiscard]] std::vector<std::string> arguments(const OptionWriter& defaults) const {
    std::vector<std::string> out;
    for (size_t i = 0; i < options_.size(); ++i) {
      const Option& option = options_[i];
      if (!option.always && option.values == defaults.options_[i].values) continue;
      const std::string name = fmt::format("--{}", option.name);
      for (const std::string& value : option.values) {
        if (option.flag || value.empty() || value.front() == '-') {
          out.push_back(option.flag ? name : fmt::format("{}={}", name, value));
        } else {
          out.insert(out.end(), {name, value});
        }
      }
    }
    return out;
  }

 private:
  std::vector<Option> options_;
};

template <class Codec, class Spec>
void process_fields(Codec& c, Spec& s) {
  c.required("name", text("NAME"), s.name, "the name of this node", "of this node; names its files in --dir");
  c.one("dir", text("DIR"), s.dir,
        "state directory, made if missing: NAME.stats, NAME.ctl, of a switch NAME.sock");
  if constexpr (std::is_base_of_v<EndnodeSpec, Spec>) {
    c.one("guid", guid(), s.guid, "GUID of this node, unique in the fabric; a spare port gives one");
  } else {
    c.required("guid", guid(), s.guid, "16 hexadecimal digits, unique in the fabric",
               "GUID of this node, unique in the fabric");
  }
  c.one("log-level", level(), s.log_level, "debug, info, warn or error (info)");
  c.one("parent-fd", descriptor(), s.parent_fd, "pipe whose end of file ends this process; -1: none");
  c.one("core", number<uint32_t>("N", 0, kCoreMax), s.core,
        "core that the loop is bound to; ZeroMQ's threads are not");
  c.one("curve-secret", text("FILE"), s.curve_secret, "own secret key; needed for tcp beyond loopback");
  c.one("cell-payload", number<uint32_t>("BYTES", kCellPayloadBytesMin, kCellPayloadBytesMax),
        s.links.cell_payload_bytes, "data bytes per cell, the same in the whole fabric");
  c.one("flit-payload", number<uint32_t>("BYTES", 0, cell_bytes_max(kCellPayloadBytesMax)),
        s.links.flit_payload_bytes, "bytes per flit; 0: a whole cell");
  c.one("lanes", number<uint32_t>("N", 1, fabric::kDataLanesMax), s.links.lanes, "data lanes");
  c.one("credits", number<uint32_t>("N", 1, fabric::kCreditsPerLaneMax), s.links.credits,
        "flit buffers per lane");
  c.one("silence", Form<Duration>{"TIME", fabric::parse_silence, format_time_span}, s.links.silence,
        "after which the peer of a ZeroMQ link is dead, 1s to 60s (1.5s for ipc, 5s for tcp)");
}

template <class Codec, class Spec>
void endnode_fields(Codec& c, Spec& s) {
  process_fields(c, s);
  c.one("lid", lid(), s.lid,
        "local identifier, as the switch's --node option has it; a spare port gives one");
  c.required("switch", text("ENDPOINT"), s.endpoint, "shm:DIR/SWITCH.sock for one on this machine",
             "shm:SOCKET-OF-SWITCH, ipc://PATH or tcp://HOST:PORT");
  c.one("curve-server", text("FILE"), s.curve_server, "public key of the switch");
  c.many("pool", Form<PoolSpec>{"BYTESxCOUNT", parse_pool, pool_text}, s.pools,
         "receive pool: element size and number; repeat, smallest first (2048x256 and 65536x32)");
}

template <class Codec>
void link_fields(Codec& c, EndnodeSpec& s, LinkLists& links) {
  c.many("link", Form<FurtherLinkSpec>{"GUID:LID:ENDPOINT", parse_further_link, further_link_text},
         links.links, "a further link, port 2 and so on; repeat");
  c.many("link-curve-secret", file_or_none(), links.secrets, "secret key of that port; one per --link");
  c.many("link-curve-server", file_or_none(), links.servers, "public key of its switch; one per --link");
  c.flag("adapter-per-link", s.adapter_per_link,
         "each link is an adapter of its own; sessions go over to another when the link of one is dead");
}

template <class Codec>
void fields(Codec& c, HostSpec& s, LinkLists& links, PortLists& ports) {
  endnode_fields(c, s);
  link_fields(c, s, links);
  c.many("unit", lid(), ports.units, "I/O unit to use; repeat for several");
  c.many("os", Form<OsName>{"INTERFACE", parse_os, print_os}, ports.os,
         "tap:NAME, gen or unix:PATH; one per unit, in the same order");
  c.many("os-fd", descriptor(), ports.fds,
         "descriptor of that interface, opened by the launcher; -1: none; one per unit");
  c.many("mac", station(), ports.macs,
         "address of the interface, or auto; one per unit (made from the GUID unless given)");
  c.many("mtu", mtu(), ports.mtus, "MTU of the interface, 0: as it is; one for all, or one per unit");
  c.many("promiscuous", on_off(), ports.promiscuous,
         "on: the interface wants all frames of the LAN, because something behind it bridges; one per unit");
  c.many("via", number<uint32_t>("N", 1, kLinksMax), ports.via,
         "port of the adapter: 1 is --switch, 2 the first --link; one per unit (1)");
  c.one("mode", Form<TransferMode>{"MODE", parse_mode, print_word<TransferMode>}, s.mode,
        "rdma, sendrecv or senddata");
  c.one("encoding", Form<MessageEncoding>{"NAME", parse_encoding, print_word<MessageEncoding>}, s.encoding,
        "of driver messages: capnp or bytes");
  c.one("acks", Form<AckPolicy>{"KIND", parse_acks, print_word<AckPolicy>}, s.acks,
        "selective (the default): one for several cells; strict: one for each cell. Not in mode sendrecv");
}

template <class Codec>
void fields(Codec& c, UnitSpec& s, LinkLists& links) {
  endnode_fields(c, s);
  link_fields(c, s, links);
  c.required("nic", Form<NicName>{"NIC", parse_nic, print_nic}, s.nic, "echo needs no right and no network",
             "tap:NAME, packet:INTERFACE, slirp, pcap:IN[,OUT] or echo");
  c.one("nic-fd", descriptor(), s.nic_fd, "descriptor of that NIC, opened by the launcher; -1: none");
  c.flag("bridge", s.bridge,
         "hosts may send frames with source addresses that are not their own, and ask for all frames");
  c.flag("promiscuous-allowed", s.promiscuous_allowed, "hosts may ask for their neighbours' frames");
  c.one("sessions", number<uint32_t>("N", 1, kHostsPerUnitMax), s.hosts_max, "most hosts at a time (16)");
}

template <class Codec>
void fields(Codec& c, SwitchSpec& s, NeighbourLists& neighbours) {
  process_fields(c, s);
  c.many("node", Form<SwitchNodeSpec>{"NAME=GUID:LID", parse_switch_node, switch_node_text}, s.nodes,
         "a node that may join; repeat. Node i gets port i. GUID in hex");
  c.many("neighbour", Form<NeighbourSpec>{"NAME=GUID:LIDS", parse_neighbour, neighbour_text}, s.neighbours,
         "a neighbouring switch and the LIDs behind it: 1,2,7-9; repeat. Ports follow those of the nodes");
  c.many("join", named("NAME=ENDPOINT"), neighbours.joins,
         "connects to that neighbour at shm:PATH, ipc://PATH or tcp://HOST:PORT; without, it joins us");
  c.many("neighbour-key", named("NAME=FILE"), neighbours.keys, "public key of a neighbour that we join");
  c.one("ports", number<uint32_t>("N", 1, kSwitchPortsMax), s.ports,
        "ports; as many as nodes and neighbours unless given");
  c.many("listen", text("ENDPOINT"), s.listen,
         "also serve nodes over ZeroMQ at ipc://PATH or tcp://ADDR:PORT; repeat. One endpoint serves all");
  c.one("curve-allow", text("FILE"), s.curve_allow,
        "who may join: lines NAME GUIDHEX PUBLICKEY, with - as GUID for spare ports");
  c.one("spare-ports", number<uint32_t>("N", 0, kSwitchPortsMax), s.spare_ports,
        "ports for endnodes that are not listed; they follow those of nodes and neighbours");
  c.one("spare-lid", lid(), s.spare_lid, "first of their LIDs, which are in a row");
  c.one("spare-lids", number<uint32_t>("N", 0, kSpareLidMax), s.spare_lids,
        "how many; 16 for each spare port, 64 at least, unless given");
  c.flag("cut-through", s.cut_through, "forward a cell before its tail has come");
  const Form<LaneWeight> lane{"LANE:WEIGHT", parse_lane_weight, lane_weight_text};
  c.many("high-lane", lane, s.lane_order.high,
         "a data lane that goes before others at every output, and its weight in units of 64 bytes; repeat");
  c.many("low-lane", lane, s.lane_order.low,
         "a lane after those, and its weight; repeat. Without: all the others, alike");
  c.one("high-limit", number<uint32_t>("N", 1, kHighLimitNone), s.lane_order.high_limit,
        "units of 4096 bytes of high lanes after which one low cell goes; 255: none goes before they are "
        "empty");
}

std::string process_fault(const ProcessSpec& spec) {
  if (const std::string fault = name_fault(spec.name, kNodeNameBytesMax, "a node"); !fault.empty())
    return "--name: " + fault;
  return spec.dir.empty() ? "--dir is empty; . is the working directory" : "";
}

std::string endnode_fault(const EndnodeSpec& spec) {
  if (std::string fault = process_fault(spec); !fault.empty()) return fault;
  if ((spec.lid == kLidNone) != (spec.guid == Guid{}))
    return "--lid and --guid belong together; without both the node joins a spare port";
  const size_t links = 1 + spec.further_links.size();
  if (links > kLinksMax) return fmt::format("--link: at most {} links of a node", kLinksMax);
  if (links > 1 && spec.lid == kLidNone) return "--link: a node at a spare port has one link";
  if (links == 1 && spec.adapter_per_link) return "--adapter-per-link is for several links: --link";
  const std::string fault = pools_fault(spec.pools);
  return fault.empty() ? fault : "--pool: " + fault;
}

/// `lists` are the options that hold lists of structs.
template <class Spec, class... Lists>
OptionWriter written(Spec spec, Lists... lists) {
  OptionWriter out;
  fields(out, spec, lists...);
  return out;
}

/// The options in which `spec` differs from a default spec.
template <class Spec, class... Lists>
std::vector<std::string> options_of(const Spec& spec, Lists... lists) {
  return written(spec, std::move(lists)...).arguments(written(Spec(), Lists()...));
}

/// Parses; `finish` then completes the spec and returns its fault.
template <class Declare, class Finish>
std::optional<int> read(CommandLine& line, const std::vector<std::string>& arguments, Declare declare,
                        Finish finish) {
  OptionReader reader(line);
  declare(reader);
  if (const std::optional<int> code = line.parse(arguments)) return code;
  std::string fault = reader.missing();
  if (fault.empty()) fault = finish();
  return fault.empty() ? std::nullopt : std::optional<int>(line.wrong_use(fault));
}

/// Smallest elements first, as the session wants them.
void sort_pools(EndnodeSpec& spec) {
  std::stable_sort(spec.pools.begin(), spec.pools.end(),
                   [](const PoolSpec& a, const PoolSpec& b) { return a.element_bytes < b.element_bytes; });
}

}  // namespace

const char* program_of(const NodeSpec& spec) noexcept {
  struct Names {
    const char* operator()(const SwitchSpec&) const noexcept { return "weft-switch"; }
    const char* operator()(const HostSpec&) const noexcept { return "weft-host"; }
    const char* operator()(const UnitSpec&) const noexcept { return "weft-iou"; }
  };
  return std::visit(Names{}, spec);
}

std::vector<std::string> encode(const SwitchSpec& spec) {
  return options_of(spec, split(spec.neighbours));
}

std::vector<std::string> encode(const HostSpec& spec) {
  return options_of(spec, split(spec.further_links), split(spec.ports));
}

std::vector<std::string> encode(const UnitSpec& spec) {
  return options_of(spec, split(spec.further_links));
}

std::vector<std::string> encode(const NodeSpec& spec) {
  return std::visit([](const auto& kind) { return encode(kind); }, spec);
}

std::string spec_fault(const SwitchSpec& spec) {
  if (std::string fault = process_fault(spec); !fault.empty()) return fault;
  const std::string fault = lane_order_fault(spec.lane_order, spec.links.lanes);
  return fault.empty() ? fault : "--high-lane, --low-lane: " + fault;
}

std::string spec_fault(const HostSpec& spec) {
  if (std::string fault = endnode_fault(spec); !fault.empty()) return fault;
  if (spec.ports.size() > kHostPortsMax) return fmt::format("at most {} units", kHostPortsMax);
  const size_t links = 1 + spec.further_links.size();
  if (const std::string fault = acks_fault(spec.acks, spec.mode); !fault.empty()) return "--acks: " + fault;
  for (const HostPortSpec& port : spec.ports)
    if (port.via > links) return fmt::format("--via {}: this host has {} links", port.via, links);
  return {};
}

std::string spec_fault(const UnitSpec& spec) {
  if (std::string fault = endnode_fault(spec); !fault.empty()) return fault;
  const bool comma = spec.nic.argument.find(',') != std::string::npos;
  return comma ? fmt::format("--nic {}: the first comma begins the name of the output", to_string(spec.nic))
               : "";
}

std::optional<int> decode(const std::vector<std::string>& arguments, SwitchSpec& out) {
  CommandLine line(
      "weft-switch", "weft-switch --name NAME --guid HEX --node NAME=GUID:LID... [options]",
      "Forwards cells between the nodes of a fabric. Each node has a port of its own; local nodes join over "
      "the socket DIR/NAME.sock (shared memory).");
  NeighbourLists lists;
  return read(
      line, arguments, [&](OptionReader& reader) { fields(reader, out, lists); },
      [&] {
        const std::string fault = join(lists, out.neighbours);
        return fault.empty() ? spec_fault(out) : fault;
      });
}

std::optional<int> decode(const std::vector<std::string>& arguments, HostSpec& out) {
  CommandLine line("weft-host",
                   "weft-host --name NAME [--lid N --guid HEX] --switch ENDPOINT --unit LID --os INTERFACE",
                   "The host half of the split network driver: joins an OS interface to an I/O unit.");
  LinkLists links;
  PortLists ports;
  return read(
      line, arguments, [&](OptionReader& reader) { fields(reader, out, links, ports); },
      [&] {
        sort_pools(out);
        std::string fault = join(ports, out.ports);
        if (fault.empty()) fault = join(links, out.further_links);
        return fault.empty() ? spec_fault(out) : fault;
      });
}

std::optional<int> decode(const std::vector<std::string>& arguments, UnitSpec& out) {
  CommandLine line(
      "weft-iou", "weft-iou --name NAME [--lid N --guid HEX] --switch ENDPOINT --nic NIC",
      "The I/O unit half of the split network driver: shares a LAN NIC among the hosts of a fabric.");
  LinkLists links;
  return read(
      line, arguments, [&](OptionReader& reader) { fields(reader, out, links); },
      [&] {
        sort_pools(out);
        const std::string fault = join(links, out.further_links);
        return fault.empty() ? spec_fault(out) : fault;
      });
}

}  // namespace weft::node
