// The ports that meet a library or a socket of the kernel: unix, pcap and slirp, as any user. Those on
// network interfaces are in kernel_ports_test.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/endian.h"
#include "base/net/checksum.h"
#include "host_driver/gen_frames.h"
#include "host_driver/unix_port.h"
#include "iou_driver/pcap_file.h"
#include "iou_driver/pcap_nic.h"
#include "iou_driver/slirp_nic.h"
#include "tests/support/port_frames.h"
#include "tests/support/reason_table.h"
#include "tests/support/stranger.h"
#include "tests/support/temp_dir.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
constexpr MacAddress kOwnMac = test::kPortMac;
using test::port_frame;
using test::wait_frame;
using test::write_whole;

int connect_unix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(UnixPort, frames_cross_length_prefixed_both_ways) {
  const test::TempDir dir;
  const MonotonicClock clock;
  Result<std::unique_ptr<host::UnixPort>> port = host::UnixPort::listen(dir.path() + "/vm", kOwnMac);
  ASSERT_TRUE(port.ok()) << port.error().text;
  EXPECT_FALSE((*port)->carrier());
  const UniqueFd peer(connect_unix(dir.path() + "/vm"));
  (*port)->poll(clock.now());
  EXPECT_TRUE((*port)->carrier());
  // In two pieces, so that a frame is put together.
  const Bytes frame = port_frame(100, 7);
  std::array<std::byte, 4> length{};
  store_be(length.data(), uint32_t{100});
  ASSERT_EQ(::write(peer.get(), length.data(), 4), 4);
  Bytes into(9100);
  EXPECT_EQ((*port)->read_frame(into).io, FrameIo::kEmpty);
  ASSERT_EQ(::write(peer.get(), frame.data() + kVnetBytes, 100), 100);
  EXPECT_EQ(wait_frame(**port, clock), frame);
  ASSERT_EQ(write_whole(**port, port_frame(1514, 9)), FrameIo::kOk);
  Bytes got(4 + 1514);
  ASSERT_EQ(::recv(peer.get(), got.data(), got.size(), MSG_WAITALL), 1518);
  EXPECT_EQ(load_be<uint32_t>(got.data()), 1514u);
  EXPECT_TRUE(std::equal(got.begin() + 4, got.end(), port_frame(1514, 9).begin() + kVnetBytes));
}

TEST(UnixPort, a_reader_that_stops_makes_it_busy_and_nothing_is_lost) {
  const test::TempDir dir;
  const MonotonicClock clock;
  Result<std::unique_ptr<host::UnixPort>> port = host::UnixPort::listen(dir.path() + "/vm", kOwnMac);
  ASSERT_TRUE(port.ok());
  const UniqueFd peer(connect_unix(dir.path() + "/vm"));
  (*port)->poll(clock.now());
  uint32_t sent = 0;
  while (sent < 10000 && write_whole(**port, port_frame(1500, static_cast<uint8_t>(sent))) == FrameIo::kOk)
    ++sent;
  ASSERT_LT(sent, 10000u);
  EXPECT_GT((*port)->counters().get(PortCounter::kWriteBusy), 0u);
  for (uint32_t i = 0; i < sent; ++i) {
    Bytes got(1504);
    (*port)->poll(clock.now());
    ASSERT_EQ(::recv(peer.get(), got.data(), got.size(), MSG_WAITALL), 1504) << i;
    EXPECT_EQ(got.back(), static_cast<std::byte>(i));
  }
}

