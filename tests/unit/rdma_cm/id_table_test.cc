// The identifiers of a process, the ports they hold and the events that wait.
#include "rdma_cm/id_table.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <optional>
#include <vector>

namespace weft::rdma_cm {
namespace {

constexpr uint16_t kSpace = RDMA_PS_TCP;
constexpr IpAddress kAny4{.family = 4, .port = 80};
constexpr IpAddress kAny6{.family = 6, .port = 80};

class Identifiers : public ::testing::Test {
 protected:
  CmId& make(const IpAddress& address = {}, std::optional<bool> family_option = {}) {
    CmId* id = table.create(file, kSpace, IBV_QPT_RC);
    EXPECT_NE(id, nullptr);
    if (address.family == 0) return *id;
    id->family_option = family_option;
    EXPECT_EQ(table.bind(*id, address), 0);
    id->state = IdState::kListening;
    return *id;
  }
  void tell(CmFile& where, CmId& id, CmId* request = nullptr) {
    EXPECT_TRUE(table.push(where, {.id = &id, .request = request, .content = {}}));
  }
  /// The identifiers that the waiting events are for.
  std::vector<CmId*> events(CmFile& where) {
    std::vector<CmId*> out;
    for (QueuedEvent event; table.pop(where, event);) out.push_back(event.id);
    return out;
  }
  static std::vector<CmId*> of(const CmFile& where) {
    std::vector<CmId*> out;
    for (CmId* id = where.ids; id != nullptr; id = id->next) out.push_back(id);
    return out;
  }

