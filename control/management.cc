// How it works: fields() of each message names its fields once, as management.capnp spells them. Two codecs
// use it: FieldWriter sets the fields in a Cap'n Proto builder, FieldReader reads them. A decoder first
// checks the framing by hand: one segment, whose length is exactly that of the message. It then lets the
// reader walk a private, aligned copy with a traversal limit of twice its words. This file catches Cap'n
// Proto's exceptions.
#include "control/management.h"

#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <utility>

#include "generated/control/management.capnp.h"

namespace weft::control {
namespace {

constexpr Duration kFaultTimeMax = std::chrono::hours(24 * 365);

template <class Value>
using Words = std::pair<const char*, Value>;  // a member of a union, as management.capnp names it

template <class Value>
concept Plain = std::integral<Value> || std::same_as<Value, std::string>;

class FieldWriter {
 public:
  explicit FieldWriter(capnp::DynamicStruct::Builder to) : to_(to) {}

  void nothing(const char* name) { to_.set(name, capnp::VOID); }
  template <std::integral Number>
  void one(const char* name, Number value) {
    to_.set(name, value);
  }
  void one(const char* name, const std::string& text) {
    std::string cut = bounded(text);
    to_.set(name, capnp::Text::Reader(cut.c_str(), cut.size()));
  }
  void time(const char* name, Duration value) { to_.set(name, static_cast<uint64_t>(value.count())); }
  template <class Word, class Parse>
  void word(const char* name, Word value, Parse /*parse*/, const char* /*complaint*/) {
    one(name, std::string(to_string(value)));
  }
  template <class Part>
  void part(const char* name, Part& value) {
    FieldWriter inner(to_.init(name).as<capnp::DynamicStruct>());
    fields(inner, value);
  }
  /// The writer cuts a list off after `most` entries. The reader refuses a longer list if `complaint` is
  /// given.
  template <class List>
  void many(const char* name, List& list, size_t most, const char* /*complaint*/ = nullptr) {
    const auto count = static_cast<unsigned>(std::min(list.size(), most));
    auto to = to_.init(name, count).template as<capnp::DynamicList>();
    for (unsigned i = 0; i < count; ++i) put(to, i, list[i]);
  }
  /// The boolean field `flag` says whether `field` is set.
  void optional(const char* flag, const char* field, const std::optional<bool>& value) {
    to_.set(flag, value.has_value());
    to_.set(field, value.value_or(false));
  }
  void optional(const char* flag, const char* field, std::optional<std::vector<std::string>>& value,
                size_t most, const char* /*complaint*/) {
    to_.set(flag, value.has_value());
    if (value) many(field, *value, most);
  }
  template <class Value, size_t kCount>
  void choice(const std::array<Words<Value>, kCount>& /*members*/, Value /*chosen*/,
              const char* /*complaint*/ = nullptr) {}

 private:
  static std::string bounded(const std::string& text) { return text.substr(0, kControlTextBytesMax); }
  template <class Entry>
  static void put(capnp::DynamicList::Builder to, unsigned i, Entry& entry) {
    if constexpr (std::same_as<Entry, std::string>) {
      const std::string cut = bounded(entry);
      to.set(i, capnp::Text::Reader(cut.c_str(), cut.size()));
    } else if constexpr (std::integral<Entry>) {
      to.set(i, entry);
    } else {
      FieldWriter inner(to[i].as<capnp::DynamicStruct>());
      fields(inner, entry);
    }
  }

  capnp::DynamicStruct::Builder to_;
};

/// Keeps the first complaint in `fault`.
class FieldReader {
 public:
  FieldReader(capnp::DynamicStruct::Reader from, Status& fault) : from_(from), fault_(fault) {}

