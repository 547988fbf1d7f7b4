// tests/support/switch_box.h -- a switch as weft-switch builds it, without its process, and endnodes that
// join it through the production connectors: over shared memory, or over ZeroMQ.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "fabric/switch/switch.h"
#include "fabric/switch/zmq_acceptor.h"
#include "tests/support/test_cells.h"

namespace weft::test {

/// Small cells unless told otherwise.
fabric::SwitchConfig small_switch(uint32_t flit_payload_bytes = 0, uint32_t credits = 32);

/// Sends if the port has room now.
inline bool send_cell(fabric::LinkCellPort& port, const std::vector<std::byte>& cell) {
  const VirtualLane vl = CellHead(cell.data()).vl();
  std::byte* to = port.claim(vl, static_cast<uint32_t>(cell.size()));
  if (to == nullptr) return false;
  std::memcpy(to, cell.data(), cell.size());
  port.commit(vl, static_cast<uint32_t>(cell.size()), cell_crc(cell));
  return true;
}

/// Who may join: LID 1 and the next ones.
inline std::vector<fabric::NodeEntry> nodes_with(const std::vector<Guid>& guids) {
  std::vector<fabric::NodeEntry> out;
  for (const Guid guid : guids) {
    const auto number = static_cast<uint16_t>(out.size() + 1);
    out.push_back({"n" + std::to_string(number), guid, Lid(number)});
  }
  return out;
}

struct SwitchBox {
  /// @param where     where it listens: "shm:PATH", or an endpoint of ZeroMQ
  /// @param patience  how long a link over ZeroMQ may be silent; 0: as usual
  SwitchBox(const std::string& where, const fabric::SwitchConfig& switching,
            std::vector<fabric::NodeEntry> nodes, Duration patience = {})
      : core(switching), admission(core, std::move(nodes)) {
    endpoint_.link = switching.link;
    endpoint_.endpoint = where;
    endpoint_.silence = patience;
    if (where.rfind("shm:", 0) == 0) {
      acceptor = std::move(fabric::ShmAcceptor::create(where.substr(4), admission).value());
    } else {
      fabric::ZmqAcceptorConfig listen;
      listen.endpoints = {where};
      listen.silence = patience;
      acceptor = std::move(fabric::ZmqAcceptor::create(listen, admission).value());
    }
  }
  void poll(Instant now) {
    acceptor->poll(now);
    core.poll(now);
  }
  /// How an endnode joins.
  [[nodiscard]] fabric::LinkEndpointConfig endpoint(Guid guid, Lid lid = kLidNone) const {
    fabric::LinkEndpointConfig out = endpoint_;
    out.link.guid = guid;
    out.link.lid = lid;
    return out;
  }
  [[nodiscard]] uint64_t count(fabric::PortNumber port, fabric::SwitchPortCounter counter) const {
    return core.port(port).counters.get(counter);
  }

  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<Pollable> acceptor;

 private:
  fabric::LinkEndpointConfig endpoint_;
};

/// An endnode's end of a link.
struct Station {
  Station(const fabric::LinkEndpointConfig& config, RandomSource& random)
      : link(std::move(fabric::connect_link(config, random).value())), port(link->link()) {}
  void poll(Instant now) {
    port.poll(now);
    const std::span<const fabric::RxCell> cells = port.receive();
    for (const fabric::RxCell& cell : cells) {
      received.push_back(cell_number(cell.bytes));
      bytes.emplace_back(cell.bytes.begin(), cell.bytes.end());
    }
    if (!cells.empty()) port.release();
    port.flush(now);
  }
  bool send(const TestCell& what) { return send_cell(port, make_cell(what)); }

  std::unique_ptr<fabric::LinkConnection> link;
  fabric::LinkCellPort port;
  bool frozen = false;
  std::vector<uint32_t> received;             // numbers of the cells
  std::vector<std::vector<std::byte>> bytes;  // and the cells
};

}  // namespace weft::test
