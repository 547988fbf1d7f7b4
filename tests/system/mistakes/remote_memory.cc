// The second program of most beginners: a client that writes to, reads from and adds to the memory of a
// server, with one mistake: remote_memory server|client SOCKET MISTAKE. It says how its request ended.
#include "side.h"

using mistakes::kBytes;
using mistakes::Side;

namespace {

constexpr char kConstant[kBytes] = "a string that is not to be changed";

bool reads(const Side& side) {
  for (const char* mistake : {"no reads allowed", "no reads served", "read into constant memory",
                              "region without remote read", "inline read"}) {
    if (side.makes(mistake)) return true;
  }
  return false;
}

bool adds(const Side& side) {
  return side.makes("misaligned atomic") || side.makes("short atomic") ||
         side.makes("region without remote atomic");
}

void make_atomic(const Side& side, ibv_sge& sge, ibv_send_wr& wr) {
  sge.length = side.makes("short atomic") ? 4 : 8;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic.remote_addr = side.peer.address + (side.makes("misaligned atomic") ? 4 : 0);
  wr.wr.atomic.compare_add = 1;
  wr.wr.atomic.swap = 0;
  wr.wr.atomic.rkey = side.peer.rkey;
}

void client(Side& side) {
  ibv_sge sge = side.whole(64);
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = reads(side) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  if (side.makes("immediate data without receive")) wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  if (side.makes("inline read")) wr.send_flags = IBV_SEND_INLINE;
  if (side.makes("rkey as lkey")) sge.lkey = side.peer.rkey;
  wr.wr.rdma.remote_addr = side.peer.address;
  wr.wr.rdma.rkey = side.peer.rkey;
  if (side.makes("wrong rkey")) wr.wr.rdma.rkey += 0x100;
  if (side.makes("own rkey")) wr.wr.rdma.rkey = side.own.rkey;
  if (side.makes("no rkey")) wr.wr.rdma.rkey = 0;
  if (side.makes("out of bounds")) wr.wr.rdma.remote_addr += kBytes - 32;
  if (side.makes("address of another buffer")) wr.wr.rdma.remote_addr += kBytes + 512;
  if (adds(side)) make_atomic(side, sge, wr);
  static_cast<void>(side.post_send(wr));
  side.finish();
}

mistakes::Making making_of(const Side& side) {
  mistakes::Making making;
  constexpr unsigned kAll = mistakes::kAll;
  if (side.server()) {
    making.foreign_pd = side.makes("wrong PD");
    if (side.makes("region without remote write")) making.rights = kAll & ~unsigned{IBV_ACCESS_REMOTE_WRITE};
    if (side.makes("region without remote read")) making.rights = kAll & ~unsigned{IBV_ACCESS_REMOTE_READ};
    if (side.makes("region without remote atomic"))
      making.rights = kAll & ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
    if (side.makes("QP without remote write"))
      making.qp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    if (side.makes("no reads served")) making.max_dest_rd_atomic = 0;
    return making;
  }
  if (side.makes("no reads allowed")) making.max_rd_atomic = 0;
  if (side.makes("read into constant memory")) making.rights = IBV_ACCESS_REMOTE_READ;
  if (side.makes("remote write without local write")) making.rights = IBV_ACCESS_REMOTE_WRITE;
  if (side.makes("constant memory")) making.memory = const_cast<char*>(kConstant);
  return making;
}

}  // namespace

int main(int argc, char** argv) {
  Side side(argc, argv);
  side.make(making_of(side));
  side.tell();
  side.connect();
  if (side.server() && side.makes("freed region")) ibv_dereg_mr(side.region);
  side.meet();
  if (side.server() && side.makes("server has ended")) return 0;
  if (!side.server() && side.makes("server has ended")) usleep(300'000);
  if (!side.server()) client(side);
  if (side.server() && side.makes("server waits for a write")) side.await();
  side.meet();
  return 0;
}
