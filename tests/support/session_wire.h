// tests/support/session_wire.h -- what a session put on the wire, read back from the cells of a Pipe:
// datagrams of the opening, driver messages of channel 0 (decoded in either encoding), plain Sends and RDMA
// writes of channel 1, ACKs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "messages/netdev_model.h"
#include "messages/session_mad.h"
#include "tests/support/pipe_port.h"

namespace weft::test {

enum class WireKind : uint8_t { kCm, kMessage, kPlainSend, kWrite, kAck, kOther };

/// One complete transfer; in the order of the last cell of each.
struct WireItem {
  WireKind kind = WireKind::kOther;
  int from = 0;
  int channel = -1;  // 0 control, 1 data, -1 neither
  Opcode opcode{};
  std::vector<std::byte> bytes;  // payload, put together
  SessionMad cm;                 // kCm
  NetdevMessage message;         // kMessage; spans point into `store`
  std::shared_ptr<std::vector<std::byte>> store;
  uint64_t va = 0;                // kWrite
  Rkey rkey;                      // kWrite
  std::optional<uint32_t> idata;  // kWrite
  Qpn dest_qpn;

  template <class Body>
  [[nodiscard]] const Body* body() const {
    return kind == WireKind::kMessage ? std::get_if<Body>(&message.body) : nullptr;
  }
};

/// Reads the whole trace. The pipe must have carried the opening, which names the queue pairs.
std::vector<WireItem> read_wire(const Pipe& pipe, uint32_t cell_payload_bytes);

/// Items of one kind from one side.
std::vector<const WireItem*> select(const std::vector<WireItem>& items, int from, WireKind kind);

/// All bodies of one function from one side, in order.
template <class Body>
std::vector<Body> bodies(const std::vector<WireItem>& items, int from) {
  std::vector<Body> out;
  for (const WireItem& item : items) {
    if (const Body* body = item.body<Body>(); body != nullptr && item.from == from) out.push_back(*body);
  }
  return out;
}

}  // namespace weft::test
