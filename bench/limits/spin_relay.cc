// bench/limits/spin_relay.cc -- the yardstick for programs that wait by reading memory (stock_spin_lat): two
// ends spin, and what moves their 8 bytes has to be woken beside them.
//
// How it works: an end stores a number for the relay, wakes it by an eventfd, and reads its own memory until
// the answer is there. The relay sleeps in poll(); woken, it hands the number to the helper thread of the
// other end, which sleeps too, and wakes that. The helper stores the number in its end's memory. So one way
// costs two wake-ups of a thread whose core another thread keeps busy, as in every fabric in which a switch
// is a process and an end that calls nothing is served by a thread. There are no cells, checks or queue
// pairs. --direct omits the relay: an end wakes the helper of the other.
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

constexpr int kWarmUp = 100;  // round trips that are not counted

struct alignas(128) Word {
  std::atomic<uint64_t> value;
};

/// Memory and descriptors of all processes; made before they fork.
struct World {
  Word* sent = nullptr;    // by end i, for the relay
  Word* passed = nullptr;  // for the helper of end i
  Word* memory = nullptr;  // of end i
  int relay = -1;
  std::array<int, 2> helper{-1, -1};
  bool direct = false;

  explicit World(bool without_relay) : direct(without_relay) {
    sent = reinterpret_cast<Word*>(map_shared(6 * sizeof(Word)));
    passed = sent + 2;
    memory = sent + 4;
    for (int* made : {&relay, &helper[0], &helper[1]}) {
      *made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      WEFT_CHECK(*made >= 0, "no eventfd");
    }
  }
};

void wake(int descriptor) noexcept {
  const uint64_t one = 1;
  WEFT_CHECK(write(descriptor, &one, sizeof one) == sizeof one, "an eventfd takes no more");
}

void sleep_until_woken(int descriptor) noexcept {
  pollfd item{.fd = descriptor, .events = POLLIN, .revents = 0};
  static_cast<void>(poll(&item, 1, 1000));
  uint64_t count = 0;
  static_cast<void>(read(descriptor, &count, sizeof count));
}

[[noreturn]] void relay(const World& world) noexcept {
  std::array<uint64_t, 2> seen{};
  while (true) {
    sleep_until_woken(world.relay);
    for (size_t from = 0; from < 2; ++from) {
      const uint64_t number = world.sent[from].value.load(std::memory_order_acquire);
      if (number == seen[from]) continue;
      seen[from] = number;
      world.passed[1 - from].value.store(number, std::memory_order_release);
      wake(world.helper[1 - from]);
    }
  }
}

[[noreturn]] void help(const World& world, size_t end) noexcept {
  while (true) {
    sleep_until_woken(world.helper[end]);
    world.memory[end].value.store(world.passed[end].value.load(std::memory_order_acquire),
                                  std::memory_order_release);
  }
}

void send(const World& world, size_t end, uint64_t number) noexcept {
  if (world.direct) {
    world.passed[1 - end].value.store(number, std::memory_order_release);
    return wake(world.helper[1 - end]);
  }
  world.sent[end].value.store(number, std::memory_order_release);
  wake(world.relay);
}

void spin_until(const World& world, size_t end, uint64_t number) noexcept {
  while (world.memory[end].value.load(std::memory_order_acquire) != number) {
  }
}

[[noreturn]] void answer(const World& world) {
  std::thread(help, std::cref(world), 1).detach();
  for (uint64_t number = 1;; ++number) {
    spin_until(world, 1, number);
    send(world, 1, number);
  }
}

/// Half of each round trip, in microseconds.
std::vector<double> measure(const World& world, double seconds) {
  std::thread(help, std::cref(world), 0).detach();
  std::vector<double> ways;
  const double begin = seconds_now();
  double now = begin;
  for (uint64_t number = 1; now - begin < seconds; ++number) {
    const double sent = now;
    send(world, 0, number);
    spin_until(world, 0, number);
    now = seconds_now();
    if (number > kWarmUp) ways.push_back((now - sent) * 1e6 / 2);
  }
  return ways;
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  double seconds = 0.3;
  bool direct = false;
  po::options_description known("spin_relay: two ends that spin on memory, and sleepers that serve them");
  known.add_options()("seconds", po::value(&seconds)->default_value(0.3, "0.3"), "measured time");
  known.add_options()("direct", po::bool_switch(&direct), "no relay between the ends");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  const World world(direct);
  Children children;
  if (!direct) children.start([&] { relay(world); });
  children.start([&] { answer(world); });
  std::vector<double> ways = measure(world, seconds);
  WEFT_CHECK(!ways.empty(), "no answer");
  print_figure("spin_relay_99", percentile(ways, 0.99), "us");
  print_figure("spin_relay", percentile(ways, 0.5), "us");
  std::fflush(stdout);
  _exit(0);  // the helper thread does not end
}

}  // namespace weft::bench
