// Hostile peers of a window between processes, which speak the handshake and the ring of pieces by hand.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "base/shared_region.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/window/own_window.h"
#include "fabric/window/piece_path.h"
#include "fabric/window/process_device.h"
#include "fabric/window/window_words.h"
#include "messages/window_hello.h"
#include "tests/support/window_process.h"

namespace weft::test {
using namespace fabric;
namespace {

class HostileProcess : public ::testing::Test {
 protected:
  HostileProcess() {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    theirs.reset(sockets[1]);
    device =
        std::move(ProcessDevice::create(UniqueFd(sockets[0]), device_config(false, &memory), random).value());
    std::array<std::byte, 64> hello;
    EXPECT_EQ(receive_packet(theirs.get(), hello, packet), PacketIo::kOk);
    EXPECT_EQ(decode_window_hello(hello, said), WindowHelloFault::kNone);
  }
  /// Joins with a memfd of the right size.
  void join() {
    region.emplace(std::move(SharedRegion::create("hostile", region_size()).value()));
    ASSERT_TRUE(send_packet(theirs.get(), encode_window_hello(hello()), std::array{region->fd()}));
    device->poll(clock.now());
    ASSERT_EQ(device->peer(), PeerState::kUp) << device->fault();
  }
  [[nodiscard]] WindowHello hello() const { return {said.window_bytes, 1, 2, 3}; }
  [[nodiscard]] size_t ring_offset() const { return (4096 + said.window_bytes + 127) / 128 * 128; }
  [[nodiscard]] size_t region_size() const { return ring_offset() + kPieceRingBytes; }
  void refuse(std::span<const std::byte> bytes, std::span<const int> fds) {
    ASSERT_TRUE(send_packet(theirs.get(), bytes, fds));
    device->poll(clock.now());
    EXPECT_EQ(device->peer(), PeerState::kGone);
    EXPECT_FALSE(device->fault().empty());
    EXPECT_FALSE(device->peer_ended()) << "it lives";
  }

