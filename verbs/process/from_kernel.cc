// librdmacm gets attributes in the form of the kernel interface. These calls convert them to the form of
// verbs.
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cstring>

#include "verbs/c_call.h"

namespace {

void copy_ah(const ib_uverbs_ah_attr& in, ibv_ah_attr& out) noexcept {
  std::memcpy(out.grh.dgid.raw, in.grh.dgid, sizeof out.grh.dgid.raw);
  out.grh.flow_label = in.grh.flow_label;
  out.grh.sgid_index = in.grh.sgid_index;
  out.grh.hop_limit = in.grh.hop_limit;
  out.grh.traffic_class = in.grh.traffic_class;
  out.dlid = in.dlid;
  out.sl = in.sl;
  out.src_path_bits = in.src_path_bits;
  out.static_rate = in.static_rate;
  out.is_global = in.is_global;
  out.port_num = in.port_num;
}

/// Copies everything but the GIDs, which one of the two structs wraps in a type. The structs differ in the
/// width of some members.
template <class From, class To>
void copy_path(const From& in, To& out) noexcept {
  out.dlid = in.dlid;
  out.slid = in.slid;
  out.raw_traffic = static_cast<decltype(out.raw_traffic)>(in.raw_traffic);
  out.flow_label = in.flow_label;
  out.hop_limit = static_cast<decltype(out.hop_limit)>(in.hop_limit);
  out.traffic_class = in.traffic_class;
  out.reversible = static_cast<decltype(out.reversible)>(in.reversible);
  out.numb_path = in.numb_path;
  out.pkey = in.pkey;
  out.sl = in.sl;
  out.mtu_selector = in.mtu_selector;
  out.mtu = static_cast<decltype(out.mtu)>(in.mtu);
  out.rate_selector = in.rate_selector;
  out.rate = in.rate;
  out.packet_life_time_selector = in.packet_life_time_selector;
  out.packet_life_time = in.packet_life_time;
  out.preference = in.preference;
}

}  // namespace

WEFT_VERBS_API void ibv_copy_ah_attr_from_kern(ibv_ah_attr* out, ib_uverbs_ah_attr* in) {
  copy_ah(*in, *out);
}

WEFT_VERBS_API void ibv_copy_qp_attr_from_kern(ibv_qp_attr* out, ib_uverbs_qp_attr* in) {
  out->cur_qp_state = static_cast<ibv_qp_state>(in->cur_qp_state);
  out->path_mtu = static_cast<ibv_mtu>(in->path_mtu);
  out->path_mig_state = static_cast<ibv_mig_state>(in->path_mig_state);
  out->qkey = in->qkey;
  out->rq_psn = in->rq_psn;
  out->sq_psn = in->sq_psn;
  out->dest_qp_num = in->dest_qp_num;
  out->qp_access_flags = in->qp_access_flags;
  out->cap = {.max_send_wr = in->max_send_wr,
              .max_recv_wr = in->max_recv_wr,
              .max_send_sge = in->max_send_sge,
              .max_recv_sge = in->max_recv_sge,
              .max_inline_data = in->max_inline_data};
  copy_ah(in->ah_attr, out->ah_attr);
  copy_ah(in->alt_ah_attr, out->alt_ah_attr);
  out->pkey_index = in->pkey_index;
  out->alt_pkey_index = in->alt_pkey_index;
  out->en_sqd_async_notify = in->en_sqd_async_notify;
  out->sq_draining = in->sq_draining;
  out->max_rd_atomic = in->max_rd_atomic;
  out->max_dest_rd_atomic = in->max_dest_rd_atomic;
  out->min_rnr_timer = in->min_rnr_timer;
  out->port_num = in->port_num;
  out->timeout = in->timeout;
  out->retry_cnt = in->retry_cnt;
  out->rnr_retry = in->rnr_retry;
  out->alt_port_num = in->alt_port_num;
  out->alt_timeout = in->alt_timeout;
}

WEFT_VERBS_API void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* out, ib_user_path_rec* in) {
  std::memcpy(out->dgid.raw, in->dgid, sizeof out->dgid.raw);
  std::memcpy(out->sgid.raw, in->sgid, sizeof out->sgid.raw);
  copy_path(*in, *out);
}

WEFT_VERBS_API void ibv_copy_path_rec_to_kern(ib_user_path_rec* out, ibv_sa_path_rec* in) {
  std::memcpy(out->dgid, in->dgid.raw, sizeof in->dgid.raw);
  std::memcpy(out->sgid, in->sgid.raw, sizeof in->sgid.raw);
  copy_path(*in, *out);
}
