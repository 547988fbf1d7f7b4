// weft-iou: an I/O unit as a process. Opens the LAN NIC, drops every capability, joins the fabric, and serves
// the hosts that connect.
#include "base/net/ethernet.h"
#include "base/net/kernel_port.h"
#include "iou_driver/iou_netdev.h"
#include "iou_driver/lan_nic.h"
#include "node/endnode_process.h"
#include "node/spec_codec.h"
#include "tca/tca.h"

namespace weft::iou {
namespace {

constexpr const char* kProgram = "weft-iou";
static_assert(node::kHostsPerUnitMax == kUnitClientsMax);

session::AcceptorConfig acceptor_config(const node::UnitSpec& spec, const FramePortInfo& nic) {
  session::AcceptorConfig config;
  config.session.role = session::SessionRole::kUnit;
  config.session.name = "host";
  config.session.pools = node::session_pools(spec);
  config.session.features = nic.offloads;
  config.session.mac = nic.mac;
  config.hosts_max = spec.hosts_max;
  return config;
}

/// If hosts may bridge, they may also be promiscuous: otherwise they could not pass the LAN's answers on.
NicPolicy nic_policy(const node::UnitSpec& spec) {
  return {.bridge = spec.bridge,
          .promiscuous_allowed = spec.promiscuous_allowed || spec.bridge,
          .program_nic_mac = is_model(spec.nic.kind)};
}

/// The unit's sessions on its NIC, and its answers to `weft`.
class UnitProgram final : public node::EndnodeProgram {
 public:
  UnitProgram(const node::UnitSpec& spec, node::Endnode& endnode, CapturePort& port, RandomSource& random,
              StatsPage& page)
      : EndnodeProgram(spec, kProgram, endnode, {&port}),
        port_(port),
        acceptor_(acceptor_config(spec, port.info()), endnode.session_ports(), random),
        half_(acceptor_, port, nic_policy(spec)) {
    port.set_carrier(true);
    half_.publish(page, "unit");
    endnode.add(half_);
  }

  void close() noexcept override { acceptor_.close(); }
  [[nodiscard]] bool closed() const noexcept override { return acceptor_.all_idle(); }

 private:
  void describe(control::NodeInfo& out) override {
    out.state = "listening";
    if (port_.info().gone) out.ready = false;
    if (out.fault.empty()) out.fault = interface_fault(port_);
    for (const session::NetdevSession* session : acceptor_.sessions()) {
      const session::SessionPeer& peer = session->peer();
      out.sessions.push_back({.peer_lid = peer.lid.value(),
                              .state = std::string(to_string(session->state())),
                              .mode = std::string(to_string(peer.mode)),
                              .encoding = std::string(to_string(peer.encoding)),
                              .mac = to_string(mac_of(*session))});
      if (session->state() == session::SessionState::kOpen) out.state = "open";
    }
  }

  /// The host's current address, which may differ from that at the session's opening.
  [[nodiscard]] MacAddress mac_of(const session::NetdevSession& session) const {
    for (const UnitClient& client : half_.clients()) {
      if (client.session == &session && client.active) return client.mac;
    }
    return session.peer().mac;
  }

  CapturePort& port_;
  session::SessionAcceptor acceptor_;
  IouNetdev half_;
};

int main_program(const node::UnitSpec& spec) {
  if (Status good = node::check_endpoint(spec); !good) return node::wrong_use(kProgram, good.error());
  std::unique_ptr<CapturePort> port;
  node::EndnodeParts parts;
  parts.make_adapter = [&](RandomSource& random) {
    return std::make_unique<tca::Tca>(spec.guid, random, tca::tca_limits(spec.hosts_max),
                                      node::nics_of(spec));
  };
  parts.open_ports = [&](const Clock& clock) -> Status {
    Result<std::unique_ptr<FramePort>> nic = open_nic(spec.nic, spec.nic_fd, clock);
    if (!nic) return nic.error();
    port = std::make_unique<CapturePort>(std::move(*nic), label_of(spec.nic));
    return {};
  };
  parts.build = [&](node::Endnode& endnode, RandomSource& random, StatsPage& page) {
    return std::make_unique<UnitProgram>(spec, endnode, *port, random, page);
  };
  return node::exit_code_of(node::run_endnode(spec, kProgram, parts));
}

}  // namespace
}  // namespace weft::iou

int main(int argc, char** argv) {
  return weft::node::run_program<weft::node::UnitSpec>(argc, argv, weft::iou::main_program);
}
