// The C++ API in one program: two devices join the fabric that `weft run` names, and one writes into the
// memory of the other.
//   g++ -std=c++20 remote_write.cc $(pkg-config --cflags --libs weft) -o remote_write
//   weft run -- ./remote_write
#include <weft/adapter/queues/qp_rules.h>
#include <weft/base/rng.h>
#include <weft/hca/context.h>
#include <weft/hca/device.h>
#include <weft/hca/helper_thread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace weft;
using adapter::Access;

namespace {

void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

/// A device on a port of the fabric, and what a program makes first: a domain, a completion queue, memory, a
/// queue pair.
class Endnode {
 public:
  explicit Endnode(const std::string& fabric) {
    fabric::LinkEndpointConfig link;
    link.endpoint = fabric;
    link.link.guid = guid_;
    link.link.any_port = true;
    check(device_.add_link(link).ok(), "the fabric's address is not understood");
    check(device_.wait_for_ports(std::chrono::seconds(2)), "the fabric does not answer");
    check(device_.query_port(1, port_) == hca::Answer::kOk, "no port");
    context_ = device_.open().object;
    check(context_ != nullptr, "the device cannot be opened");
    domain_ = context_->alloc_pd().object;
    queue_ = context_->create_cq(16).object;
    region_ = context_->reg_mr(*domain_, memory_, Access::kLocalWrite | Access::kRemoteWrite).object;
    qp_ = context_->create_qp(*domain_, {.send_cq = queue_, .recv_cq = queue_, .config = {}, .user = nullptr})
              .object;
    check(region_ != nullptr && qp_ != nullptr, "an object cannot be made");
  }
  ~Endnode() {
    if (context_ != nullptr) device_.close(context_);
  }
  Endnode(const Endnode&) = delete;
  Endnode& operator=(const Endnode&) = delete;

  /// RESET to RTS, each state with the attributes that its rule asks for.
  void connect(const Endnode& peer) {
    adapter::QpAttr attr{.access = Access::kRemoteWrite,
                         .dlid = peer.port_.info.lid,
                         .rq_psn = Psn(0),
                         .sq_psn = Psn(0),
                         .dest_qpn = peer.qp_->number()};
    adapter::QpState from = adapter::QpState::kReset;
    for (const auto to : {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
      attr.state = to;
      const adapter::QpRule* rule = adapter::find_qp_rule(adapter::QpType::kRc, from, to);
      check(qp_->modify(attr, adapter::kQpAttrState | rule->required) == hca::Answer::kOk,
            "a state is refused");
      from = to;
    }
  }

  /// Room for the immediate data of one write.
  void expect() {
    const adapter::RecvRequest request{.wr_id = 1};
    size_t posted = 0;
    check(qp_->post_recv(std::span(&request, 1), posted) == hca::Answer::kOk, "a receive is refused");
  }

  void write(const std::string& text, const Endnode& to, uint32_t immediate) {
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(memory_.data()));
    const adapter::MemoryRegion& own = region_->region();
    const adapter::MemoryRegion& theirs = to.region_->region();
    const adapter::Sge from{.addr = own.addr, .length = static_cast<uint32_t>(text.size()), .lkey = own.lkey};
    const adapter::SendRequest request{.wr_id = 2,
                                       .opcode = adapter::SendOpcode::kRdmaWriteWithImm,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&from, 1),
                                       .imm = immediate,
                                       .remote_addr = theirs.addr,
                                       .rkey = theirs.rkey};
    size_t posted = 0;
    check(qp_->post_send(std::span(&request, 1), posted) == hca::Answer::kOk, "a request is refused");
  }

  adapter::WorkCompletion next() {
    adapter::WorkCompletion done;
    while (queue_->poll(std::span(&done, 1)) == 0) {
    }
    check(done.status == adapter::WcStatus::kSuccess, "a request failed");
    return done;
  }

  [[nodiscard]] std::string text(size_t bytes) const {
    return {reinterpret_cast<const char*>(memory_.data()), bytes};
  }
  [[nodiscard]] unsigned lid() const { return port_.info.lid.value(); }

 private:
  MonotonicClock clock_;
  SystemRandom random_;
  SystemRandom link_random_;
  Guid guid_{random_.next()};
  hca::Device device_{{.guid = guid_}, clock_, random_, link_random_};
  hca::HelperThread helper_{device_, clock_};  // drives the device while the program does not
  std::vector<std::byte> memory_ = std::vector<std::byte>(4096);
  hca::PortState port_;
  hca::Context* context_ = nullptr;
  hca::ProtectionDomain* domain_ = nullptr;
  hca::Cq* queue_ = nullptr;
  hca::MemoryRegion* region_ = nullptr;
  hca::Qp* qp_ = nullptr;
};

}  // namespace

int main() try {
  const char* fabric = std::getenv("WEFT_FABRIC");
  check(fabric != nullptr, "WEFT_FABRIC is not set; start this with weft run");
  Endnode writer(fabric);
  Endnode reader(fabric);
  writer.connect(reader);
  reader.connect(writer);
  reader.expect();
  writer.write("hello, fabric", reader, 13);
  writer.next();
  const adapter::WorkCompletion arrived = reader.next();
  std::cout << "LID " << writer.lid() << " wrote \"" << reader.text(arrived.imm)
            << "\" into the memory of LID " << reader.lid() << '\n';
  return 0;
} catch (const std::exception& fault) {
  std::cerr << "remote_write: " << fault.what() << '\n';
  return 1;
}
