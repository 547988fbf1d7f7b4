// Queries of device and port.
#include <infiniband/verbs.h>
#include <net/if.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "messages/link_hello.h"
#include "verbs/addresses.h"
#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/device_memory.h"
#include "verbs/explain/explain.h"
#include "verbs/newer_abi.h"
#include "verbs/objects.h"
#include "verbs/process/identity.h"
#include "verbs/process/process_node.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kPages = ~uint64_t{4095};  // any page size from 4 KiB up
constexpr uint8_t kSubnetTimeout = 18;        // code for one second
constexpr uint32_t kReadsAtATime = 16;
constexpr uint64_t kSpeed = 1000;  // of the four lanes together, in 100 Mb/s
// Memory is never pinned, so each operation of a service also works on memory that is paged on demand.
constexpr uint32_t kPagedUd = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr uint32_t kPagedUc = kPagedUd | IBV_ODP_SUPPORT_WRITE;
constexpr uint32_t kPaged = kPagedUc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

int count_of(uint32_t value) noexcept {
  return static_cast<int>(std::min<uint32_t>(value, INT32_MAX));
}

void describe(ProcessNode& node, ibv_device_attr& out) {
  const adapter::AdapterLimits& most = node.device().limits();
  std::strncpy(static_cast<char*>(out.fw_ver), kFirmware, sizeof out.fw_ver - 1);
  out.node_guid = htobe64(node.guid().value());
  out.sys_image_guid = out.node_guid;
  out.max_mr_size = ~uint64_t{0} >> 1;
  out.page_size_cap = kPages;
  out.vendor_id = kVendorId;
  out.vendor_part_id = kVendorPart;
  out.max_qp = count_of(most.queue_pairs);
  out.max_qp_wr = count_of(most.wqes_per_queue);
  out.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                         IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                         IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC | IBV_DEVICE_AUTO_PATH_MIG;
  out.max_sge = count_of(most.sges_per_wqe);
  out.max_sge_rd = out.max_sge;
  out.max_cq = count_of(most.completion_queues);
  out.max_cqe = count_of(most.cqes_per_queue);
  out.max_mr = count_of(most.keys);
  out.max_pd = count_of(most.protection_domains);
  out.max_qp_rd_atom = out.max_qp_init_rd_atom = kReadsAtATime;
  out.max_res_rd_atom = count_of(most.queue_pairs * kReadsAtATime);
  out.atomic_cap = IBV_ATOMIC_HCA;
  out.max_mw = count_of(most.keys);
  out.max_mcast_grp = count_of(most.multicast_members);
  out.max_mcast_qp_attach = out.max_total_mcast_qp_attach = out.max_mcast_grp;
  out.max_ah = INT32_MAX;
  out.max_srq = count_of(most.shared_receive_queues);
  out.max_srq_wr = count_of(most.wqes_per_queue);
  out.max_srq_sge = count_of(most.sges_per_wqe);
  out.max_pkeys = kLinkPkeysMax;
  out.phys_port_cnt = static_cast<uint8_t>(node.device().ports());
}

/// libibverbs' code for the number of data VLs: 1, 2, 4, 8 or 15 VLs are codes 1 to 5.
uint8_t lane_code(uint32_t lanes) noexcept {
  uint8_t code = 1;
  for (const uint32_t most : {1U, 2U, 4U, 8U}) code = static_cast<uint8_t>(code + (lanes > most ? 1 : 0));
  return code;
}

void describe(const hca::PortState& port, ProcessNode& node, ibv_port_attr& out) noexcept {
  out.state = port.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  out.max_mtu = out.active_mtu = mtu_of(port.info.cell_payload_bytes);
  const bool roce = node.settings().roce;
  out.gid_tbl_len = gid_count(node);
  out.port_cap_flags = port_capabilities(roce);
  out.max_msg_sz = node.device().limits().message_bytes_max;
  out.pkey_tbl_len = kLinkPkeysMax;
  out.lid = roce ? uint16_t{0} : port.info.lid.value();
  out.sm_lid = roce ? uint16_t{0} : kSubnetManagerLid;
  out.max_vl_num = lane_code(port.info.lanes);
  out.subnet_timeout = kSubnetTimeout;
  out.active_width = 2;              // 4 lanes
  out.active_speed = 32;             // 25 Gb/s per lane
  out.phys_state = port.up ? 5 : 3;  // LinkUp, Disabled
  out.link_layer = roce ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
}

bool has_port(ibv_context* context, uint32_t port, const char* call) {
  const uint32_t ports = ours(context).node->device().ports();
  if (port != 0 && port <= ports) return true;
  explain("{}: port {}: the device has {}, numbered from 1", call, port, ports);
  return false;
}

bool has_gid(ibv_context* context, int64_t index) noexcept {
  return index >= 0 && index < gid_count(*ours(context).node);
}

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, size_t bytes) noexcept {
  return guarded(ENOMEM, [&] {
    if (!has_port(context, port, "ibv_query_port")) return fail(EINVAL);
    hca::PortState state;
    const Reason why = ours(context).node->device().query_port(port, state);
    if (why != Reason::kOk) return fail(why);
    ibv_port_attr all{};
    describe(state, *ours(context).node, all);
    std::memset(out, 0, bytes);
    std::memcpy(out, &all, std::min(bytes, sizeof all));
    return 0;
  });
}