  void nothing(const char* /*name*/) {}
  template <Plain Value>
  void one(const char* name, Value& value) {
    value = plain<Value>(from_.get(name));
  }
  void time(const char* name, Duration& value) {
    const auto ns = from_.get(name).as<uint64_t>();
    if (ns > static_cast<uint64_t>(kFaultTimeMax.count())) return fail("a time of a fault is at most a year");
    value = Duration(static_cast<int64_t>(ns));
  }
  /// `complaint` is the error text; the unknown word is appended.
  template <class Word, class Parse>
  void word(const char* name, Word& value, Parse parse, const char* complaint) {
    const auto text = plain<std::string>(from_.get(name));
    const std::optional<Word> known = parse(text);
    if (!known) return fail(complaint + ("'" + text + "'"));
    value = *known;
  }
  template <class Part>
  void part(const char* name, Part& value) {
    FieldReader inner(from_.get(name).as<capnp::DynamicStruct>(), fault_);
    fields(inner, value);
  }
  template <class Entry>
  void many(const char* name, std::vector<Entry>& list, size_t most, const char* complaint = nullptr) {
    const auto from = from_.get(name).as<capnp::DynamicList>();
    if (from.size() > most && complaint != nullptr) return fail(complaint);
    list.clear();
    list.resize(std::min<size_t>(from.size(), most));
    take(from, list);
  }
  template <class Entry, size_t kCount>
  void many(const char* name, std::array<Entry, kCount>& list, size_t /*most*/) {
    take(from_.get(name).as<capnp::DynamicList>(), list);
  }
  void optional(const char* flag, const char* field, std::optional<bool>& value) {
    if (from_.get(flag).as<bool>()) value = from_.get(field).as<bool>();
  }
  void optional(const char* flag, const char* field, std::optional<std::vector<std::string>>& value,
                size_t most, const char* complaint) {
    if (from_.get(flag).as<bool>()) many(field, value.emplace(), most, complaint);
  }
  /// Stores in `chosen` which member of the union is set. An unknown one leaves `chosen` as it is, or is an
  /// error if there is a complaint.
  template <class Value, size_t kCount>
  void choice(const std::array<Words<Value>, kCount>& members, Value& chosen,
              const char* complaint = nullptr) {
    KJ_IF_MAYBE (field, from_.which()) {
      for (const auto& [name, value] : members) {
        if (field->getProto().getName() != name) continue;
        chosen = value;
        return;
      }
    }
    if (complaint != nullptr) fail(complaint);
  }

 private:
  void fail(std::string complaint) {
    if (fault_.ok()) fault_ = Error{std::move(complaint)};
  }
  template <class Value>
  static Value plain(capnp::DynamicValue::Reader from) {
    if constexpr (std::same_as<Value, std::string>) {
      const auto text = from.as<capnp::Text>();
      return {text.begin(), std::min(text.size(), kControlTextBytesMax)};
    } else {
      return from.as<Value>();
    }
  }
  template <class List>
  void take(capnp::DynamicList::Reader from, List& list) {
    for (unsigned i = 0; i < std::min<size_t>(from.size(), list.size()); ++i) {
      if constexpr (Plain<typename List::value_type>) {
        list[i] = plain<typename List::value_type>(from[i]);
      } else {
        FieldReader inner(from[i].as<capnp::DynamicStruct>(), fault_);
        fields(inner, list[i]);
      }
    }
  }

