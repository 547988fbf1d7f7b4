// The first program of most beginners: a server that receives and a client that sends, with one mistake:
// send_receive server|client SOCKET MISTAKE. It says how its requests ended.
#include "side.h"

using mistakes::kBytes;
using mistakes::Side;

namespace {

void client(Side& side) {
  ibv_sge sge = side.whole(64);
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (side.makes("wrong lkey")) sge.lkey += 0x100;
  if (side.makes("freed region")) ibv_dereg_mr(side.region);
  if (side.makes("out of bounds")) sge.length = kBytes + 1;
  if (side.makes("inline too long")) {
    sge.length = 1024;
    wr.send_flags = IBV_SEND_INLINE;
  }
  ibv_sge two[2] = {sge, sge};
  if (side.makes("too many segments")) {
    wr.sg_list = two;
    wr.num_sge = 2;
  }
  const int times = side.makes("CQ too small") ? 40 : 1;
  for (int i = 0; i < times; ++i) side.post_send(wr);
  if (times > 1) {
    sleep(1);  // a program that looks at its completions too late
    ibv_async_event event{};
    if (ibv_get_async_event(side.context, &event) == 0)
      std::printf("%s\n", ibv_event_type_str(event.event_type));
  }
  side.finish();
}

void server(Side& side) {
  if (side.makes("no receive")) return;
  const int receives = side.makes("CQ too small") ? 40 : 1;
  for (int i = 0; i < receives; ++i) side.post_receive(side.whole(side.makes("receive too short") ? 32 : 64));
}

}  // namespace

int main(int argc, char** argv) {
  Side side(argc, argv);
  mistakes::Making making;
  making.foreign_pd = !side.server() && side.makes("wrong PD");
  if (side.server() && side.makes("no local write")) making.rights = 0;
  if (!side.server() && side.makes("CQ too small")) making.cqe = 1;
  making.stays_init = side.makes(side.server() ? "server not ready" : "client not ready");
  side.make(making);
  side.tell();
  if (!side.server() && side.makes("wrong QP number")) side.peer.qpn ^= 0x10;
  if (!side.server() && side.makes("wrong LID")) side.peer.lid = 0x2222;
  if (!side.server() && side.makes("wrong PSN")) side.own.psn += 0x5000;
  side.connect();
  if (side.server()) server(side);
  side.meet();
  if (!side.server()) client(side);
  side.meet();
  if (side.server()) side.show_receives();
  return 0;
}
