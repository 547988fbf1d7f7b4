// Reliable datagrams (RD): one queue pair sends to three queue pairs on two other endnodes, each message
// named by an address handle and a queue pair number, and each has an answer. Nothing is connected; an
// endnode keeps one context for each endnode that it talks with, however many queue pairs there are.
#include "program.h"

using namespace example;

namespace {

constexpr uint32_t kQkey = 0x5EED;

hca::Qp& open_rd(Endnode& node) {
  const adapter::QpConfig config{.type = adapter::QpType::kRd};
  hca::Qp& qp = node.make_qp(config);
  bring_up(qp, adapter::QpType::kRd, {.qkey = kQkey});
  return qp;
}

void send(Endnode& node, hca::Qp& qp, const adapter::Destination& to, const std::string& text) {
  node.put(0, text);
  const adapter::Sge from = node.sge(0, static_cast<uint32_t>(text.size()));
  node.post(qp, {.wr_id = 1, .flags = adapter::kSendSignaled, .sges = std::span(&from, 1), .dest = to});
}

void exchange() {
  Endnode hub(fabric_here());
  Endnode left(fabric_here());
  Endnode right(fabric_here());
  hca::Qp& one = open_rd(hub);
  struct Peer {
    Endnode& node;
    hca::Qp& qp;
  };
  for (const Peer& peer :
       {Peer{left, open_rd(left)}, Peer{left, open_rd(left)}, Peer{right, open_rd(right)}}) {
    peer.node.expect(peer.qp, 1024, 64);
    hub.expect(one, 2048, 64);
    send(hub, one, {.lid = peer.node.lid(), .qpn = peer.qp.number(), .qkey = kQkey}, "ping");
    hub.next_good();
    const adapter::WorkCompletion asked = peer.node.next_good();
    check(peer.node.text(1024, asked.byte_count) == "ping", "another message came");
    // The completion names the sender: that is where the answer goes.
    send(peer.node, peer.qp, {.lid = asked.src_lid, .qpn = asked.src_qpn, .qkey = kQkey}, "pong");
    peer.node.next_good();
    const adapter::WorkCompletion answered = hub.next_good();
    check(hub.text(2048, answered.byte_count) == "pong", "another answer came");
    check(answered.src_qpn == peer.qp.number(), "another queue pair answered");
  }
  std::cout << "one queue pair exchanged messages with 3 queue pairs on 2 endnodes\n";
}

}  // namespace

int main() {
  return run("reliable_datagrams", exchange);
}
