// verbs/context_ops.h -- calls that programs reach through the two tables of a context, not by symbol name.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace weft::verbs {

/// Fills both tables.
void set_operations(verbs_context& wide) noexcept;

// verbs/query.cc
/// Size of ibv_port_attr before it grew. Programs built against the old struct pass it, and so do programs
/// that look the symbol up themselves.
inline constexpr size_t kOldPortAttrBytes = 48;
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, size_t bytes) noexcept;
int query_device(ibv_context* context, ibv_device_attr* out) noexcept;
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    size_t bytes) noexcept;
int query_rt_values(ibv_context* context, ibv_values_ex* values) noexcept;
// verbs/memory.cc
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept;
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept;
int dealloc_mw(ibv_mw* mw) noexcept;
// verbs/domains.cc
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept;
int dealloc_td(ibv_td* td) noexcept;
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept;
// verbs/device_memory.cc
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept;
int free_dm(ibv_dm* dm) noexcept;
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access) noexcept;
// verbs/region_ex.cc
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* ranges,
              uint32_t count) noexcept;
// verbs/completion.cc
int poll_cq(ibv_cq* cq, int entries, ibv_wc* out) noexcept;
int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;
// verbs/cq_ex.cc
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept;
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) noexcept;
// verbs/post.cc
int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) noexcept;
int post_recv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept;
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept;
// verbs/queue_pair.cc
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept;
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) noexcept;
// verbs/shared_queue.cc
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) noexcept;
int get_srq_num(ibv_srq* srq, uint32_t* number) noexcept;
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept;
int close_xrcd(ibv_xrcd* domain) noexcept;

}  // namespace weft::verbs
