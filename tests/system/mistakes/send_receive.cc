// The first program of most beginners: a server that receives and a client that sends, with one mistake:
// send_receive server|client SOCKET MISTAKE. It says how its requests ended.
#include <sys/mman.h>
#include <sys/wait.h>

#include "side.h"

using mistakes::kBytes;
using mistakes::Side;

namespace {

/// Mistakes in one field of the work request.
void spoil(const Side& side, ibv_sge& sge, ibv_send_wr& wr) {
  if (side.makes("wrong lkey") || side.makes("status ignored")) sge.lkey += 0x100;
  if (side.makes("no lkey")) sge.lkey = 0;
  if (side.makes("freed region")) ibv_dereg_mr(side.region);
  if (side.makes("out of bounds")) sge.length = kBytes + 1;
  if (side.makes("inline too long")) {
    sge.length = 1024;
    wr.send_flags = IBV_SEND_INLINE;
  }
}

/// Posts without looking at completions.
void post_many(Side& side, const ibv_send_wr& wr, int times) {
  for (int i = 0; i < times; ++i) {
    if (side.post_send(wr) != 0) return;
  }
}

void client(Side& side) {
  ibv_sge sge = side.whole(64);
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  spoil(side, sge, wr);
  ibv_sge two[2] = {sge, sge};
  if (side.makes("too many segments")) {
    wr.sg_list = two;
    wr.num_sge = 2;
  }
  if (side.makes("queue full")) return post_many(side, wr, 65);
  if (side.makes("not signalled")) {
    static_cast<void>(side.post_send(wr, false));
    return side.await();
  }
  if (side.makes("CQ too small")) {
    post_many(side, wr, 40);
    sleep(1);  // a program that looks at its completions too late
    ibv_async_event event{};
    if (ibv_get_async_event(side.context, &event) == 0)
      std::printf("%s\n", ibv_event_type_str(event.event_type));
    return side.finish();
  }
  if (side.makes("event not acknowledged")) ibv_req_notify_cq(side.cq, 0);
  static_cast<void>(side.post_send(wr));
  if (side.makes("status ignored")) {
    ibv_wc unread{};
    while (ibv_poll_cq(side.cq, 1, &unread) == 0) std::this_thread::yield();
    sge.lkey = side.region->lkey;
    static_cast<void>(side.post_send(wr));
  }
  side.finish();
}

/// Mistakes of a program that sleeps until a completion comes.
void client_with_events(Side& side) {
  mistakes::end_after_patience();
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  if (side.makes("CQ not armed")) client(side);
  if (side.makes("event not acknowledged")) client(side);
  if (ibv_get_cq_event(side.channel, &cq, &user) != 0) mistakes::fail("ibv_get_cq_event");
  ibv_destroy_qp(side.qp);
  ibv_destroy_cq(side.cq);
}

/// The child of fork() goes on with the objects of its parent.
void client_with_child(Side& side) {
  const pid_t child = fork();
  if (child == 0) {
    client(side);
    std::fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

void clean_up_in_wrong_order(const Side& side) {
  if (const int error = ibv_dealloc_pd(side.pd); error != 0) mistakes::refused("ibv_dealloc_pd", error);
}

void server(Side& side) {
  if (side.makes("no receive") || side.makes("no receive and no limit")) return;
  const int receives = side.makes("CQ too small") || side.makes("queue full") ? 64 : 1;
  for (int i = 0; i < receives; ++i) side.post_receive(side.whole(side.makes("receive too short") ? 32 : 64));
}

mistakes::Making making_of(const Side& side) {
  mistakes::Making making;
  if (side.server()) {
    if (side.makes("no local write")) making.rights = 0;
    making.stays_init = side.makes("server not ready");
    return making;
  }
  making.foreign_pd = side.makes("wrong PD");
  making.stays_init = side.makes("client not ready");
  making.skips_rtr = side.makes("RTR skipped");
  making.receives_early = side.makes("receive before INIT");
  if (side.makes("CQ too small")) making.cqe = 1;
  if (side.makes("wrong port")) making.port = 2;
  if (side.makes("MTU in bytes")) making.mtu = 1024;
  if (side.makes("no MTU in the mask")) making.dropped = IBV_QP_PATH_MTU;
  if (side.makes("no receive and no limit")) making.rnr_retry = 7;
  return making;
}

}  // namespace

int main(int argc, char** argv) {
  Side side(argc, argv);
  side.make(making_of(side));
  side.tell();
  if (!side.server() && side.makes("wrong QP number")) side.peer.qpn ^= 0x10;
  if (!side.server() && side.makes("wrong LID")) side.peer.lid = 0x2222;
  if (!side.server() && side.makes("wrong PSN")) side.own.psn += 0x5000;
  side.connect();
  if (side.server()) server(side);
  side.meet();
  if (!side.server()) {
    if (side.makes("PD in use")) clean_up_in_wrong_order(side);
    if (side.makes("child after fork")) {
      client_with_child(side);
    } else if (side.makes("CQ not armed") || side.makes("event not acknowledged")) {
      client_with_events(side);
    } else {
      client(side);
    }
  }
  side.meet();
  if (side.server()) side.show_receives();
  return 0;
}
