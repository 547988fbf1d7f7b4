// Spare ports: HELLOs of endnodes that are not listed, by hand and in virtual time. Which port and LID an
// endnode
// gets, when it gets them back, when a LID may be lent again, and the refusals of hostile joiners.
#include "fabric/switch/spare_ports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fabric/switch/admission.h"
#include "tests/support/script_carrier.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint16_t kFirstLid = 100;

/// A switch with one listed node (GUID 0xA, LID 1) and spare ports.
class Spare : public ::testing::Test {
 protected:
  void open(uint32_t ports, uint32_t lids = 0) {
    SwitchConfig config;
    config.ports = ports + 1;
    config.link.guid = Guid(5);
    config.link.cell_payload_bytes = 256;
    fabric = std::make_unique<Switch>(config);
    spare = {.ports = ports, .first_lid = Lid(kFirstLid), .lids = lids};
    admission = std::make_unique<Admission>(*fabric, std::vector<NodeEntry>{{"a", Guid(0xA), Lid(1)}}, spare,
                                            random, LinkTimers{}, store.get());
  }
  /// Leases that survive the switch, in memory.
  struct Store final : LeaseStore {
    std::vector<Lease> load() override {
      std::vector<Lease> out;
      for (const auto& [lid, lease] : kept) out.push_back(lease);
      return out;
    }
    void keep(const Lease& lease) noexcept override { kept[lease.lid] = lease; }
    std::map<uint32_t, Lease> kept;
  };
  /// An endnode, as its connector presents it.
  struct Guest {
    Guest() : end(config()) {}
    /// An endnode with a GUID and an identity that wishes for a LID.
    Guest(uint64_t guid, uint64_t identity, Lid lid) : end(named(guid, identity, lid)) {}
    static LinkConfig named(uint64_t guid, uint64_t identity, Lid lid) {
      LinkConfig out = config();
      out.guid = Guid(guid);
      out.identity = identity;
      out.lid = lid;
      return out;
    }
    static LinkConfig config() {
      LinkConfig out;
      out.cell_payload_bytes = 256;
      out.any_port = true;
      return out;
    }
    JoiningEnd end;
    LinkParams params;
    PortNumber port = 0;  // while it is up
  };
  /// One attempt to join; with `answered` the WELCOME reaches the endnode.
  LinkRefusal join(Guest& guest, std::string_view origin = "p", bool answered = true,
                   Takeover takeover = Takeover::kRefuse, std::string_view key = {}) {
    return say(guest, guest.end.hello(random.next()), origin, answered, takeover, key);
  }
  LinkRefusal say(Guest& guest, const LinkHello& hello, std::string_view origin = "p", bool answered = true,
                  Takeover takeover = Takeover::kRefuse, std::string_view key = {}) {
    LinkHello heard;
    if (decode_link_hello(bytes_of(encode_link_hello(hello)), heard) != LinkHelloError::kNone)
      return LinkRefusal::kVersion;
    AdmittedLink link;
    const LinkRefusal refusal = admission->admit(heard, {origin, key}, takeover, clock.now(), link);
    if (refusal != LinkRefusal::kNone) {
      static_cast<void>(guest.end.take(admission->refusal(heard, refusal), guest.params));
      return refusal;
    }
    link.engine->bring_up(std::make_unique<ScriptCarrier>(), link.params, clock.now());
    guest.port = link.params.switch_port;
    if (answered) {
      EXPECT_EQ(guest.end.take(link.welcome, guest.params), LinkRefusal::kNone);
    }
    step(1us);
    return LinkRefusal::kNone;
  }
  void leave(Guest& guest) {
    admission->engine(guest.port - 1U).take_down();
    step(1us);
  }
  void step(Duration by) {
    clock.advance(by);
    fabric->poll(clock.now());
  }
  uint64_t count(AdmissionCounter counter) { return admission->counters().get(counter); }
  PortNumber way_to(Lid lid) const { return fabric->forwarding().find(1, lid); }

  SeededRandom random{7};
  ManualClock clock;
  SpareConfig spare;
  std::unique_ptr<Store> store;
  std::unique_ptr<Switch> fabric;
  std::unique_ptr<Admission> admission;
};

