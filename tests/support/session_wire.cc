#include "tests/support/session_wire.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "messages/netdev_bytes.h"
#include "messages/netdev_capnp.h"

namespace weft::test {

namespace {

/// Which queue pair is which channel, learnt from REQ and REP.
struct Channels {
  std::map<uint32_t, int> channel_of;  // by destination QPN
  MessageEncoding encoding = MessageEncoding::kCapnp;

  void learn(const SessionMad& cm) {
    if (cm.kind != CmAttribute::kReq && cm.kind != CmAttribute::kRep) return;
    channel_of[cm.offer.control.qpn.value()] = 0;
    if (cm.offer.channels == 2) channel_of[cm.offer.data.qpn.value()] = 1;
    encoding = static_cast<MessageEncoding>(cm.offer.encoding);
  }
};

void read_message(const Channels& channels, WireItem& item) {
  static NetdevCapnp capnp(65536);
  item.kind = WireKind::kMessage;
  NetdevMessage decoded;
  item.store = std::make_shared<std::vector<std::byte>>(item.bytes);
  if (channels.encoding == MessageEncoding::kBytes) {
    if (decode_netdev_bytes(*item.store, item.message) != NetdevError::kNone) item.kind = WireKind::kOther;
    return;
  }
  if (capnp.decode(item.bytes, decoded) != NetdevError::kNone) {
    item.kind = WireKind::kOther;
    return;
  }
  // Through the byte layout, so that the spans point into memory of the item's own.
  item.store->resize(netdev_bytes_size(decoded));
  EXPECT_EQ(encode_netdev_bytes(decoded, *item.store), item.store->size());
  EXPECT_EQ(decode_netdev_bytes(*item.store, item.message), NetdevError::kNone);
}

void classify(Channels& channels, WireItem& item) {
  const auto at = channels.channel_of.find(item.dest_qpn.value());
  if (at != channels.channel_of.end()) item.channel = at->second;
  if (item.opcode == Opcode::kUdSend) {
    if (decode_session_mad(item.bytes, item.cm) == MadError::kNone) item.kind = WireKind::kCm;
    channels.learn(item.cm);
  } else if (item.opcode == Opcode::kRdmaWrite) {
    item.kind = WireKind::kWrite;
  } else if (item.opcode == Opcode::kAck) {
    item.kind = WireKind::kAck;
  } else if (item.opcode == Opcode::kSend && item.channel == 0) {
    read_message(channels, item);
  } else if (item.opcode == Opcode::kSend && item.channel == 1) {
    item.kind = WireKind::kPlainSend;
  }
}

}  // namespace

std::vector<WireItem> read_wire(const Pipe& pipe, uint32_t cell_payload_bytes) {
  std::vector<WireItem> out;
  Channels channels;
  std::map<std::tuple<int, uint32_t>, WireItem> open;  // by direction and destination
  std::set<std::tuple<int, uint32_t, uint32_t, uint16_t>> seen;
  for (const TracedCell& cell : pipe.trace()) {
    const CellView& view = cell.view;
    const bool acknowledges = view.opcode == Opcode::kAck || view.opcode == Opcode::kNak;
    // Repeated cells count once.
    const auto id = std::make_tuple(cell.from, view.dest_qpn.value(), view.psn.value(), view.cell_number);
    if (!acknowledges && view.opcode != Opcode::kUdSend && !seen.insert(id).second) continue;
    WireItem single;
    WireItem& item = acknowledges || view.opcode == Opcode::kUdSend
                         ? single
                         : open[std::make_tuple(cell.from, view.dest_qpn.value())];
    item.from = cell.from;
    item.opcode = view.opcode;
    item.dest_qpn = view.dest_qpn;
    if (view.has(kCellVa) && item.bytes.empty()) {
      item.va = view.va;
      item.rkey = view.rkey;
    }
    if (view.has(kCellIdata)) item.idata = view.idata;
    EXPECT_LE(view.payload.size(), cell_payload_bytes);
    item.bytes.insert(item.bytes.end(), view.payload.begin(), view.payload.end());
    const bool last = acknowledges || (view.has(kCellLast) && (view.flags2 & kCell2More) == 0);
    if (!last) continue;
    WireItem done = std::move(item);
    item = WireItem();
    classify(channels, done);
    out.push_back(std::move(done));
  }
  return out;
}

std::vector<const WireItem*> select(const std::vector<WireItem>& items, int from, WireKind kind) {
  std::vector<const WireItem*> out;
  for (const WireItem& item : items) {
    if (item.from == from && item.kind == kind) out.push_back(&item);
  }
  return out;
}

}  // namespace weft::test
