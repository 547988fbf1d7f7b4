// Two regions over the same memory. The owner's region lets one peer write; a second region, in another
// protection domain and with a key of its own, lets another peer read and do nothing else. Both use one page
// table, and the second region outlives the first.
#include "program.h"

using namespace example;

namespace {

constexpr uint64_t kPage = adapter::kPageBytesMin;

/// A client with its connection.
struct Peer {
  explicit Peer(const std::string& endpoint) : node(endpoint) {}

  /// An operation on the first 8 bytes of `region`, over a connection of its own, because a refused access
  /// ends a connection.
  WcStatus access(Endnode& server, hca::ProtectionDomain& domain, SendOpcode opcode,
                  const adapter::MemoryRegion& region) {
    const hca::QpInit init{.send_cq = server.queue, .recv_cq = server.queue, .config = {}, .user = nullptr};
    hca::Qp* target = server.context->create_qp(domain, init).object;
    check(target != nullptr, "no queue pair");
    hca::Qp& qp = node.make_qp();
    connect(node, qp, server, *target);
    const adapter::Sge here = node.sge(0, 8);
    node.post(qp, {.wr_id = 1,
                   .opcode = opcode,
                   .flags = adapter::kSendSignaled,
                   .sges = std::span(&here, 1),
                   .remote_addr = region.addr,
                   .rkey = region.rkey});
    const WcStatus status = node.next().status;
    check(server.context->destroy(target) == Answer::kOk, "a queue pair stays");
    return status;
  }

  Endnode node;
};

void share() {
  Endnode server(fabric_here());
  Peer writer(fabric_here());
  Peer reader(fabric_here());
  std::vector<std::byte> memory(2 * kPage);
  const std::vector<std::byte*> pages{memory.data() + kPage, memory.data()};
  hca::MemoryRegion* first = server.context
                                 ->reg_pages(*server.domain, {.pages = pages, .length = 2 * kPage},
                                             Access::kLocalWrite | Access::kRemoteWrite)
                                 .object;
  check(first != nullptr, "the pages cannot be registered");
  hca::ProtectionDomain* readers = server.context->alloc_pd().object;
  hca::MemoryRegion* second = server.context->share_mr(*readers, *first, Access::kRemoteRead).object;
  check(second != nullptr, "the region cannot be shared");
  check(second->region().rkey != first->region().rkey, "one key for two");

  writer.node.put(0, "8 bytes.");
  check(writer.access(server, *server.domain, SendOpcode::kRdmaWrite, first->region()) == WcStatus::kSuccess,
        "the write failed");
  check(reader.access(server, *readers, SendOpcode::kRdmaRead, second->region()) == WcStatus::kSuccess,
        "the read failed");
  check(reader.node.text(0, 8) == "8 bytes.", "the reader sees other memory");
  check(reader.access(server, *readers, SendOpcode::kRdmaWrite, second->region()) == WcStatus::kRemoteAccess,
        "a reader has written");
  check(reader.access(server, *readers, SendOpcode::kRdmaWrite, first->region()) == WcStatus::kRemoteAccess,
        "a key of another domain was served");

  check(server.context->destroy(first) == Answer::kOk, "the first region stays");
  check(reader.access(server, *readers, SendOpcode::kRdmaRead, second->region()) == WcStatus::kSuccess,
        "the second region ended with the first");
  std::cout << "two regions over one memory: one key writes, the other reads\n";
}

}  // namespace

int main() {
  return run("shared_region", share);
}