TEST_F(Spare, the_welcome_carries_lid_guid_and_pkeys_of_the_endnode) {
  open(4);
  Guest one;
  Guest two;
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  ASSERT_EQ(join(two, "p2"), LinkRefusal::kNone);
  for (const Guest* guest : {&one, &two}) {
    EXPECT_GE(guest->params.lid, Lid(kFirstLid));
    EXPECT_LT(guest->params.lid.value(), kFirstLid + anonymous_lids(spare_lids(4)));
    EXPECT_NE(guest->params.local_guid, Guid{});
    EXPECT_EQ(guest->params.peer_guid, Guid(5));
    EXPECT_EQ(guest->params.pkeys, (std::array<uint16_t, kLinkPkeysMax>{kPkeyDefault}));
    EXPECT_EQ(way_to(guest->params.lid), guest->port);
    EXPECT_EQ(fabric->port(guest->port).lid, guest->params.lid) << "the source that its cells must have";
    EXPECT_EQ(admission->engine(guest->port - 1U).params().peer_guid, guest->params.local_guid);
  }
  EXPECT_NE(one.params.lid, two.params.lid);
  EXPECT_NE(one.params.local_guid, two.params.local_guid);
  EXPECT_NE(one.port, two.port);
}

TEST_F(Spare, a_port_is_free_at_once_and_its_lid_rests) {
  open(1);
  Guest first;
  ASSERT_EQ(join(first, "p1"), LinkRefusal::kNone);
  Guest second;
  EXPECT_EQ(join(second, "p2"), LinkRefusal::kNoPort);
  EXPECT_EQ(count(AdmissionCounter::kRefusedNoPort), 1U);
  leave(first);
  EXPECT_EQ(way_to(first.params.lid), kPortNone) << "late cells go nowhere";
  ASSERT_EQ(join(second, "p2"), LinkRefusal::kNone);
  EXPECT_NE(second.params.lid, first.params.lid);
  EXPECT_EQ(way_to(first.params.lid), kPortNone) << "nor to the next endnode at that port";
}

/// Every LID is lent once before one is lent again, and none again before kSpareLidRest has passed.
TEST_F(Spare, no_lid_is_lent_to_another_before_its_rest_is_over) {
  open(1);
  std::map<Lid, Instant> left;
  uint32_t refused = 0;
  uint32_t lent = 0;
  for (uint32_t i = 0; i < 4 * anonymous_lids(spare_lids(1)); ++i) {
    Guest guest;
    const LinkRefusal refusal = join(guest, fmt::format("p{}", i));
    if (refusal == LinkRefusal::kNoLid) {
      ++refused;
      step(1s);
      continue;
    }
    ASSERT_EQ(refusal, LinkRefusal::kNone);
    ++lent;
    const auto before = left.find(guest.params.lid);
    if (before != left.end()) {
      EXPECT_GE(clock.now() - before->second, kSpareLidRest - 1ms);
    }
    leave(guest);
    left[guest.params.lid] = clock.now();
  }
  EXPECT_EQ(left.size(), anonymous_lids(spare_lids(1)));
  EXPECT_GT(lent, anonymous_lids(spare_lids(1))) << "they are lent again";
  EXPECT_EQ(count(AdmissionCounter::kRefusedNoLid), refused);
  EXPECT_GT(refused, 0U);
}

TEST_F(Spare, an_endnode_that_returns_gets_its_lid_and_guid_back) {
  open(2);
  Guest guest;
  ASSERT_EQ(join(guest), LinkRefusal::kNone);
  const LinkParams before = guest.params;
  for (const Duration away : {Duration(1ms), Duration(59s), Duration(10min)}) {
    leave(guest);
    step(away);
    ASSERT_EQ(join(guest), LinkRefusal::kNone);
    EXPECT_EQ(guest.params.lid, before.lid);
    EXPECT_EQ(guest.params.local_guid, before.local_guid);
    EXPECT_EQ(way_to(before.lid), guest.port);
  }
}

