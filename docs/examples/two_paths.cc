// Two paths to the same peer, over switches that share nothing: the queue pair has an alternate path on
// port 2 and goes over to it when the first one fails (automatic path migration). Messages flow all the
// while; none is lost, and no request fails.
//   two_paths SWITCH SWITCH     shm:PATH, ipc://PATH or tcp://HOST:PORT, each with spare ports
// It says "flowing" when a path may be cut, and ends when it has gone over and 1000 more messages have
// arrived.
#include "program.h"

using namespace example;

namespace {

constexpr int kBefore = 1000;
constexpr int kAfter = 1000;

/// As connect(), with a path between the second ports as the alternate one. Both ends are armed once each has
/// heard that the other is ready.
void connect_twice(hca::Qp& qp, const Endnode& far, const hca::Qp& peer) {
  adapter::QpAttr attr{.dlid = far.lid(1), .dest_qpn = peer.number()};
  attr.alt = {.dlid = far.lid(2), .port = 2};
  attr.path_mig_state = adapter::PathMigState::kRearm;
  adapter::QpState from = adapter::QpState::kReset;
  for (const auto to : {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
    attr.state = to;
    uint32_t mask = adapter::kQpAttrState | adapter::find_qp_rule(adapter::QpType::kRc, from, to)->required;
    if (to == adapter::QpState::kRtr) mask |= adapter::kQpAttrAltPath;
    if (to == adapter::QpState::kRts) mask |= adapter::kQpAttrPathMigState;
    check(qp.modify(attr, mask) == Answer::kOk, "a state is refused");
    from = to;
  }
}

adapter::PathMigState migration(const hca::Qp& qp) {
  adapter::QpAttr attr;
  adapter::QpConfig config;
  check(qp.query(attr, config) == Answer::kOk, "no state");
  return attr.path_mig_state;
}

/// One message and its receive, both complete.
void message(Endnode& from, hca::Qp& qp, Endnode& to, hca::Qp& peer, int number) {
  to.expect(peer, 1024, 64);
  const std::string text = "message " + std::to_string(number);
  from.put(0, text);
  const adapter::Sge data = from.sge(0, static_cast<uint32_t>(text.size()));
  from.post(qp, {.wr_id = 1, .flags = adapter::kSendSignaled, .sges = std::span(&data, 1)});
  from.next_good();
  const adapter::WorkCompletion arrived = to.next_good();
  check(to.text(1024, arrived.byte_count) == text, "another message came");
}

void cross(const std::vector<std::string>& switches) {
  Endnode near(switches);
  Endnode far(switches);
  hca::Qp& one = near.make_qp();
  hca::Qp& other = far.make_qp();
  connect_twice(one, far, other);
  connect_twice(other, near, one);
  int sent = 0;
  for (; sent < kBefore; ++sent) {
    message(near, one, far, other, sent);
    if (sent == 0) message(far, other, near, one, -1);  // it tells that this end is ready
  }
  check(migration(one) == adapter::PathMigState::kArmed, "the alternate path is not armed");
  std::cout << "flowing" << std::endl;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int left = kAfter; left > 0; ++sent) {
    message(near, one, far, other, sent);
    if (migration(one) == adapter::PathMigState::kMigrated) --left;
    check(std::chrono::steady_clock::now() < until, "the path was not cut, or it has not gone over");
  }
  std::cout << "no message lost, no request failed" << std::endl;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::cerr << "two_paths SWITCH SWITCH\n";
    return 2;
  }
  return run("two_paths", [words] { cross({words[1], words[2]}); });
}