  capnp::DynamicStruct::Reader from_;
  Status& fault_;
};

template <class Codec>
void fields(Codec& codec, TrafficRun& run) {
  codec.one("port", run.port);
  codec.one("roundTrips", run.round_trips);
  codec.one("arp", run.arp);
  codec.one("icmp", run.icmp);
  codec.one("icmpv6", run.icmpv6);
  codec.one("udp", run.udp);
  codec.one("roundTripBytes", run.round_trip_bytes);
  codec.one("bulk", run.bulk);
  codec.one("bulkFrames", run.bulk_frames);
  codec.one("bulkDurationMs", run.bulk_duration_ms);
  codec.many("sizes", run.sizes, kTrafficSizesMax, "at most 8 frame sizes");
  codec.one("rate", run.rate);
  codec.one("window", run.window);
  codec.one("timeoutMs", run.timeout_ms);
  codec.one("seed", run.seed);
  codec.one("targetIpv4", run.target_ipv4);
  codec.one("targetIpv6High", run.target_ipv6_high);
  codec.one("targetIpv6Low", run.target_ipv6_low);
}

template <class Codec>
void fields(Codec& codec, RoundTripTimes& times) {
  codec.one("count", times.count);
  codec.one("p50Ns", times.p50_ns);
  codec.one("p99Ns", times.p99_ns);
  codec.one("p999Ns", times.p999_ns);
  codec.one("maxNs", times.max_ns);
}

template <class Codec>
void fields(Codec& codec, TrafficFigures& figures) {
  codec.one("running", figures.running);
  codec.one("phase", figures.phase);
  codec.one("framesSent", figures.frames_sent);
  codec.one("framesReceived", figures.frames_received);
  codec.one("lost", figures.lost);
  codec.one("corrupted", figures.corrupted);
  codec.one("duplicated", figures.duplicated);
  codec.one("reordered", figures.reordered);
  codec.one("late", figures.late);
  codec.one("bulkFramesReceived", figures.bulk_frames_received);
  codec.one("bulkBytesReceived", figures.bulk_bytes_received);
  codec.one("bulkNs", figures.bulk_ns);
  codec.part("roundTrip", figures.round_trip);
  codec.many("byKind", figures.by_kind, kTrafficKinds);
  codec.part("bulkRoundTrip", figures.bulk_round_trip);
}

template <class Codec>
void fields(Codec& codec, SessionInfo& session) {
  codec.one("peerLid", session.peer_lid);
  codec.one("state", session.state);
  codec.one("mode", session.mode);
  codec.one("encoding", session.encoding);
  codec.one("mac", session.mac);
}

template <class Codec>
void fields(Codec& codec, PortInfo& port) {
  codec.one("number", port.number);
  codec.one("state", port.state);
  codec.one("lid", port.lid);
  codec.one("peer", port.peer);
  codec.one("carrier", port.carrier);
}

template <class Codec>
void fields(Codec& codec, NodeInfo& info) {
  codec.one("program", info.program);
  codec.one("name", info.name);
  codec.one("version", info.version);
  codec.one("pid", info.pid);
  codec.one("lid", info.lid);
  codec.one("guid", info.guid);
  codec.one("wireVersion", info.wire_version);
  codec.one("ready", info.ready);
  codec.one("state", info.state);
  codec.one("fault", info.fault);
  codec.many("sessions", info.sessions, kControlSessionsMax);
  codec.many("ports", info.ports, kControlPortsMax);
  codec.many("interfaces", info.interfaces, kControlWordsMax);
}

template <class Codec>
void fields(Codec& codec, CaptureSpec& capture) {
  codec.one("path", capture.path);
  codec.one("frameBytesMax", capture.frame_bytes_max);
  codec.one("ringBytes", capture.ring_bytes);
  codec.one("interface", capture.interface);
  codec.one("readerPid", capture.reader_pid);
}

template <class Codec>
void fields(Codec& codec, NicWish& wish) {
  codec.one("interface", wish.interface);
  codec.one("clear", wish.clear);
  codec.optional("setPromiscuous", "promiscuous", wish.promiscuous);
  codec.optional("setAllMulticast", "allMulticast", wish.all_multicast);
  codec.optional("setMulticast", "multicast", wish.multicast, kMulticastFiltersMax,
                 "at most 64 multicast addresses");
}

template <class Codec>
void fields(Codec& codec, NicStatistics& statistics) {
  codec.one("framesIn", statistics.frames_in);
  codec.one("bytesIn", statistics.bytes_in);
  codec.one("framesOut", statistics.frames_out);
  codec.one("bytesOut", statistics.bytes_out);
  codec.one("drops", statistics.drops);
  codec.one("errors", statistics.errors);
}

template <class Codec>
void fields(Codec& codec, NicReport& report) {
  codec.one("interface", report.interface);
  codec.one("unitLid", report.unit_lid);
  codec.one("pending", report.pending);
  codec.one("reads", report.reads);
  codec.one("linkUp", report.link_up);
  codec.one("mac", report.mac);
  codec.one("mtu", report.mtu);
  codec.one("nicMtu", report.nic_mtu);
  codec.many("offloads", report.offloads, kControlWordsMax);
  codec.many("nicOffloads", report.nic_offloads, kControlWordsMax);
  codec.one("promiscuous", report.promiscuous);
  codec.one("allMulticast", report.all_multicast);
  codec.many("multicast", report.multicast, kControlWordsMax);
  codec.part("statistics", report.statistics);
  codec.many("faults", report.faults, kControlWordsMax);
}

template <class Codec>
void fields(Codec& codec, Guid& guid, const char* name) {
  uint64_t value = guid.value();
  codec.one(name, value);
  guid = Guid(value);
}

template <class Codec>
void fields(Codec& codec, FaultRule& rule) {
  codec.one("port", rule.port);
  codec.word("kind", rule.kind, fault_kind, "no fault is called ");
  codec.word("direction", rule.direction, fault_direction, "a direction is both, from or to, not ");
  codec.one("lanes", rule.lanes);
  codec.one("opcode", rule.opcode);
  codec.one("chancePpm", rule.chance_ppm);
  codec.one("every", rule.every);
  codec.one("limit", rule.limit);
  codec.time("lastsNs", rule.lasts);
  codec.time("delayMinNs", rule.delay_min);
  codec.time("delayMaxNs", rule.delay_max);
  codec.one("cellsPerSecond", rule.cells_per_second);
  codec.time("upNs", rule.up);
  codec.time("downNs", rule.down);
  codec.one("seed", rule.seed);
  codec.one("bitsPerSecond", rule.bits_per_second);
  fields(codec, rule.guid, "guid");
}

template <class Codec>
void fields(Codec& codec, FaultInfo& fault) {
  codec.one("id", fault.id);
  codec.part("rule", fault.rule);
  codec.one("matched", fault.matched);
  codec.one("struck", fault.struck);
  codec.time("leftNs", fault.left);
}

constexpr std::array<Words<ControlAction>, 11> kActions{{{"info", ControlAction::kInfo},
                                                         {"trafficStart", ControlAction::kTrafficStart},
                                                         {"trafficStop", ControlAction::kTrafficStop},
                                                         {"trafficReport", ControlAction::kTrafficReport},
                                                         {"captureStart", ControlAction::kCaptureStart},
                                                         {"captureStop", ControlAction::kCaptureStop},
                                                         {"nicAsk", ControlAction::kNicAsk},
                                                         {"nicReport", ControlAction::kNicReport},
                                                         {"faultAdd", ControlAction::kFaultAdd},
                                                         {"faultClear", ControlAction::kFaultClear},
                                                         {"faultList", ControlAction::kFaultList}}};

template <class Codec>
void fields(Codec& codec, ControlRequest& request) {
  codec.one("id", request.id);
  codec.choice(kActions, request.action);
  switch (request.action) {
    case ControlAction::kUnknown:
    case ControlAction::kInfo:
      return codec.nothing("info");
    case ControlAction::kTrafficStart:
      return codec.part("trafficStart", request.traffic);
    case ControlAction::kTrafficStop:
      return codec.nothing("trafficStop");
    case ControlAction::kTrafficReport:
      return codec.nothing("trafficReport");
    case ControlAction::kCaptureStart:
      return codec.part("captureStart", request.capture);
    case ControlAction::kCaptureStop:
      return codec.one("captureStop", request.capture.path);
    case ControlAction::kNicAsk:
      return codec.part("nicAsk", request.nic);
    case ControlAction::kNicReport:
      return codec.one("nicReport", request.nic.interface);
    case ControlAction::kFaultAdd:
      return codec.part("faultAdd", request.fault);
    case ControlAction::kFaultClear:
      return codec.one("faultClear", request.fault_id);
    case ControlAction::kFaultList:
      return codec.nothing("faultList");
  }
}

constexpr std::array<Words<ControlAnswer>, 6> kAnswers{{{"error", ControlAnswer::kError},
                                                        {"done", ControlAnswer::kDone},
                                                        {"info", ControlAnswer::kInfo},
                                                        {"traffic", ControlAnswer::kTraffic},
                                                        {"nic", ControlAnswer::kNic},
                                                        {"faults", ControlAnswer::kFaults}}};

template <class Codec>
void fields(Codec& codec, ControlReply& reply) {
  codec.one("id", reply.id);
  codec.choice(kAnswers, reply.answer,
               "control message: unknown kind of reply; `weft` is older than the process it asks");
  switch (reply.answer) {
    case ControlAnswer::kError:
      return codec.one("error", reply.error);
    case ControlAnswer::kDone:
      return codec.nothing("done");
    case ControlAnswer::kInfo:
      return codec.part("info", reply.info);
    case ControlAnswer::kTraffic:
      return codec.part("traffic", reply.traffic);
    case ControlAnswer::kNic:
      return codec.part("nic", reply.nic);
    case ControlAnswer::kFaults:
      return codec.many("faults", reply.faults, kControlFaultsMax);
  }
}

template <class Root, class Value>
std::vector<std::byte> encode(Value value) {
  capnp::MallocMessageBuilder message(kControlMessageBytesMax / sizeof(capnp::word));
  FieldWriter writer(capnp::toDynamic(message.initRoot<Root>()));
  fields(writer, value);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const kj::ArrayPtr<const kj::byte> bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

/// The message as aligned words; empty unless it is one segment that fills it exactly.
std::vector<capnp::word> private_copy(std::span<const std::byte> bytes) {
  if (bytes.size() < 16 || bytes.size() > kControlMessageBytesMax || bytes.size() % 8 != 0) return {};
  std::vector<capnp::word> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  uint32_t framing[2];
  std::memcpy(framing, words.data(), sizeof framing);
  if (framing[0] != 0 || framing[1] != words.size() - 1) return {};
  return words;
}

/// Fills `value` from a checked copy of `bytes`.
template <class Root, class Value>
Result<Value> decode(std::span<const std::byte> bytes, Value value) {
  try {
    const std::vector<capnp::word> words = private_copy(bytes);
    if (words.empty()) return Error{"control message: bad framing"};
    capnp::ReaderOptions options;
    options.traversalLimitInWords = words.size() * 2;
    options.nestingLimit = 8;
    capnp::FlatArrayMessageReader message(kj::ArrayPtr<const capnp::word>(words.data(), words.size()),
                                          options);
    Status fault;
    FieldReader reader(capnp::toDynamic(message.getRoot<Root>()), fault);
    fields(reader, value);
    if (!fault) return fault.error();
    return value;
  } catch (const kj::Exception&) {
    return Error{"control message: malformed"};
  }
}

}  // namespace

std::vector<std::byte> encode_control_request(const ControlRequest& request) {
  return encode<schema::Request>(request);
}

std::vector<std::byte> encode_control_reply(const ControlReply& reply) {
  return encode<schema::Reply>(reply);
}

Result<ControlRequest> decode_control_request(std::span<const std::byte> bytes) {
  ControlRequest request;
  request.action = ControlAction::kUnknown;
  return decode<schema::Request>(bytes, std::move(request));
}

Result<ControlReply> decode_control_reply(std::span<const std::byte> bytes) {
  return decode<schema::Reply>(bytes, ControlReply{});
}

}  // namespace weft::control