TEST_F(Spare, a_welcome_that_was_lost_costs_nothing) {
  open(2);
  Guest guest;
  ASSERT_EQ(join(guest, "p", false, Takeover::kAllow), LinkRefusal::kNone);
  const PortNumber port = guest.port;
  ASSERT_EQ(join(guest, "p", true, Takeover::kAllow), LinkRefusal::kNone);
  EXPECT_EQ(guest.port, port) << "the same port while its link seems up";
  const LinkParams known = guest.params;
  // The WELCOME is lost twice when the endnode returns.
  for (const bool answered : {false, false, true}) {
    leave(guest);
    ASSERT_EQ(join(guest, "p", answered), LinkRefusal::kNone);
    EXPECT_EQ(admission->engine(guest.port - 1U).params().lid, known.lid);
  }
  EXPECT_EQ(guest.params.local_guid, known.local_guid);
}

TEST_F(Spare, a_link_that_is_up_is_taken_over_only_where_that_is_allowed) {
  open(2);
  Guest guest;
  ASSERT_EQ(join(guest), LinkRefusal::kNone);
  EXPECT_EQ(join(guest), LinkRefusal::kLidTaken);
  ASSERT_EQ(join(guest, "p", true, Takeover::kAllow), LinkRefusal::kNone);
  leave(guest);
  EXPECT_EQ(join(guest), LinkRefusal::kNone) << "a refusal because of the old link is no reason to forget";
}

/// GUID and LID are public; the nonce is secret.
TEST_F(Spare, no_other_endnode_gets_lid_or_guid_of_one_that_left) {
  open(4);
  Guest guest;
  ASSERT_EQ(join(guest, "p", true, Takeover::kAllow, "alice"), LinkRefusal::kNone);
  leave(guest);
  LinkConfig claim = Guest::config();
  claim.guid = guest.params.local_guid;
  claim.lid = guest.params.lid;
  Guest thief;
  LinkHello hello = make_hello(claim, 99);
  EXPECT_EQ(say(thief, hello), LinkRefusal::kNotOwner);
  hello.identity = 12345;
  EXPECT_EQ(say(thief, hello), LinkRefusal::kNotOwner);
  // Under another key, even the correct nonce does not help.
  EXPECT_EQ(join(guest, "p", true, Takeover::kAllow, "mallory"), LinkRefusal::kNotOwner);
  EXPECT_EQ(count(AdmissionCounter::kRefusedNotOwner), 3U);
  // After that refusal the endnode joins as a new one.
  ASSERT_EQ(join(guest, "p2", true, Takeover::kAllow, "mallory"), LinkRefusal::kNone);
  EXPECT_NE(guest.params.lid, claim.lid);
}

TEST_F(Spare, a_spare_port_never_has_lid_or_guid_of_a_listed_node) {
  open(4);
  Guest thief;
  LinkConfig claim = Guest::config();
  claim.guid = Guid(0xA);
  claim.lid = Lid(1);
  EXPECT_EQ(say(thief, make_hello(claim, 1)), LinkRefusal::kLidInvalid);
  claim.lid = Lid(kFirstLid);
  EXPECT_EQ(say(thief, make_hello(claim, 1)), LinkRefusal::kNotOwner) << "the GUID of a listed node";
  claim.guid = Guid(0xBAD);
  for (const uint32_t lid : {uint32_t{1}, kFirstLid - 1U, kFirstLid + spare_lids(4)}) {
    claim.lid = Lid(static_cast<uint16_t>(lid));
    EXPECT_EQ(say(thief, make_hello(claim, 1)), LinkRefusal::kLidInvalid) << lid;
  }
  LinkConfig as_switch = Guest::config();
  as_switch.is_switch = true;
  EXPECT_EQ(say(thief, make_hello(as_switch, 1)), LinkRefusal::kNotAllowed);
  EXPECT_EQ(way_to(Lid(1)), 1) << "and its LID still leads to it";
  for (const Lid overlap : {Lid(kFirstLid), Lid(static_cast<uint16_t>(kFirstLid + spare_lids(4) - 1))})
    EXPECT_FALSE(Admission::check({{"a", Guid(0xA), overlap}}, 5, spare).ok());
  EXPECT_TRUE(Admission::check({{"a", Guid(0xA), Lid(kFirstLid - 1)}}, 5, spare).ok());
  EXPECT_FALSE(Admission::check({{"a", Guid(0xA), Lid(1)}}, 4, spare).ok()) << "more than there are ports";
}

