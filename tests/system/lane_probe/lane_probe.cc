// Two endnodes on spare ports of a switch: one keeps every lane full, the other takes cells in rounds. It
// waits until no lane has credit left, and gives all of it back at once: what has waited in the switch
// competes for the link then. Prints the lanes of each round's cells in the order in which they left the
// switch.
//   lane_probe ENDPOINT CELL_PAYLOAD LANES CREDITS ROUNDS
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/carrier/link_connect.h"
#include "tests/support/test_cells.h"

namespace weft::test {
namespace {

/// Nothing has come for this long: no lane has credit. Below the time after which a switch drops cells for a
/// receiver that takes none (25 ms).
constexpr Duration kQuiet = std::chrono::milliseconds(3);
constexpr Duration kRoundsMax = std::chrono::seconds(30);
/// Makes a flit of three units of weight, 64 bytes each.
constexpr uint32_t kPayloadBytes = 3 * 64 - kFlitHeaderBytes - kCellHeaderBytes - kCrcBytes;

class Probe {
 public:
  Probe(const std::string& endpoint, uint32_t cell_payload, uint32_t lanes, uint32_t credits)
      : taken_(lanes), lanes_(lanes) {
    for (std::unique_ptr<fabric::LinkConnection>& end : ends_) {
      fabric::LinkEndpointConfig config;
      config.endpoint = endpoint;
      config.link.guid = Guid(random_.next());
      config.link.any_port = true;
      config.link.cell_payload_bytes = cell_payload;
      config.link.lanes = lanes;
      config.link.credits_per_lane = credits;
      end = std::move(fabric::connect_link(config, random_).value());
    }
  }

  bool join() {
    const Instant until = clock_.now() + std::chrono::seconds(30);
    while (!is_up()) {
      if (clock_.now() > until) return false;
      turn();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// The lanes of that many rounds; one in which a lane had not as many cells as credits is left out, because
  /// this process or the switch was held up meanwhile. Fewer when they take too long.
  std::vector<std::string> rounds(uint32_t wanted, uint32_t credits) {
    std::vector<std::string> out;
    const Instant until = clock_.now() + kRoundsMax;
    while (out.size() < wanted && clock_.now() < until) {
      const std::string order = take_round();
      const size_t whole = size_t{lanes_} * credits;
      if (order.size() == whole) out.push_back(order);
      for (uint32_t lane = 0; lane < lanes_; ++lane) {
        receiver().grant(lane_of(lane), taken_[lane]);
        taken_[lane] = 0;
      }
    }
    return out;
  }

 private:
  static VirtualLane lane_of(uint32_t number) { return VirtualLane(static_cast<uint8_t>(number)); }
  fabric::LinkEngine& sender() { return ends_[0]->link(); }
  fabric::LinkEngine& receiver() { return ends_[1]->link(); }
  bool is_up() {
    return sender().state() == fabric::LinkState::kUp && receiver().state() == fabric::LinkState::kUp;
  }
  void turn() {
    for (const std::unique_ptr<fabric::LinkConnection>& end : ends_) {
      end->link().poll(clock_.now());
      end->link().flush(clock_.now());
    }
    // Acknowledgements and credit for the sender.
    static_cast<void>(sender().receive());
    sender().release();
  }
  /// Takes cells until none comes any more; no credit goes back.
  std::string take_round() {
    std::string order;
    for (Instant moved = clock_.now(); clock_.now() - moved < kQuiet;) {
      while (send_one_of_each() != 0) {
      }
      turn();
      for (const fabric::RxFlit& flit : receiver().receive()) {
        ++taken_[flit.vl.value()];
        order += std::to_string(flit.vl.value());
        moved = clock_.now();
      }
      receiver().release();
      std::this_thread::yield();
    }
    return order;
  }
  uint32_t send_one_of_each() {
    uint32_t sent = 0;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      std::byte* to = sender().claim(lane_of(lane));
      if (to == nullptr) continue;
      const std::vector<std::byte> cell = make_cell({.dlid = receiver().params().lid,
                                                     .slid = sender().params().lid,
                                                     .vl = lane_of(lane),
                                                     .number = number_++,
                                                     .payload_bytes = kPayloadBytes});
      std::memcpy(to, cell.data(), cell.size());
      sender().commit(
          {lane_of(lane), kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
      ++sent;
    }
    return sent;
  }
  MonotonicClock clock_;
  SystemRandom random_;
  std::array<std::unique_ptr<fabric::LinkConnection>, 2> ends_;
  std::vector<uint32_t> taken_;  // of each lane, and not given back
  uint32_t lanes_;
  uint32_t number_ = 0;
};

}  // namespace
}  // namespace weft::test

int main(int count, char** words) {
  if (count != 6) return 2;
  const auto number = [&](int at) { return static_cast<uint32_t>(std::strtoul(words[at], nullptr, 10)); };
  weft::test::Probe probe(words[1], number(2), number(3), number(4));
  if (!probe.join()) {
    std::cerr << "lane_probe: the switch does not answer\n";
    return 1;
  }
  for (const std::string& order : probe.rounds(number(5), number(4))) std::cout << order << '\n';
  return 0;
}
