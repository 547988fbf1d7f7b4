// No call of hca/ enters the kernel while it holds the lock of the device, nor takes memory or gives it back,
// for that may enter the kernel as well: a child process makes every call there is, for the first time and
// often enough for every table to grow, and the kernel itself shows it each of its system calls.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "hca/shared_queue.h"
#include "messages/multicast.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/watched_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

/// What the child has seen, in memory that both processes have.
struct Report {
  static constexpr size_t kMost = 64;
  struct Step {
    std::array<char, 48> name{};
    int64_t system_call = -1;  // made under the lock: the last one
    uint64_t bytes = 0;        // taken under it
    uint64_t frees = 0;
  };
  std::array<Step, kMost> steps;
  size_t count = 0;
  uint64_t system_calls = 0;  // in all
};

using Watched = WatchedDevices<Report>;
Report*& g_report = Watched::report;

Report::Step& step() {
  return g_report->steps[g_report->count];
}

void look_at_call(long number, const long long* /*arguments*/) {  // NOLINT(google-runtime-int)
  ++g_report->system_calls;
  if (Watched::held()) step().system_call = number;
}

void look_at_memory(uint64_t bytes) {
  if (Watched::held()) step().bytes += bytes;
}

void look_at_free() {
  if (Watched::held()) ++step().frees;
}

/// Runs `calls` as one step of the report; ends the process when something fails.
void run(const char* name, const std::function<bool()>& calls) {
  if (g_report->count + 1 == Report::kMost) _exit(4);
  std::snprintf(step().name.data(), step().name.size(), "%s", name);
  watch_allocations(look_at_memory);
  watch_frees(look_at_free);
  const bool done = calls();
  watch_allocations(nullptr);
  watch_frees(nullptr);
  if (!done) _exit(3);
  ++g_report->count;
}

class LockKernel : public Watched {
 protected:
  static void in_child(const std::function<void(LinkedDevices&)>& calls, bool joined = true) {
    // Cells are put together from flits.
    EXPECT_EQ(Watched::in_child("shm:", 256, look_at_call, calls, joined), 0)
        << "after " << step().name.data() << "; 1: no link; 2: no watch; 3: a call failed; 4: too many steps";
  }
  static void expect_nothing_found() {
    EXPECT_GT(g_report->system_calls, 0U);
    for (size_t i = 0; i < g_report->count; ++i) {
      const Report::Step& at = g_report->steps[i];
      EXPECT_EQ(at.system_call, -1) << at.name.data() << ": a system call under the lock";
      EXPECT_EQ(at.bytes, 0U) << at.name.data() << ": memory taken under the lock";
      EXPECT_EQ(at.frees, 0U) << at.name.data() << ": memory given back under the lock";
    }
  }
};

// ---- what a program makes --------------------

template <class T>
using Objects = std::vector<T*>;

/// `count` objects, and then their end.
template <class T>
bool make_and_end(hca::Context& context, size_t count, const std::function<T*()>& make) {
  Objects<T> made(count);
  for (T*& object : made) {
    object = make();
    if (object == nullptr) return false;
  }
  return std::all_of(made.begin(), made.end(),
                     [&](T* object) { return context.destroy(object) == Answer::kOk; });
}