/// A switch that was restarted has no leases; endnodes that are still there get their GUIDs and LIDs back.
TEST_F(Spare, endnodes_outlive_their_switch) {
  open(4);
  Guest one;
  Guest two;
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  ASSERT_EQ(join(two, "p2"), LinkRefusal::kNone);
  const LinkParams before = one.params;
  open(4);
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  EXPECT_EQ(one.params.lid, before.lid);
  EXPECT_EQ(one.params.local_guid, before.local_guid);
  // No other endnode can claim GUID or LID of one.
  Guest thief;
  LinkConfig claim = Guest::config();
  claim.guid = one.params.local_guid;
  claim.lid = two.params.lid;
  EXPECT_EQ(say(thief, make_hello(claim, 3), "p3"), LinkRefusal::kNotOwner);
  ASSERT_EQ(join(two, "p2"), LinkRefusal::kNone);
}

/// Its LID has gone to another endnode: the switch has forgotten its GUID and believes it, as a new one.
TEST_F(Spare, an_endnode_whose_lid_was_lent_again_keeps_its_guid) {
  open(1);
  Guest one;
  ASSERT_EQ(join(one, "one"), LinkRefusal::kNone);
  const LinkParams before = one.params;
  leave(one);
  bool lent_again = false;
  for (uint32_t i = 0; i < 4 * anonymous_lids(spare_lids(1)) && !lent_again; ++i) {
    Guest other;
    if (join(other, fmt::format("p{}", i)) == LinkRefusal::kNone) {
      lent_again = other.params.lid == before.lid;
      leave(other);
    }
    step(kSpareLidRest / 4);
  }
  ASSERT_TRUE(lent_again);
  ASSERT_EQ(join(one, "one"), LinkRefusal::kNone);
  EXPECT_EQ(one.params.local_guid, before.local_guid);
  EXPECT_NE(one.params.lid, before.lid);
}

TEST_F(Spare, a_lid_that_its_endnode_came_back_for_rests_no_more) {
  open(2);
  Guest stays;
  ASSERT_EQ(join(stays, "stays"), LinkRefusal::kNone);
  leave(stays);
  ASSERT_EQ(join(stays, "stays"), LinkRefusal::kNone);
  uint32_t lent = 0;
  for (uint32_t i = 0; i < 4 * anonymous_lids(spare_lids(2)); ++i) {
    Guest guest;
    const LinkRefusal refusal = join(guest, fmt::format("p{}", i));
    if (refusal == LinkRefusal::kNone) {
      ++lent;
      EXPECT_NE(guest.params.lid, stays.params.lid);
      leave(guest);
    } else {
      ASSERT_EQ(refusal, LinkRefusal::kNoLid);
    }
    step(kSpareLidRest / 4);
  }
  EXPECT_GT(lent, anonymous_lids(spare_lids(2))) << "those that rested are lent again";
  EXPECT_EQ(way_to(stays.params.lid), stays.port);
}

/// An endnode that missed its WELCOME shows the nonce of its last HELLO, and none that it had before.
TEST_F(Spare, only_the_last_nonce_of_an_endnode_without_a_guid_is_its_own) {
  open(4);
  Guest guest;
  const LinkHello first = guest.end.hello(random.next());
  ASSERT_EQ(say(guest, first, "p1", false), LinkRefusal::kNone);
  const PortNumber port = guest.port;
  ASSERT_EQ(join(guest, "p1", true, Takeover::kAllow), LinkRefusal::kNone);
  ASSERT_EQ(guest.port, port);
  LinkHello late = make_hello(Guest::config(), 99);
  late.identity = first.boot_nonce;
  Guest other;
  ASSERT_EQ(say(other, late, "p2", true, Takeover::kAllow), LinkRefusal::kNone);
  EXPECT_NE(other.params.lid, guest.params.lid);
  EXPECT_NE(other.port, port);
}

