// How it works: a cell becomes one frame, or two if it carries more than InfiniBand's largest path MTU. Sends
// keep their messages. Each packet of a write or read names its own address and key, so it becomes a complete
// write or read. An acknowledgement names the last frame of the cell that it acknowledges.
#include "tools/capture/roce_translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/endian.h"
#include "messages/mad/cm.h"
#include "messages/multicast.h"
#include "messages/session_mad.h"
#include "messages/transport_headers.h"

namespace weft::tools {
namespace {

// InfiniBand operation codes without the service bits (volume 1, table 38).
constexpr uint8_t kSendFirst = 0x00;
constexpr uint8_t kSendMiddle = 0x01;
constexpr uint8_t kSendLast = 0x02;
constexpr uint8_t kSendOnly = 0x04;
constexpr uint8_t kWriteFirst = 0x06;
constexpr uint8_t kWriteMiddle = 0x07;
constexpr uint8_t kWriteLast = 0x08;
constexpr uint8_t kWriteOnly = 0x0A;
constexpr uint8_t kWithImmediate = 1;  // added to the code of a last or only packet
constexpr uint8_t kReadRequest = 0x0C;
constexpr uint8_t kReadFirst = 0x0D;
constexpr uint8_t kReadMiddle = 0x0E;
constexpr uint8_t kReadLast = 0x0F;
constexpr uint8_t kReadOnly = 0x10;
constexpr uint8_t kAcknowledge = 0x11;
constexpr uint8_t kAtomicAcknowledge = 0x12;
constexpr uint8_t kCompareSwap = 0x13;
constexpr uint8_t kFetchAdd = 0x14;
constexpr uint8_t kSendLastInvalidate = 0x16;
constexpr uint8_t kSendOnlyInvalidate = 0x17;

// Syndromes of an AETH.
constexpr uint8_t kSyndromeAck = 0x1F;  // without end-to-end credits
constexpr uint8_t kSyndromeRnr = 0x20;
constexpr uint8_t kRnrTimerMask = 0x1F;
constexpr uint8_t kSyndromeSequence = 0x60;
constexpr uint8_t kSyndromeInvalid = 0x61;
constexpr uint8_t kSyndromeAccess = 0x62;
constexpr uint8_t kSyndromeOperation = 0x63;

/// Operation codes by the packet's place in a message.
struct PlaceCodes {
  uint8_t first;
  uint8_t middle;
  uint8_t last;
  uint8_t only;
  [[nodiscard]] uint8_t at(bool is_first, bool is_last) const noexcept {
    if (is_last) return is_first ? only : last;
    return is_first ? first : middle;
  }
};
constexpr PlaceCodes kSends{kSendFirst, kSendMiddle, kSendLast, kSendOnly};
constexpr PlaceCodes kWrites{kWriteFirst, kWriteMiddle, kWriteLast, kWriteOnly};
constexpr PlaceCodes kReads{kReadFirst, kReadMiddle, kReadLast, kReadOnly};

uint8_t of_service(RoceService service, uint8_t operation) noexcept {
  return static_cast<uint8_t>(static_cast<uint8_t>(service) | operation);
}

uint32_t port_word(SubnetId subnet, Lid lid) noexcept {
  return uint32_t{subnet.value()} << 16 | lid.value();
}

/// MAC address of a port as its cells carry it: 02 00, subnet, LID.
MacBytes mac_of(SubnetId subnet, Lid lid) noexcept {
  MacBytes out;
  store_be(out.data(), kAddressPrefix);
  store_be(out.data() + 2, port_word(subnet, lid));
  return out;
}

/// IPv4 address of a LID: 10.87.0.0 plus the LID (docs/rdma_cm.md).
Gid ip_of(Lid lid) noexcept {
  Gid out{};
  store_be(out.data() + 12, 10U << 24 | 87U << 16 | lid.value());
  return out;
}

/// Addresses from the cell's global header; without one, addresses made from the LIDs.
RoceRoute route_of(const CellView& cell) {
  RoceRoute out;
  out.destination_mac = mac_of(cell.dest_subnet, cell.dlid);
  out.source_mac = mac_of(cell.src_subnet, cell.slid);
  out.source = ip_of(cell.slid);
  out.destination = ip_of(cell.dlid);
  out.source_port = roce_source_port(cell.src_qpn.value(), cell.dest_qpn.value());
  if (cell.global_header == nullptr) return out;
  GlobalHeaderWire global;
  std::memcpy(&global, cell.global_header, sizeof global);
  out.ipv6 = true;
  out.source = global.source;
  out.destination = global.destination;
  out.class_and_flow = global.version_class_flow.get() & 0x0FFF'FFFF;
  out.hop_limit = global.hop_limit;
  if (is_multicast(global.destination)) {
    out.destination_mac = {std::byte{0x33}, std::byte{0x33}};
    std::copy_n(global.destination.begin() + 12, 4, out.destination_mac.begin() + 2);
  }
  return out;
}

/// For bytes that are no valid cell: takes their first twelve bytes as MAC addresses.
RoceRoute route_of(std::span<const std::byte> bytes) {
  constexpr size_t kMac = sizeof(MacBytes);
  RoceRoute out;
  if (bytes.size() < 2 * kMac) return out;
  std::memcpy(out.destination_mac.data(), bytes.data(), kMac);
  std::memcpy(out.source_mac.data(), bytes.data() + kMac, kMac);
  return out;
}

RoceBase base_of(const CellView& cell) noexcept {
  return {.opcode = 0,
          .solicited = false,
          .migrated = (cell.flags2 & kCell2MayMigrate) == 0,
          .ack_wanted = false,
          .pkey = cell.pkey,
          .dest_qpn = cell.dest_qpn.value(),
          .psn = cell.psn.value()};
}

bool is_xrc(const CellView& cell) noexcept {
  return (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpXrcHeader) != 0;
}

/// Selective acknowledgement blocks in words, because no AETH can express them.
std::string block_words(const CellView& cell) {
  if (cell.opcode == Opcode::kWays) return "names the ways to its sender";
  std::string out;
  for (size_t at = 0; at + sizeof(SelectiveBlockWire) <= cell.payload.size();
       at += sizeof(SelectiveBlockWire)) {
    SelectiveBlockWire block;
    std::memcpy(&block, cell.payload.data() + at, sizeof block);
    out += fmt::format("{}packet {:#x} cells from {}: {:#x}", out.empty() ? "has also " : ", ",
                       block.psn.get(), block.base_cell.get(), block.bitmap.get());
  }
  return out;
}

/// Joins two notes; one may be empty.
std::string joined_notes(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

/// True for a management datagram of InfiniBand. Other datagrams to a management queue pair are damaged or
/// come from tests.
bool is_mad(const CellView& cell) noexcept {
  constexpr std::byte kMadVersion{1};
  return cell.payload.size() == kMadBytes && cell.payload.front() == kMadVersion;
}

}  // namespace

RoceTranslator::RoceTranslator(uint32_t cell_payload_bytes)
    : cell_payload_(std::max(cell_payload_bytes, 1U)), frames_per_cell_(frames_of(cell_payload_)) {}

uint32_t RoceTranslator::frames_of(size_t bytes) const noexcept {
  return std::max(1U, static_cast<uint32_t>((bytes + kRocePayloadBytesMax - 1) / kRocePayloadBytesMax));
}

void RoceTranslator::take(const CapturedFrame& captured, std::vector<CapturedFrame>& out) {
  CellView cell;
  const CellError error = decode_cell(captured.data, CrcCheck::kVerify, cell);
  if (error == CellError::kNone)
    translate(captured, cell);
  else
    emit_other(captured, route_of(captured.data), fmt::format("no valid cell: {}", to_string(error)));
  release(captured.time_ns, out);
}

void RoceTranslator::translate(const CapturedFrame& captured, const CellView& cell) {
  Source source{captured, cell, route_of(cell), base_of(cell)};
  switch (cell.opcode) {
    case Opcode::kSend:
    case Opcode::kRdmaWrite:
    case Opcode::kRdmaReadRequest:
    case Opcode::kFetchOpRequest:
    case Opcode::kXrcSend:
    case Opcode::kXrcWrite:
    case Opcode::kXrcReadRequest:
    case Opcode::kXrcFetchOpRequest:
      return add_request(source);
    case Opcode::kRdmaReadResponse:
      return add_read_response(source);
    case Opcode::kFetchOpResponse:
      return add_fetch_response(source);
    case Opcode::kAck:
    case Opcode::kNak:
    case Opcode::kWays:
      return add_acknowledgement(source);
    case Opcode::kUdSend:
      return add_datagram(source);
    case Opcode::kRdSend:
    case Opcode::kRdWrite:
      return add_rd_request(source);
    case Opcode::kRaw:
      return add_raw(source);
    case Opcode::kTerminate:
    case Opcode::kStreamSegment:
      return emit_other(captured, source.route, "RoCE has no such operation");
  }
}

// ---- flows --------------------

RoceTranslator::Flow& RoceTranslator::flow_of(const FlowKey& key, RoceService service) {
  // All flows restart their numbering.
  if (flows_.size() >= kFlowsMax && !flows_.contains(key)) flows_.clear();
  Flow& flow = flows_[key];
  flow.service = service;
  if (service == RoceService::kRc &&
      (unreliable_.contains(key.requester) || unreliable_.contains(key.responder)))
    flow.service = RoceService::kUc;
  return flow;
}

RoceTranslator::Flow* RoceTranslator::answered_flow(const CellView& cell) {
  const auto found = flows_.find({{port_word(cell.dest_subnet, cell.dlid), cell.dest_qpn.value()},
                                  {port_word(cell.src_subnet, cell.slid), cell.src_qpn.value()}});
  return found == flows_.end() ? nullptr : &found->second;
}

/// Notes which queue pairs are UC. Cells of RC and UC look alike, but a connection request names the service;
/// that of a session does so for both of its channels.
void RoceTranslator::learn_service(const CellView& cell) {
  CmMad mad;
  if (decode_cm(cell.payload, mad) != MadError::kNone) return;
  const uint32_t port = port_word(cell.src_subnet, cell.slid);
  SessionMad session;
  if (read_session_mad(mad, session) == MadError::kNone && session.offer.channels == 2) {
    const bool unreliable = session.offer.mode == static_cast<uint8_t>(TransferMode::kSendReceive);
    learn_end({port, session.offer.control.qpn.value()}, unreliable);
    learn_end({port, session.offer.data.qpn.value()}, unreliable);
  } else if (const auto* req = std::get_if<CmReq>(&mad.body)) {
    learn_end({port, req->qpn}, req->service == kCmServiceUc);
  }
}

void RoceTranslator::learn_end(const End& end, bool unreliable) {
  if (unreliable_.size() >= kFlowsMax) unreliable_.clear();
  if (unreliable)
    unreliable_.insert(end);
  else
    unreliable_.erase(end);
}

// ---- requests --------------------

void RoceTranslator::add_request(Source& source) {
  const CellView& cell = source.cell;
  const FlowKey key{{port_word(cell.src_subnet, cell.slid), cell.src_qpn.value()},
                    {port_word(cell.dest_subnet, cell.dlid), cell.dest_qpn.value()}};
  Flow& flow = flow_of(key, is_xrc(cell) ? RoceService::kXrc : RoceService::kRc);
  if (is_atomic_request(cell.opcode)) return add_fetch_request(source, flow);
  if (is_read_request(cell.opcode)) return add_read_request(source, flow);
  add_data(source, flow, key, cell.opcode == Opcode::kRdmaWrite || cell.opcode == Opcode::kXrcWrite);
}

/// Adds the frames of one cell of a Send or write.
void RoceTranslator::add_data(Source& source, Flow& flow, const FlowKey& key, bool is_write) {
  const CellView& cell = source.cell;
  const uint32_t frames = frames_of(cell.payload.size());
  const uint32_t first_frame = cell.cell_number * frames_per_cell_;
  const auto bytes_before = static_cast<uint32_t>(cell.cell_number * cell_payload_);
  MappedPacket& packet = flow.psns.open(cell.psn);
  packet.frames = std::max(packet.frames, first_frame + frames);
  packet.bytes = std::max(packet.bytes, bytes_before + static_cast<uint32_t>(cell.payload.size()));
  packet.ended = packet.ended || cell.has(kCellLast);
  const bool begins = cell.has(kCellFirst) && (is_write || (cell.flags2 & kCell2Continues) == 0);
  const bool ends = cell.has(kCellLast) && (is_write || (cell.flags2 & kCell2More) == 0);
  for (uint32_t i = 0; i < frames; ++i) {
    const size_t at = size_t{i} * kRocePayloadBytesMax;
    const bool first = begins && i == 0;
    const bool last = ends && i + 1 == frames;
    const bool tail = last && cell.has(kCellIdata);
    const bool invalidates = tail && !is_write && cell.has(kCellInvalidateKey);
    uint8_t operation = (is_write ? kWrites : kSends).at(first, last);
    RoceHeaders headers;
    if (is_xrc(cell)) headers.xrceth(cell.srq);
    if (is_write && first) headers.reth(cell.va, cell.rkey.value(), packet.bytes);
    if (invalidates) {
      operation = first ? kSendOnlyInvalidate : kSendLastInvalidate;
      headers.ieth(cell.idata);
    } else if (tail) {
      operation = static_cast<uint8_t>(operation + kWithImmediate);
      headers.immdt(cell.idata);
    }
    source.base.opcode = of_service(flow.service, operation);
    source.base.solicited = last && (cell.flags2 & kCell2Solicited) != 0;
    source.base.ack_wanted = i + 1 == frames && cell.has(kCellAckWanted);
    source.base.psn = flow.psns.number(cell.psn, first_frame + i);
    emit(source, headers,
         cell.payload.subspan(at, std::min<size_t>(kRocePayloadBytesMax, cell.payload.size() - at)));
    if (is_write && first && !packet.ended) {
      constexpr size_t kLengthInReth = 12;
      waiting_.back().length_at =
          roce_headers_at(source.route.ipv6) + (is_xrc(cell) ? kXrcHeaderBytes : 0) + kLengthInReth;
      waiting_.back().flow = key;
      waiting_.back().psn = cell.psn;
    }
  }
}

void RoceTranslator::add_read_request(Source& source, Flow& flow) {
  const CellView& cell = source.cell;
  ReadRequestWire request{};
  std::memcpy(&request, cell.payload.data(), std::min(sizeof request, cell.payload.size()));
  const uint32_t length = request.length.get();
  const uint32_t whole_cells = std::min((std::max(length, 1U) - 1) / cell_payload_, kCellsPerPacketMax - 1);
  MappedPacket& packet = flow.psns.open(cell.psn);
  packet.frames = whole_cells * frames_per_cell_ +
                  std::min(frames_per_cell_, frames_of(length - whole_cells * cell_payload_));
  packet.ended = true;
  RoceHeaders headers;
  if (is_xrc(cell)) headers.xrceth(cell.srq);
  headers.reth(request.source_address.get(), request.source_key.get(), length);
  source.base.opcode = of_service(flow.service, kReadRequest);
  source.base.ack_wanted = true;
  source.base.psn = flow.psns.number(cell.psn, 0);
  emit(source, headers, {});
}

void RoceTranslator::add_fetch_request(Source& source, Flow& flow) {
  const CellView& cell = source.cell;
  FetchRequestWire request{};
  std::memcpy(&request, cell.payload.data(), std::min(sizeof request, cell.payload.size()));
  MappedPacket& packet = flow.psns.open(cell.psn);
  packet.frames = 1;
  packet.ended = true;
  const bool swaps = request.operation == static_cast<uint8_t>(FetchOp::kCompareSwap);
  RoceHeaders headers;
  if (is_xrc(cell)) headers.xrceth(cell.srq);
  headers.atomiceth(request.address.get(), request.key.get(), request.operand.get(), request.compare.get());
  source.base.opcode = of_service(flow.service, swaps ? kCompareSwap : kFetchAdd);
  source.base.ack_wanted = true;
  source.base.psn = flow.psns.number(cell.psn, 0);
  const bool known = swaps || request.operation == static_cast<uint8_t>(FetchOp::kFetchAdd);
  emit(source, headers, {},
       known ? std::string() : fmt::format("operation {} of FetchOp", request.operation));
}

// ---- answers --------------------

void RoceTranslator::add_read_response(Source& source) {
  const CellView& cell = source.cell;
  const Flow* flow = answered_flow(cell);
  const RoceService service = flow == nullptr ? RoceService::kRc : flow->service;
  const uint32_t frames = frames_of(cell.payload.size());
  for (uint32_t i = 0; i < frames; ++i) {
    const size_t at = size_t{i} * kRocePayloadBytesMax;
    const uint32_t frame = cell.cell_number * frames_per_cell_ + i;
    const bool first = cell.has(kCellFirst) && i == 0;
    const bool last = cell.has(kCellLast) && i + 1 == frames;
    RoceHeaders headers;
    if (first || last) headers.aeth(kSyndromeAck, flow == nullptr ? 0 : flow->msn);
    source.base.opcode = of_service(service, kReads.at(first, last));
    source.base.psn = flow == nullptr ? cell.psn.value() + frame : flow->psns.number(cell.psn, frame);
    emit(source, headers,
         cell.payload.subspan(at, std::min<size_t>(kRocePayloadBytesMax, cell.payload.size() - at)));
  }
}

void RoceTranslator::add_fetch_response(Source& source) {
  const CellView& cell = source.cell;
  const Flow* flow = answered_flow(cell);
  uint64_t before = 0;
  if (cell.payload.size() >= sizeof before) before = load_be<uint64_t>(cell.payload.data());
  RoceHeaders headers;
  headers.aeth(kSyndromeAck, flow == nullptr ? 0 : flow->msn);
  headers.atomicacketh(before);
  source.base.opcode = of_service(flow == nullptr ? RoceService::kRc : flow->service, kAtomicAcknowledge);
  source.base.psn = flow == nullptr ? cell.psn.value() : flow->psns.number(cell.psn, 0);
  emit(source, headers, {});
}

void RoceTranslator::add_acknowledgement(Source& source) {
  const CellView& cell = source.cell;
  const AckBody& ack = cell.ack;
  Flow* flow = answered_flow(cell);
  const RoceService service = flow == nullptr ? RoceService::kRc : flow->service;
  const MappedPacket* packet = flow == nullptr ? nullptr : flow->psns.find(ack.psn);
  const uint32_t begun = ack.cell_number * frames_per_cell_;
  uint32_t frame = begun + frames_per_cell_ - 1;  // the last frame of the cell
  if (packet != nullptr && packet->ended && frame >= packet->frames) frame = packet->frames - 1;
  uint8_t syndrome = kSyndromeAck;
  std::string note = block_words(cell);
  switch (ack.code) {
    case AckCode::kAck:
      break;
    case AckCode::kSequenceError:
      syndrome = kSyndromeSequence;
      frame = begun;
      break;
    case AckCode::kReceiverNotReady:
      syndrome = static_cast<uint8_t>(kSyndromeRnr | (ack.cell_number & kRnrTimerMask));
      frame = 0;
      break;
    case AckCode::kStandsStill:  // RoCE has no such NAK; the longest RNR NAK also makes the requester wait
      syndrome = kSyndromeRnr;
      frame = 0;
      note = "the switch says so for an endnode that stands still";
      break;
    case AckCode::kRemoteAccess:
      syndrome = kSyndromeAccess;
      frame = 0;
      break;
    case AckCode::kNotSupported:
      syndrome = kSyndromeInvalid;
      frame = 0;
      break;
    case AckCode::kRemoteOperation:
      syndrome = kSyndromeOperation;
      frame = 0;
      break;
    case AckCode::kPacketCrc:
      syndrome = kSyndromeSequence;
      frame = 0;
      note = joined_notes("packet CRC wrong", note);
      break;
    case AckCode::kCount:
      break;
  }
  if (flow != nullptr) flow->msn = ack.messages_completed;
  RoceHeaders headers;
  if (service == RoceService::kRd) headers.rdeth(cell.dlid.value());
  headers.aeth(syndrome, ack.messages_completed);
  source.base.opcode = of_service(service, kAcknowledge);
  const bool counts_messages = service == RoceService::kRd || flow == nullptr;
  source.base.psn = counts_messages ? ack.psn.value() : flow->psns.number(ack.psn, frame);
  emit(source, headers, {}, note);
}

// ---- datagrams and raw frames --------------------

void RoceTranslator::add_datagram(Source& source) {
  const CellView& cell = source.cell;
  if (is_management(cell.dest_qpn)) {
    if (!is_mad(cell))
      return emit_other(source.captured, source.route, "a datagram to a management queue pair that is none");
    learn_service(cell);
  }
  RoceHeaders headers;
  headers.deth(cell.qkey, cell.src_qpn.value());
  uint8_t operation = kSendOnly;
  if (cell.has(kCellIdata)) {
    operation = static_cast<uint8_t>(operation + kWithImmediate);
    headers.immdt(cell.idata);
  }
  source.base.opcode = of_service(RoceService::kUd, operation);
  source.base.solicited = (cell.flags2 & kCell2Solicited) != 0;
  emit(source, headers, cell.payload);
}

/// Each message is one cell. The end-to-end context is the sender's LID.
void RoceTranslator::add_rd_request(Source& source) {
  const CellView& cell = source.cell;
  flow_of({{port_word(cell.src_subnet, cell.slid), cell.src_qpn.value()},
           {port_word(cell.dest_subnet, cell.dlid), cell.dest_qpn.value()}},
          RoceService::kRd);
  const bool is_write = cell.opcode == Opcode::kRdWrite;
  uint8_t operation = is_write ? kWriteOnly : kSendOnly;
  RoceHeaders headers;
  headers.rdeth(cell.slid.value());
  headers.deth(cell.qkey, cell.src_qpn.value());
  if (is_write) headers.reth(cell.va, cell.rkey.value(), static_cast<uint32_t>(cell.payload.size()));
  if (cell.has(kCellIdata)) {
    operation = static_cast<uint8_t>(operation + kWithImmediate);
    headers.immdt(cell.idata);
  }
  source.base.opcode = of_service(RoceService::kRd, operation);
  source.base.solicited = (cell.flags2 & kCell2Solicited) != 0;
  source.base.ack_wanted = true;
  emit(source, headers, cell.payload);
}

/// A raw IPv6 packet is restored; other raw frames become frames of kEtherTypeOther.
void RoceTranslator::add_raw(Source& source) {
  const CellView& cell = source.cell;
  if (cell.global_header == nullptr) return emit_other(source.captured, source.route, "a raw frame");
  GlobalHeaderWire global;
  std::memcpy(&global, cell.global_header, sizeof global);
  global.payload_bytes.set(static_cast<uint16_t>(cell.payload.size()));
  std::vector<std::byte> packet(sizeof global);
  std::memcpy(packet.data(), &global, sizeof global);
  packet.insert(packet.end(), cell.payload.begin(), cell.payload.end());
  Waiting frame;
  frame.frame = source.captured;
  frame.frame.data = make_ethernet_frame(source.route, kEtherTypeIpv6, packet);
  frame.sealed = true;
  waiting_.push_back(std::move(frame));
}

// ---- the way out --------------------

void RoceTranslator::emit(const Source& source, const RoceHeaders& headers,
                          std::span<const std::byte> payload, const std::string& note) {
  Waiting out;
  out.frame.time_ns = source.captured.time_ns;
  out.frame.direction = source.captured.direction;
  out.frame.port = source.captured.port;
  out.frame.note = joined_notes(source.captured.note, note);
  out.frame.data = make_roce_frame(source.route, source.base, headers, payload);
  waiting_.push_back(std::move(out));
}

void RoceTranslator::emit_other(const CapturedFrame& captured, const RoceRoute& route,
                                const std::string& why) {
  Waiting out;
  out.frame = captured;
  out.frame.note = joined_notes(captured.note, why);
  out.frame.data = make_ethernet_frame(route, kEtherTypeOther, captured.data);
  out.sealed = true;
  waiting_.push_back(std::move(out));
}

bool RoceTranslator::complete(Waiting& front, bool now) {
  if (front.length_at == 0) return true;
  const auto flow = flows_.find(front.flow);
  const MappedPacket* packet = flow == flows_.end() ? nullptr : flow->second.psns.find(front.psn);
  const bool ended = packet != nullptr && packet->ended;
  if (packet != nullptr && !ended && !now) return false;
  if (packet != nullptr) store_be(front.frame.data.data() + front.length_at, packet->bytes);
  if (!ended)
    front.frame.note = joined_notes(front.frame.note, "the write is longer: its last cell was not seen");
  return true;
}

void RoceTranslator::release(uint64_t now_ns, std::vector<CapturedFrame>& out) {
  while (!waiting_.empty()) {
    Waiting& front = waiting_.front();
    const bool late = now_ns >= front.frame.time_ns && now_ns - front.frame.time_ns >= kWaitNs;
    if (!complete(front, late || waiting_.size() > kWaitingFramesMax)) return;
    if (!front.sealed) seal_roce_frame(front.frame.data);
    front.frame.frame_bytes = static_cast<uint32_t>(front.frame.data.size());
    out.push_back(std::move(front.frame));
    waiting_.pop_front();
  }
}

void RoceTranslator::finish(std::vector<CapturedFrame>& out) {
  release(UINT64_MAX, out);
}

}  // namespace weft::tools
