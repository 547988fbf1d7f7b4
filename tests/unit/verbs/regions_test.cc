// Regions as programs have them beyond ibv_reg_mr(): rights that change, memory that is paged on demand,
// memory of the device, parent domains, what another context imports, and the calls of newer headers.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "tests/unit/verbs/verbs_fixture.h"
#include "verbs/newer_abi.h"

extern "C" {
ibv_mr* weft_reg_mr_ex(ibv_pd* pd, const weft::verbs::MrInit* init) WEFT_VERBS_NAMED("ibv_reg_mr_ex");
weft::verbs::DmaHandle* weft_alloc_dmah(ibv_context* context, const weft::verbs::DmaHandleInit* init)
    WEFT_VERBS_NAMED("ibv_alloc_dmah");
int weft_dealloc_dmah(weft::verbs::DmaHandle* handle) WEFT_VERBS_NAMED("ibv_dealloc_dmah");
void* weft_alloc_buf(ibv_pd* pd, size_t bytes, void** out) WEFT_VERBS_NAMED("ibv_alloc_buf");
void weft_free_buf(void* buffer) WEFT_VERBS_NAMED("ibv_free_buf");
ibv_mr* weft_reg_buf_mr(ibv_pd* pd, void* buffer, void* addr, size_t length, int access)
    WEFT_VERBS_NAMED("ibv_reg_buf_mr");
int weft_export_buf_dmabuf_fd(void* buffer) WEFT_VERBS_NAMED("ibv_export_buf_dmabuf_fd");
}

namespace weft::test {
namespace {

constexpr unsigned kLocal = IBV_ACCESS_LOCAL_WRITE;

class Regions : public Verbs {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    if (HasFatalFailure()) return;
    asks = make_qp(IBV_QPT_RC);
    ibv_qp* answers = make_qp(IBV_QPT_RC);
    bring_up(asks, answers->qp_num);
    bring_up(answers, asks->qp_num);
  }
  /// Eight bytes by RDMA. A refusal ends the QPs.
  ibv_wc_status write(uint64_t to, uint32_t rkey) {
    ibv_sge from = sge(0, 8);
    ibv_send_wr wr{.wr_id = 1,
                   .sg_list = &from,
                   .num_sge = 1,
                   .opcode = IBV_WR_RDMA_WRITE,
                   .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma = {.remote_addr = to, .rkey = rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(asks, &wr, &bad), 0);
    return next().status;
  }

  ibv_qp* asks = nullptr;
};

uint64_t address(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

TEST_F(Regions, a_region_without_remote_rights_is_given_them_under_the_key_it_has) {
  std::array<char, 64> more{};
  ibv_mr* far = ibv_reg_mr(pd, more.data(), more.size(), kLocal);
  ASSERT_NE(far, nullptr);
  const uint32_t key = far->rkey;
  EXPECT_NE(key, 0U);
  ASSERT_EQ(ibv_rereg_mr(far, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllRights), 0);
  EXPECT_EQ(far->rkey, key);
  std::memcpy(memory.data(), "granted", 8);
  EXPECT_EQ(write(address(more.data()), key), IBV_WC_SUCCESS);
  EXPECT_STREQ(more.data(), "granted");
  ASSERT_EQ(ibv_rereg_mr(far, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(write(address(more.data()), key), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(far), 0);
}

TEST_F(Regions, all_addresses_are_one_region_on_demand_and_only_then) {
  EXPECT_EQ(ibv_reg_mr(pd, nullptr, SIZE_MAX, kAllRights), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_device_attr_ex attr;
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
  EXPECT_NE(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT, 0U);
  ibv_mr* all = ibv_reg_mr(pd, nullptr, SIZE_MAX, kAllRights | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(all, nullptr);
  std::array<char, 8> more{};
  std::memcpy(memory.data(), "reached", 8);
  EXPECT_EQ(write(address(more.data()), all->rkey), IBV_WC_SUCCESS);
  EXPECT_STREQ(more.data(), "reached");
  ibv_sge range{.addr = address(more.data()), .length = 8, .lkey = all->lkey};
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1), 0);
  // Where nothing is mapped the peer's bytes are dropped, also at an address that no memory can have.
  EXPECT_EQ(write(4096, all->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write(uint64_t{1} << 63, all->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(all), 0);
}

TEST_F(Regions, advice_brings_pages_in_and_is_refused_beyond_the_region) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* at = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ibv_mr* paged = ibv_reg_mr(pd, at, 4 * page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(paged, nullptr);
  ibv_sge range{.addr = address(at) + page, .length = static_cast<uint32_t>(2 * page), .lkey = paged->lkey};
  const auto advise = [&](ibv_advise_mr_advice advice, uint32_t flags) {
    return ibv_advise_mr(pd, advice, flags, &range, 1);
  };
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH), 0);
  std::array<unsigned char, 4> there{};
  ASSERT_EQ(mincore(at, 4 * page, there.data()), 0);
  EXPECT_EQ(there, (std::array<unsigned char, 4>{0, 1, 1, 0}));
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2), EINVAL) << "no such flag";
  EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(3), 0), ENOTSUP);
  range.length = static_cast<uint32_t>(4 * page);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), EFAULT);
  range = sge(0, 8);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), EINVAL) << "not on demand";
  range.lkey = 1;
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0), ENOENT);
  EXPECT_EQ(ibv_dereg_mr(paged), 0);
  munmap(at, 4 * page);
}