TEST(UnixPort, a_stream_out_of_step_is_hung_up_and_the_next_peer_is_served) {
  const test::TempDir dir;
  const MonotonicClock clock;
  Result<std::unique_ptr<host::UnixPort>> port = host::UnixPort::listen(dir.path() + "/vm", kOwnMac);
  ASSERT_TRUE(port.ok());
  {
    const UniqueFd peer(connect_unix(dir.path() + "/vm"));
    (*port)->poll(clock.now());
    ASSERT_EQ(::write(peer.get(), "\xFF\xFF\xFF\xFFxxxx", 8), 8);
    Bytes into(9100);
    for (int i = 0; i < 100 && (*port)->carrier(); ++i) (void)(*port)->read_frame(into);
    EXPECT_FALSE((*port)->carrier());
    EXPECT_EQ((*port)->counters().get(PortCounter::kReadMalformed), 1u);
    EXPECT_EQ((*port)->counters().get(PortCounter::kCarrierChanges), 2u);
  }
  const UniqueFd peer(connect_unix(dir.path() + "/vm"));
  (*port)->poll(clock.now());
  EXPECT_TRUE((*port)->carrier());
  const Bytes frame(60);
  ASSERT_EQ(::write(peer.get(), "\0\0\0\x3C", 4) + ::write(peer.get(), frame.data(), frame.size()), 64);
  Bytes into(9100);
  EXPECT_EQ((*port)->read_frame(into).io, FrameIo::kOk) << "nothing of the former peer stands before it";
  // A second process may not take the path.
  EXPECT_FALSE(host::UnixPort::listen(dir.path() + "/vm", kOwnMac).ok());
}

TEST(PcapNic, what_was_recorded_is_replayed_at_its_distances) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/lan.pcap";
  {
    Result<std::unique_ptr<iou::PcapNic>> out = iou::PcapNic::open("", file, kOwnMac);
    ASSERT_TRUE(out.ok()) << out.error().text;
    Instant now{};
    for (uint8_t i = 0; i < 5; ++i, now += 100ms) {
      (*out)->poll(now);
      ASSERT_EQ(write_whole(**out, port_frame(60U + 300U * i, i)), FrameIo::kOk);
    }
  }
  Result<std::unique_ptr<iou::PcapNic>> in = iou::PcapNic::open(file, "", kOwnMac);
  ASSERT_TRUE(in.ok()) << in.error().text;
  Instant now{1s};
  Bytes into(70000);
  for (uint8_t i = 0; i < 5; ++i) {
    (*in)->poll(now);
    const FrameReadResult got = (*in)->read_frame(into);
    ASSERT_EQ(got.io, FrameIo::kOk) << int{i};
    EXPECT_TRUE(std::equal(into.begin(), into.begin() + got.bytes, port_frame(60U + 300U * i, i).begin()));
    EXPECT_EQ((*in)->read_frame(into).io, FrameIo::kEmpty);  // the next one is not due yet
    EXPECT_EQ((*in)->deadline(), i < 4 ? now + 100ms : kNever);
    now += 100ms;
  }
  EXPECT_TRUE((*in)->replayed());
  EXPECT_FALSE(iou::PcapNic::open(dir.path() + "/none.pcap", "", kOwnMac).ok());
  const std::string fifo = dir.path() + "/fifo";  // its writer would be waited for
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(iou::PcapNic::open(fifo, "", kOwnMac).ok());
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

uint32_t frames_in(const std::string& file) {
  Result<std::unique_ptr<iou::PcapNic>> in = iou::PcapNic::open(file, "", kOwnMac);
  uint32_t frames = 0;
  Bytes into(70000);
  Instant now{1s};
  for (; in.ok() && !(*in)->replayed(); now += 1h) {
    (*in)->poll(now);
    frames += (*in)->read_frame(into).io == FrameIo::kOk ? 1U : 0U;
  }
  return frames;
}

/// Records a frame of that length in `file`; the error otherwise.
std::string record_one(const std::string& file, uint32_t frame_bytes) {
  Result<std::unique_ptr<iou::PcapNic>> out = iou::PcapNic::open("", file, kOwnMac);
  if (!out.ok()) return out.error().text;
  (*out)->poll(Instant{5s});
  EXPECT_EQ(write_whole(**out, port_frame(frame_bytes, 1)), FrameIo::kOk);
  return {};
}

