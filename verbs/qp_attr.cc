#include "verbs/qp_attr.h"

#include <cerrno>

#include "adapter/transport/rnr_timer.h"
#include "verbs/addresses.h"

namespace weft::verbs {
namespace {

static_assert(static_cast<int>(adapter::kQpAttrState) == IBV_QP_STATE &&
              static_cast<int>(adapter::kQpAttrAddress) == IBV_QP_AV &&
              static_cast<int>(adapter::kQpAttrMinRnrTimer) == IBV_QP_MIN_RNR_TIMER &&
              static_cast<int>(adapter::kQpAttrDestQpn) == IBV_QP_DEST_QPN);
static_assert(static_cast<int>(adapter::QpState::kErr) == IBV_QPS_ERR &&
              static_cast<int>(adapter::QpState::kSqd) == IBV_QPS_SQD);

/// Bits with the same place and meaning on both sides.
constexpr int kSame = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |
                      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN;
/// Bits that change nothing here: the drained event comes always.
constexpr int kHints = IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;

constexpr uint8_t kTimeoutCodes = 32;
constexpr uint8_t kRnrCodes = 32;

/// 4.096 us times two to the power of the code; 0 is without end.
Duration ack_timeout(uint8_t code) noexcept {
  return code == 0 ? Duration{} : Duration(int64_t{4096} << code);
}

const char* wrong_code(const ibv_qp_attr& attr, int mask) noexcept {
  if ((mask & IBV_QP_TIMEOUT) != 0 && attr.timeout >= kTimeoutCodes) return "timeout: a code of 5 bits";
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr.min_rnr_timer >= kRnrCodes)
    return "min_rnr_timer: a code of 5 bits";
  if ((mask & IBV_QP_PATH_MTU) != 0 && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096))
    return "path_mtu: 1 (256 bytes) to 5 (4096 bytes)";
  if ((mask & IBV_QP_STATE) != 0 && static_cast<unsigned>(attr.qp_state) > IBV_QPS_ERR)
    return "qp_state: no such state";
  return nullptr;
}

}  // namespace

QpChange qp_change_of(const ibv_qp_attr& attr, int mask) noexcept {
  QpChange out;
  if ((mask & ~(kSame | kHints)) != 0) {
    out.fault = "attr_mask: alternate paths, rate limits and other queue sizes are not supported";
    out.error = EOPNOTSUPP;
    return out;
  }
  out.fault = wrong_code(attr, mask);
  out.error = out.fault != nullptr ? EINVAL : 0;
  out.mask = static_cast<uint32_t>(mask & kSame);
  out.attr.state = static_cast<adapter::QpState>(attr.qp_state);
  out.attr.access = static_cast<adapter::Access>(attr.qp_access_flags);
  out.attr.pkey_index = attr.pkey_index;
  out.attr.port = attr.port_num;
  out.attr.qkey = attr.qkey;
  out.attr.dlid = Lid(attr.ah_attr.dlid);
  if (attr.ah_attr.is_global != 0) out.attr.dgid = far_gid(attr.ah_attr.grh.dgid);
  out.attr.sl = ServiceLevel(attr.ah_attr.sl);
  // The path's MTU bounds what is routed as one, and that is a cell here. Packets are of many cells.
  out.attr.path_mtu_bytes = 0;
  out.attr.ack_timeout = ack_timeout(attr.timeout);
  out.attr.retry_count = attr.retry_cnt;
  out.attr.rnr_retry = attr.rnr_retry;
  out.attr.rq_psn = Psn(attr.rq_psn);
  out.attr.sq_psn = Psn(attr.sq_psn);
  out.attr.max_rd_atomic = attr.max_rd_atomic;
  out.attr.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  out.attr.min_rnr_timer = adapter::rnr_delay(attr.min_rnr_timer);
  out.attr.dest_qpn = Qpn(attr.dest_qp_num);
  return out;
}

void remember(Qp& qp, const ibv_qp_attr& attr, int mask) noexcept {
  if ((mask & IBV_QP_AV) != 0) qp.address = attr.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) qp.path_mtu = attr.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) qp.timeout = attr.timeout;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) qp.min_rnr_timer = attr.min_rnr_timer;
}

void answer_query(const Qp& qp, const adapter::QpAttr& attr, ibv_qp_attr& out) noexcept {
  out = {};
  out.qp_state = out.cur_qp_state = static_cast<ibv_qp_state>(attr.state);
  out.path_mtu = qp.path_mtu;
  out.path_mig_state = IBV_MIG_MIGRATED;
  out.qkey = attr.qkey;
  out.rq_psn = attr.rq_psn.value();
  out.sq_psn = attr.sq_psn.value();
  out.dest_qp_num = attr.dest_qpn.value();
  out.qp_access_flags = static_cast<uint32_t>(attr.access);
  out.cap = qp.cap;
  out.ah_attr = qp.address;
  out.pkey_index = attr.pkey_index;
  out.max_rd_atomic = attr.max_rd_atomic;
  out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  out.min_rnr_timer = qp.min_rnr_timer;
  out.port_num = attr.port;
  out.timeout = qp.timeout;
  out.retry_cnt = attr.retry_count;
  out.rnr_retry = attr.rnr_retry;
}

}  // namespace weft::verbs
