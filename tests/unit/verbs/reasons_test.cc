// Every reason for which a call is refused: an input that provokes it, and what a program then sees: the
// errno of the table (messages/failure.h), and with WEFT_DEBUG=verbs one line.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "messages/failure.h"
#include "tests/support/reason_table.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

class Reasons : public Verbs {
 public:
  using Verbs::bring_up;
  using Verbs::channel;
  using Verbs::context;
  using Verbs::cq;
  using Verbs::init_of;
  using Verbs::make_qp;
  using Verbs::memory;
  using Verbs::mr;
  using Verbs::own_lid;
  using Verbs::pd;
  using Verbs::sge;

  /// For calls that return an object.
  static int no(const void* object) { return object == nullptr ? errno : 0; }
  int create(ibv_qp_init_attr init) const { return no(ibv_create_qp(pd, &init)); }
  int send(ibv_qp_type type, ibv_send_wr wr, uint32_t bytes = 8) {
    ibv_qp* qp = make_qp(type);
    bring_up(qp, qp->qp_num);
    ibv_sge from = sge(0, bytes);
    wr.sg_list = &from;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  /// Changes an RC QP that is in RTS.
  int change(ibv_qp_attr attr, int mask) {
    ibv_qp* qp = make_qp(IBV_QPT_RC);
    bring_up(qp, qp->qp_num);
    return ibv_modify_qp(qp, &attr, mask);
  }
  [[nodiscard]] ibv_qp_attr alternate() const {
    ibv_qp_attr attr{.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1, .alt_timeout = 14};
    attr.alt_ah_attr = {.dlid = own_lid(), .port_num = 1};
    return attr;
  }
  static ibv_gid group() {
    ibv_gid gid{};
    gid.raw[0] = 0xFF;
    gid.raw[1] = 0x12;
    gid.raw[15] = 9;
    return gid;
  }
  int open_domain(int flags) const {
    ibv_xrcd_init_attr attr{
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = STDIN_FILENO, .oflags = flags};
    ibv_xrcd* made = ibv_open_xrcd(context, &attr);
    const int error = no(made);
    EXPECT_TRUE(made == nullptr || ibv_close_xrcd(made) == 0);
    return error;
  }
};

struct Row {
  Reason reason;
  int (*provoke)(Reasons& at);      // returns the errno that the program sees
  const char* said = nullptr;       // part of the line; null: the text of the table
  const char* elsewhere = nullptr;  // without `provoke`: the test of a lower layer that provokes it
};

constexpr uint16_t kGroupLid = 0xC009;

constexpr std::array kRows{
    Row{Reason::kNoSuchObject,
        [](Reasons& at) { return Reasons::no(ibv_create_cq(at.context, 1, nullptr, nullptr, 7)); },
        "ibv_create_cq: comp_vector 7; there are "},
    Row{Reason::kForeignObject,
        [](Reasons& at) {
          ibv_context* other = ibv_open_device(at.context->device);
          ibv_cq* cq = ibv_create_cq(other, 1, nullptr, nullptr, 0);
          ibv_qp_init_attr init = at.init_of(IBV_QPT_RC);
          init.send_cq = cq;
          const int error = at.create(init);
          EXPECT_EQ(ibv_destroy_cq(cq), 0);
          EXPECT_EQ(ibv_close_device(other), 0);
          return error;
        }},
    Row{Reason::kNoSuchKey, nullptr, nullptr, "protocol/hca: ConsumerRegistration"},
    Row{Reason::kMissingObject,
        [](Reasons& at) {
          ibv_qp_init_attr init = at.init_of(IBV_QPT_RC);
          init.recv_cq = nullptr;
          return at.create(init);
        },
        "ibv_create_qp: needs a CQ for each queue"},
    Row{Reason::kBadSize, [](Reasons& at) { return ibv_resize_cq(at.cq, 0); },
        "ibv_resize_cq: cqe 0, with 0 entries in the queue: a size is 0, "},
    Row{Reason::kBadRange,
        [](Reasons& at) {
          return Reasons::no(ibv_reg_mr(at.pd, at.memory.data(), 0, int{IBV_ACCESS_LOCAL_WRITE}));
        },
        "ibv_reg_mr: 0 bytes, access 0x1: no memory given"},
    Row{Reason::kBadRights,
        [](Reasons& at) {
          return Reasons::no(ibv_reg_mr(at.pd, at.memory.data(), 8, int{IBV_ACCESS_REMOTE_WRITE}));
        },
        "ibv_reg_mr: access 0x2: remote write and atomic need local write: add IBV_ACCESS_LOCAL_WRITE"},
    Row{Reason::kBadAddress,
        [](Reasons& at) {
          ibv_ah_attr attr{.dlid = 0, .sl = 3, .port_num = 1};
          return Reasons::no(ibv_create_ah(at.pd, &attr));
        },
        "ibv_create_ah: dlid 0 or sl 3 is out of range"},
    Row{Reason::kBadOption,
        [](Reasons& at) {
          ibv_srq_init_attr init{.attr = {.max_wr = 4, .max_sge = 1}};
          ibv_srq* srq = ibv_create_srq(at.pd, &init);
          const int error = ibv_modify_srq(srq, &init.attr, 1 << 7);
          EXPECT_EQ(ibv_destroy_srq(srq), 0);
          return error;
        },
        "ibv_modify_srq: mask 0x80, max_wr 4, srq_limit 0: an option is unknown "},
    Row{Reason::kNoService, [](Reasons& at) { return at.create(at.init_of(IBV_QPT_RAW_PACKET)); },
        "ibv_create_qp: qp_type 8: RC (2), UC (3), UD (4) and XRC (9, 10) are supported"},
    Row{Reason::kNotOfService,
        [](Reasons& at) {
          const ibv_gid gid = Reasons::group();
          return ibv_attach_mcast(at.make_qp(IBV_QPT_RC), &gid, kGroupLid);
        },
        ", mlid 0xc009: needs a UD QP, a multicast GID and on InfiniBand a multicast LID"},
    Row{Reason::kConfined, nullptr, nullptr, "protocol/hca: ConsumerSpaces"},
    Row{Reason::kWrongMoment, nullptr, nullptr, "protocol/hca: ConsumerRegistration"},
    Row{Reason::kNotMember,
        [](Reasons& at) {
          const ibv_gid gid = Reasons::group();
          return ibv_detach_mcast(at.make_qp(IBV_QPT_UD), &gid, kGroupLid);
        },
        ", mlid 0xc009: the QP is no member of the group"},
    Row{Reason::kTaken,
        [](Reasons& at) {
          ibv_xrcd_init_attr attr{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                  .fd = STDIN_FILENO,
                                  .oflags = O_CREAT};
          ibv_xrcd* first = ibv_open_xrcd(at.context, &attr);
          const int error = at.open_domain(O_CREAT | O_EXCL);
          EXPECT_EQ(ibv_close_xrcd(first), 0);
          return error;
        }},
    Row{Reason::kBusy, [](Reasons& at) { return ibv_dealloc_pd(at.pd); },
        ": regions, QPs, SRQs, windows or address handles of this PD still exist: destroy them first "},
    Row{Reason::kTableFull,
        [](Reasons& at) {
          std::vector<ibv_pd*> pds{ibv_alloc_pd(at.context)};
          while (pds.back() != nullptr) pds.push_back(ibv_alloc_pd(at.context));
          const int error = errno;
          pds.pop_back();
          for (ibv_pd* made : pds) EXPECT_EQ(ibv_dealloc_pd(made), 0);
          return error;
        },
        "ibv_alloc_pd: all are in use"},
    Row{Reason::kNoMemory, nullptr, nullptr, "unit/verbs: OutOfMemory"},
    Row{Reason::kNoDescriptor,
        [](Reasons& at) {
          rlimit before{};
          EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
          const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
          EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
          const int error = Reasons::no(ibv_create_comp_channel(at.context));
          EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
          return error;
        }},

    Row{Reason::kAgain, [](Reasons& at) { return at.open_domain(0); }},
    Row{Reason::kInterrupted,
        [](Reasons& at) {
          struct sigaction before {};
          struct sigaction quiet {};
          quiet.sa_handler = [](int) {};
          EXPECT_EQ(sigaction(SIGALRM, &quiet, &before), 0);
          const itimerval often{.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
          EXPECT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
          ibv_cq* cq = nullptr;
          void* user = nullptr;
          const int error = ibv_get_cq_event(at.channel, &cq, &user) == 0 ? 0 : errno;
          const itimerval never{};
          EXPECT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
          EXPECT_EQ(sigaction(SIGALRM, &before, nullptr), 0);
          return error;
        },
        ""},
    Row{Reason::kReentered, nullptr, nullptr, "protocol/hca: SignalHandler"},
    Row{Reason::kForked,
        [](Reasons& at) {
          const pid_t child = fork();
          if (child == 0) _exit(Reasons::no(ibv_alloc_pd(at.context)));
          int status = 0;
          EXPECT_EQ(waitpid(child, &status, 0), child);
          return WEXITSTATUS(status);
        }},

    Row{Reason::kWouldBlock,
        [](Reasons& at) {
          ibv_qp* qp = at.make_qp(IBV_QPT_RC);
          at.bring_up(qp, qp->qp_num);
          ibv_recv_wr wr{};
          ibv_recv_wr* bad = nullptr;
          int error = 0;
          for (int i = 0; i < 1000 && error == 0; ++i) error = ibv_post_recv(qp, &wr, &bad);
          return error;
        },
        ": the receive queue is full: "},
    Row{Reason::kBadState,
        [](Reasons& at) {
          ibv_send_wr wr{.opcode = IBV_WR_SEND};
          ibv_send_wr* bad = nullptr;
          return ibv_post_send(at.make_qp(IBV_QPT_RC), &wr, &bad);
        },
        ": the QP is in state RESET"},
    Row{Reason::kBadOpcode,
        [](Reasons& at) { return at.send(IBV_QPT_RC, {.opcode = IBV_WR_SEND, .send_flags = 1U << 20}); },
        ": opcode 2 or a flag of send_flags does not exist on this QP: RC has sends, writes, reads and "},
    Row{Reason::kNoDestination, [](Reasons& at) { return at.send(IBV_QPT_UD, {.opcode = IBV_WR_SEND}); }},
    Row{Reason::kNoRemoteKey, [](Reasons& at) { return at.send(IBV_QPT_RC, {.opcode = IBV_WR_RDMA_WRITE}); },
        ": rkey 0x0: the request needs mr->rkey and the address of the peer's region"},
    Row{Reason::kBadSges, [](Reasons& at) { return at.send(IBV_QPT_RC, {.opcode = IBV_WR_LOCAL_INV}); }},
    Row{Reason::kTooManySges,
        [](Reasons& at) {
          ibv_qp* qp = at.make_qp(IBV_QPT_RC);
          at.bring_up(qp, qp->qp_num);
          std::vector<ibv_sge> many(100);
          ibv_recv_wr wr{.sg_list = many.data(), .num_sge = 100};
          ibv_recv_wr* bad = nullptr;
          return ibv_post_recv(qp, &wr, &bad);
        },
        ": more segments than the QP was made for: "},
    Row{Reason::kBadAtomic,
        [](Reasons& at) { return at.send(IBV_QPT_RC, {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, 16); },
        ": 1 segment of 16 bytes: an atomic operation has one segment of 8 bytes"},
    Row{Reason::kTooLong,
        [](Reasons& at) {
          ibv_ah_attr attr{.dlid = at.own_lid(), .port_num = 1};
          ibv_ah* ah = ibv_create_ah(at.pd, &attr);
          ibv_send_wr wr{.opcode = IBV_WR_SEND};
          wr.wr.ud = {.ah = ah, .remote_qpn = 2, .remote_qkey = 0x11};
          const int error = at.send(IBV_QPT_UD, wr, 8000);
          EXPECT_EQ(ibv_destroy_ah(ah), 0);
          return error;
        },
        ": 8000 bytes: a datagram is at most as long as the path's MTU"},
    Row{Reason::kInlineTooLong,
        [](Reasons& at) {
          return at.send(IBV_QPT_RC, {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE}, 8000);
        },
        ": 8000 bytes inline, and the QP was made for at most "},

    Row{Reason::kBadTransition,
        [](Reasons& at) {
          ibv_qp_attr attr{.qp_state = IBV_QPS_RTS};
          return ibv_modify_qp(at.make_qp(IBV_QPT_RC), &attr, IBV_QP_STATE);
        }},
    Row{Reason::kMissingAttribute,
        [](Reasons& at) {
          ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .port_num = 1};
          return ibv_modify_qp(at.make_qp(IBV_QPT_RC), &attr, IBV_QP_STATE | IBV_QP_PORT);
        },
        "RESET to INIT: attr_mask lacks IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX; set qp_access_flags, "
        "pkey_index "
        "and add the bits"},
    Row{Reason::kUnexpectedAttribute, [](Reasons& at) { return at.change({.qkey = 1}, IBV_QP_QKEY); },
        "RTS to RTS: attr_mask must not have IBV_QP_QKEY"},
    Row{Reason::kBadValue,
        [](Reasons& at) { return at.change({.qp_access_flags = 1U << 12}, IBV_QP_ACCESS_FLAGS); },
        "RTS to RTS: qp_access_flags out of range: "},
    Row{Reason::kOtherState,
        [](Reasons& at) { return at.change({.cur_qp_state = IBV_QPS_SQD}, IBV_QP_CUR_STATE); },
        "cur_qp_state says SQD, and the QP is in RTS"},
    Row{Reason::kNoPartition,
        [](Reasons& at) {
          ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .pkey_index = 3, .port_num = 1};
          return ibv_modify_qp(at.make_qp(IBV_QPT_RC), &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        },
        "RESET to INIT: pkey_index 3: the port's table has no partition there"},
    Row{Reason::kNoAltPartition,
        [](Reasons& at) {
          ibv_qp_attr attr = at.alternate();
          attr.alt_pkey_index = 3;
          return at.change(attr, IBV_QP_ALT_PATH);
        },
        "alt_pkey_index 3: the table of the alternate port has no partition there"},
    Row{Reason::kPathArmed, nullptr, nullptr, "protocol/adapter: PathMigration"},
    Row{Reason::kOtherCells, nullptr, nullptr, "protocol/adapter: PathMigration"},
    Row{Reason::kNoAltPath,
        [](Reasons& at) { return at.change({.path_mig_state = IBV_MIG_REARM}, IBV_QP_PATH_MIG_STATE); }},
    Row{Reason::kNotRearmed,
        [](Reasons& at) {
          ibv_qp_attr attr = at.alternate();
          attr.path_mig_state = IBV_MIG_ARMED;
          return at.change(attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
        }},
    Row{Reason::kBoundToPort, nullptr, nullptr, "unit/adapter: TwoPorts"},
    Row{Reason::kNotDrained,
        [](Reasons& at) {
          ibv_qp* qp = at.make_qp(IBV_QPT_RC);
          at.bring_up(qp, at.make_qp(IBV_QPT_RC)->qp_num);  // which stays in RESET and answers nothing
          ibv_sge from = at.sge(0, 8);
          ibv_send_wr wr{.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND};
          ibv_send_wr* bad = nullptr;
          EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
          ibv_qp_attr attr{.qp_state = IBV_QPS_SQD};
          EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
          attr.port_num = 1;
          return ibv_modify_qp(qp, &attr, IBV_QP_PORT);
        }},
};
static_assert(names_every_reason(kRows, kFirstCallReason, Reason::kCount));

TEST_F(Reasons, each_is_provoked_and_seen_as_its_errno) {
  for (const Row& row : kRows) {
    const std::string name(to_string(row.reason));
    ASSERT_NE(row.provoke == nullptr, row.elsewhere == nullptr) << name;
    if (row.provoke == nullptr) continue;
    ::testing::internal::CaptureStderr();
    const int error = row.provoke(*this);
    const std::string line = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(error, errno_of(row.reason)) << name;
    EXPECT_THAT(line, ::testing::HasSubstr(row.said != nullptr ? row.said : name));
  }
}

}  // namespace
}  // namespace weft::test