TEST(PcapNic, a_recording_goes_on_behind_what_the_file_holds) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/lan.pcap";
  std::string before;
  for (uint32_t run = 1; run <= 3; ++run) {
    ASSERT_EQ(record_one(file, 100 * run), "");
    EXPECT_TRUE(contents(file).starts_with(before));
    before = contents(file);
    EXPECT_EQ(frames_in(file), run);
  }
  { std::ofstream(dir.path() + "/empty.pcap"); }
  EXPECT_EQ(record_one(dir.path() + "/empty.pcap", 100), "") << "made, not yet written";
  EXPECT_EQ(frames_in(dir.path() + "/empty.pcap"), 1U);
}

/// As on a disk that is full for a while; the limit of this process stands for it.
TEST(PcapNic, a_recording_whose_first_frames_were_lost_has_its_header_all_the_same) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/lan.pcap";
  std::unique_ptr<iou::PcapFile> file = iou::PcapFile::open(path).value();
  const Bytes whole = port_frame(100, 1);
  const auto frame = std::span(whole).subspan(kVnetBytes);
  file->add(Instant{1s}, frame, {});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const auto action = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const iou::PcapWritten lost = file->flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, action);
  EXPECT_EQ(lost.lost, 1U);
  file->add(Instant{2s}, frame, {});
  EXPECT_EQ(file->flush().frames, 1U);
  file.reset();
  EXPECT_EQ(frames_in(path), 1U);
}

/// Whatever it is, it is the user's: it stays as it is and the error says what to do.
TEST(PcapNic, a_file_that_is_no_whole_recording_is_refused_and_left_alone) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/lan.pcap";
  ASSERT_EQ(record_one(file, 100), "");
  const std::string good = contents(file);
  std::string microseconds = good;
  microseconds[1] = '\xC3';
  std::string endless = good;
  endless[24 + 11] = '\x7F';
  const uint32_t beyond = iou::kPcapFrameBytesMax + 1;  // a frame that this program does not record
  std::string longer(16 + beyond, '\0');
  std::memcpy(&longer[8], &beyond, sizeof beyond);
  std::memcpy(&longer[12], &beyond, sizeof beyond);
  const std::pair<std::string, const char*> cases[]{
      {"my thesis", "is no recording of this program"},
      {good.substr(0, 20), "is no recording of this program"},
      {microseconds, "is no recording of this program"},
      {good.substr(0, good.size() - 1), "ends in the middle of a frame"},
      {good + good.substr(24, 15), "ends in the middle of a frame"},
      {endless, "ends in the middle of a frame"},
      {good + longer, "ends in the middle of a frame"}};
  for (const auto& [bytes, says] : cases) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_NE(record_one(file, 100).find(says), std::string::npos) << record_one(file, 100);
    EXPECT_EQ(contents(file), bytes);
  }
}

TEST(PcapNic, one_file_is_not_read_and_written_nor_written_twice) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/lan.pcap";
  ASSERT_EQ(record_one(file, 100), "");
  const std::string before = contents(file);
  std::filesystem::create_hard_link(file, dir.path() + "/hard.pcap");
  std::filesystem::create_symlink(file, dir.path() + "/soft.pcap");
  for (const std::string& out : {file, dir.path() + "/hard.pcap", dir.path() + "/soft.pcap"}) {
    Result<std::unique_ptr<iou::PcapNic>> nic = iou::PcapNic::open(file, out, kOwnMac);
    ASSERT_FALSE(nic.ok()) << out;
    EXPECT_NE(nic.error().text.find("are one file"), std::string::npos);
  }
  EXPECT_EQ(contents(file), before);
  Result<std::unique_ptr<iou::PcapNic>> first = iou::PcapNic::open("", file, kOwnMac);
  ASSERT_TRUE(first.ok());
  EXPECT_NE(record_one(file, 100).find("another process records"), std::string::npos);
}

