// QP1 of two devices in virtual time: how many datagrams wait on either side, and every slot serves again.
#include "rdma_cm/gsi_port.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "messages/mad/mad.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using namespace rdma_cm;
namespace {

constexpr uint32_t kReceiveSlots = 256;
constexpr uint32_t kSendSlots = 128;

class GsiPorts : public TwoDevices {
 protected:
  void SetUp() override {
    ASSERT_TRUE(near_.open(a().device).ok());
    ASSERT_TRUE(far_.open(b().device).ok());
  }
  static MadBytes numbered(uint32_t number) {
    MadBytes out{};
    store_be(out.data() + 100, number);
    return out;
  }
  /// Numbers of all datagrams that wait at b.
  std::vector<uint32_t> received() {
    std::vector<uint32_t> out;
    for (GsiDatagram datagram; far_.receive(datagram);) {
      EXPECT_EQ(datagram.from, Lid(1));
      EXPECT_EQ(datagram.mad.size(), kMadBytes);
      out.push_back(load_be<uint32_t>(datagram.mad.data() + 100));
    }
    return out;
  }
  /// The pipe takes `cells` cells of the near side, and both sides get 20 turns.
  void let_pass(uint32_t cells) {
    pipe.set_room(0, cells);
    GsiDatagram none;
    for (int turn = 0; turn < 20; ++turn) {
      EXPECT_FALSE(near_.receive(none));  // its call runs a turn of the device
      help(1);
    }
  }
  static std::vector<uint32_t> numbers(uint32_t first, uint32_t count) {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < count; ++i) out.push_back(first + i);
    return out;
  }

  GsiPort near_;
  GsiPort far_;
};

/// What was received is lent until the next call; then its slot waits for another datagram.
TEST_F(GsiPorts, every_receive_slot_serves_again) {
  for (uint32_t life = 0; life < 3; ++life) {
    for (uint32_t i = 0; i < kReceiveSlots + 5; ++i) {
      ASSERT_TRUE(near_.send(Lid(2), numbered(1000 * life + i))) << i;
      help(2);
    }
    EXPECT_EQ(received(), numbers(1000 * life, kReceiveSlots)) << "datagrams beyond them are lost";
  }
}

/// Each slot keeps its datagram until that has left.
TEST_F(GsiPorts, a_datagram_is_refused_while_all_send_slots_are_under_way) {
  for (uint32_t life = 0; life < 3; ++life) {
    pipe.set_room(0, 0);
    for (uint32_t i = 0; i < kSendSlots; ++i) ASSERT_TRUE(near_.send(Lid(2), numbered(1000 * life + i))) << i;
    EXPECT_FALSE(near_.send(Lid(2), numbered(9999)));
    let_pass(1);
    EXPECT_TRUE(near_.send(Lid(2), numbered(1000 * life + kSendSlots))) << "one has left";
    EXPECT_FALSE(near_.send(Lid(2), numbered(9999)));
    EXPECT_FALSE(near_.flood(numbered(9999)));
    let_pass(UINT32_MAX);
    EXPECT_EQ(received(), numbers(1000 * life, kSendSlots + 1));
  }
}

}  // namespace
}  // namespace weft::test