void make_everything(Consumer& at) {
  using adapter::QpType;
  hca::Context& one = *at.context;
  const adapter::Access all = adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite |
                              adapter::Access::kRemoteRead | adapter::Access::kWindowBind;
  run("domains",
      [&] { return make_and_end<hca::ProtectionDomain>(one, 500, [&] { return one.alloc_pd().object; }); });
  run("channels", [&] {
    return make_and_end<hca::CompletionChannel>(one, 50, [&] { return one.create_channel().object; });
  });
  run("CQs",
      [&] { return make_and_end<hca::Cq>(one, 300, [&] { return one.create_cq(64, at.channel).object; }); });
  run("a deep CQ, another size", [&] {
    hca::Cq* cq = one.create_cq(1U << 18).object;
    return cq != nullptr && cq->resize(1U << 16) == Answer::kOk && one.destroy(cq) == Answer::kOk;
  });
  run("SRQs",
      [&] { return make_and_end<hca::Srq>(one, 300, [&] { return one.create_srq(*at.pd, 64, 2).object; }); });
  run("an SRQ of another size", [&] {
    hca::Srq* srq = one.create_srq(*at.pd, 64, 2).object;
    adapter::SrqAttr attr;
    return srq != nullptr && srq->modify({.wqes = 8192}, adapter::kSrqWqes) == Answer::kOk &&
           srq->modify({.limit = 1}, adapter::kSrqLimit) == Answer::kOk && srq->query(attr) == Answer::kOk &&
           srq->number() != 0 && one.destroy(srq) == Answer::kOk;
  });
  for (const QpType type :
       {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd, QpType::kRaw, QpType::kXrcSend}) {
    run("QPs", [&] {
      return make_and_end<hca::Qp>(one, 700, [&] {
        return one.create_qp(*at.pd, {.send_cq = at.cq, .recv_cq = at.cq, .config = {.type = type}}).object;
      });
    });
  }
  run("regions", [&] {
    return make_and_end<hca::MemoryRegion>(one, 3000,
                                           [&] { return one.reg_mr(*at.pd, at.memory, all).object; });
  });
  run("regions of pages, other memory, shared ones", [&] {
    constexpr size_t kPages = 4096;  // its table is larger than malloc() keeps
    std::vector<std::byte> bytes(kPages);
    const std::vector<std::byte*> pages(kPages, bytes.data());
    const adapter::PageList list{.pages = pages, .length = kPages * adapter::kPageBytesMin};
    hca::MemoryRegion* first = one.reg_pages(*at.pd, list, all).object;
    hca::MemoryRegion* moved = one.reg_pages(*at.pd, list, all).object;
    if (first == nullptr || moved == nullptr) return false;
    return make_and_end<hca::MemoryRegion>(one, 1000,
                                           [&] { return one.share_mr(*at.pd, *first, all).object; }) &&
           one.reg_pages(*at.pd, list, adapter::Access::kRemoteWrite).answer() == Answer::kBadRights &&
           moved->rereg({.memory = std::span(at.memory)}) == Answer::kOk &&
           one.destroy(moved) == Answer::kOk && one.destroy(first) == Answer::kOk;
  });
  run("reserved regions, staged", [&] {
    return make_and_end<hca::MemoryRegion>(one, 1500, [&] {
      hca::MemoryRegion* region = one.reserve_mr(*at.pd, true).object;
      return region != nullptr && region->stage(at.memory) == Answer::kOk ? region : nullptr;
    });
  });
  run("a region of other rights, another domain", [&] {
    hca::MemoryRegion* region = one.reg_mr(*at.pd, at.memory, adapter::Access::kLocalWrite).object;
    hca::ProtectionDomain* other = one.alloc_pd().object;
    return region != nullptr && other != nullptr && region->rereg({.access = all}) == Answer::kOk &&
           region->rereg({}, other) == Answer::kOk && one.destroy(region) == Answer::kOk &&
           one.destroy(other) == Answer::kOk;
  });
  for (const auto kind :
       {adapter::WindowKind::kKey, adapter::WindowKind::kType1, adapter::WindowKind::kType2}) {
    run("windows", [&] {
      return make_and_end<hca::Window>(one, 1500, [&] { return one.alloc_window(*at.pd, kind).object; });
    });
  }
  run("address handles", [&] {
    return make_and_end<hca::AddressHandle>(one, 100,
                                            [&] { return one.create_ah(*at.pd, {.dlid = Lid(2)}).object; });
  });
}

void make_xrc(Consumer& at) {
  hca::Context& one = *at.context;
  run("XRC domains", [&] {
    uint64_t inode = 0;
    return make_and_end<hca::XrcDomain>(one, 100, [&] {
      return one.open_xrcd({.file = hca::XrcFile{1, ++inode % 10}}).object;
    });
  });
  run("XRC targets and their handles", [&] {
    hca::XrcDomain* domain = one.open_xrcd().object;
    hca::Srq* srq = one.create_srq(*at.pd, 16, 1, nullptr, {.domain = domain, .cq = at.cq}).object;
    hca::Qp* target = one.create_target(*domain, {}).object;
    if (srq == nullptr || target == nullptr) return false;
    const Qpn number = target->number();
    return make_and_end<hca::Qp>(one, 20, [&] { return one.open_target(*domain, number).object; }) &&
           one.destroy(target) == Answer::kOk && one.destroy(srq) == Answer::kOk &&
           one.destroy(domain) == Answer::kOk;
  });
}

/// A group of the subnet, one of many.
Gid group(uint8_t number) {
  Gid gid{};
  gid[0] = std::byte{0xFF};
  gid[1] = std::byte{0x12};
  gid[15] = std::byte{number};
  return gid;
}