TEST_F(Regions, memory_of_the_device_is_copied_to_and_reached_by_peers) {
  ibv_device_attr_ex attr;
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
  ibv_alloc_dm_attr want{.length = attr.max_dm_size + 1};
  EXPECT_EQ(ibv_alloc_dm(context, &want), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  want.length = attr.max_dm_size;
  want.log_align_req = 6;
  ibv_dm* dm = ibv_alloc_dm(context, &want);
  ASSERT_NE(dm, nullptr);
  ibv_alloc_dm_attr one_more{.length = 64};
  EXPECT_EQ(ibv_alloc_dm(context, &one_more), nullptr) << "all of it is taken";
  EXPECT_EQ(ibv_reg_dm_mr(pd, dm, 0, 64, kAllRights), nullptr) << "addresses begin at zero";
  EXPECT_EQ(ibv_reg_dm_mr(pd, dm, want.length - 8, 64, kAllRights | IBV_ACCESS_ZERO_BASED), nullptr);
  ibv_mr* region = ibv_reg_dm_mr(pd, dm, 128, 64, kAllRights | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  std::memcpy(memory.data(), "on chip", 8);
  EXPECT_EQ(write(16, region->rkey), IBV_WC_SUCCESS);
  std::array<char, 8> read{};
  ASSERT_EQ(ibv_memcpy_from_dm(read.data(), dm, 144, 8), 0);
  EXPECT_STREQ(read.data(), "on chip");
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 2, read.data(), 4), EINVAL) << "a multiple of four";
  EXPECT_EQ(ibv_memcpy_to_dm(dm, want.length - 4, read.data(), 8), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  ibv_mr* empty = ibv_reg_dm_mr(pd, dm, 0, 0, kAllRights | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->length, 0U);
  EXPECT_EQ(write(0, empty->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(empty), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  dm = ibv_alloc_dm(context, &one_more);
  ASSERT_NE(dm, nullptr) << "what was freed is there again";
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(Regions, a_parent_domain_is_its_domain_and_holds_it) {
  ibv_td_init_attr none{};
  ibv_td* thread = ibv_alloc_td(context, &none);
  ASSERT_NE(thread, nullptr);
  ibv_pd* base = ibv_alloc_pd(context);
  ibv_parent_domain_init_attr init{.pd = base, .td = thread};
  init.comp_mask = 1U << 20;
  EXPECT_EQ(ibv_alloc_parent_domain(context, &init), nullptr);
  init.comp_mask = 0;
  ibv_pd* parent = ibv_alloc_parent_domain(context, &init);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(base), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(thread), EBUSY);
  ibv_mr* region = ibv_reg_mr(parent, memory.data(), 64, kLocal);
  ibv_qp_init_attr of = init_of(IBV_QPT_RC);
  ibv_qp* qp = ibv_create_qp(parent, &of);
  ASSERT_TRUE(region != nullptr && qp != nullptr);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(thread), 0);
  EXPECT_EQ(ibv_dealloc_pd(base), 0);
}

TEST_F(Regions, another_context_imports_what_this_one_has) {
  const int fd = dup(context->cmd_fd);
  ASSERT_GE(fd, 0);
  ibv_context* second = ibv_import_device(fd);
  close(fd);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_import_device(STDIN_FILENO), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_import_pd(second, 9999), nullptr);
  ibv_pd* domain = ibv_import_pd(second, pd->handle);
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(ibv_import_mr(domain, 1), nullptr);
  ibv_mr* region = ibv_import_mr(domain, mr->handle);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->length, memory.size());
  std::memcpy(memory.data(), "shared!", 8);
  EXPECT_EQ(write(address(memory.data()) + 4096, region->rkey), IBV_WC_SUCCESS);
  EXPECT_STREQ(memory.data() + 4096, "shared!");
  ibv_alloc_dm_attr want{.length = 64};
  ibv_dm* dm = ibv_alloc_dm(context, &want);
  ibv_dm* same = ibv_import_dm(second, dm->handle);
  ASSERT_NE(same, nullptr);
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 0, "device!", 8), 0);
  std::array<char, 8> read{};
  ASSERT_EQ(ibv_memcpy_from_dm(read.data(), same, 0, 8), 0);
  EXPECT_STREQ(read.data(), "device!");
  ibv_unimport_dm(same);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  ibv_unimport_mr(region);
  ibv_unimport_pd(domain);
  EXPECT_EQ(ibv_close_device(second), 0);
  // What was imported was not ended: the first context works on.
  EXPECT_EQ(write(address(memory.data()) + 4096, mr->rkey), IBV_WC_SUCCESS);
}

