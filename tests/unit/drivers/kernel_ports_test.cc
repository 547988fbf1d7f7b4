// The ports on network interfaces of the kernel, tap and packet: as root only, in a network namespace of the
// test's own.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "base/net/ethernet.h"
#include "base/net/tap_port.h"
#include "base/privileges.h"
#include "host_driver/gen_frames.h"
#include "iou_driver/packet_nic.h"
#include "tests/support/port_frames.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using test::port_frame;
using test::wait_frame;
using test::write_whole;
constexpr MacAddress kMac = test::kPortMac;
constexpr MacAddress kPeer = test::kPortPeer;

/// Runs `body` in a child with a network namespace of its own; gtest failures there fail the test here.
void in_namespace(const std::function<void()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(77);
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "may not make a network namespace here; needs CAP_SYS_ADMIN";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void shell(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

/// Time for poll(), each call a second on, so that a port looks every time.
Instant later() {
  static Instant now = MonotonicClock().now() + 24h;
  return now += 1s;
}

/// The kernel raises the carrier of a veth a moment after both ends were set up.
void wait_for_carrier(FramePort& port) {
  for (int i = 0; i < 1000 && !port.carrier(); ++i) {
    ::usleep(10'000);
    port.poll(later());
  }
  ASSERT_TRUE(port.carrier());
}

TEST(TapPort, frames_cross_an_interface_and_settings_take_effect) {
  if (::geteuid() != 0) GTEST_SKIP() << "a TAP interface needs root";
  if (::access("/dev/net/tun", F_OK) != 0)
    GTEST_SKIP() << "no /dev/net/tun here; needs the kernel's module tun";
  in_namespace([] {
    const MonotonicClock clock;
    Result<std::unique_ptr<TapPort>> port = TapPort::open("wtest0");
    ASSERT_TRUE(port.ok()) << port.error().text;
    EXPECT_TRUE((*port)->set_mac(kMac).ok());
    EXPECT_TRUE((*port)->set_mtu(9000).ok());
    EXPECT_EQ((*port)->info().mtu_bytes, 9000u);
    shell("ip link set wtest0 mtu 4000");
    (*port)->poll(clock.now());
    EXPECT_EQ((*port)->info().mtu_bytes, 4000u) << "a change by others is noticed";
    EXPECT_FALSE((*port)->info().promiscuous || (*port)->info().all_multicast);
    shell("ip link set wtest0 address 02:00:00:00:00:77 promisc on allmulticast on");
    (*port)->poll(clock.now() + std::chrono::seconds(1));
    EXPECT_EQ(to_string((*port)->info().mac), "02:00:00:00:00:77");
    EXPECT_TRUE((*port)->info().promiscuous && (*port)->info().all_multicast);
    shell("ip link set wtest0 promisc off allmulticast off");
    (*port)->poll(clock.now() + std::chrono::seconds(2));
    EXPECT_FALSE((*port)->info().promiscuous || (*port)->info().all_multicast);
    EXPECT_TRUE((*port)->set_mac(kMac).ok());
    EXPECT_TRUE(is_subset(Offload::kChecksum | Offload::kTso4, (*port)->info().offloads));
    EXPECT_TRUE((*port)->set_offloads((*port)->info().offloads).ok());
    shell("ip addr add 10.0.2.2/24 dev wtest0 && ip link set wtest0 up");
    const host::GenStation self{.mac = kPeer, .ipv4 = {10, 0, 2, 15}, .ipv6 = {}};
    const host::GenStation kernel{.mac = kMac, .ipv4 = {10, 0, 2, 2}, .ipv6 = {}};
    Bytes frame(kVnetBytes + 200);
    const uint32_t arp =
        host::build_request(host::GenKind::kArp, self, kernel, 0, {}, std::span(frame).subspan(kVnetBytes));
    ASSERT_EQ(write_whole(**port, std::span(frame).first(kVnetBytes + arp)), FrameIo::kOk);
    bool answered = false;
    for (int i = 0; i < 50 && !answered; ++i) {  // the kernel also sends its own discovery
      const Bytes got = wait_frame(**port, clock);
      if (got.empty()) break;
      const host::GenAnswer answer = host::check_answer(std::span(got).subspan(kVnetBytes), self, kernel, 0);
      answered = answer.verdict == host::GenVerdict::kGood && answer.answered_by == kMac;
    }
    EXPECT_TRUE(answered);
    EXPECT_FALSE(open_tap("a-name-that-is-too-long").ok());
    EXPECT_NE(open_tap("wtest0").error().text.find("busy"), std::string::npos);
    EXPECT_TRUE(drop_privileges().ok());
    EXPECT_TRUE(has_no_privileges());
    EXPECT_NE(open_tap("wtest1").error().text.find("CAP_NET_ADMIN"), std::string::npos);
    EXPECT_EQ(write_whole(**port, std::span(frame).first(kVnetBytes + arp)), FrameIo::kOk);  // still works
  });
}

TEST(PacketNic, frames_cross_a_veth_with_tags_and_without_our_own) {
  if (::geteuid() != 0) GTEST_SKIP() << "a packet socket needs root";
  in_namespace([] {
    const MonotonicClock clock;
    shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    shell("ip link add va type veth peer name vb && ip link set va up && ip link set vb up");
    Result<std::unique_ptr<iou::PacketNic>> a = iou::PacketNic::open("va");
    Result<std::unique_ptr<iou::PacketNic>> b = iou::PacketNic::open("vb");
    ASSERT_TRUE(a.ok() && b.ok()) << (a.ok() ? b.error().text : a.error().text);
    wait_for_carrier(**a);
    wait_for_carrier(**b);
    const Bytes frame = port_frame(1514, 5);
    ASSERT_EQ(write_whole(**a, frame), FrameIo::kOk);
    Bytes got = wait_frame(**b, clock);
    ASSERT_EQ(got.size(), frame.size());
    EXPECT_TRUE(std::equal(got.begin() + kVnetBytes, got.end(), frame.begin() + kVnetBytes));
    Bytes into(70000);
    EXPECT_EQ((*a)->read_frame(into).io, FrameIo::kEmpty);  // our own frame does not come back
    Bytes tagged = port_frame(104, 6);
    store_be(tagged.data() + kVnetBytes + 12, uint16_t{0x8100});
    store_be(tagged.data() + kVnetBytes + 14, uint16_t{0x0123});
    store_be(tagged.data() + kVnetBytes + 16, uint16_t{0x88B5});
    ASSERT_EQ(write_whole(**a, tagged), FrameIo::kOk);
    got = wait_frame(**b, clock);
    ASSERT_EQ(got.size(), tagged.size());
    EXPECT_TRUE(std::equal(got.begin() + kVnetBytes, got.end(), tagged.begin() + kVnetBytes));
    EXPECT_EQ((*b)->counters().get(PortCounter::kVlanTagsInserted), 1u);
    shell("ip link set va down");
    for (int i = 0; i < 250 && (*b)->carrier(); ++i) {  // the kernel may take a second
      (*b)->poll(later());
      ::usleep(20'000);
    }
    EXPECT_FALSE((*b)->carrier());
    EXPECT_EQ(interface_fault(**b), "interface vb is down");
    EXPECT_FALSE(iou::PacketNic::open("none").ok());
  });
}

/// A frame of the interface itself, or of the port: the way is whole.
void expect_way(FramePort& from, FramePort& to) {
  const MonotonicClock clock;
  wait_for_carrier(from);
  wait_for_carrier(to);
  const Bytes frame = port_frame(300, 9);
  ASSERT_EQ(write_whole(from, frame), FrameIo::kOk);
  Bytes got = wait_frame(to, clock);  // the kernel's own discovery may come first
  for (int i = 0; i < 20 && !got.empty() && got.size() != frame.size(); ++i) got = wait_frame(to, clock);
  EXPECT_EQ(got.size(), frame.size());
}

/// True when poll() finds something on the port's descriptors, as a loop that sleeps would.
bool wakes(const FramePort& port) {
  std::vector<pollfd> fds;
  port.wait_fds(fds);
  return ::poll(fds.data(), fds.size(), 20) > 0;
}

void turn(FramePort& port) {
  Bytes into(70000);
  port.poll(later());
  while (port.read_frame(into).io == FrameIo::kOk) {
  }
}

/// Deleted and made anew, renamed and named back: each time the port says so, does not wake its loop while
/// the interface is away, and frames cross again without anybody's help.
TEST(PacketNic, an_interface_that_goes_is_taken_up_again_when_it_comes_back) {
  if (::geteuid() != 0) GTEST_SKIP() << "a packet socket needs root";
  in_namespace([] {
    const std::string make =
        "ip link add va type veth peer name vb && ip link set va up && ip link set vb up";
    shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    shell(make);
    Result<std::unique_ptr<iou::PacketNic>> a = iou::PacketNic::open("va");
    Result<std::unique_ptr<iou::PacketNic>> b = iou::PacketNic::open("vb");
    ASSERT_TRUE(a.ok() && b.ok());
    expect_way(**a, **b);
    expect_way(**b, **a);
    struct {
      const char* gone;
      std::string back;
    } const ways[]{{"ip link del vb", make},
                   {"ip link set va down && ip link set va name other",
                    "ip link set other name va && ip link set va up"}};
    uint64_t times = 0;
    for (const auto& way : ways) {
      shell(way.gone);
      turn(**a);
      turn(**a);
      EXPECT_TRUE((*a)->info().gone) << way.gone;
      EXPECT_FALSE((*a)->carrier());
      EXPECT_EQ(interface_fault(**a), "interface va is gone");
      EXPECT_FALSE(wakes(**a)) << "nothing to wait for";
      EXPECT_EQ(write_whole(**a, port_frame(300, 1)), FrameIo::kDown);
      EXPECT_EQ((*a)->counters().get(PortCounter::kInterfaceGone), ++times);
      shell(way.back);
      turn(**a);
      turn(**b);
      EXPECT_FALSE((*a)->info().gone) << way.back;
      EXPECT_EQ((*a)->counters().get(PortCounter::kInterfaceBack), times);
      expect_way(**a, **b);
      expect_way(**b, **a);
    }
    shell("ip link del va; " + make);  // between two looks
    turn(**a);
    turn(**b);
    expect_way(**a, **b);
    EXPECT_EQ(interface_fault(**a), "");
  });
}

TEST(PacketNic, one_whose_interface_is_away_starts_without_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "a packet socket needs root";
  in_namespace([] {
    UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    Result<std::unique_ptr<iou::PacketNic>> a = iou::PacketNic::adopt(std::move(fd), "va");
    ASSERT_TRUE(a.ok()) << a.error().text;
    EXPECT_TRUE((*a)->info().gone);
    EXPECT_FALSE((*a)->carrier());
    EXPECT_FALSE(wakes(**a));
    shell("ip link add va mtu 1400 type veth peer name vb && ip link set va up && ip link set vb up");
    turn(**a);
    EXPECT_FALSE((*a)->info().gone);
    EXPECT_EQ((*a)->info().mtu_bytes, 1400U);
    Result<std::unique_ptr<iou::PacketNic>> b = iou::PacketNic::open("vb");
    ASSERT_TRUE(b.ok());
    expect_way(**b, **a);
  });
}

/// Nobody reads: what the kernel drops at the socket has a name.
TEST(PacketNic, frames_that_found_no_room_in_the_socket_are_counted) {
  if (::geteuid() != 0) GTEST_SKIP() << "a packet socket needs root";
  in_namespace([] {
    shell("ip link add va type veth peer name vb && ip link set va up && ip link set vb up");
    Result<std::unique_ptr<iou::PacketNic>> a = iou::PacketNic::open("va");
    Result<std::unique_ptr<iou::PacketNic>> b = iou::PacketNic::open("vb");
    ASSERT_TRUE(a.ok() && b.ok());
    wait_for_carrier(**a);
    wait_for_carrier(**b);
    const Bytes frame = port_frame(1514, 1);
    for (int i = 0; i < 20000; ++i) (void)write_whole(**a, frame);
    uint64_t read = 0;
    for (Bytes into(70000); (*b)->read_frame(into).io == FrameIo::kOk;) ++read;
    (*b)->poll(later());
    const uint64_t dropped = (*b)->counters().get(PortCounter::kSocketDrops);
    EXPECT_GT(dropped, 0U);
    EXPECT_GE(read + dropped, (*a)->counters().get(PortCounter::kFramesWritten));
    (*b)->poll(later());
    EXPECT_EQ((*b)->counters().get(PortCounter::kSocketDrops), dropped) << "counted once";
  });
}

/// A TAP whose queue is full: the interface's own counter of what the OS could not send.
TEST(TapPort, frames_that_the_interface_dropped_are_counted) {
  if (::geteuid() != 0) GTEST_SKIP() << "a TAP interface needs root";
  in_namespace([] {
    Result<std::unique_ptr<TapPort>> tap = TapPort::open("wtest0");
    ASSERT_TRUE(tap.ok()) << tap.error().text;
    shell("ip link set wtest0 up txqueuelen 4");
    Result<std::unique_ptr<iou::PacketNic>> os = iou::PacketNic::open("wtest0");
    ASSERT_TRUE(os.ok());
    (*tap)->poll(later());
    for (int i = 0; i < 3000; ++i) (void)write_whole(**os, port_frame(1000, 1));
    (*tap)->poll(later());
    EXPECT_GT((*tap)->counters().get(PortCounter::kInterfaceReadDrops), 0U);
    EXPECT_EQ((*tap)->counters().get(PortCounter::kInterfaceWriteDrops), 0U);
  });
}

/// The process that uses the TAP has no right to make one; who shares the descriptor has.
TEST(TapPort, a_deleted_interface_made_anew_on_the_shared_descriptor_is_taken_up) {
  if (::geteuid() != 0) GTEST_SKIP() << "a TAP interface needs root";
  in_namespace([] {
    Result<UniqueFd> shared = open_tap("wtest0");
    ASSERT_TRUE(shared.ok()) << shared.error().text;
    Result<std::unique_ptr<TapPort>> tap = TapPort::adopt(UniqueFd(::dup(shared->get())));
    ASSERT_TRUE(tap.ok()) << tap.error().text;
    ASSERT_TRUE((*tap)->set_offloads(Offload::kChecksum).ok());
    shell("ip link set wtest0 up");
    turn(**tap);
    ASSERT_TRUE((*tap)->carrier());
    shell("ip link del wtest0");
    Bytes into(70000);
    EXPECT_EQ((*tap)->read_frame(into).io, FrameIo::kDown);
    EXPECT_TRUE((*tap)->info().gone) << "known from the first error on";
    EXPECT_FALSE(wakes(**tap));
    EXPECT_EQ(tap_name(shared->get()), "");
    (*tap)->set_carrier(false);
    turn(**tap);
    EXPECT_TRUE((*tap)->info().gone);
    EXPECT_EQ((*tap)->counters().get(PortCounter::kReadErrors), 0U);
    ASSERT_TRUE(attach_tap(shared->get(), "wtest0").ok());
    EXPECT_EQ(tap_name(shared->get()), "wtest0");
    shell("ip link set wtest0 up");
    turn(**tap);
    EXPECT_FALSE((*tap)->info().gone);
    EXPECT_EQ(std::system("grep -q 0 /proc/self/net/dev && ip link show wtest0 | grep -q NO-CARRIER"), 0)
        << "the carrier set meanwhile";
    (*tap)->set_carrier(true);
    turn(**tap);
    Result<std::unique_ptr<iou::PacketNic>> os = iou::PacketNic::open("wtest0");
    ASSERT_TRUE(os.ok());
    expect_way(**os, **tap);
    expect_way(**tap, **os);
  });
}

/// A process that starts while its TAP has another name is as good as one that was there before.
TEST(TapPort, a_tap_with_another_name_is_waited_for) {
  if (::geteuid() != 0) GTEST_SKIP() << "a TAP interface needs root";
  in_namespace([] {
    Result<UniqueFd> shared = open_tap("wtest0");
    ASSERT_TRUE(shared.ok()) << shared.error().text;
    shell("ip link set dev wtest0 name other0");
    Result<std::unique_ptr<TapPort>> tap = TapPort::adopt(UniqueFd(::dup(shared->get())), "wtest0");
    ASSERT_TRUE(tap.ok()) << tap.error().text;
    EXPECT_TRUE((*tap)->info().gone);
    EXPECT_EQ((*tap)->info().name, "wtest0");
    EXPECT_TRUE(is_station((*tap)->info().mac)) << "what the unit is told";
    EXPECT_GT((*tap)->info().mtu_bytes, 0U);
    EXPECT_FALSE((*tap)->carrier());
    turn(**tap);
    EXPECT_TRUE((*tap)->info().gone);
    shell("ip link set dev other0 name wtest0");
    shell("ip link set wtest0 up");
    turn(**tap);
    EXPECT_FALSE((*tap)->info().gone);
    EXPECT_TRUE((*tap)->carrier());
    Result<std::unique_ptr<iou::PacketNic>> os = iou::PacketNic::open("wtest0");
    ASSERT_TRUE(os.ok());
    expect_way(**os, **tap);
    expect_way(**tap, **os);
  });
}

TEST(NetInterface, losses_are_read_from_the_line_of_the_interface_alone) {
  const std::string text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo "
      "colls\n"
      " eth01:       9       9    9    9    9     9          9         9        9       9    9    9    9     "
      "9\n"
      "  eth0:100       2    3    4    0     0          0         0       90       1    5    6    0     0    "
      "   0\n";
  const InterfaceLosses losses = find_losses(text, "eth0");
  EXPECT_EQ(losses.receive_errors, 3U);
  EXPECT_EQ(losses.receive_drops, 4U);
  EXPECT_EQ(losses.send_errors, 5U);
  EXPECT_EQ(losses.send_drops, 6U);
  EXPECT_EQ(find_losses(text, "eth").receive_drops, 0U);
  EXPECT_EQ(find_losses("eth0: 1 2", "eth0").send_drops, 0U);
}

}  // namespace
}  // namespace weft