/// Whatever they ask for: any LID, a LID that they wish for, or one for the GUID that they bring.
TEST_F(Spare, new_endnodes_of_one_origin_join_at_its_pace) {
  constexpr uint32_t kPorts = 8;
  const auto wish = [](uint32_t i) {
    return Lid(static_cast<uint16_t>(kFirstLid + anonymous_lids(spare_lids(kPorts)) + i));
  };
  for (const int kind : {0, 1, 2}) {
    open(kPorts);
    std::vector<std::unique_ptr<Guest>> guests;
    const auto next = [&](std::string_view origin) {
      const auto i = static_cast<uint32_t>(guests.size());
      guests.push_back(kind == 0
                           ? std::make_unique<Guest>()
                           : std::make_unique<Guest>(0xB00 + i, 70 + i, kind == 1 ? wish(i) : kLidNone));
      return join(*guests.back(), origin);
    };
    for (uint32_t i = 0; i < kPorts / 2; ++i) EXPECT_EQ(next("p"), LinkRefusal::kNone) << kind;
    EXPECT_EQ(next("p"), LinkRefusal::kRate) << kind;
    EXPECT_EQ(next("q"), LinkRefusal::kNone) << kind;
    EXPECT_EQ(count(AdmissionCounter::kRefusedRate), 1U);
  }
}

/// The table of origins is full: the one that asked last stays, though its first question is the oldest.
TEST(SparePace, the_origin_that_was_silent_for_longest_makes_room) {
  const SpareConfig config{.ports = 4, .first_lid = Lid(kFirstLid)};
  constexpr int kOrigins = 64;
  JoinPace pace(config);
  Instant now{1s};
  EXPECT_TRUE(pace.allow("first", now));
  EXPECT_TRUE(pace.allow("first", now));
  EXPECT_FALSE(pace.allow("first", now)) << "half of the ports";
  for (int i = 1; i < kOrigins; ++i) EXPECT_TRUE(pace.allow(fmt::format("p{}", i), now += 1us));
  EXPECT_FALSE(pace.allow("first", now += 1us));
  EXPECT_TRUE(pace.allow("one more", now += 1us));
  EXPECT_FALSE(pace.allow("first", now += 1us)) << "it is not forgotten";
}

/// An identity is lasting: another process with the same GUID and identity is the same endnode.
TEST_F(Spare, an_identity_is_the_same_endnode_in_every_process) {
  open(2);
  const Lid own(static_cast<uint16_t>(kFirstLid + anonymous_lids(spare_lids(2))));
  Guest first(0xB0B, 77, own);
  ASSERT_EQ(join(first, "p1"), LinkRefusal::kNone);
  EXPECT_EQ(first.params.lid, own);
  EXPECT_EQ(first.params.local_guid, Guid(0xB0B));
  Guest twin(0xB0B, 77, own);
  EXPECT_EQ(join(twin, "p2"), LinkRefusal::kLidTaken) << "not two at a time";
  leave(first);
  Guest thief(0xB0B, 78, own);
  EXPECT_EQ(join(thief, "p3"), LinkRefusal::kNotOwner);
  EXPECT_EQ(join(thief, "p3"), LinkRefusal::kNotOwner) << "the thief gets no other identity either";
  ASSERT_EQ(join(twin, "p2"), LinkRefusal::kNone) << "at once";
  EXPECT_EQ(twin.params.lid, own);
  leave(twin);
  open(2);
  Guest later(0xB0B, 77, own);
  ASSERT_EQ(join(later, "p4"), LinkRefusal::kNone);
  EXPECT_EQ(later.params.lid, own) << "after the switch, too";
}

/// Endnodes without identity never get the LIDs that identities may wish for.
TEST_F(Spare, endnodes_without_identity_never_get_lids_of_identities) {
  open(2);
  Guest named(0xB0B, 77, Lid(static_cast<uint16_t>(kFirstLid + anonymous_lids(spare_lids(2)))));
  ASSERT_EQ(join(named, "named"), LinkRefusal::kNone);
  leave(named);
  for (uint32_t i = 0; i < 3 * spare_lids(2); ++i) {
    Guest guest;
    if (join(guest, fmt::format("p{}", i)) == LinkRefusal::kNone) {
      ASSERT_LT(guest.params.lid.value(), kFirstLid + anonymous_lids(spare_lids(2)));
      leave(guest);
    }
    step(1s);
  }
}

