// Windows between processes, as a device makes them: two owners of windows in one process, step by step in
// virtual time, then two devices with their helper threads.
#include "hca/direct_windows.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "fabric/carrier/unix_socket.h"
#include "fabric/window/window_door.h"
#include "messages/window_order.h"
#include "tests/support/live_consumer.h"

namespace weft::test {
using adapter::DirectPath;
using adapter::WcStatus;
using hca::DirectWindows;
using hca::kWindowJoinMax;
namespace {

struct Owner {
  Owner(const hca::DirectWindowsConfig& config, uint16_t lid)
      : random(lid), windows(config, random, wants), port{.lid = Lid(lid)} {}
  Owner(const std::string& place, uint16_t lid) : Owner(hca::DirectWindowsConfig{.directory = place}, lid) {}
  void begin_and_work(Instant now) {
    wants = false;
    windows.begin(&port);
    windows.work(now);
  }
  void end() {
    windows.settle();
    windows.clear();
  }
  void step(Instant now) {
    begin_and_work(now);
    end();
  }
  SeededRandom random;
  bool wants = false;
  DirectWindows windows;
  fabric::CellPortInfo port;
};

/// What `from` sends, `to` takes: it is the same window.
void expect_one_window(DirectPath& from, DirectPath& to, Instant now) {
  ASSERT_EQ(from.end().send(1, 2, std::array{std::byte{42}}, 0), fabric::FifoPost::kOk);
  from.end().flush();
  to.end().poll(now);
  fabric::FifoRecord record;
  ASSERT_EQ(to.end().take(record), fabric::FifoTake::kRecord);
  EXPECT_EQ(record.data[0], std::byte{42});
}

class Meeting : public ::testing::Test {
 protected:
  Meeting() {
    step(low);
    step(high);
  }
  void begin_and_work(Owner& owner) { owner.begin_and_work(clock.now()); }
  void end(Owner& owner) { owner.end(); }
  void step(Owner& owner) { owner.step(clock.now()); }
  void run(int turns) {
    for (int i = 0; i < turns; ++i) {
      clock.advance(1ms);
      step(low);
      step(high);
    }
  }
  static DirectPath* arrival(Owner& owner, Lid from) {
    Lid lid{};
    DirectPath* path = owner.windows.arrived(lid);
    EXPECT_TRUE(path == nullptr || lid == from);
    return path;
  }