TEST(SlirpNic, gateway_answers_arp_and_echo) {
  const MonotonicClock clock;
  Result<std::unique_ptr<iou::SlirpNic>> nic = iou::SlirpNic::open(iou::SlirpNicConfig{}, clock);
  ASSERT_TRUE(nic.ok()) << nic.error().text;
  host::GenStation self{.mac = kOwnMac, .ipv4 = {10, 0, 2, 15}, .ipv6 = {}};
  host::GenStation gateway{.mac = {}, .ipv4 = {10, 0, 2, 2}, .ipv6 = {}};
  Bytes frame(kVnetBytes + 200);
  const std::span<std::byte> ethernet = std::span(frame).subspan(kVnetBytes);
  const uint32_t arp = host::build_request(host::GenKind::kArp, self, gateway, 0, {}, ethernet);
  ASSERT_EQ(write_whole(**nic, std::span(frame).first(kVnetBytes + arp)), FrameIo::kOk);
  const Bytes reply = wait_frame(**nic, clock);
  ASSERT_GT(reply.size(), kVnetBytes + 14);
  const host::GenAnswer answer = host::check_answer(std::span(reply).subspan(kVnetBytes), self, gateway, 1);
  ASSERT_EQ(answer.verdict, host::GenVerdict::kGood);
  gateway.mac = answer.answered_by;
  const uint32_t echo =
      host::build_request(host::GenKind::kIcmp, self, gateway, 98, {.run = 1, .sequence = 5}, ethernet);
  ASSERT_EQ(write_whole(**nic, std::span(frame).first(kVnetBytes + echo)), FrameIo::kOk);
  const Bytes pong = wait_frame(**nic, clock);
  ASSERT_GT(pong.size(), kVnetBytes + 14);
  EXPECT_EQ(host::check_answer(std::span(pong).subspan(kVnetBytes), self, gateway, 1).verdict,
            host::GenVerdict::kGood);
}

