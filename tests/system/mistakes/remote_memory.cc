// The second program of most beginners: a client that writes to, reads from and adds to the memory of a
// server, with one mistake: remote_memory server|client SOCKET MISTAKE. It says how its request ended.
#include "side.h"

using mistakes::kBytes;
using mistakes::Side;

namespace {

void client(Side& side) {
  ibv_sge sge = side.whole(64);
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = side.peer.address;
  wr.wr.rdma.rkey = side.peer.rkey;
  if (side.makes("wrong rkey")) wr.wr.rdma.rkey += 0x100;
  if (side.makes("out of bounds")) wr.wr.rdma.remote_addr += kBytes - 32;
  if (side.makes("no reads allowed") || side.makes("read into constant memory")) wr.opcode = IBV_WR_RDMA_READ;
  if (side.makes("misaligned atomic")) {
    sge.length = 8;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = side.peer.address + 4;
    wr.wr.atomic.compare_add = 1;
    wr.wr.atomic.swap = 0;
    wr.wr.atomic.rkey = side.peer.rkey;
  }
  side.post_send(wr);
  side.finish();
}

}  // namespace

int main(int argc, char** argv) {
  Side side(argc, argv);
  mistakes::Making making;
  if (side.server()) {
    making.foreign_pd = side.makes("wrong PD");
    if (side.makes("region without remote write"))
      making.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    if (side.makes("QP without remote write"))
      making.qp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  } else {
    if (side.makes("no reads allowed")) making.max_rd_atomic = 0;
    if (side.makes("read into constant memory")) making.rights = IBV_ACCESS_REMOTE_READ;
  }
  side.make(making);
  side.tell();
  side.connect();
  if (side.server() && side.makes("freed region")) ibv_dereg_mr(side.region);
  side.meet();
  if (!side.server()) client(side);
  side.meet();
  return 0;
}