  ManualClock clock;
  SeededRandom random{1};
  ShownMemory memory;
  UniqueFd theirs;
  std::unique_ptr<ProcessDevice> device;
  Packet packet;
  WindowHello said;
  std::optional<SharedRegion> region;
};

TEST_F(HostileProcess, a_hello_without_memory_is_refused) {
  refuse(encode_window_hello(hello()), {});
}
TEST_F(HostileProcess, a_short_hello_is_refused) {
  const auto bytes = encode_window_hello(hello());
  refuse(std::span(bytes).first(63), {});
}
TEST_F(HostileProcess, memory_of_another_size_is_refused) {
  const SharedRegion small = std::move(SharedRegion::create("hostile", region_size() - 8192).value());
  refuse(encode_window_hello(hello()), std::array{small.fd()});
}
TEST_F(HostileProcess, memory_that_is_not_sealed_is_refused) {
  const UniqueFd open(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open.get(), static_cast<off_t>(SharedRegion::rounded(region_size()))), 0);
  refuse(encode_window_hello(hello()), std::array{open.get()});
}
TEST_F(HostileProcess, memory_of_huge_pages_is_refused) {
  const UniqueFd huge(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge.valid()) GTEST_SKIP() << "this kernel has no huge pages";
  constexpr off_t kHuge = off_t{2} << 20;
  ASSERT_EQ(ftruncate(huge.get(), kHuge), 0);
  ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  WindowHello large = hello();
  while (SharedRegion::rounded((4096 + large.window_bytes + 127) / 128 * 128 + kPieceRingBytes) < kHuge)
    large.window_bytes += 4096;
  refuse(encode_window_hello(large), std::array{huge.get()});
  EXPECT_EQ(device->fault(), "peer's shared memory has pages that may be missing");
}
TEST_F(HostileProcess, a_window_larger_than_any_honest_one_is_refused) {
  WindowHello large = hello();
  large.window_bytes = kWindowBytesMax + 64;
  const SharedRegion memory_for_it = std::move(SharedRegion::create("hostile", 4096).value());
  refuse(encode_window_hello(large), std::array{memory_for_it.fd()});
  EXPECT_EQ(device->fault(), "the other process sent no hello of a memory window of this version");
}
TEST_F(HostileProcess, each_wrong_field_of_a_hello_is_refused) {
  const auto good = encode_window_hello(hello());
  WindowHello out;
  ASSERT_EQ(decode_window_hello(good, out), WindowHelloFault::kNone);
  const auto with = [&](size_t at, uint8_t value) {
    auto bytes = good;
    bytes.at(at) = std::byte{value};
    return decode_window_hello(bytes, out);
  };
  for (size_t at = 0; at < 4; ++at) EXPECT_EQ(with(at, 0xFF), WindowHelloFault::kMagic);
  EXPECT_EQ(with(5, 2), WindowHelloFault::kVersion);
  EXPECT_EQ(with(4, 1), WindowHelloFault::kVersion);
  EXPECT_EQ(with(7, 1), WindowHelloFault::kReserved);
  for (size_t at = 40; at < 64; ++at) EXPECT_EQ(with(at, 1), WindowHelloFault::kReserved) << at;
  EXPECT_EQ(with(8, 1), WindowHelloFault::kSize);
  EXPECT_EQ(with(15, 1), WindowHelloFault::kSize) << "no multiple of 64";
  EXPECT_EQ(decode_window_hello(encode_window_hello({0, 1, 2, 3}), out), WindowHelloFault::kSize);
  EXPECT_EQ(decode_window_hello({}, out), WindowHelloFault::kLength);
}

struct WrongPiece {
  const char* what;
  uint8_t kind;
  uint32_t bytes;
  uint64_t head_step;
};

/// The ring that the device reads is in its own memory, which came with its hello.
class HostilePieces : public HostileProcess, public ::testing::WithParamInterface<WrongPiece> {
 protected:
  void put(uint8_t kind, uint32_t bytes, uint64_t address, uint64_t head_step) {
    auto& control = *reinterpret_cast<RingControl*>(own->bytes().data() + ring_offset());
    std::byte* const slot = own->bytes().data() + ring_offset() + sizeof(RingControl) +
                            control.head.load() % kPieceRing.slots * kPieceRing.slot_bytes;
    slot[0] = std::byte{kind};
    store_be(slot + 4, bytes);
    store_be(slot + 8, address);
    store_be(slot + 16, uint64_t{0});
    control.head.fetch_add(head_step);
    device->poll(clock.now());
  }
  void SetUp() override {
    join();
    own.emplace(std::move(SharedRegion::adopt(std::move(packet.fds[0]), region_size()).value()));
  }
  std::optional<SharedRegion> own;
};
constexpr uint64_t kRingSlots = kPieceRing.slots;
const auto kWrongPieces = ::testing::Values(
    WrongPiece{"no_kind", 0, 16, 1}, WrongPiece{"unknown_kind", 5, 16, 1},
    WrongPiece{"last_kind", 255, 16, 1}, WrongPiece{"no_bytes", 1, 0, 1},
    WrongPiece{"too_many_bytes", 1, kPieceBytes + 1, 1}, WrongPiece{"all_bytes", 2, UINT32_MAX, 1},
    WrongPiece{"answer_to_nothing", 3, 16, 1}, WrongPiece{"data_for_nothing", 4, 16, 1},
    WrongPiece{"head_ahead", 1, 16, kRingSlots + 1}, WrongPiece{"head_back", 1, 16, UINT64_MAX});
std::string wrong_name(const ::testing::TestParamInfo<WrongPiece>& piece) {
  return piece.param.what;
}
INSTANTIATE_TEST_SUITE_P(Each, HostilePieces, kWrongPieces, wrong_name);

TEST_P(HostilePieces, ends_the_window_and_touches_nothing) {
  for (const uint8_t kind : std::array<uint8_t, 2>{1, 2}) {
    put(kind, 16, 0x10, 1);
    EXPECT_EQ(device->peer(), PeerState::kUp) << "no memory there: refused, and answered";
  }
  put(GetParam().kind, GetParam().bytes, reinterpret_cast<uint64_t>(memory.bytes.data()),
      GetParam().head_step);
  EXPECT_EQ(device->peer(), PeerState::kGone);
  EXPECT_FALSE(device->fault().empty());
  EXPECT_EQ(memory.bytes, ShownMemory().bytes);
}

/// Not the end of the process: what it has begun to use stays in use.
TEST_F(HostileProcess, a_peer_that_broke_a_rule_holds_its_use) {
  OwnWindow own(*device, kChildWindow);
  join();
  ASSERT_EQ(own.publish({0x1000, 8, kTableWrite, 5}), PublishResult::kOk);
  store_window_word(own.fifo().data() + kFifoTableUseAt, own.generation());
  const uint64_t generation = own.withdraw(5);
  const SharedRegion mapped = std::move(SharedRegion::adopt(std::move(packet.fds[0]), region_size()).value());
  reinterpret_cast<RingControl*>(mapped.bytes().data() + ring_offset())->head.store(1);  // a slot of zeros
  device->poll(clock.now());
  ASSERT_EQ(device->peer(), PeerState::kGone);
  EXPECT_FALSE(own.settled(generation));
  theirs.reset();
  device->poll(clock.now());
  EXPECT_FALSE(own.settled(generation)) << "a closed socket proves nothing of such a peer";
}

TEST_F(HostileProcess, a_second_answer_to_one_piece_ends_the_window) {
  join();
  const SharedRegion own = std::move(SharedRegion::adopt(std::move(packet.fds[0]), region_size()).value());
  std::array<std::byte, 16> local{};
  ASSERT_TRUE(device->post({DmaKind::kWrite, DmaSpace::kMemory, 0x1000, local.data(), local.size(), 4}));
  device->flush();
  std::byte* const slot = own.bytes().data() + ring_offset() + sizeof(RingControl);
  auto& control = *reinterpret_cast<RingControl*>(own.bytes().data() + ring_offset());
  for (const uint64_t answer : {uint64_t{0}, uint64_t{1}}) {
    std::byte* const at = slot + answer * kPieceRing.slot_bytes;
    at[0] = std::byte{3};
    at[1] = std::byte{1};
    store_be(at + 4, uint32_t{16});
  }
  control.head.store(1);
  device->poll(clock.now());
  EXPECT_EQ(device->peer(), PeerState::kUp);
  std::array<DmaCompletion, 2> done;
  ASSERT_EQ(device->completions(done), 1U);
  EXPECT_EQ(done[0].status, DmaStatus::kGood);
  control.head.store(2);
  device->poll(clock.now());
  EXPECT_EQ(device->peer(), PeerState::kGone);
}

/// A peer that answers a piece with another kind or length.
TEST_F(HostileProcess, wrong_answers_end_the_window_and_fail_the_request) {
  join();
  const SharedRegion own = std::move(SharedRegion::adopt(std::move(packet.fds[0]), region_size()).value());
  std::array<std::byte, 16> local{};
  ASSERT_TRUE(device->post({DmaKind::kRead, DmaSpace::kMemory, 0x1000, local.data(), local.size(), 4}));
  device->flush();
  std::byte* const slot = own.bytes().data() + ring_offset() + sizeof(RingControl);
  slot[0] = std::byte{4};  // "have read", of more bytes than were asked for
  slot[1] = std::byte{1};
  store_be(slot + 4, uint32_t{4096});
  std::memset(slot + kPieceHeaderBytes, 0xEE, kPieceBytes);
  reinterpret_cast<RingControl*>(own.bytes().data() + ring_offset())->head.store(1);
  device->poll(clock.now());
  EXPECT_EQ(device->peer(), PeerState::kGone);
  std::array<DmaCompletion, 2> done;
  ASSERT_EQ(device->completions(done), 1U);
  EXPECT_EQ(done[0].status, DmaStatus::kPeerGone);
  EXPECT_EQ(local, (std::array<std::byte, 16>{}));
}

}  // namespace
}  // namespace weft::test