/// A port, and the peer behind a unix one.
struct PortBench {
  void listen() {
    auto made = host::UnixPort::listen(dir.path() + "/vm", kOwnMac);
    ASSERT_TRUE(made.ok()) << made.error().text;
    port = std::move(*made);
  }
  void connect() {
    listen();
    peer = UniqueFd(connect_unix(dir.path() + "/vm"));
    port->poll(now);
  }
  /// What the peer sends: its length, whatever that says, and a frame.
  void hear(uint32_t length, uint32_t frame_bytes) {
    Bytes bytes(4);
    store_be(bytes.data(), length);
    bytes.resize(4 + frame_bytes);
    ASSERT_EQ(::write(peer.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void record(const std::string& file) {
    auto made = iou::PcapNic::open("", file, kOwnMac);
    ASSERT_TRUE(made.ok()) << made.error().text;
    port = std::move(*made);
    ASSERT_EQ(write_whole(*port, port_frame(100, 1)), FrameIo::kOk);
  }
  void replay(const std::string& file) {
    auto made = iou::PcapNic::open(file, "", kOwnMac);
    ASSERT_TRUE(made.ok()) << made.error().text;
    port = std::move(*made);
  }
  FrameIo read(size_t room = 9100) {
    Bytes into(room);
    return port->read_frame(into).io;
  }

  test::TempDir dir;
  Instant now{1s};
  UniqueFd peer;
  std::unique_ptr<FramePort> port;
};

struct PortCase {
  PortCounter reason;
  void (*provoke)(PortBench& at);
};
constexpr std::array kPortCases{
    PortCase{PortCounter::kReadTooLong,
             [](PortBench& at) {
               at.connect();
               at.hear(100, 100);
               EXPECT_EQ(at.read(kVnetBytes + 99), FrameIo::kDropped);
             }},
    PortCase{PortCounter::kReadMalformed,
             [](PortBench& at) {
               at.connect();
               at.hear(kEthernetHeaderBytes - 1, 100);
               EXPECT_EQ(at.read(), FrameIo::kDropped);
             }},
    PortCase{PortCounter::kReadMalformed,
             [](PortBench& at) {  // recorded in part
               const std::string file = at.dir.path() + "/lan.pcap";
               at.record(file);
               at.port.reset();
               std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(37).put(0x7F);
               at.replay(file);
               EXPECT_EQ(at.read(), FrameIo::kDropped);
             }},
    PortCase{PortCounter::kReadErrors,
             [](PortBench& at) {  // a file cut in the middle of a record
               const std::string file = at.dir.path() + "/lan.pcap";
               at.record(file);
               at.port.reset();
               std::filesystem::resize_file(file, std::filesystem::file_size(file) - 10);
               at.replay(file);
               EXPECT_EQ(at.read(), FrameIo::kEmpty);
             }},
    PortCase{PortCounter::kWriteTooLong,
             [](PortBench& at) {
               at.connect();
               EXPECT_EQ(write_whole(*at.port, port_frame(20000, 1)), FrameIo::kDropped);
             }},
    PortCase{PortCounter::kWriteTooLong,
             [](PortBench& at) {
               at.record(at.dir.path() + "/lan.pcap");
               EXPECT_EQ(write_whole(*at.port, port_frame(100'000, 1)), FrameIo::kDropped);
               at.now += 10s;
               at.port->poll(at.now);
               EXPECT_EQ(at.port->counters().get(PortCounter::kFramesWritten), 1U) << "the first";
             }},
    PortCase{PortCounter::kWriteMalformed,
             [](PortBench& at) {
               at.connect();
               const Bytes tiny(kVnetBytes + kEthernetHeaderBytes - 1);
               EXPECT_EQ(write_whole(*at.port, tiny), FrameIo::kDropped);
             }},
    PortCase{PortCounter::kWriteBusy,
             [](PortBench& at) {
               at.connect();
               int frames = 0;
               while (write_whole(*at.port, port_frame(1500, 1)) == FrameIo::kOk) ASSERT_LT(++frames, 10000);
             }},
    PortCase{PortCounter::kWriteErrors,
             [](PortBench& at) {
               at.record("/dev/full");
               at.now += 10s;
               at.port->poll(at.now);
               EXPECT_EQ(at.port->counters().get(PortCounter::kFramesWritten), 0U) << "the disk has none";
             }},
    PortCase{PortCounter::kNoReceiver,
             [](PortBench& at) {
               at.listen();
               EXPECT_EQ(write_whole(*at.port, port_frame(100, 1)), FrameIo::kDown);
             }},
};
static_assert(test::names_every_reason(kPortCases, PortCounter::kReadTooLong,
                                       PortCounter::kVlanTagsInserted));

TEST(Ports, each_frame_that_goes_no_further_is_counted_under_its_own_name) {
  for (const PortCase& one : kPortCases) {
    PortBench at;
    one.provoke(at);
    ASSERT_NE(at.port, nullptr);
    test::expect_only(at.port->counters(), one.reason, PortCounter::kReadTooLong,
                      PortCounter::kVlanTagsInserted);
  }
}

TEST(UnixPort, another_user_is_sent_away_and_ours_is_let_in) {
  if (::geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
  PortBench at;
  at.listen();
  test::open_to_all(at.dir, at.dir.path() + "/vm");
  {
    const test::AsStranger stranger;
    at.peer = UniqueFd(connect_unix(at.dir.path() + "/vm"));
  }
  at.port->poll(at.now);
  EXPECT_FALSE(at.port->carrier());
  EXPECT_EQ(::send(at.peer.get(), "x", 1, MSG_NOSIGNAL), -1) << "its connection is closed";
  test::expect_only(at.port->counters(), PortCounter::kForeignUser, PortCounter::kReadTooLong,
                    PortCounter::kCount);
  at.peer = UniqueFd(connect_unix(at.dir.path() + "/vm"));
  at.port->poll(at.now);
  EXPECT_TRUE(at.port->carrier());
}

TEST(UnixPort, a_peer_that_leaves_a_frame_behind_is_no_busy_one) {
  PortBench at;
  at.connect();
  int frames = 0;
  while (write_whole(*at.port, port_frame(1500, 1)) == FrameIo::kOk) ASSERT_LT(++frames, 10000);
  at.peer.reset();
  EXPECT_EQ(write_whole(*at.port, port_frame(100, 1)), FrameIo::kDown);
  EXPECT_EQ(at.port->counters().get(PortCounter::kWriteBusy), 1U);
  EXPECT_EQ(at.port->counters().get(PortCounter::kNoReceiver), 1U);
}

}  // namespace
}  // namespace weft
