// How it works: the typed structs of management.h are copied into and out of Cap'n Proto messages. A decoder
// first checks the framing by hand -- one segment, its length exactly the message's -- then lets the reader
// walk a private, aligned copy with a traversal limit of twice its words. Cap'n Proto's exceptions end here.
#include "control/management.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "generated/control/management.capnp.h"

namespace weft::control {
namespace {

kj::StringPtr bounded(const std::string& text, std::string& scratch) {
  if (text.size() <= kControlTextBytesMax) return {text.c_str(), text.size()};
  scratch = text.substr(0, kControlTextBytesMax);
  return {scratch.c_str(), scratch.size()};
}

std::string text_of(capnp::Text::Reader text) {
  const size_t bytes = std::min(text.size(), kControlTextBytesMax);
  return {text.begin(), bytes};
}

unsigned words_in(const std::vector<std::string>& list) {
  return static_cast<unsigned>(std::min(list.size(), kControlWordsMax));
}

/// `to` has words_in(from) entries.
void put_words(capnp::List<capnp::Text>::Builder to, const std::vector<std::string>& from) {
  std::string scratch;
  for (unsigned i = 0; i < to.size(); ++i) to.set(i, bounded(from[i], scratch));
}

std::vector<std::string> words_of(capnp::List<capnp::Text>::Reader from) {
  std::vector<std::string> to;
  for (unsigned i = 0; i < std::min<size_t>(from.size(), kControlWordsMax); ++i)
    to.push_back(text_of(from[i]));
  return to;
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

void put_traffic_run(schema::TrafficRun::Builder to, const TrafficRun& from) {
  to.setPort(from.port);
  to.setRoundTrips(from.round_trips);
  to.setArp(from.arp);
  to.setIcmp(from.icmp);
  to.setIcmpv6(from.icmpv6);
  to.setUdp(from.udp);
  to.setRoundTripBytes(from.round_trip_bytes);
  to.setBulk(from.bulk);
  to.setBulkFrames(from.bulk_frames);
  to.setBulkDurationMs(from.bulk_duration_ms);
  const auto count = static_cast<unsigned>(std::min(from.sizes.size(), kTrafficSizesMax));
  auto sizes = to.initSizes(count);
  for (unsigned i = 0; i < count; ++i) sizes.set(i, from.sizes[i]);
  to.setRate(from.rate);
  to.setWindow(from.window);
  to.setTimeoutMs(from.timeout_ms);
  to.setSeed(from.seed);
  to.setTargetIpv4(from.target_ipv4);
  to.setTargetIpv6High(from.target_ipv6_high);
  to.setTargetIpv6Low(from.target_ipv6_low);
}

Result<TrafficRun> get_traffic_run(schema::TrafficRun::Reader from) {
  const auto sizes = from.getSizes();
  if (sizes.size() > kTrafficSizesMax) return Error{"at most 8 frame sizes"};
  TrafficRun to;
  to.port = from.getPort();
  to.round_trips = from.getRoundTrips();
  to.arp = from.getArp();
  to.icmp = from.getIcmp();
  to.icmpv6 = from.getIcmpv6();
  to.udp = from.getUdp();
  to.round_trip_bytes = from.getRoundTripBytes();
  to.bulk = from.getBulk();
  to.bulk_frames = from.getBulkFrames();
  to.bulk_duration_ms = from.getBulkDurationMs();
  to.sizes.clear();
  for (const uint32_t bytes : sizes) to.sizes.push_back(bytes);
  to.rate = from.getRate();
  to.window = from.getWindow();
  to.timeout_ms = from.getTimeoutMs();
  to.seed = from.getSeed();
  to.target_ipv4 = from.getTargetIpv4();
  to.target_ipv6_high = from.getTargetIpv6High();
  to.target_ipv6_low = from.getTargetIpv6Low();
  return to;
}

void put_round_trip(schema::TrafficFigures::RoundTrip::Builder to, const RoundTripTimes& from) {
  to.setCount(from.count);
  to.setP50Ns(from.p50_ns);
  to.setP99Ns(from.p99_ns);
  to.setP999Ns(from.p999_ns);
  to.setMaxNs(from.max_ns);
}

RoundTripTimes get_round_trip(schema::TrafficFigures::RoundTrip::Reader from) {
  return {from.getCount(), from.getP50Ns(), from.getP99Ns(), from.getP999Ns(), from.getMaxNs()};
}

void put_traffic_figures(schema::TrafficFigures::Builder to, const TrafficFigures& from) {
  std::string scratch;
  to.setRunning(from.running);
  to.setPhase(bounded(from.phase, scratch));
  to.setFramesSent(from.frames_sent);
  to.setFramesReceived(from.frames_received);
  to.setLost(from.lost);
  to.setCorrupted(from.corrupted);
  to.setDuplicated(from.duplicated);
  to.setReordered(from.reordered);
  to.setLate(from.late);
  to.setBulkFramesReceived(from.bulk_frames_received);
  to.setBulkBytesReceived(from.bulk_bytes_received);
  to.setBulkNs(from.bulk_ns);
  put_round_trip(to.initRoundTrip(), from.round_trip);
  auto kinds = to.initByKind(kTrafficKinds);
  for (unsigned i = 0; i < kTrafficKinds; ++i) put_round_trip(kinds[i], from.by_kind[i]);
  put_round_trip(to.initBulkRoundTrip(), from.bulk_round_trip);
}

TrafficFigures get_traffic_figures(schema::TrafficFigures::Reader from) {
  TrafficFigures to;
  to.running = from.getRunning();
  to.phase = text_of(from.getPhase());
  to.frames_sent = from.getFramesSent();
  to.frames_received = from.getFramesReceived();
  to.lost = from.getLost();
  to.corrupted = from.getCorrupted();
  to.duplicated = from.getDuplicated();
  to.reordered = from.getReordered();
  to.late = from.getLate();
  to.bulk_frames_received = from.getBulkFramesReceived();
  to.bulk_bytes_received = from.getBulkBytesReceived();
  to.bulk_ns = from.getBulkNs();
  to.round_trip = get_round_trip(from.getRoundTrip());
  const auto kinds = from.getByKind();
  for (unsigned i = 0; i < std::min<size_t>(kinds.size(), kTrafficKinds); ++i)
    to.by_kind[i] = get_round_trip(kinds[i]);
  to.bulk_round_trip = get_round_trip(from.getBulkRoundTrip());
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
  put_words(to.initInterfaces(words_in(from.interfaces)), from.interfaces);
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
  to.interfaces = words_of(from.getInterfaces());
  return to;
}

void put_nic_wish(schema::NicWish::Builder to, const NicWish& from) {
  std::string scratch;
  to.setInterface(bounded(from.interface, scratch));
  to.setClear(from.clear);
  to.setSetPromiscuous(from.promiscuous.has_value());
  to.setPromiscuous(from.promiscuous.value_or(false));
  to.setSetAllMulticast(from.all_multicast.has_value());
  to.setAllMulticast(from.all_multicast.value_or(false));
  to.setSetMulticast(from.multicast.has_value());
  if (from.multicast) put_words(to.initMulticast(words_in(*from.multicast)), *from.multicast);
}

Result<NicWish> get_nic_wish(schema::NicWish::Reader from) {
  NicWish to;
  to.interface = text_of(from.getInterface());
  to.clear = from.getClear();
  if (from.getSetPromiscuous()) to.promiscuous = from.getPromiscuous();
  if (from.getSetAllMulticast()) to.all_multicast = from.getAllMulticast();
  if (!from.getSetMulticast()) return to;
  if (from.getMulticast().size() > kMulticastFiltersMax) return Error{"at most 64 multicast addresses"};
  to.multicast = words_of(from.getMulticast());
  return to;
}

void put_statistics(schema::NicReport::Statistics::Builder to, const NicStatistics& from) {
  to.setFramesIn(from.frames_in);
  to.setBytesIn(from.bytes_in);
  to.setFramesOut(from.frames_out);
  to.setBytesOut(from.bytes_out);
  to.setDrops(from.drops);
  to.setErrors(from.errors);
}

NicStatistics get_statistics(schema::NicReport::Statistics::Reader from) {
  return {.frames_in = from.getFramesIn(),
          .bytes_in = from.getBytesIn(),
          .frames_out = from.getFramesOut(),
          .bytes_out = from.getBytesOut(),
          .drops = from.getDrops(),
          .errors = from.getErrors()};
}

void put_nic_report(schema::NicReport::Builder to, const NicReport& from) {
  std::string scratch;
  to.setInterface(bounded(from.interface, scratch));
  to.setUnitLid(from.unit_lid);
  to.setPending(from.pending);
  to.setReads(from.reads);
  to.setLinkUp(from.link_up);
  to.setMac(bounded(from.mac, scratch));
  to.setMtu(from.mtu);
  to.setNicMtu(from.nic_mtu);
  put_words(to.initOffloads(words_in(from.offloads)), from.offloads);
  put_words(to.initNicOffloads(words_in(from.nic_offloads)), from.nic_offloads);
  to.setPromiscuous(from.promiscuous);
  to.setAllMulticast(from.all_multicast);
  put_words(to.initMulticast(words_in(from.multicast)), from.multicast);
  put_statistics(to.initStatistics(), from.statistics);
  put_words(to.initFaults(words_in(from.faults)), from.faults);
}

NicReport get_nic_report(schema::NicReport::Reader from) {
  NicReport to;
  to.interface = text_of(from.getInterface());
  to.unit_lid = from.getUnitLid();
  to.pending = from.getPending();
  to.reads = from.getReads();
  to.link_up = from.getLinkUp();
  to.mac = text_of(from.getMac());
  to.mtu = from.getMtu();
  to.nic_mtu = from.getNicMtu();
  to.offloads = words_of(from.getOffloads());
  to.nic_offloads = words_of(from.getNicOffloads());
  to.promiscuous = from.getPromiscuous();
  to.all_multicast = from.getAllMulticast();
  to.multicast = words_of(from.getMulticast());
  to.statistics = get_statistics(from.getStatistics());
  to.faults = words_of(from.getFaults());
  return to;
}

void put_fault_rule(schema::FaultRule::Builder to, const FaultWish& from) {
  std::string scratch;
  to.setPort(from.port);
  to.setKind(bounded(from.kind, scratch));
  to.setDirection(bounded(from.direction, scratch));
  to.setLanes(from.lanes);
  to.setOpcode(from.opcode);
  to.setChancePpm(from.chance_ppm);
  to.setEvery(from.every);
  to.setLimit(from.limit);
  to.setLastsNs(from.lasts_ns);
  to.setDelayMinNs(from.delay_min_ns);
  to.setDelayMaxNs(from.delay_max_ns);
  to.setCellsPerSecond(from.cells_per_second);
  to.setUpNs(from.up_ns);
  to.setDownNs(from.down_ns);
  to.setSeed(from.seed);
}

FaultWish get_fault_rule(schema::FaultRule::Reader from) {
  return {.port = from.getPort(),
          .kind = text_of(from.getKind()),
          .direction = text_of(from.getDirection()),
          .lanes = from.getLanes(),
          .opcode = from.getOpcode(),
          .chance_ppm = from.getChancePpm(),
          .every = from.getEvery(),
          .limit = from.getLimit(),
          .lasts_ns = from.getLastsNs(),
          .delay_min_ns = from.getDelayMinNs(),
          .delay_max_ns = from.getDelayMaxNs(),
          .cells_per_second = from.getCellsPerSecond(),
          .up_ns = from.getUpNs(),
          .down_ns = from.getDownNs(),
          .seed = from.getSeed()};
}

void put_faults(schema::Reply::Builder to, const std::vector<FaultInfo>& from) {
  const auto count = static_cast<unsigned>(std::min(from.size(), kControlFaultsMax));
  auto list = to.initFaults(count);
  for (unsigned i = 0; i < count; ++i) {
    list[i].setId(from[i].id);
    put_fault_rule(list[i].initRule(), from[i].rule);
    list[i].setMatched(from[i].matched);
    list[i].setStruck(from[i].struck);
    list[i].setLeftNs(from[i].left_ns);
  }
}

std::vector<FaultInfo> get_faults(capnp::List<schema::Fault>::Reader from) {
  std::vector<FaultInfo> to;
  for (unsigned i = 0; i < std::min<size_t>(from.size(), kControlFaultsMax); ++i) {
    const auto fault = from[i];
    to.push_back({fault.getId(), get_fault_rule(fault.getRule()), fault.getMatched(), fault.getStruck(),
                  fault.getLeftNs()});
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
      Result<TrafficRun> run = get_traffic_run(from.getTrafficStart());
      if (!run.ok()) return run.error();
      to.action = ControlAction::kTrafficStart;
      to.traffic = std::move(run).value();
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
      to.capture = {text_of(capture.getPath()), capture.getFrameBytesMax(), capture.getRingBytes(),
                    text_of(capture.getInterface()), capture.getReaderPid()};
      return to;
    }
    case schema::Request::CAPTURE_STOP:
      to.action = ControlAction::kCaptureStop;
      to.capture.path = text_of(from.getCaptureStop());
      return to;
    case schema::Request::NIC_ASK: {
      Result<NicWish> wish = get_nic_wish(from.getNicAsk());
      if (!wish.ok()) return wish.error();
      to.action = ControlAction::kNicAsk;
      to.nic = std::move(wish).value();
      return to;
    }
    case schema::Request::NIC_REPORT:
      to.action = ControlAction::kNicReport;
      to.nic.interface = text_of(from.getNicReport());
      return to;
    case schema::Request::FAULT_ADD:
      to.action = ControlAction::kFaultAdd;
      to.fault = get_fault_rule(from.getFaultAdd());
      return to;
    case schema::Request::FAULT_CLEAR:
      to.action = ControlAction::kFaultClear;
      to.fault_id = from.getFaultClear();
      return to;
    case schema::Request::FAULT_LIST:
      to.action = ControlAction::kFaultList;
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
      to.traffic = get_traffic_figures(from.getTraffic());
      return to;
    case schema::Reply::NIC:
      to.answer = ControlAnswer::kNic;
      to.nic = get_nic_report(from.getNic());
      return to;
    case schema::Reply::FAULTS:
      to.answer = ControlAnswer::kFaults;
      to.faults = get_faults(from.getFaults());
      return to;
  }
  return Error{"control message: unknown kind of reply; `weft` is older than the process it asks"};
}

}  // namespace

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
      put_traffic_run(root.initTrafficStart(), request.traffic);
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
      capture.setInterface(bounded(request.capture.interface, scratch));
      capture.setReaderPid(request.capture.reader_pid);
      break;
    }
    case ControlAction::kCaptureStop: {
      std::string scratch;
      root.setCaptureStop(bounded(request.capture.path, scratch));
      break;
    }
    case ControlAction::kNicAsk:
      put_nic_wish(root.initNicAsk(), request.nic);
      break;
    case ControlAction::kNicReport: {
      std::string scratch;
      root.setNicReport(bounded(request.nic.interface, scratch));
      break;
    }
    case ControlAction::kFaultAdd:
      put_fault_rule(root.initFaultAdd(), request.fault);
      break;
    case ControlAction::kFaultClear:
      root.setFaultClear(request.fault_id);
      break;
    case ControlAction::kFaultList:
      root.setFaultList();
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
      put_traffic_figures(root.initTraffic(), reply.traffic);
      break;
    case ControlAnswer::kNic:
      put_nic_report(root.initNic(), reply.nic);
      break;
    case ControlAnswer::kFaults:
      put_faults(root, reply.faults);
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

}  // namespace weft::control
