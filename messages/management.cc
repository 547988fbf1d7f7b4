// How it works: the typed structs of management.h are copied into and out of Cap'n Proto messages. A decoder
// first checks the framing by hand -- one segment, its length exactly the message's -- then lets the reader
// walk a private, aligned copy with a traversal limit of twice its words. Cap'n Proto's exceptions end here.
#include "messages/management.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "generated/messages/management.capnp.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> kKindNames{"udp", "icmp", "icmp6", "arp"};
static_assert(kKindNames.size() == static_cast<size_t>(TrafficKind::kCount));

kj::StringPtr bounded(const std::string& text, std::string& scratch) {
  if (text.size() <= kControlTextBytesMax) return {text.c_str(), text.size()};
  scratch = text.substr(0, kControlTextBytesMax);
  return {scratch.c_str(), scratch.size()};
}

std::string text_of(capnp::Text::Reader text) {
  const size_t bytes = std::min(text.size(), kControlTextBytesMax);
  return {text.begin(), bytes};
}

std::vector<std::byte> flatten(capnp::MessageBuilder& message) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const kj::ArrayPtr<const kj::byte> bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

/// The message as aligned words; empty when the framing is not that of one segment that fills it.
std::vector<capnp::word> private_copy(std::span<const std::byte> bytes) {
  if (bytes.size() < 16 || bytes.size() > kControlMessageBytesMax || bytes.size() % 8 != 0) return {};
  std::vector<capnp::word> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  uint32_t framing[2];
  std::memcpy(framing, words.data(), sizeof framing);
  if (framing[0] != 0 || framing[1] != words.size() - 1) return {};
  return words;
}

/// Runs `read(Root::Reader)` on a checked copy of `bytes`.
template <class Root, class Value, class Read>
Result<Value> decode(std::span<const std::byte> bytes, Read&& read) {
  try {
    const std::vector<capnp::word> words = private_copy(bytes);
    if (words.empty()) return Error{"control message: bad framing"};
    capnp::ReaderOptions options;
    options.traversalLimitInWords = words.size() * 2;
    options.nestingLimit = 8;
    capnp::FlatArrayMessageReader reader(kj::ArrayPtr<const capnp::word>(words.data(), words.size()),
                                         options);
    return read(reader.getRoot<Root>());
  } catch (const kj::Exception&) {
    return Error{"control message: malformed"};
  }
}

void put_traffic_spec(schema::TrafficSpec::Builder to, const TrafficSpec& from) {
  to.setKind(static_cast<schema::TrafficSpec::Kind>(from.kind));
  to.setFrames(from.frames);
  to.setDurationMs(from.duration_ms);
  to.setRate(from.rate);
  to.setFrameBytesMin(from.frame_bytes_min);
  to.setFrameBytesMax(from.frame_bytes_max);
  to.setWindow(from.window);
  to.setVerify(from.verify);
  to.setPort(from.port);
  to.setTimeoutMs(from.timeout_ms);
  to.setPeerMac(from.peer_mac);
  to.setPeerIpv4(from.peer_ipv4);
  to.setOwnIpv4(from.own_ipv4);
}

TrafficSpec get_traffic_spec(schema::TrafficSpec::Reader from) {
  TrafficSpec to;
  to.kind = static_cast<TrafficKind>(from.getKind());
  to.frames = from.getFrames();
  to.duration_ms = from.getDurationMs();
  to.rate = from.getRate();
  to.frame_bytes_min = from.getFrameBytesMin();
  to.frame_bytes_max = from.getFrameBytesMax();
  to.window = from.getWindow();
  to.verify = from.getVerify();
  to.port = from.getPort();
  to.timeout_ms = from.getTimeoutMs();
  to.peer_mac = from.getPeerMac();
  to.peer_ipv4 = from.getPeerIpv4();
  to.own_ipv4 = from.getOwnIpv4();
  return to;
}

void put_traffic_report(schema::TrafficReport::Builder to, const TrafficReport& from) {
  to.setRunning(from.running);
  to.setFramesSent(from.frames_sent);
  to.setFramesReceived(from.frames_received);
  to.setBytesSent(from.bytes_sent);
  to.setBytesReceived(from.bytes_received);
  to.setLost(from.lost);
  to.setCorrupted(from.corrupted);
  to.setDuplicated(from.duplicated);
  to.setReordered(from.reordered);
  to.setElapsedNs(from.elapsed_ns);
  to.setRttMinNs(from.rtt_min_ns);
  to.setRttP50Ns(from.rtt_p50_ns);
  to.setRttP90Ns(from.rtt_p90_ns);
  to.setRttP99Ns(from.rtt_p99_ns);
  to.setRttP999Ns(from.rtt_p999_ns);
  to.setRttMaxNs(from.rtt_max_ns);
  to.setBlocked(from.blocked);
}