  TempDir dir;
  ManualClock clock;
  Owner low{dir.path() + "/direct", 3};
  Owner high{dir.path() + "/direct", 5};
};

TEST_F(Meeting, a_claim_makes_a_window_which_arrives_at_the_other_side) {
  DirectPath* ours = low.windows.claim(Lid(5));
  ASSERT_NE(ours, nullptr);
  EXPECT_TRUE(low.wants);
  EXPECT_EQ(ours->state(), DirectPath::State::kJoining);
  EXPECT_EQ(arrival(high, Lid(3)), nullptr);
  run(5);
  EXPECT_EQ(ours->state(), DirectPath::State::kOpen);
  EXPECT_EQ(ours->end().state(), fabric::WindowState::kUp);
  DirectPath* theirs = arrival(high, Lid(3));
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(theirs->end().state(), fabric::WindowState::kUp);
  EXPECT_EQ(arrival(high, Lid(3)), nullptr) << "it arrives once";
  EXPECT_EQ(high.windows.claim(Lid(3)), theirs) << "its queue pairs take the same";
}

TEST_F(Meeting, a_window_that_was_claimed_before_it_was_seen_does_not_arrive) {
  ASSERT_NE(low.windows.claim(Lid(5)), nullptr);
  run(5);
  DirectPath* theirs = high.windows.claim(Lid(3));
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(theirs->state(), DirectPath::State::kOpen);
  EXPECT_EQ(arrival(high, Lid(3)), nullptr);
}

TEST_F(Meeting, a_window_that_has_ended_keeps_no_helper_awake) {
  DirectPath* ours = low.windows.claim(Lid(5));
  run(5);
  DirectPath* theirs = arrival(high, Lid(3));
  ASSERT_NE(theirs, nullptr);
  ASSERT_EQ(ours->end().send(1, 2, std::array{std::byte{1}}, 0), fabric::FifoPost::kOk);
  ours->end().flush();
  EXPECT_FALSE(high.windows.prepare_sleep()) << "a record waits";
  high.windows.finish_sleep();
  low.windows.release(*ours);
  run(1);
  clock.advance(20ms);
  theirs->end().poll(clock.now());
  ASSERT_EQ(theirs->end().state(), fabric::WindowState::kGone);
  EXPECT_TRUE(high.windows.prepare_sleep());
}

TEST_F(Meeting, a_fault_that_is_ordered_at_the_door_strikes_all_windows_also_later_ones) {
  const auto order = [&](const WindowOrder& wish) {
    const UniqueFd tool = std::move(fabric::connect_unix(dir.path() + "/direct/0-3.sock").value());
    EXPECT_TRUE(fabric::send_packet(tool.get(), encode_window_order(wish), {}));
    step(low);
    std::array<std::byte, 4096> bytes;
    fabric::Packet packet;
    EXPECT_EQ(fabric::receive_packet(tool.get(), bytes, packet), fabric::PacketIo::kOk);
    return decode_window_order_reply(std::span(bytes).first(packet.bytes)).value();
  };
  const WindowOrderReply set =
      order({.action = WindowOrderAction::kAdd, .rule = {.kind = FaultKind::kFailDma, .limit = 1}});
  EXPECT_EQ(set.error, "");
  ASSERT_EQ(set.rules.size(), 1U);
  EXPECT_EQ(set.rules[0].id, 1U);
  DirectPath* ours = low.windows.claim(Lid(5));
  run(5);
  ASSERT_EQ(ours->state(), DirectPath::State::kOpen);
  ASSERT_EQ(ours->end().send(1, 2, std::array{std::byte{1}}, 7), fabric::FifoPost::kOk);
  ours->end().flush();
  ours->end().poll(clock.now());
  fabric::FifoDone done;
  ASSERT_TRUE(ours->end().next_sent(done));
  EXPECT_FALSE(done.good);
  EXPECT_EQ(order({.action = WindowOrderAction::kList}).rules.at(0).struck, 1U);
  EXPECT_NE(order({.action = WindowOrderAction::kAdd, .rule = {.kind = FaultKind::kCorrupt}}).error, "");
  EXPECT_NE(order({.action = WindowOrderAction::kClear, .id = 9}).error, "");
  EXPECT_TRUE(order({.action = WindowOrderAction::kClear, .id = 0}).rules.empty());
  EXPECT_EQ(order({.action = WindowOrderAction::kClear, .id = 0}).error, "") << "none is left: no error";
}

TEST_F(Meeting, claims_of_both_sides_at_once_make_one_window) {
  DirectPath* ours = low.windows.claim(Lid(5));
  DirectPath* theirs = high.windows.claim(Lid(3));
  begin_and_work(high);  // both call before either answers
  begin_and_work(low);
  end(high);
  end(low);
  run(5);
  ASSERT_EQ(ours->state(), DirectPath::State::kOpen);
  ASSERT_EQ(theirs->state(), DirectPath::State::kOpen);
  EXPECT_EQ(arrival(low, Lid(5)), nullptr);
  EXPECT_EQ(arrival(high, Lid(3)), nullptr);
  expect_one_window(*ours, *theirs, clock.now());
}

/// Each side has called before it sees the call of the other. The peer, whose LID lies between the two, is
/// only a door, so that the test sees both of its sockets.
TEST_F(Meeting, of_two_calls_of_one_pair_that_of_the_smaller_lid_stands) {
  fabric::WindowDoor peer(dir.path() + "/direct");
  ASSERT_TRUE(peer.open(SubnetId{}, Lid(4)));
  const auto hung_up = [](const UniqueFd& socket) {
    pollfd look{socket.get(), POLLRDHUP, 0};
    return ::poll(&look, 1, 0) == 1;
  };
  for (Owner* owner : {&low, &high}) {
    const Lid lid = owner->port.lid;
    ASSERT_NE(owner->windows.claim(Lid(4)), nullptr);
    step(*owner);
    std::vector<fabric::WindowCaller> callers;
    peer.look(clock.now(), callers);
    ASSERT_EQ(callers.size(), 1U);
    EXPECT_EQ(callers[0].lid, lid);
    Result<UniqueFd> call = peer.call(lid);
    ASSERT_TRUE(call);
    for (int i = 0; i < 2; ++i) step(*owner);
    const bool own_stands = lid.value() < 4;
    EXPECT_EQ(hung_up(callers[0].socket), !own_stands) << lid.value();
    EXPECT_EQ(hung_up(*call), own_stands) << lid.value();
  }
}

TEST_F(Meeting, a_peer_without_windows_is_refused_at_once) {
  DirectPath* path = low.windows.claim(Lid(77));
  ASSERT_NE(path, nullptr);
  step(low);
  EXPECT_EQ(path->state(), DirectPath::State::kRefused);
  low.windows.release(*path);
  EXPECT_NE(low.windows.claim(Lid(77)), nullptr) << "the next queue pair asks again";
  EXPECT_EQ(low.windows.claim(Lid(3)), nullptr) << "the switch loops back";
}

TEST_F(Meeting, a_peer_that_stands_still_is_refused_after_the_time_limit) {
  DirectPath* path = low.windows.claim(Lid(5));
  step(low);  // its call waits at the other's socket
  for (int i = 0; i < 10; ++i) {
    clock.advance(kWindowJoinMax / 10 - 1ms);
    step(low);
    EXPECT_EQ(path->state(), DirectPath::State::kJoining);
  }
  clock.advance(10ms);
  step(low);
  EXPECT_EQ(path->state(), DirectPath::State::kRefused);
  run(3);
  EXPECT_EQ(arrival(high, Lid(3)), nullptr) << "it has hung up";
}

TEST_F(Meeting, the_last_release_ends_the_window_on_both_sides) {
  DirectPath* ours = low.windows.claim(Lid(5));
  EXPECT_EQ(low.windows.claim(Lid(5)), ours);
  run(5);
  DirectPath* theirs = arrival(high, Lid(3));
  ASSERT_NE(theirs, nullptr);
  low.windows.release(*ours);
  run(30);
  theirs->end().poll(clock.now());
  EXPECT_EQ(theirs->end().state(), fabric::WindowState::kUp);
  low.windows.release(*ours);
  run(1);
  for (int i = 0; i < 3; ++i) {
    clock.advance(20ms);
    theirs->end().poll(clock.now());
  }
  EXPECT_EQ(theirs->end().state(), fabric::WindowState::kGone);
  DirectPath* next = high.windows.claim(Lid(3));
  EXPECT_NE(next, theirs) << "a new claim gets a new window";
  run(5);
  EXPECT_EQ(next->state(), DirectPath::State::kOpen);
  high.windows.release(*theirs);
  run(1);
  EXPECT_EQ(next->end().state(), fabric::WindowState::kUp);
}

TEST_F(Meeting, a_sleeper_is_woken_by_its_peer_alone) {
  DirectPath* ours = low.windows.claim(Lid(5));
  run(5);
  DirectPath* theirs = arrival(high, Lid(3));
  ASSERT_NE(theirs, nullptr);
  theirs->end().poll(clock.now());
  ASSERT_TRUE(high.windows.prepare_sleep());
  pollfd fd{high.windows.sleep_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
  ASSERT_EQ(ours->end().send(1, 2, std::array{std::byte{1}}, 0), fabric::FifoPost::kOk);
  ours->end().flush();
  EXPECT_EQ(::poll(&fd, 1, 0), 1);
  high.windows.finish_sleep();
  theirs->end().poll(clock.now());
  EXPECT_EQ(::poll(&fd, 1, 0), 0) << "the wake-up was taken";
}

TEST_F(Meeting, the_descriptor_of_a_dead_window_keeps_nobody_awake) {
  DirectPath* ours = low.windows.claim(Lid(5));
  run(5);
  DirectPath* theirs = arrival(high, Lid(3));
  ASSERT_NE(theirs, nullptr);
  low.windows.release(*ours);
  run(1);
  clock.advance(20ms);
  theirs->end().poll(clock.now());
  ASSERT_EQ(theirs->end().state(), fabric::WindowState::kGone);
  step(high);
  pollfd fd{high.windows.sleep_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
}

TEST(DirectLimits, a_process_takes_no_more_windows_than_it_may_have) {
  const TempDir dir;
  ManualClock clock;
  Owner crowded(hca::DirectWindowsConfig{.directory = dir.path() + "/direct", .windows_max = 2}, 3);
  std::list<Owner> peers;
  for (uint16_t lid = 5; lid < 9; ++lid) peers.emplace_back(dir.path() + "/direct", lid);
  crowded.step(clock.now());
  size_t arrived = 0;
  size_t refused = 0;
  for (Owner& peer : peers) {
    peer.step(clock.now());
    DirectPath* path = peer.windows.claim(Lid(3));
    for (int i = 0; i < 10; ++i) {
      clock.advance(1ms);
      peer.step(clock.now());
      crowded.step(clock.now());
    }
    refused += path->state() == DirectPath::State::kRefused ? 1U : 0U;
    Lid lid{};
    while (crowded.windows.arrived(lid) != nullptr) ++arrived;
  }
  EXPECT_EQ(arrived, 2U);
  EXPECT_EQ(refused, 2U);
}

/// Under as many LIDs as it likes: what it takes are the descriptors of the called program.
TEST(DirectLimits, one_other_process_gets_sixteen_windows_and_others_as_they_end) {
  const TempDir dir;
  ManualClock clock;
  Owner called(hca::DirectWindowsConfig{.directory = dir.path() + "/direct"}, 3);
  std::list<Owner> peers;  // all of this process
  for (uint16_t lid = 5; lid < 23; ++lid) peers.emplace_back(dir.path() + "/direct", lid);
  called.step(clock.now());
  const auto claim = [&](Owner& peer) {
    peer.step(clock.now());
    DirectPath* path = peer.windows.claim(Lid(3));
    for (int i = 0; i < 10; ++i) {
      clock.advance(1ms);
      peer.step(clock.now());
      called.step(clock.now());
    }
    return path;
  };
  std::vector<DirectPath*> theirs;
  std::vector<DirectPath*> ours;
  for (Owner& peer : peers) {
    theirs.push_back(claim(peer));
    Lid lid{};
    while (DirectPath* path = called.windows.arrived(lid)) ours.push_back(path);
  }
  ASSERT_EQ(ours.size(), hca::kWindowsPerPeerMax);
  EXPECT_EQ(theirs[15]->state(), DirectPath::State::kOpen);
  EXPECT_EQ(theirs[16]->state(), DirectPath::State::kRefused);
  called.windows.release(*ours[0]);
  called.step(clock.now());
  EXPECT_EQ(claim(peers.back())->state(), DirectPath::State::kOpen) << "a place was given back";
}

TEST(DirectLimits, a_process_claims_no_more_windows_than_it_may_have) {
  const TempDir dir;
  ManualClock clock;
  Owner own(hca::DirectWindowsConfig{.directory = dir.path() + "/direct", .windows_max = 2}, 3);
  own.step(clock.now());
  DirectPath* first = own.windows.claim(Lid(5));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(own.windows.claim(Lid(6)), nullptr);
  EXPECT_EQ(own.windows.claim(Lid(7)), nullptr);
  own.windows.release(*first);
  EXPECT_NE(own.windows.claim(Lid(7)), nullptr) << "a place was given back";
  EXPECT_EQ(own.windows.claim(Lid(8)), nullptr);
}

// ---- in a file --------------------

/// Two owners that share nothing but a file.
class FileMeeting : public ::testing::Test {
 protected:
  FileMeeting() { step(low); }
  struct Side : Owner {
    Side(const std::string& file, uint32_t side, uint16_t lid)
        : Owner(hca::DirectWindowsConfig{.directory = {}, .file = file, .file_side = side}, lid) {}
  };
  void step(Side& side) { side.step(clock.now()); }
  void run(int turns) {
    for (int i = 0; i < turns; ++i) {
      clock.advance(20ms);
      step(low);
      if (high) step(*high);
    }
  }

  TempDir dir;
  ManualClock clock;
  std::string file = dir.path() + "/window";
  Side low{file, 0, 3};
  std::optional<Side> high{std::in_place, file, 1, 5};
};

TEST_F(FileMeeting, the_window_is_the_one_to_the_process_that_stands_in_the_file) {
  DirectPath* ours = low.windows.claim(Lid(5));
  DirectPath* others = low.windows.claim(Lid(77));
  run(10);
  ASSERT_EQ(ours->state(), DirectPath::State::kOpen);
  EXPECT_EQ(ours->end().state(), fabric::WindowState::kUp);
  EXPECT_EQ(others->state(), DirectPath::State::kRefused);
  Lid from{};
  DirectPath* theirs = high->windows.arrived(from);
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(from, Lid(3));
  expect_one_window(*ours, *theirs, clock.now());
  DirectPath* late = low.windows.claim(Lid(77));
  step(low);
  EXPECT_EQ(late->state(), DirectPath::State::kRefused) << "at once: the file has its peer";
}

TEST_F(FileMeeting, an_order_waits_for_the_peer_and_then_takes_the_switch) {
  high.reset();
  run(1);
  DirectPath* path = low.windows.claim(Lid(5));
  run(static_cast<int>(kWindowJoinMax / 20ms));
  EXPECT_EQ(path->state(), DirectPath::State::kJoining);
  run(2);
  EXPECT_EQ(path->state(), DirectPath::State::kRefused);
}

TEST_F(FileMeeting, a_peer_of_another_subnet_is_no_peer) {
  high->port.subnet = SubnetId(9);
  DirectPath* path = low.windows.claim(Lid(5));
  run(10);
  EXPECT_EQ(path->state(), DirectPath::State::kJoining);
}

TEST_F(FileMeeting, the_next_process_takes_the_side_when_the_window_has_ended) {
  DirectPath* ours = low.windows.claim(Lid(5));
  run(10);
  ASSERT_EQ(ours->state(), DirectPath::State::kOpen);
  high.reset();
  run(3);
  ours->end().poll(clock.now());
  ASSERT_EQ(ours->end().state(), fabric::WindowState::kGone);
  high.emplace(file, 1, 8);
  run(3);
  Lid from{};
  EXPECT_EQ(low.windows.arrived(from), nullptr) << "the file still has the first window";
  low.windows.release(*ours);
  run(10);
  DirectPath* next = low.windows.arrived(from);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(from, Lid(8));
  EXPECT_EQ(next->end().state(), fabric::WindowState::kUp);
}

TEST_F(FileMeeting, a_small_file_has_a_short_fifo_and_a_smaller_one_no_window) {
  const std::string small = dir.path() + "/small";
  ASSERT_EQ(close(open(small.c_str(), O_CREAT | O_RDWR, 0600)), 0);
  ASSERT_EQ(truncate(small.c_str(), 320 * 1024), 0);
  Side one{small, 0, 3};
  Side two{small, 1, 5};
  step(one);
  DirectPath* path = one.windows.claim(Lid(5));
  for (int i = 0; i < 10; ++i) {
    clock.advance(20ms);
    step(one);
    step(two);
  }
  EXPECT_EQ(path->state(), DirectPath::State::kOpen);
  const std::string tiny = dir.path() + "/tiny";
  ASSERT_EQ(close(open(tiny.c_str(), O_CREAT | O_RDWR, 0600)), 0);
  ASSERT_EQ(truncate(tiny.c_str(), 128 * 1024), 0);
  Side three{tiny, 0, 3};
  step(three);
  DirectPath* none = three.windows.claim(Lid(5));
  step(three);
  EXPECT_EQ(none->state(), DirectPath::State::kRefused);
}

TEST_F(FileMeeting, a_window_in_a_file_has_at_least_eight_slots) {
  fabric::OwnWindowConfig least = hca::DirectWindowsConfig{}.in_file;
  least.slots = 8;
  constexpr size_t kTwoPages = 8192;  // one per side
  size_t bytes = kTwoPages;
  while (fabric::window_bytes_of_file(bytes) < fabric::OwnWindow::bytes_for(least)) bytes += kTwoPages;
  for (const bool fits : {true, false}) {
    const std::string path = dir.path() + (fits ? "/least" : "/less");
    ASSERT_EQ(close(open(path.c_str(), O_CREAT | O_RDWR, 0600)), 0);
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(fits ? bytes : bytes - kTwoPages)), 0);
    Side one{path, 0, 3};
    step(one);
    const DirectPath* way = one.windows.claim(Lid(5));
    step(one);
    EXPECT_EQ(way->state(), fits ? DirectPath::State::kJoining : DirectPath::State::kRefused);
  }
}

// ---- devices --------------------

/// Polls until the CQ has an entry; the peers' helper threads do the rest.
WcStatus status_of_next(Consumer& at) {
  adapter::WorkCompletion out{.status = WcStatus::kGeneral};
  const MonotonicClock clock;
  for (const Instant limit = clock.now() + 30s; clock.now() < limit;) {
    if (at.cq->poll(std::span(&out, 1)) != 0) return out.status;
  }
  return WcStatus::kGeneral;
}

uint64_t cells_of(const Consumer& at) {
  return at.device.count(1, adapter::AdapterPortCounter::kCellsSent);
}

class DirectDevices : public ::testing::TestWithParam<std::array<bool, 2>> {
 protected:
  LiveFabric fabric;
  std::string place = fabric.dir.path();
  LiveConsumer a{1, fabric, GetParam()[0] ? place : std::string()};
  LiveConsumer b{2, fabric, GetParam()[1] ? place : std::string()};
};

TEST_P(DirectDevices, queue_pairs_use_a_window_if_both_have_it) {
  const std::array<hca::Qp*, 2> qps{a.make_qp(), b.make_qp()};
  connect(*qps[0], Lid(1), *qps[1], Lid(2));
  const bool both = GetParam()[0] && GetParam()[1];
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(b.recv(*qps[1], 1), hca::Answer::kOk);
    ASSERT_EQ(a.send(*qps[0], 2), hca::Answer::kOk);
    ASSERT_EQ(status_of_next(a), WcStatus::kSuccess);
    ASSERT_EQ(status_of_next(b), WcStatus::kSuccess);
    ASSERT_EQ(a.recv(*qps[0], 3), hca::Answer::kOk);
    ASSERT_EQ(b.send(*qps[1], 4), hca::Answer::kOk);
    ASSERT_EQ(status_of_next(b), WcStatus::kSuccess);
    ASSERT_EQ(status_of_next(a), WcStatus::kSuccess);
  }
  if (both) {
    EXPECT_LT(cells_of(a) + cells_of(b), 20U);
  } else {
    EXPECT_GT(cells_of(a), 199U);
  }
}

TEST(DirectExit, a_program_that_ends_leaves_no_socket) {
  LiveFabric fabric;
  LiveConsumer a(1, fabric, fabric.dir.path());
  LiveConsumer b(2, fabric, fabric.dir.path());
  const std::string place = weft::fabric::doors_of(fabric.dir.path());
  const std::array<hca::Qp*, 2> qps{a.make_qp(), b.make_qp()};
  connect(*qps[0], Lid(1), *qps[1], Lid(2));
  ASSERT_EQ(b.recv(*qps[1], 1), hca::Answer::kOk);
  ASSERT_EQ(a.send(*qps[0], 2), hca::Answer::kOk);
  ASSERT_EQ(status_of_next(b), WcStatus::kSuccess);
  ASSERT_EQ(access((place + "/0-1.sock").c_str(), F_OK), 0);
  EXPECT_TRUE(a.device.finish());
  EXPECT_NE(access((place + "/0-1.sock").c_str(), F_OK), 0);
  EXPECT_EQ(access((place + "/0-2.sock").c_str(), F_OK), 0);
}

/// A program may end a region while its peer writes to another one.
TEST(DirectRegions, a_region_ends_beside_the_transfers_of_a_peer) {
  LiveFabric fabric;
  LiveConsumer a(1, fabric, fabric.dir.path());
  LiveConsumer b(2, fabric, fabric.dir.path());
  const std::array<hca::Qp*, 2> qps{a.make_qp(), b.make_qp()};
  connect(*qps[0], Lid(1), *qps[1], Lid(2));
  std::atomic<uint64_t> other{0};  // address and key of a region that is about to end
  std::atomic<uint32_t> other_key{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> writes{0};
  std::thread writer([&] {
    const auto write = [&](uint64_t at, uint32_t key, uint32_t bytes) {
      const adapter::Sge from = a.sge(0, bytes);
      const adapter::SendRequest request{.opcode = adapter::SendOpcode::kRdmaWrite,
                                         .flags = adapter::kSendSignaled,
                                         .sges = std::span(&from, 1),
                                         .remote_addr = at,
                                         .rkey = Rkey(key)};
      size_t posted = 0;
      EXPECT_EQ(qps[0]->post_send(std::span(&request, 1), posted), hca::Answer::kOk);
      EXPECT_EQ(status_of_next(a), WcStatus::kSuccess);
      ++writes;
    };
    while (!stop) {
      if (const uint64_t at = other.load(); at != 0) {
        for (int i = 0; i < 3; ++i) write(at, other_key, 64);  // through the owner, then by the device
        other = 0;
      }
      write(b.region->region().addr, b.region->region().rkey.value(), Consumer::kBytes);
    }
  });
  std::vector<std::byte> memory(4096);
  const adapter::Access access = adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite;
  for (int round = 0; round < 100; ++round) {
    hca::MemoryRegion* region = b.context->reg_mr(*b.pd, memory, access).object;
    ASSERT_NE(region, nullptr);
    other_key = region->region().rkey.value();
    other = region->region().addr;
    while (other != 0) std::this_thread::yield();
    EXPECT_EQ(b.context->destroy(region), hca::Answer::kOk) << round;
  }
  stop = true;
  writer.join();
  EXPECT_GT(writes, 300U);
  EXPECT_LT(cells_of(a), 100U);
}

INSTANTIATE_TEST_SUITE_P(Sides, DirectDevices,
                         ::testing::Values(std::array{true, true}, std::array{true, false},
                                           std::array{false, true}));

}  // namespace
}  // namespace weft::test