void join_groups(Consumer& at) {
  run("multicast groups", [&] {
    hca::Qp* qp =
        at.context
            ->create_qp(*at.pd,
                        {.send_cq = at.cq, .recv_cq = at.cq, .config = {.type = adapter::QpType::kUd}})
            .object;
    for (uint8_t i = 1; i < 200; ++i) {
      if (qp->attach_mcast(group(i), multicast_lid(group(i))) != Answer::kOk) return false;
    }
    for (uint8_t i = 1; i < 200; ++i) {
      if (qp->detach_mcast(group(i), multicast_lid(group(i))) != Answer::kOk) return false;
    }
    return at.context->destroy(qp) == Answer::kOk;
  });
}

void register_protocols(Consumer& at) {
  run("registrations for protocols", [&] {
    const hca::QpInit init{.send_cq = at.cq, .recv_cq = at.cq, .config = {.type = adapter::QpType::kRaw}};
    hca::Qp* qp = at.context->create_qp(*at.pd, init).object;
    uint32_t places = 0;
    Answer answer = Answer::kOk;
    for (; answer == Answer::kOk && places <= UINT8_MAX; ++places)
      answer = qp->register_protocol(static_cast<uint8_t>(places), group(1));
    if (answer != Answer::kOk || qp->register_protocol(6, group(2)) != Answer::kTableFull) return false;
    while (places-- > 0) {
      if (qp->unregister_protocol(static_cast<uint8_t>(places), group(1)) != Answer::kOk) return false;
    }
    return at.context->destroy(qp) == Answer::kOk;
  });
}

// ---- what it does with it --------------------

void post_and_poll(LinkedDevices& world) {
  run("posts and polls", [&] { return world.transfer(500); });
  run("a peer that sleeps is woken", [&] {
    const uint64_t before = g_report->system_calls;
    world.box.core.poll(world.clock.now());
    if (!world.box.core.prepare_sleep()) return false;
    const bool sent =
        world.b.recv(*world.qps[1], 1) == Answer::kOk && world.a.send(*world.qps[0], 1) == Answer::kOk;
    world.box.core.finish_sleep();
    world.box.acceptor->finish_sleep();
    world.box.acceptor->poll(world.clock.now());  // hears the bell
    return sent && g_report->system_calls > before;
  });
  std::vector<hca::Qp*> qps(600);
  run("many QPs", [&] {
    for (hca::Qp*& qp : qps) {
      qp = world.a.make_qp();
      if (qp == nullptr || bring_up(*qp, Qpn(77), Lid(2)) != Answer::kOk) return false;
    }
    return true;
  });
  run("a receive and an unanswered send of each", [&] {
    return std::all_of(qps.begin(), qps.end(), [&](hca::Qp* qp) {
      return world.a.recv(*qp, 1) == Answer::kOk && world.a.send(*qp, 1, 8) == Answer::kOk;
    });
  });
  run("their end", [&] {
    return std::all_of(qps.begin(), qps.end(),
                       [&](hca::Qp* qp) { return world.a.context->destroy(qp) == Answer::kOk; });
  });
  run("a bind", [&] {
    hca::Window* window = world.a.context->alloc_window(*world.a.pd, adapter::WindowKind::kType1).object;
    Rkey key;
    return world.qps[0]->bind_window(*window, {}, key) == Answer::kOk &&
           world.a.context->destroy(window) == Answer::kOk;
  });
}

void wait_for_events(LinkedDevices& world) {
  Consumer& b = world.b;
  run("an armed CQ, its event", [&] {
    static_cast<void>(fcntl(b.channel->fd(), F_SETFL, O_NONBLOCK));
    std::array<adapter::WorkCompletion, 16> got;
    while (b.cq->poll(got) > 0) continue;
    if (b.cq->arm(false) != Answer::kOk) return false;
    if (b.recv(*world.qps[1], 1) != Answer::kOk || world.a.send(*world.qps[0], 1) != Answer::kOk)
      return false;
    hca::Cq* cq = nullptr;
    Answer answer = Answer::kAgain;
    for (int i = 0; i < 100 && answer == Answer::kAgain; ++i) {
      world.clock.advance(10us);
      world.box.core.poll(world.clock.now());
      static_cast<void>(world.a.cq->poll(got));
      answer = b.channel->get_event(cq);
    }
    if (answer != Answer::kOk || cq != b.cq) return false;
    cq->ack_events(1);
    return cq->query().fill != 0;
  });
  run("an event of a QP, and its end", [&] {
    static_cast<void>(fcntl(b.context->async_fd(), F_SETFL, O_NONBLOCK));
    hca::AsyncEvent event;
    while (b.context->get_async_event(event) == Answer::kOk) b.context->ack_async_event(event);
    hca::Srq* srq = b.context->create_srq(*b.pd, 16, 1).object;
    hca::Qp* qp = b.context->create_qp(*b.pd, {.send_cq = b.cq, .recv_cq = b.cq, .srq = srq}).object;
    if (qp == nullptr || bring_up(*qp, Qpn(77), Lid(1)) != Answer::kOk) return false;
    b.device.fail_qp(qp->number());
    if (b.context->get_async_event(event) != Answer::kOk || event.object != qp) return false;
    b.context->ack_async_event(event);
    return b.context->destroy(qp) == Answer::kOk && b.context->destroy(srq) == Answer::kOk;
  });
}

