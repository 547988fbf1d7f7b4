// Attributes that librdmacm gets in the form of the kernel interface: each field of one form is that of the
// other.
#include <gtest/gtest.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cstring>
#include <iterator>

extern "C" {
// No header of the distribution declares these; librdmacm calls them.
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* out, ib_uverbs_ah_attr* in);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* out, ib_uverbs_qp_attr* in);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* out, ib_user_path_rec* in);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* out, ibv_sa_path_rec* in);
}

namespace weft::test {
namespace {

/// A different number in each field.
ib_uverbs_ah_attr kernel_ah(uint8_t first) {
  const auto next = [&first] { return first++; };
  ib_uverbs_ah_attr out{};
  std::generate(std::begin(out.grh.dgid), std::end(out.grh.dgid), next);
  out.grh.flow_label = next();
  out.grh.sgid_index = next();
  out.grh.hop_limit = next();
  out.grh.traffic_class = next();
  out.dlid = next();
  out.sl = next();
  out.src_path_bits = next();
  out.static_rate = next();
  out.is_global = next();
  out.port_num = next();
  return out;
}

void expect_ah(const ibv_ah_attr& got, const ib_uverbs_ah_attr& in) {
  EXPECT_TRUE(std::equal(std::begin(in.grh.dgid), std::end(in.grh.dgid), std::begin(got.grh.dgid.raw)));
  EXPECT_EQ(got.grh.flow_label, in.grh.flow_label);
  EXPECT_EQ(got.grh.sgid_index, in.grh.sgid_index);
  EXPECT_EQ(got.grh.hop_limit, in.grh.hop_limit);
  EXPECT_EQ(got.grh.traffic_class, in.grh.traffic_class);
  EXPECT_EQ(got.dlid, in.dlid);
  EXPECT_EQ(got.sl, in.sl);
  EXPECT_EQ(got.src_path_bits, in.src_path_bits);
  EXPECT_EQ(got.static_rate, in.static_rate);
  EXPECT_EQ(got.is_global, in.is_global);
  EXPECT_EQ(got.port_num, in.port_num);
}

TEST(FromKernel, an_address_keeps_its_fields) {
  ib_uverbs_ah_attr in = kernel_ah(1);
  ibv_ah_attr out{};
  ibv_copy_ah_attr_from_kern(&out, &in);
  expect_ah(out, in);
}

TEST(FromKernel, attributes_of_a_queue_pair_keep_their_fields) {
  uint8_t number = 100;
  const auto next = [&number] { return number++; };
  ib_uverbs_qp_attr in{};
  in.cur_qp_state = IBV_QPS_SQD;
  in.path_mtu = IBV_MTU_2048;
  in.path_mig_state = IBV_MIG_ARMED;
  for (uint32_t* field :
       {&in.qkey, &in.rq_psn, &in.sq_psn, &in.dest_qp_num, &in.qp_access_flags, &in.max_send_wr,
        &in.max_recv_wr, &in.max_send_sge, &in.max_recv_sge, &in.max_inline_data})
    *field = next();
  in.ah_attr = kernel_ah(1);
  in.alt_ah_attr = kernel_ah(51);
  for (uint16_t* field : {&in.pkey_index, &in.alt_pkey_index}) *field = next();
  for (uint8_t* field : {&in.en_sqd_async_notify, &in.sq_draining, &in.max_rd_atomic, &in.max_dest_rd_atomic,
                         &in.min_rnr_timer, &in.port_num, &in.timeout, &in.retry_cnt, &in.rnr_retry,
                         &in.alt_port_num, &in.alt_timeout})
    *field = next();
  ibv_qp_attr out{};
  ibv_copy_qp_attr_from_kern(&out, &in);
  EXPECT_EQ(out.cur_qp_state, IBV_QPS_SQD);
  EXPECT_EQ(out.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(out.path_mig_state, IBV_MIG_ARMED);
  EXPECT_EQ(out.qkey, in.qkey);
  EXPECT_EQ(out.rq_psn, in.rq_psn);
  EXPECT_EQ(out.sq_psn, in.sq_psn);
  EXPECT_EQ(out.dest_qp_num, in.dest_qp_num);
  EXPECT_EQ(out.qp_access_flags, in.qp_access_flags);
  EXPECT_EQ(out.cap.max_send_wr, in.max_send_wr);
  EXPECT_EQ(out.cap.max_recv_wr, in.max_recv_wr);
  EXPECT_EQ(out.cap.max_send_sge, in.max_send_sge);
  EXPECT_EQ(out.cap.max_recv_sge, in.max_recv_sge);
  EXPECT_EQ(out.cap.max_inline_data, in.max_inline_data);
  expect_ah(out.ah_attr, in.ah_attr);
  expect_ah(out.alt_ah_attr, in.alt_ah_attr);
  EXPECT_EQ(out.pkey_index, in.pkey_index);
  EXPECT_EQ(out.alt_pkey_index, in.alt_pkey_index);
  EXPECT_EQ(out.en_sqd_async_notify, in.en_sqd_async_notify);
  EXPECT_EQ(out.sq_draining, in.sq_draining);
  EXPECT_EQ(out.max_rd_atomic, in.max_rd_atomic);
  EXPECT_EQ(out.max_dest_rd_atomic, in.max_dest_rd_atomic);
  EXPECT_EQ(out.min_rnr_timer, in.min_rnr_timer);
  EXPECT_EQ(out.port_num, in.port_num);
  EXPECT_EQ(out.timeout, in.timeout);
  EXPECT_EQ(out.retry_cnt, in.retry_cnt);
  EXPECT_EQ(out.rnr_retry, in.rnr_retry);
  EXPECT_EQ(out.alt_port_num, in.alt_port_num);
  EXPECT_EQ(out.alt_timeout, in.alt_timeout);
}

TEST(FromKernel, a_path_comes_back_as_it_was) {
  uint8_t number = 1;
  const auto next = [&number] { return number++; };
  ib_user_path_rec in{};
  std::generate(std::begin(in.dgid), std::end(in.dgid), next);
  std::generate(std::begin(in.sgid), std::end(in.sgid), next);
  for (uint16_t* field : {&in.dlid, &in.slid, &in.pkey}) *field = next();
  for (uint32_t* field : {&in.raw_traffic, &in.flow_label, &in.reversible, &in.mtu}) *field = next();
  for (uint8_t* field :
       {&in.hop_limit, &in.traffic_class, &in.numb_path, &in.sl, &in.mtu_selector, &in.rate_selector,
        &in.rate, &in.packet_life_time_selector, &in.packet_life_time, &in.preference})
    *field = next();
  ibv_sa_path_rec path{};
  ibv_copy_path_rec_from_kern(&path, &in);
  EXPECT_EQ(path.dlid, in.dlid);
  EXPECT_EQ(path.slid, in.slid);
  EXPECT_EQ(path.sl, in.sl);
  EXPECT_EQ(path.mtu, in.mtu);
  EXPECT_EQ(path.sgid.raw[15], in.sgid[15]);
  ib_user_path_rec back{};
  ibv_copy_path_rec_to_kern(&back, &path);
  EXPECT_EQ(std::memcmp(&back, &in, sizeof in), 0);
}

}  // namespace
}  // namespace weft::test