TrafficReport get_traffic_report(schema::TrafficReport::Reader from) {
  TrafficReport to;
  to.running = from.getRunning();
  to.frames_sent = from.getFramesSent();
  to.frames_received = from.getFramesReceived();
  to.bytes_sent = from.getBytesSent();
  to.bytes_received = from.getBytesReceived();
  to.lost = from.getLost();
  to.corrupted = from.getCorrupted();
  to.duplicated = from.getDuplicated();
  to.reordered = from.getReordered();
  to.elapsed_ns = from.getElapsedNs();
  to.rtt_min_ns = from.getRttMinNs();
  to.rtt_p50_ns = from.getRttP50Ns();
  to.rtt_p90_ns = from.getRttP90Ns();
  to.rtt_p99_ns = from.getRttP99Ns();
  to.rtt_p999_ns = from.getRttP999Ns();
  to.rtt_max_ns = from.getRttMaxNs();
  to.blocked = from.getBlocked();
  return to;
}

void put_sessions(schema::NodeInfo::Builder to, const std::vector<SessionInfo>& from) {
  const auto count = static_cast<unsigned>(std::min(from.size(), kControlSessionsMax));
  auto list = to.initSessions(count);
  std::string scratch;
  for (unsigned i = 0; i < count; ++i) {
    list[i].setPeerLid(from[i].peer_lid);
    list[i].setState(bounded(from[i].state, scratch));
    list[i].setMode(bounded(from[i].mode, scratch));
    list[i].setEncoding(bounded(from[i].encoding, scratch));
    list[i].setMac(bounded(from[i].mac, scratch));
  }
}

void put_ports(schema::NodeInfo::Builder to, const std::vector<PortInfo>& from) {
  const auto count = static_cast<unsigned>(std::min(from.size(), kControlPortsMax));
  auto list = to.initPorts(count);
  std::string scratch;
  for (unsigned i = 0; i < count; ++i) {
    list[i].setNumber(from[i].number);
    list[i].setState(bounded(from[i].state, scratch));
    list[i].setLid(from[i].lid);
    list[i].setPeer(bounded(from[i].peer, scratch));
    list[i].setCarrier(bounded(from[i].carrier, scratch));
  }
}

void put_info(schema::NodeInfo::Builder to, const NodeInfo& from) {
  std::string scratch;
  to.setProgram(bounded(from.program, scratch));
  to.setName(bounded(from.name, scratch));
  to.setVersion(bounded(from.version, scratch));
  to.setPid(from.pid);
  to.setLid(from.lid);
  to.setGuid(from.guid);
  to.setWireVersion(from.wire_version);
  to.setReady(from.ready);
  to.setState(bounded(from.state, scratch));
  to.setFault(bounded(from.fault, scratch));
  put_sessions(to, from.sessions);
  put_ports(to, from.ports);
}

NodeInfo get_info(schema::NodeInfo::Reader from) {
  NodeInfo to;
  to.program = text_of(from.getProgram());
  to.name = text_of(from.getName());
  to.version = text_of(from.getVersion());
  to.pid = from.getPid();
  to.lid = from.getLid();
  to.guid = from.getGuid();
  to.wire_version = from.getWireVersion();
  to.ready = from.getReady();
  to.state = text_of(from.getState());
  to.fault = text_of(from.getFault());
  const auto sessions = from.getSessions();
  for (unsigned i = 0; i < std::min<size_t>(sessions.size(), kControlSessionsMax); ++i) {
    const auto session = sessions[i];
    to.sessions.push_back({session.getPeerLid(), text_of(session.getState()), text_of(session.getMode()),
                           text_of(session.getEncoding()), text_of(session.getMac())});
  }
  const auto ports = from.getPorts();
  for (unsigned i = 0; i < std::min<size_t>(ports.size(), kControlPortsMax); ++i) {
    const auto port = ports[i];
    to.ports.push_back({port.getNumber(), text_of(port.getState()), port.getLid(), text_of(port.getPeer()),
                        text_of(port.getCarrier())});
  }
  return to;
}

