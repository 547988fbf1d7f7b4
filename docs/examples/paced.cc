// The delay request: ten messages are posted at once, with a delay behind each, and leave at that pace. The
// adapter keeps the time; the program does not wake up between them.
#include "program.h"

using namespace example;

namespace {

constexpr int kMessages = 10;
constexpr std::chrono::milliseconds kGap{20};

void meter() {
  Endnode sender(fabric_here());
  Endnode receiver(fabric_here());
  adapter::QpConfig config;
  config.signal_all = false;
  hca::Qp& from = sender.make_qp(config);
  hca::Qp& to = receiver.make_qp();
  connect(sender, from, receiver, to);
  for (int i = 0; i < kMessages; ++i) receiver.expect(to, 0, 64);

  sender.put(0, "tick");
  const adapter::Sge data = sender.sge(0, 4);
  std::vector<adapter::SendRequest> list;
  for (int i = 0; i < kMessages; ++i) {
    list.push_back({.wr_id = 1, .sges = std::span(&data, 1)});
    if (i + 1 < kMessages) list.push_back({.wr_id = 2, .opcode = SendOpcode::kDelay, .delay = kGap});
  }
  const auto begin = std::chrono::steady_clock::now();
  check(from.post_batch(list) == Answer::kOk, "the requests are refused");
  for (int i = 0; i < kMessages; ++i) receiver.next_good();
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  check(took >= (kMessages - 1) * kGap, "the messages came too early");
  std::cout << kMessages << " messages took at least " << ((kMessages - 1) * kGap).count() << " ms\n";
}

}  // namespace

int main() {
  return run("paced", meter);
}