/// Many contexts with events that nobody has taken: more than one batch of deferred work.
void leave_contexts(LinkedDevices& world) {
  run("contexts that end with what they have", [&] {
    std::vector<hca::Context*> contexts(30);
    for (hca::Context*& context : contexts) {
      context = world.a.device.open().object;
      hca::ProtectionDomain* pd = context->alloc_pd().object;
      hca::CompletionChannel* channel = context->create_channel().object;
      hca::Cq* cq = context->create_cq(16, channel).object;
      const hca::QpInit init{.send_cq = cq, .recv_cq = cq, .config = {.type = adapter::QpType::kUd}};
      hca::Qp* qp = context->create_qp(*pd, init).object;
      if (qp == nullptr || qp->attach_mcast(group(1), multicast_lid(group(1))) != Answer::kOk) return false;
      if (context->reg_mr(*pd, world.a.memory, adapter::Access::kLocalWrite).object == nullptr) return false;
    }
    world.box.admission.engine(0).take_down();  // every context is told that the port has gone
    hca::PortState state{.up = true};
    for (int i = 0; i < 100 && state.up; ++i) {
      world.clock.advance(10ms);
      static_cast<void>(world.a.device.help(true));
      if (world.a.device.query_port(1, state) != Answer::kOk) return false;
    }
    for (hca::Context* context : contexts) world.a.device.close(context);
    return !state.up;
  });
}

TEST_F(LockKernel, is_not_entered_by_any_call_while_the_lock_is_held) {
  in_child([](LinkedDevices& world) {
    make_everything(world.a);
    make_xrc(world.a);
    join_groups(world.a);
    register_protocols(world.a);
    post_and_poll(world);
    wait_for_events(world);
    leave_contexts(world);
    run("the end of the process", [&] { return world.a.device.finish(); });
  });
  EXPECT_EQ(g_report->count, 34U);
  expect_nothing_found();
}

TEST_F(LockKernel, is_not_entered_when_a_link_comes_up) {
  in_child([](LinkedDevices& world) { run("a link comes up", [&] { return world.join(); }); }, false);
  EXPECT_EQ(g_report->count, 1U);
  expect_nothing_found();
}

/// As many objects as there are, and one that is refused.
template <class T>
bool make_until_refused(hca::Context& context, const std::function<hca::Made<T>()>& make) {
  Objects<T> made;
  made.reserve(2048);
  hca::Made<T> one = make();
  for (; one.object != nullptr; one = make()) made.push_back(one.object);
  return one.answer() == Answer::kTableFull && std::all_of(made.begin(), made.end(), [&](T* object) {
           return context.destroy(object) == Answer::kOk;
         });
}

void reach_limits(Consumer& at) {
  hca::Context& one = *at.context;
  run("more CQs than there are",
      [&] { return make_until_refused<hca::Cq>(one, [&] { return one.create_cq(1U << 12); }); });
  run("more SRQs than there are",
      [&] { return make_until_refused<hca::Srq>(one, [&] { return one.create_srq(*at.pd, 16, 1); }); });
  run("more domains than there are",
      [&] { return make_until_refused<hca::ProtectionDomain>(one, [&] { return one.alloc_pd(); }); });
  run("more XRC domains than there are",
      [&] { return make_until_refused<hca::XrcDomain>(one, [&] { return one.open_xrcd(); }); });
}