Result<ControlRequest> read_request(schema::Request::Reader from) {
  ControlRequest to;
  to.id = from.getId();
  switch (from.which()) {
    case schema::Request::INFO:
      to.action = ControlAction::kInfo;
      return to;
    case schema::Request::TRAFFIC_START: {
      const auto spec = from.getTrafficStart();
      if (static_cast<size_t>(spec.getKind()) >= kKindNames.size())
        return Error{"control message: unknown kind of traffic"};
      to.action = ControlAction::kTrafficStart;
      to.traffic = get_traffic_spec(spec);
      return to;
    }
    case schema::Request::TRAFFIC_STOP:
      to.action = ControlAction::kTrafficStop;
      return to;
    case schema::Request::TRAFFIC_REPORT:
      to.action = ControlAction::kTrafficReport;
      return to;
    case schema::Request::CAPTURE_START: {
      to.action = ControlAction::kCaptureStart;
      const auto capture = from.getCaptureStart();
      to.capture = {text_of(capture.getPath()), capture.getFrameBytesMax(), capture.getRingBytes()};
      return to;
    }
    case schema::Request::CAPTURE_STOP:
      to.action = ControlAction::kCaptureStop;
      return to;
  }
  to.action = ControlAction::kUnknown;
  return to;
}

Result<ControlReply> read_reply(schema::Reply::Reader from) {
  ControlReply to;
  to.id = from.getId();
  switch (from.which()) {
    case schema::Reply::ERROR:
      to.answer = ControlAnswer::kError;
      to.error = text_of(from.getError());
      return to;
    case schema::Reply::DONE:
      to.answer = ControlAnswer::kDone;
      return to;
    case schema::Reply::INFO:
      to.answer = ControlAnswer::kInfo;
      to.info = get_info(from.getInfo());
      return to;
    case schema::Reply::TRAFFIC:
      to.answer = ControlAnswer::kTraffic;
      to.traffic = get_traffic_report(from.getTraffic());
      return to;
  }
  return Error{"control message: unknown kind of reply; `weft` is older than the process it asks"};
}

}  // namespace

std::string_view to_string(TrafficKind kind) noexcept {
  const auto index = static_cast<size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

bool parse_traffic_kind(std::string_view text, TrafficKind& out) noexcept {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] != text) continue;
    out = static_cast<TrafficKind>(i);
    return true;
  }
  return false;
}

std::vector<std::byte> encode_control_request(const ControlRequest& request) {
  capnp::MallocMessageBuilder message(kControlMessageBytesMax / sizeof(capnp::word));
  auto root = message.initRoot<schema::Request>();
  root.setId(request.id);
  switch (request.action) {
    case ControlAction::kUnknown:
    case ControlAction::kInfo:
      root.setInfo();
      break;
    case ControlAction::kTrafficStart:
      put_traffic_spec(root.initTrafficStart(), request.traffic);
      break;
    case ControlAction::kTrafficStop:
      root.setTrafficStop();
      break;
    case ControlAction::kTrafficReport:
      root.setTrafficReport();
      break;
    case ControlAction::kCaptureStart: {
      std::string scratch;
      auto capture = root.initCaptureStart();
      capture.setPath(bounded(request.capture.path, scratch));
      capture.setFrameBytesMax(request.capture.frame_bytes_max);
      capture.setRingBytes(request.capture.ring_bytes);
      break;
    }
    case ControlAction::kCaptureStop:
      root.setCaptureStop();
      break;
  }
  return flatten(message);
}

std::vector<std::byte> encode_control_reply(const ControlReply& reply) {
  capnp::MallocMessageBuilder message(kControlMessageBytesMax / sizeof(capnp::word));
  auto root = message.initRoot<schema::Reply>();
  root.setId(reply.id);
  switch (reply.answer) {
    case ControlAnswer::kError: {
      std::string scratch;
      root.setError(bounded(reply.error, scratch));
      break;
    }
    case ControlAnswer::kDone:
      root.setDone();
      break;
    case ControlAnswer::kInfo:
      put_info(root.initInfo(), reply.info);
      break;
    case ControlAnswer::kTraffic:
      put_traffic_report(root.initTraffic(), reply.traffic);
      break;
  }
  return flatten(message);
}

Result<ControlRequest> decode_control_request(std::span<const std::byte> bytes) {
  return decode<schema::Request, ControlRequest>(bytes, read_request);
}

Result<ControlReply> decode_control_reply(std::span<const std::byte> bytes) {
  return decode<schema::Reply, ControlReply>(bytes, read_reply);
}

}  // namespace weft