/// Its switch was restarted and has lent the LID to another endnode: it keeps its GUID and gets a new LID.
TEST_F(Spare, an_endnode_whose_lid_is_gone_keeps_its_guid) {
  open(4);
  Guest one;
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  const LinkParams before = one.params;
  open(4);
  Guest other(0xB0B, 77, before.lid);
  ASSERT_EQ(join(other, "p2"), LinkRefusal::kNone);
  EXPECT_EQ(other.params.lid, before.lid);
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  EXPECT_NE(one.params.lid, before.lid);
  EXPECT_EQ(one.params.local_guid, before.local_guid);
  leave(one);
  const Lid now = one.params.lid;
  ASSERT_EQ(join(one, "p1"), LinkRefusal::kNone);
  EXPECT_EQ(one.params.lid, now);
}

/// An origin that joins again and again without an identity holds at most half of the ports at once, and LIDs
/// for
/// other origins remain.
TEST_F(Spare, one_origin_cannot_take_all_by_joining_again) {
  open(8);
  std::set<PortNumber> held;
  uint32_t tries = 0;
  for (Guest& guest : std::vector<Guest>(8)) {
    ++tries;
    if (join(guest, "greedy") == LinkRefusal::kNone) held.insert(guest.port);
  }
  EXPECT_EQ(held.size(), 4U);
  EXPECT_EQ(count(AdmissionCounter::kRefusedRate), tries - 4);
  Guest other;
  ASSERT_EQ(join(other, "other"), LinkRefusal::kNone);
  leave(other);
  for (const PortNumber port : held) {
    admission->engine(port - 1U).take_down();
    step(1us);
  }
  uint32_t lids = 0;
  for (const Instant end = clock.now() + kSpareLidRest; clock.now() < end; step(10ms)) {
    Guest guest;
    if (join(guest, "greedy") != LinkRefusal::kNone) continue;
    ++lids;
    leave(guest);
  }
  EXPECT_LE(lids, anonymous_lids(spare_lids(8)) / 2 + 4);
  EXPECT_GT(lids, anonymous_lids(spare_lids(8)) / 4) << "and it is a rate, no ban";
  EXPECT_EQ(count(AdmissionCounter::kRefusedNoLid), 0U);
  EXPECT_EQ(join(other, "other"), LinkRefusal::kNone);
}

/// Leases survive a restart: the first endnode to join gets neither GUID nor LID of another key.
TEST_F(Spare, after_a_restart_an_endnode_is_still_its_keys_alone) {
  store = std::make_unique<Store>();
  open(4);
  Guest bob;
  ASSERT_EQ(join(bob, "bob", true, Takeover::kAllow, "bob"), LinkRefusal::kNone);
  const LinkParams before = bob.params;
  open(4);
  Guest alice(before.local_guid.value(), 666, before.lid);
  EXPECT_EQ(join(alice, "alice", true, Takeover::kAllow, "alice"), LinkRefusal::kNotOwner);
  Guest sly(0xA11CE, 666, before.lid);  // her own GUID and his LID
  ASSERT_EQ(join(sly, "alice", true, Takeover::kAllow, "alice"), LinkRefusal::kNone);
  EXPECT_NE(sly.params.lid, before.lid);
  ASSERT_EQ(join(bob, "bob", true, Takeover::kAllow, "bob"), LinkRefusal::kNone);
  EXPECT_EQ(bob.params.lid, before.lid);
  EXPECT_EQ(bob.params.local_guid, before.local_guid);
}

/// The rest of a LID in use begins when the switch dies; the LIDs that were returned before have rested.
TEST_F(Spare, rests_go_on_over_a_restart) {
  store = std::make_unique<Store>();
  open(2, 64);
  Guest stays;
  ASSERT_EQ(join(stays, "p"), LinkRefusal::kNone);
  const uint32_t anonymous = anonymous_lids(64);
  for (uint32_t i = 1; i < anonymous; ++i) {
    Guest guest;
    ASSERT_EQ(join(guest, fmt::format("p{}", i)), LinkRefusal::kNone) << i;
    leave(guest);
  }
  step(kSpareLidRest);
  open(2, 64);
  std::set<Lid> lent;
  for (uint32_t i = 1; i < anonymous; ++i) {
    Guest guest;
    ASSERT_EQ(join(guest, fmt::format("q{}", i)), LinkRefusal::kNone) << i;
    lent.insert(guest.params.lid);
    leave(guest);
  }
  EXPECT_EQ(lent.size(), anonymous - 1);
  EXPECT_FALSE(lent.contains(stays.params.lid));
  Guest late;
  EXPECT_EQ(join(late, "late"), LinkRefusal::kNoLid);
  step(kSpareLidRest);
  ASSERT_EQ(join(late, "late"), LinkRefusal::kNone);
  EXPECT_EQ(late.params.lid, stays.params.lid);
}

