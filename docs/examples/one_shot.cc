// A key that serves once: the peer writes with it, and every later access under it is refused. Registered
// anew the memory has another key.
#include "program.h"

using namespace example;

namespace {

WcStatus write(Endnode& node, Endnode& peer, const adapter::MemoryRegion& to) {
  hca::Qp& qp = node.make_qp();
  hca::Qp& target = peer.make_qp();
  connect(node, qp, peer, target);  // a refused access ends a connection
  node.put(0, "once");
  const adapter::Sge from = node.sge(0, 4);
  node.post(qp, {.wr_id = 1,
                 .opcode = SendOpcode::kRdmaWrite,
                 .flags = adapter::kSendSignaled,
                 .sges = std::span(&from, 1),
                 .remote_addr = to.addr,
                 .rkey = to.rkey});
  const WcStatus status = node.next().status;
  check(node.context->destroy(&qp) == Answer::kOk && peer.context->destroy(&target) == Answer::kOk,
        "a queue pair stays");
  return status;
}

void lend() {
  Endnode writer(fabric_here());
  Endnode owner(fabric_here());
  std::vector<std::byte> lent(64);
  hca::MemoryRegion* region =
      owner.context
          ->reg_mr(*owner.domain, lent, Access::kLocalWrite | Access::kRemoteWrite | Access::kOneShot)
          .object;
  check(region != nullptr, "memory cannot be registered");
  check(write(writer, owner, region->region()) == WcStatus::kSuccess, "the first write failed");
  check(write(writer, owner, region->region()) == WcStatus::kRemoteAccess, "the key served twice");
  const Rkey spent = region->region().rkey;
  check(
      region->rereg({.access = Access::kLocalWrite | Access::kRemoteWrite | Access::kOneShot}) == Answer::kOk,
      "it cannot be registered anew");
  check(region->region().rkey != spent, "the spent key came back");
  check(write(writer, owner, region->region()) == WcStatus::kSuccess, "the new key opens nothing");
  std::cout << "each key served one write\n";
}

}  // namespace

int main() {
  return run("one_shot", lend);
}