TEST_F(Regions, a_struct_says_what_is_registered) {
  using verbs::MrInit;
  MrInit init{.length = 64,
              .access = static_cast<int>(kAllRights),
              .comp_mask = verbs::kMrAddr,
              .addr = memory.data()};
  ibv_mr* plain = weft_reg_mr_ex(pd, &init);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(write(address(memory.data()) + 8, plain->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(plain), 0);
  init.comp_mask |= verbs::kMrIova;
  init.iova = 4096 + address(memory.data()) % 4096;
  ibv_mr* based = weft_reg_mr_ex(pd, &init);
  ASSERT_NE(based, nullptr);
  EXPECT_EQ(write(init.iova + 16, based->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(based), 0);
  init.comp_mask = verbs::kMrAddr | verbs::kMrFd;
  EXPECT_EQ(weft_reg_mr_ex(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL) << "memory and a file";
  init.comp_mask = verbs::kMrFd;
  EXPECT_EQ(weft_reg_mr_ex(pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  const verbs::DmaHandleInit worse{.comp_mask = verbs::kDmaHint, .processing_hint = 4};
  EXPECT_EQ(weft_alloc_dmah(context, &worse), nullptr);
  const verbs::DmaHandleInit hints{.comp_mask = verbs::kDmaHint | verbs::kDmaCpu, .processing_hint = 3};
  verbs::DmaHandle* handle = weft_alloc_dmah(context, &hints);
  ASSERT_NE(handle, nullptr);
  init.comp_mask = verbs::kMrAddr | verbs::kMrDmaHandle;
  init.dmah = handle;
  ibv_mr* hinted = weft_reg_mr_ex(pd, &init);
  ASSERT_NE(hinted, nullptr);
  EXPECT_EQ(weft_dealloc_dmah(handle), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(hinted), 0);
  EXPECT_EQ(weft_dealloc_dmah(handle), 0);
}

/// A page of the memory is a page for peers: the kernel's drivers map whole pages.
TEST_F(Regions, an_address_for_peers_has_the_place_in_its_page_of_the_address_itself) {
  const uint64_t own = address(memory.data());
  for (const uint64_t away : {uint64_t{1}, uint64_t{8}, uint64_t{2048}, uint64_t{4095}}) {
    EXPECT_EQ(ibv_reg_mr_iova2(pd, memory.data(), 64, own + away, kAllRights), nullptr) << away;
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_reg_mr_iova(pd, memory.data(), 64, own + away, kAllRights), nullptr) << away;
    EXPECT_EQ(errno, EINVAL);
  }
  for (const uint64_t away : {uint64_t{0}, uint64_t{4096}, uint64_t{1} << 40}) {
    ibv_mr* region = ibv_reg_mr_iova2(pd, memory.data(), 64, own + away, kAllRights);
    ASSERT_NE(region, nullptr) << away;
    EXPECT_EQ(write(own + away + 8, region->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
  }
  // Its addresses begin at 0, whatever the program gives.
  ibv_mr* zero = ibv_reg_mr_iova2(pd, memory.data(), 64, own + 1, kAllRights | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(write(8, zero->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(zero), 0);
}

TEST_F(Regions, rights_that_no_flag_announces_are_refused) {
  ibv_mr* own = ibv_reg_mr(pd, memory.data(), 64, kLocal);
  ASSERT_NE(own, nullptr);
  const uint32_t key = own->lkey;
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(own, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, kLocal), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(own, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data() + 64, 64, kLocal),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(own->lkey, key);
  EXPECT_EQ(own->addr, memory.data());
  EXPECT_EQ(ibv_rereg_mr(own, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dereg_mr(own), 0);
}

TEST_F(Regions, a_region_of_device_memory_is_not_registered_again) {
  ibv_alloc_dm_attr attr{.length = 64};
  ibv_dm* dm = ibv_alloc_dm(context, &attr);
  ASSERT_NE(dm, nullptr);
  ibv_mr* region = ibv_reg_dm_mr(pd, dm, 0, 64, kAllRights | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(region, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kLocal),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 64, 0),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(write(8, region->rkey), IBV_WC_SUCCESS) << "nothing has changed";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(Regions, a_buffer_belongs_to_its_domain) {
  ibv_pd* other = ibv_alloc_pd(context);
  void* buffer = nullptr;
  void* at = weft_alloc_buf(other, 5000, &buffer);
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(weft_reg_buf_mr(pd, buffer, at, 64, IBV_ACCESS_LOCAL_WRITE), nullptr) << "of another domain";
  EXPECT_EQ(weft_reg_buf_mr(other, buffer, at, 5001, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  char* last = static_cast<char*>(at) + 4000;
  EXPECT_EQ(weft_reg_buf_mr(other, buffer, last, 1001, IBV_ACCESS_LOCAL_WRITE), nullptr) << "ends beyond it";
  EXPECT_EQ(weft_reg_buf_mr(other, buffer, static_cast<char*>(at) - 1, 2, IBV_ACCESS_LOCAL_WRITE), nullptr);
  ibv_mr* region = weft_reg_buf_mr(other, buffer, last, 1000, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(weft_export_buf_dmabuf_fd(buffer), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  weft_free_buf(buffer);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

/// Address of the endnode with LID 1: ::ffff:10.87.0.1, as a RoCE port shows it.
TEST_F(Regions, an_address_may_name_its_lid_by_a_gid_of_roce) {
  ibv_ah_attr to{.port_num = 1};
  to.is_global = 1;
  const std::array<uint8_t, 16> gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 87, 0, 1};
  std::copy(gid.begin(), gid.end(), std::begin(to.grh.dgid.raw));
  ibv_ah* handle = ibv_create_ah(pd, &to);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(ibv_destroy_ah(handle), 0);
  to.dlid = 0xC000;  // no LID of an endnode: UCX has the source port of UDP there
  handle = ibv_create_ah(pd, &to);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(ibv_destroy_ah(handle), 0);
  to.dlid = 0;
  ibv_qp* qp = make_qp(IBV_QPT_UC);
  ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .port_num = 1};
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = qp->qp_num, .ah_attr = to};
  constexpr int kWay = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kWay), 0);
  to.grh.dgid.raw[12] = 192;  // an address that says no LID
  EXPECT_EQ(ibv_create_ah(pd, &to), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/// The fabric of these tests has another subnet than a GID of RoCE, which has 0 at that place.
TEST_F(Regions, a_connection_may_name_its_peer_by_a_gid_of_roce) {
  ibv_ah_attr way{.dlid = 0xC000, .is_global = 1, .port_num = 1};
  way.grh.hop_limit = 64;
  const std::array<uint8_t, 16> gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 87, 0, 1};
  std::copy(gid.begin(), gid.end(), std::begin(way.grh.dgid.raw));
  asks = make_qp(IBV_QPT_RC);
  ibv_qp* answers = make_qp(IBV_QPT_RC);
  bring_up(asks, answers->qp_num, way);
  bring_up(answers, asks->qp_num, way);
  std::memcpy(memory.data(), "by gid.", 8);
  EXPECT_EQ(write(address(&memory[4096]), mr->rkey), IBV_WC_SUCCESS);
  EXPECT_STREQ(&memory[4096], "by gid.");
}

/// The handle of before names nothing, the new one the region as it is now.
TEST_F(Regions, a_region_registered_again_is_found_as_it_is_now) {
  ibv_mr* own = ibv_reg_mr(pd, memory.data(), 64, kLocal);
  ASSERT_NE(own, nullptr);
  for (const size_t bytes : {size_t{128}, size_t{32}}) {
    const uint32_t before = own->handle;
    ASSERT_EQ(ibv_rereg_mr(own, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data() + 64, bytes, 0), 0);
    ASSERT_NE(own->handle, before);
    EXPECT_EQ(ibv_import_mr(pd, before), nullptr);
    ibv_mr* seen = ibv_import_mr(pd, own->handle);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(seen->length, bytes);
    ibv_unimport_mr(seen);
  }
  EXPECT_EQ(ibv_dereg_mr(own), 0);
}

/// Two bytes, of which only the first may be written.
TEST_F(Regions, the_last_byte_is_looked_at_like_the_first) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* second = static_cast<std::byte*>(pages) + page;
  ASSERT_EQ(mprotect(second, page, PROT_READ), 0);
  EXPECT_EQ(ibv_reg_mr(pd, second - 1, 2, kLocal), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* first = ibv_reg_mr(pd, second - 1, 1, kLocal);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(ibv_dereg_mr(first), 0);
  EXPECT_EQ(munmap(pages, 2 * page), 0);
}

TEST_F(Regions, a_channel_knows_how_many_queues_hang_on_it) {
  ASSERT_EQ(channel->refcnt, 1) << "that of the fixture";
  for (int life = 0; life < 2; ++life) {
    ibv_cq* more = ibv_create_cq(context, 1, nullptr, channel, 0);
    ASSERT_NE(more, nullptr);
    EXPECT_EQ(channel->refcnt, 2);
    EXPECT_EQ(ibv_destroy_cq(more), 0);
    EXPECT_EQ(channel->refcnt, 1);
  }
}

}  // namespace
}  // namespace weft::test