/// LIDs of identities are for processes of our user: a key that joins with new GUIDs again and again gets
/// none.
TEST_F(Spare, a_key_takes_no_lid_of_names) {
  open(4);
  const auto first = static_cast<uint16_t>(kFirstLid + anonymous_lids(spare_lids(4)));
  Guest stranger(0xBAD, 1, Lid(first));
  ASSERT_EQ(join(stranger, "key", true, Takeover::kAllow, "key"), LinkRefusal::kNone);
  EXPECT_LT(stranger.params.lid.value(), first);
  Guest named(0xB0B, 77, Lid(first));
  ASSERT_EQ(join(named), LinkRefusal::kNone);
  EXPECT_EQ(named.params.lid, Lid(first));
}

/// A new list of names assigns a LID again: the old name gives it up after kSpareLidRest without the endnode.
TEST_F(Spare, a_name_that_left_yields_its_lid_to_a_new_list_of_names) {
  open(4);
  const Lid lid(static_cast<uint16_t>(kFirstLid + anonymous_lids(spare_lids(4))));
  Guest old(0xB0B, 77, lid);
  ASSERT_EQ(join(old), LinkRefusal::kNone);
  Guest fresh(0xCAFE, 78, lid);
  ASSERT_EQ(join(fresh, "other"), LinkRefusal::kNone);
  EXPECT_NE(fresh.params.lid, lid) << "not while the first is here";
  leave(old);
  leave(fresh);
  step(kSpareLidRest);
  Guest later(0xD00D, 79, lid);
  ASSERT_EQ(join(later, "third"), LinkRefusal::kNone);
  EXPECT_EQ(later.params.lid, lid);
  EXPECT_EQ(join(old), LinkRefusal::kNone) << "the first endnode joins as an unknown one";
  EXPECT_NE(old.params.lid, lid);
}

/// A suite of short programs, one at a time, with as many LIDs as the launcher gives a single switch.
TEST_F(Spare, two_thousand_programs_in_a_row_find_a_lid) {
  open(253, 40960);
  std::set<Lid> lids;
  for (int i = 0; i < 2000; ++i) {
    Guest guest;
    ASSERT_EQ(join(guest, fmt::format("p{}", i)), LinkRefusal::kNone) << i;
    EXPECT_TRUE(lids.insert(guest.params.lid).second) << "none comes again within its rest";
    leave(guest);
  }
}

TEST_F(Spare, a_refusal_says_how_many_ports_there_are) {
  open(1);
  Guest first;
  ASSERT_EQ(join(first), LinkRefusal::kNone);
  const LinkHello refuse = admission->refusal(LinkHello{}, LinkRefusal::kNoPort);
  EXPECT_EQ(refuse.port, 1);
  EXPECT_NE(describe_refusal(refuse).find("all 1 spare ports"), std::string::npos)
      << describe_refusal(refuse);
  for (size_t i = 1; i < static_cast<size_t>(LinkRefusal::kCount); ++i)
    EXPECT_FALSE(describe_refusal(admission->refusal(LinkHello{}, static_cast<LinkRefusal>(i))).empty()) << i;
}

TEST_F(Spare, a_hello_that_names_another_size_takes_nothing) {
  open(1);
  Guest wrong;
  LinkConfig config = Guest::config();
  config.cell_payload_bytes = 512;
  EXPECT_EQ(say(wrong, make_hello(config, 1), "w"), LinkRefusal::kCellPayload);
  Guest guest;
  EXPECT_EQ(join(guest), LinkRefusal::kNone);
}

TEST_F(Spare, a_switch_without_spare_ports_says_so) {
  open(0);
  Guest guest;
  EXPECT_EQ(join(guest), LinkRefusal::kNoPort);
}

}  // namespace
}  // namespace weft::test
