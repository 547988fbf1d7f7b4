#include "verbs/context_ops.h"

namespace weft::verbs {
namespace {

int compat_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out), kOldPortAttrBytes);
}

}  // namespace

void set_operations(verbs_context& wide) noexcept {
  wide.query_port = query_port;
  wide.query_device_ex = query_device_ex;
  wide.query_rt_values = query_rt_values;
  wide.create_cq_ex = create_cq_ex;
  wide.modify_cq = modify_cq;
  wide.create_qp_ex = create_qp_ex;
  wide.open_qp = open_qp;
  wide.create_srq_ex = create_srq_ex;
  wide.get_srq_num = get_srq_num;
  wide.open_xrcd = open_xrcd;
  wide.close_xrcd = close_xrcd;  // programs call it without testing for null
  wide.alloc_td = alloc_td;
  wide.dealloc_td = dealloc_td;
  wide.alloc_parent_domain = alloc_parent_domain;
  wide.alloc_dm = alloc_dm;
  wide.free_dm = free_dm;
  wide.reg_dm_mr = reg_dm_mr;
  wide.advise_mr = advise_mr;
  wide.sz = sizeof wide;
  ibv_context_ops& ops = wide.context.ops;
  ops._compat_query_device = query_device;
  ops._compat_query_port = compat_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
}

}  // namespace weft::verbs