void ask_for_what_cannot_be(LinkedDevices& world) {
  Consumer& at = world.b;
  hca::Context& one = *at.context;
  run("objects in use",
      [&] { return one.destroy(at.pd) == Answer::kBusy && one.destroy(at.cq) == Answer::kBusy; });
  run("a region that windows hang on", [&] {
    const adapter::Access rights = adapter::Access::kLocalWrite | adapter::Access::kWindowBind;
    hca::MemoryRegion* region = one.reg_mr(*at.pd, at.memory, rights).object;
    hca::Window* window = one.alloc_window(*at.pd, adapter::WindowKind::kType1).object;
    Rkey key;
    const hca::WindowBind bind{.region = region, .addr = region->region().addr, .length = 64};
    if (world.qps[1]->bind_window(*window, bind, key) != Answer::kOk) return false;
    return one.destroy(region) == Answer::kBusy && one.destroy(window) == Answer::kOk &&
           one.destroy(region) == Answer::kOk;
  });
  run("sizes that do not fit", [&] {
    hca::Srq* srq = one.create_srq(*at.pd, 64, 2).object;
    return srq->modify({.limit = 65}, adapter::kSrqLimit) == Answer::kBadSize &&
           srq->modify({.wqes = 0}, adapter::kSrqWqes) == Answer::kBadSize && one.destroy(srq) == Answer::kOk;
  });
  run("a CQ too small for what is in it", [&] {
    for (uint64_t i = 0; i < 2; ++i) {
      if (world.b.recv(*world.qps[1], i) != Answer::kOk || world.a.send(*world.qps[0], i) != Answer::kOk)
        return false;
    }
    for (int i = 0; i < 100 && at.cq->query().fill < 2; ++i) {
      world.box.core.poll(world.clock.now());
      hca::PortState state;
      if (at.device.query_port(1, state) != Answer::kOk) return false;
    }
    return at.cq->resize(1) == Answer::kBadSize;
  });
  run("addresses that nobody has", [&] {
    return one.create_ah(*at.pd, {.dlid = Lid(0)}).answer() == Answer::kBadAddress &&
           one.create_ah(*at.pd, {.dlid = Lid(2), .port = 7}).answer() == Answer::kNoSuchObject;
  });
}

/// Nothing is said of it but that it is refused, so nothing is put into words.
TEST_F(LockKernel, is_not_entered_by_calls_that_are_refused) {
  in_child([](LinkedDevices& world) {
    reach_limits(world.a);
    ask_for_what_cannot_be(world);
  });
  EXPECT_EQ(g_report->count, 9U);
  expect_nothing_found();
}

/// Packets of many QPs at a time, each one's first: a turn of either side wants memory for more of them than
/// there ever were.
TEST_F(LockKernel, is_not_entered_when_a_turn_needs_more_memory_than_there_is) {
  in_child([](LinkedDevices& world) {
    constexpr size_t kQps = 300;
    std::vector<hca::Qp*> near(kQps);
    for (hca::Qp*& qp : near) {
      qp = world.a.make_qp();
      hca::Qp* far = world.b.make_qp();
      if (bring_up(*qp, far->number(), Lid(2)) != Answer::kOk ||
          bring_up(*far, qp->number(), Lid(1)) != Answer::kOk)
        _exit(3);
    }
    run("a write of two cells by each", [&] {
      const adapter::Sge from = world.a.sge(0, 6000);
      const adapter::SendRequest write{.opcode = adapter::SendOpcode::kRdmaWrite,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&from, 1),
                                       .remote_addr = world.b.region->region().addr,
                                       .rkey = world.b.region->region().rkey};
      {
        hca::DeviceCore& core = world.a.pd->context().core();
        const hca::Hold hold(core);
        for (const hca::Qp* qp : near) {
          adapter::QueuePair& pair = *core.adapter.find_qp(qp->number());
          if (core.adapter.post(pair, write) != adapter::PostResult::kOk) return false;
          core.adapter.ring_send(pair);
        }
      }
      size_t done = 0;
      for (int turns = 0; turns < 2000 && done < kQps; ++turns) {
        world.clock.advance(1us);
        world.box.core.poll(world.clock.now());
        std::array<adapter::WorkCompletion, 16> got;
        static_cast<void>(world.b.cq->poll(got));
        const int polled = world.a.cq->poll(got);
        for (int i = 0; i < polled; ++i) {
          if (got[static_cast<size_t>(i)].status != adapter::WcStatus::kSuccess) return false;
          done += got[static_cast<size_t>(i)].opcode == adapter::WcOpcode::kRdmaWrite ? 1U : 0U;
        }
      }
      return done == kQps && world.b.device.count(adapter::AdapterCounter::kDropWindow) == 0;
    });
  });
  expect_nothing_found();
}

TEST_F(LockKernel, is_seen_where_it_is_entered) {
  in_child([](LinkedDevices& world) {
    run("on purpose", [&] {
      const hca::Hold hold(world.a.pd->context().core());
      const auto memory = std::make_unique<std::array<char, 100>>();
      return getppid() != 0 && memory != nullptr;
    });
  });
  ASSERT_EQ(g_report->count, 1U);
  EXPECT_EQ(g_report->steps[0].system_call, SYS_getppid);
  EXPECT_EQ(g_report->steps[0].bytes, 100U);
  EXPECT_EQ(g_report->steps[0].frees, 1U);
}

}  // namespace
}  // namespace weft::test
