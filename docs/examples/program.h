// What every program of this folder begins with: a device on a port of the fabric that `weft run` names, a
// protection domain, a completion queue and registered memory.
//   g++ -std=c++20 NAME.cc $(pkg-config --cflags --libs weft) -o NAME && weft run -- ./NAME
#pragma once

#include <weft/adapter/queues/qp_rules.h>
#include <weft/base/rng.h>
#include <weft/hca/context.h>
#include <weft/hca/device.h>
#include <weft/hca/helper_thread.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace example {

using namespace weft;
using adapter::Access;
using adapter::SendOpcode;
using adapter::WcStatus;
using hca::Answer;

inline void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

inline std::string fabric_here() {
  const char* endpoint = std::getenv("WEFT_FABRIC");
  check(endpoint != nullptr, "WEFT_FABRIC is not set; start this with weft run");
  return endpoint;
}

class Endnode {
 public:
  static constexpr uint32_t kBytes = 4096;

  /// A port of its device on each of these switches.
  explicit Endnode(const std::vector<std::string>& switches) : ports_(switches.size()) {
    for (const std::string& endpoint : switches) {
      fabric::LinkEndpointConfig link;
      link.endpoint = endpoint;
      link.link.guid = Guid(random_.next());
      link.link.any_port = true;
      check(device.add_link(link).ok(), "the fabric's address is not understood");
    }
    check(device.wait_for_ports(std::chrono::seconds(10)), "the fabric does not answer");
    for (size_t i = 0; i < ports_.size(); ++i)
      check(device.query_port(static_cast<uint8_t>(i + 1), ports_[i]) == Answer::kOk, "no port");
    context = device.open().object;
    check(context != nullptr, "the device cannot be opened");
    domain = context->alloc_pd().object;
    queue = context->create_cq(64).object;
    region =
        context->reg_mr(*domain, memory, Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead)
            .object;
    check(region != nullptr, "memory cannot be registered");
  }
  ~Endnode() {
    if (context != nullptr) device.close(context);
  }
  explicit Endnode(const std::string& endpoint) : Endnode(std::vector{endpoint}) {}
  Endnode(const Endnode&) = delete;
  Endnode& operator=(const Endnode&) = delete;

  [[nodiscard]] Lid lid(size_t port = 1) const { return ports_[port - 1].info.lid; }

  hca::Qp& make_qp(const adapter::QpConfig& config = {}) {
    hca::Qp* qp =
        context->create_qp(*domain, {.send_cq = queue, .recv_cq = queue, .config = config, .user = {}})
            .object;
    check(qp != nullptr, "no queue pair");
    return *qp;
  }
  adapter::Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region->region().addr + offset, .length = bytes, .lkey = region->region().lkey};
  }
  void put(uint32_t offset, const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) memory.at(offset + i) = static_cast<std::byte>(text[i]);
  }
  std::string text(uint32_t offset, uint32_t bytes) const {
    return {reinterpret_cast<const char*>(memory.data() + offset), bytes};
  }
  void post(hca::Qp& qp, const adapter::SendRequest& request) {
    size_t posted = 0;
    check(qp.post_send(std::span(&request, 1), posted) == Answer::kOk, "a request is refused");
  }
  void expect(hca::Qp& qp, uint32_t offset, uint32_t bytes) {
    const adapter::Sge into = sge(offset, bytes);
    const adapter::RecvRequest request{.wr_id = offset, .sges = std::span(&into, 1)};
    size_t posted = 0;
    check(qp.post_recv(std::span(&request, 1), posted) == Answer::kOk, "a receive is refused");
  }
  /// The next completion, whatever its status.
  adapter::WorkCompletion next() {
    adapter::WorkCompletion done;
    while (queue->poll(std::span(&done, 1)) == 0) {
    }
    return done;
  }
  adapter::WorkCompletion next_good() {
    const adapter::WorkCompletion done = next();
    check(done.status == WcStatus::kSuccess, "a request failed");
    return done;
  }

 private:
  MonotonicClock clock_;
  SystemRandom random_;
  SystemRandom link_random_;
  std::vector<hca::PortState> ports_;

 public:
  hca::Device device{{.guid = Guid(random_.next())}, clock_, random_, link_random_};
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
  hca::Context* context = nullptr;
  hca::ProtectionDomain* domain = nullptr;
  hca::Cq* queue = nullptr;
  hca::MemoryRegion* region = nullptr;

 private:
  hca::HelperThread helper_{device, clock_};  // drives the device while the program does not
};

/// RESET to RTS, each state with the attributes that its rule asks for.
inline void bring_up(hca::Qp& qp, adapter::QpType type, adapter::QpAttr attr) {
  adapter::QpState from = adapter::QpState::kReset;
  for (const auto to : {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
    attr.state = to;
    const adapter::QpRule* rule = adapter::find_qp_rule(type, from, to);
    check(qp.modify(attr, adapter::kQpAttrState | rule->required) == Answer::kOk, "a state is refused");
    from = to;
  }
}

inline void connect(const Endnode& a, hca::Qp& qp_a, const Endnode& b, hca::Qp& qp_b) {
  const Access rights = Access::kRemoteWrite | Access::kRemoteRead;
  bring_up(qp_a, adapter::QpType::kRc, {.access = rights, .dlid = b.lid(), .dest_qpn = qp_b.number()});
  bring_up(qp_b, adapter::QpType::kRc, {.access = rights, .dlid = a.lid(), .dest_qpn = qp_a.number()});
}

/// Runs the example and says what went wrong.
template <class Program>
int run(const char* name, Program program) {
  try {
    program();
    return 0;
  } catch (const std::exception& fault) {
    std::cerr << name << ": " << fault.what() << '\n';
    return 1;
  }
}

}  // namespace example