  /// Whether the descriptor of a file says that an event waits.
  static bool readable(const CmFile& which) {
    pollfd look{which.descriptor->fd(), POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }

  SeededRandom random{1};
  IdTable table{random};
  CmFile file{.descriptor = hca::EventFd::create()};
  CmFile other{.descriptor = hca::EventFd::create()};
};

/// By default a listener of IPv4 has its own family only, and one of IPv6 both, as in the kernel.
TEST_F(Identifiers, a_listener_of_every_address_has_both_families_unless_it_wants_its_own_only) {
  const IpAddress v4 = make_ipv4(0x0A000001, 80);
  const IpAddress v6 = [] {
    IpAddress out = loopback(6);
    out.port = 80;
    return out;
  }();
  struct Case {
    const IpAddress& at;
    std::optional<bool> option;
    bool has4, has6;
  };
  for (const auto& [at, option, has4, has6] :
       {Case{kAny4, {}, true, false}, Case{kAny4, false, true, true}, Case{kAny4, true, true, false},
        Case{kAny6, {}, true, true}, Case{kAny6, false, true, true}, Case{kAny6, true, false, true}}) {
    CmId& id = make(at, option);
    EXPECT_EQ(table.listener(kSpace, v4), has4 ? &id : nullptr);
    EXPECT_EQ(table.listener(kSpace, v6), has6 ? &id : nullptr);
    static_cast<void>(table.destroy(id));
  }
  for (const bool six_first : {true, false}) {
    CmId& first = make(six_first ? kAny6 : kAny4, true);
    CmId& second = make(six_first ? kAny4 : kAny6, true);
    EXPECT_EQ(table.listener(kSpace, six_first ? v6 : v4), &first);
    EXPECT_EQ(table.listener(kSpace, six_first ? v4 : v6), &second);
    static_cast<void>(table.destroy(first));
    static_cast<void>(table.destroy(second));
  }
  for (const bool six_first : {true, false}) {
    std::array<CmId*, 2> ids{&make(), &make()};
    for (CmId* id : ids) {
      id->reuse_address = true;
      ASSERT_EQ(table.bind(*id, (id == ids[0]) == six_first ? kAny6 : kAny4), 0);
      id->state = IdState::kListening;
    }
    EXPECT_EQ(table.listener(kSpace, v4), ids[six_first ? 1 : 0]) << "of its own family";
    EXPECT_EQ(table.listener(kSpace, v6), ids[six_first ? 0 : 1]);
    for (CmId* id : ids) static_cast<void>(table.destroy(*id));
  }
}

TEST_F(Identifiers, a_listener_at_the_address_comes_before_that_of_every_address) {
  const IpAddress one = make_ipv4(0x0A000001, 80);
  const IpAddress another = make_ipv4(0x0A000002, 80);
  CmId& first = make(one);
  CmId& second = make(another);
  EXPECT_EQ(table.listener(kSpace, one), &first);
  EXPECT_EQ(table.listener(kSpace, another), &second);
  EXPECT_EQ(table.listener(kSpace, make_ipv4(0x0A000003, 80)), nullptr);
  EXPECT_EQ(table.listener(RDMA_PS_UDP, one), nullptr);
}

TEST_F(Identifiers, a_port_is_free_for_a_second_life) {
  CmId& first = make(kAny4);
  CmId& second = make();
  EXPECT_EQ(table.bind(second, kAny4), EADDRNOTAVAIL);
  EXPECT_TRUE(table.is_bound(kSpace, kAny4));
  static_cast<void>(table.destroy(first));
  EXPECT_FALSE(table.is_bound(kSpace, kAny4));
  EXPECT_EQ(table.bind(second, kAny4), 0);
}

TEST_F(Identifiers, a_port_is_shared_by_those_that_want_it) {
  CmId& first = make();
  CmId& second = make();
  first.reuse_address = true;
  ASSERT_EQ(table.bind(first, kAny4), 0);
  EXPECT_EQ(table.bind(second, kAny4), EADDRNOTAVAIL) << "the second one does not";
  first.reuse_address = false;
  second.reuse_address = true;
  EXPECT_EQ(table.bind(second, kAny4), EADDRNOTAVAIL) << "the first one does not";
  first.reuse_address = true;
  EXPECT_EQ(table.bind(second, kAny4), 0);
}

TEST_F(Identifiers, of_several_at_a_port_the_one_that_listens_is_named) {
  CmId& idle = make(make_ipv4(0x0A000001, 80));
  idle.state = IdState::kBound;
  EXPECT_EQ(table.at_port(kSpace, 80), &idle);
  const CmId& listens = make(make_ipv4(0x0A000002, 80));
  EXPECT_EQ(table.at_port(kSpace, 80), &listens);
  EXPECT_EQ(table.at_port(kSpace, 81), nullptr);
}

TEST_F(Identifiers, a_port_that_one_address_has_is_not_free_for_every_address) {
  static_cast<void>(make(make_ipv4(0x0A000001, 80)));
  CmId& second = make();
  EXPECT_EQ(table.bind(second, kAny4), EADDRNOTAVAIL);
  EXPECT_EQ(table.bind(second, make_ipv4(0x0A000001, 80)), EADDRINUSE);
  EXPECT_EQ(table.bind(second, kAny6), EADDRNOTAVAIL) << "which has the addresses of both families";
  second.family_option = true;
  EXPECT_EQ(table.bind(second, kAny6), 0) << "which has its own family alone now";
}

/// Two events in one turn: the descriptor is readable exactly as long as one of them waits.
TEST_F(Identifiers, a_descriptor_counts_the_events_that_move_and_end) {
  CmId& id = make();
  tell(file, id);
  tell(file, id);
  EXPECT_TRUE(readable(file));
  ASSERT_EQ(table.migrate(id, other), 0);
  EXPECT_FALSE(readable(file));
  for (int left = 2; left > 0; --left) {
    ASSERT_TRUE(readable(other)) << left;
    EXPECT_EQ(other.descriptor->take(), hca::Answer::kOk);
  }
  EXPECT_FALSE(readable(other)) << "as many as moved";
  other.descriptor->add(2);
  static_cast<void>(table.destroy(id));
  EXPECT_FALSE(readable(other));
}

/// What is before one in the list of its file is not what was before it in the former one.
TEST_F(Identifiers, one_that_has_moved_leaves_its_new_list_alone) {
  CmId& first = make();
  CmId& second = make();
  CmId* const stays = table.create(other, kSpace, IBV_QPT_RC);
  ASSERT_EQ(table.migrate(first, other), 0);
  EXPECT_EQ(of(other), (std::vector<CmId*>{&first, stays}));
  static_cast<void>(table.destroy(first));
  EXPECT_EQ(of(other), std::vector<CmId*>{stays});
  EXPECT_EQ(of(file), std::vector<CmId*>{&second});
}

TEST_F(Identifiers, an_identifier_knows_its_waiting_events) {
  CmId& id = make();
  CmId& beside = make();
  for (int i = 0; i < 3; ++i) tell(file, id);
  tell(file, beside);
  EXPECT_EQ(id.events_waiting, 3U);
  EXPECT_EQ(beside.events_waiting, 1U);
  QueuedEvent event;
  ASSERT_TRUE(table.pop(file, event));
  EXPECT_EQ(id.events_waiting, 2U);
  ASSERT_EQ(table.migrate(id, other), 0);
  EXPECT_EQ(id.events_waiting, 2U);
  EXPECT_EQ(events(other), (std::vector{&id, &id}));
  EXPECT_EQ(id.events_waiting, 0U);
  tell(other, id);
  table.drop_all_events(other);
  table.drop_all_events(file);
  EXPECT_EQ(id.events_waiting, 0U);
  EXPECT_EQ(beside.events_waiting, 0U);
}

TEST_F(Identifiers, an_event_of_a_group_that_was_left_is_not_reported) {
  CmId& id = make();
  Membership* group = table.join(id, 7);
  Membership* stays = table.join(id, 8);
  ASSERT_TRUE(group != nullptr && stays != nullptr);
  EXPECT_TRUE(table.push(file, {.id = &id, .group = group, .content = {}}));
  EXPECT_TRUE(table.push(file, {.id = &id, .group = stays, .content = {}}));
  table.leave(id, *group);
  QueuedEvent event;
  ASSERT_TRUE(table.pop(file, event));
  EXPECT_EQ(event.group, stays);
  EXPECT_FALSE(table.pop(file, event));
  Membership* found = nullptr;
  EXPECT_EQ(table.member(file, stays->handle, found), &id);
  EXPECT_EQ(table.member(other, stays->handle, found), nullptr);
}

TEST_F(Identifiers, a_request_moves_with_its_listener) {
  CmId& listener = make();
  CmId& request = make();
  CmId& stays = make();
  tell(file, listener);
  tell(file, stays);
  tell(file, listener, &request);
  ASSERT_EQ(table.migrate(listener, other), 0);
  EXPECT_EQ(of(file), std::vector<CmId*>{&stays});
  EXPECT_EQ(of(other), (std::vector<CmId*>{&request, &listener}));
  EXPECT_EQ(table.find(other, request.handle), nullptr) << "its event waits";
  EXPECT_EQ(events(file), std::vector<CmId*>{&stays});
  EXPECT_EQ(events(other), (std::vector<CmId*>{&listener, &listener})) << "in their order";
  EXPECT_EQ(table.find(other, request.handle), &request);
  EXPECT_EQ(table.find(file, request.handle), nullptr);
}

TEST_F(Identifiers, the_end_of_a_listener_gives_out_its_requests) {
  CmId& listener = make();
  CmId& first = make();
  CmId& second = make();
  tell(file, listener, &first);
  tell(file, listener, &second);
  CmId* orphans = table.destroy(listener);
  ASSERT_NE(orphans, nullptr);
  EXPECT_EQ(orphans, &second);
  EXPECT_EQ(orphans->next_orphan, &first);
  EXPECT_EQ(first.next_orphan, nullptr);
  EXPECT_TRUE(events(file).empty());
}

}  // namespace
}  // namespace weft::rdma_cm