int query_device(ibv_context* context, ibv_device_attr* out) noexcept {
  return guarded(ENOMEM, [&] {
    *out = {};
    describe(*ours(context).node, *out);
    return 0;
  });
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    size_t bytes) noexcept {
  return guarded(ENOMEM, [&] {
    if (input != nullptr && input->comp_mask != 0) return fail(EINVAL);
    if (bytes < sizeof(ibv_device_attr)) return fail(EINVAL);
    ibv_device_attr_ex all{};
    describe(*ours(context).node, all.orig_attr);
    all.completion_timestamp_mask = ~uint64_t{0};
    all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    all.odp_caps.per_transport_caps = {
        .rc_odp_caps = kPaged, .uc_odp_caps = kPagedUc, .ud_odp_caps = kPagedUd};
    all.xrc_odp_caps = kPaged;
    all.max_dm_size = kDeviceMemoryBytes;
    all.hca_core_clock = 1'000'000;  // kHz: time stamps count nanoseconds
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
    std::memset(static_cast<void*>(out), 0, bytes);
    std::memcpy(static_cast<void*>(out), &all, std::min(bytes, sizeof all));
    return 0;
  });
}

int query_rt_values(ibv_context* /*context*/, ibv_values_ex* values) noexcept {
  const uint32_t wanted = values->comp_mask;
  values->comp_mask = wanted & IBV_VALUES_MASK_RAW_CLOCK;
  if (values->comp_mask != 0) clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
  return values->comp_mask == wanted ? 0 : fail(EINVAL);
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
using weft::kLinkPkeysMax;

#undef ibv_query_port

WEFT_VERBS_API int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  return query_device(context, out);
}

WEFT_VERBS_API int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* out) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out), kOldPortAttrBytes);
}

WEFT_VERBS_API int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  return guarded(-1, [&] {
    if (!has_port(context, port, "ibv_query_gid") || !has_gid(context, index)) return failed(EINVAL);
    *gid = gid_at(*ours(context).node, port, index);
    return 0;
  });
}

WEFT_VERBS_API int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* out,
                                     uint32_t flags, size_t bytes) {
  return guarded(ENOMEM, [&] {
    if (!has_port(context, port, "ibv_query_gid_ex") || !has_gid(context, index)) return fail(EINVAL);
    if (flags != 0 || bytes < sizeof(ibv_gid_entry)) return fail(EINVAL);
    std::memset(static_cast<void*>(out), 0, bytes);
    const bool roce = ours(context).node->settings().roce;
    out->gid = gid_at(*ours(context).node, static_cast<uint8_t>(port), static_cast<int>(index));
    out->gid_index = index;
    out->port_num = port;
    out->gid_type = gid_type_at(*ours(context).node, static_cast<int>(index));
    out->ndev_ifindex = roce ? if_nametoindex("lo") : 0;
    return 0;
  });
}

WEFT_VERBS_API ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* out, size_t most,
                                            uint32_t flags, size_t bytes) {
  const auto each = static_cast<uint32_t>(gid_count(*ours(context).node));
  const uint32_t there = each * ours(context).node->device().ports();
  if (most < there) return -fail(EINVAL);
  auto* at = reinterpret_cast<std::byte*>(out);
  for (uint32_t i = 0; i < there; ++i, at += bytes) {
    const int fault = _ibv_query_gid_ex(context, i / each + 1, i % each, reinterpret_cast<ibv_gid_entry*>(at),
                                        flags, bytes);
    if (fault != 0) return -fault;
  }
  return there;
}

WEFT_VERBS_API int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, int* type) {
  return guarded(-1, [&] {
    if (!has_port(context, port, "ibv_query_gid_type") || !has_gid(context, index)) return failed(EINVAL);
    const bool version_2 = gid_type_at(*ours(context).node, static_cast<int>(index)) == IBV_GID_TYPE_ROCE_V2;
    *type = version_2 ? 1 : 0;  // numbers of sysfs: 0 is InfiniBand or RoCE v1, 1 is RoCE v2
    return 0;
  });
}

WEFT_VERBS_API int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  return guarded(-1, [&] {
    if (!has_port(context, port, "ibv_query_pkey") || index < 0 ||
        static_cast<size_t>(index) >= kLinkPkeysMax)
      return failed(EINVAL);
    *pkey = htobe16(pkey_at(*ours(context).node, port, static_cast<size_t>(index)));
    return 0;
  });
}

WEFT_VERBS_API int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  return guarded(-1, [&] {
    if (!has_port(context, port, "ibv_get_pkey_index")) return -1;
    for (size_t i = 0; i < kLinkPkeysMax; ++i) {
      if (pkey_at(*ours(context).node, port, i) == be16toh(pkey)) return static_cast<int>(i);
    }
    return -1;
  });
}

WEFT_VERBS_API int weft_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed)
    WEFT_VERBS_NAMED("ibv_query_port_speed");
WEFT_VERBS_API int weft_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) {
  return guarded(ENOMEM, [&] {
    if (!has_port(context, port, "ibv_query_port_speed")) return fail(EINVAL);
    *speed = kSpeed;
    return 0;
  });
}
