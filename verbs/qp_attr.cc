#include "verbs/qp_attr.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "adapter/transport/rnr_timer.h"
#include "messages/time_code.h"
#include "verbs/addresses.h"

namespace weft::verbs {
namespace {

static_assert(static_cast<int>(adapter::kQpAttrState) == IBV_QP_STATE &&
              static_cast<int>(adapter::kQpAttrAddress) == IBV_QP_AV &&
              static_cast<int>(adapter::kQpAttrMinRnrTimer) == IBV_QP_MIN_RNR_TIMER &&
              static_cast<int>(adapter::kQpAttrDestQpn) == IBV_QP_DEST_QPN &&
              static_cast<int>(adapter::kQpAttrSqdNotify) == IBV_QP_EN_SQD_ASYNC_NOTIFY &&
              static_cast<int>(adapter::kQpAttrPathMigState) == IBV_QP_PATH_MIG_STATE &&
              static_cast<int>(adapter::kQpAttrCapabilities) == IBV_QP_CAP &&
              static_cast<int>(adapter::kQpAttrRateLimit) == IBV_QP_RATE_LIMIT);
static_assert(static_cast<int>(adapter::PathMigState::kRearm) == IBV_MIG_REARM &&
              static_cast<int>(adapter::PathMigState::kArmed) == IBV_MIG_ARMED);
static_assert(static_cast<int>(adapter::QpState::kErr) == IBV_QPS_ERR &&
              static_cast<int>(adapter::QpState::kSqd) == IBV_QPS_SQD);

/// Attribute bits that both sides give the same place and meaning. The adapter refuses a rate limit, which
/// only queue pairs for raw packets have; verbs do not offer those.
constexpr int kSame = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY |
                      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN | IBV_QP_CUR_STATE |
                      IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
                      IBV_QP_RATE_LIMIT;

/// Flags of regions that programs also set for QPs, and that mean nothing for a QP. The rights to flush mean
/// nothing either, because the device has no flush operation.
constexpr uint32_t kFlushRights = 1U << 8 | 1U << 9;  // IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT of newer headers
constexpr uint32_t kOfRegions = IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
                                IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE | kFlushRights;

/// Copies only the attributes that the mask names: programs leave the other fields uninitialised.
ibv_qp_attr named(const ibv_qp_attr& given, int mask) noexcept {
  ibv_qp_attr out{};
  const auto take = [&](int bit, auto ibv_qp_attr::*field) {
    if ((mask & bit) != 0) std::memcpy(&(out.*field), &(given.*field), sizeof(out.*field));
  };
  take(IBV_QP_STATE, &ibv_qp_attr::qp_state);
  take(IBV_QP_CUR_STATE, &ibv_qp_attr::cur_qp_state);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, &ibv_qp_attr::en_sqd_async_notify);
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_ah_attr);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_pkey_index);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_port_num);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_timeout);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_PATH_MIG_STATE, &ibv_qp_attr::path_mig_state);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  return out;
}

constexpr uint8_t kTimeoutCodes = 32;
constexpr uint8_t kRnrCodes = 32;

/// Code 0 means no timeout.
Duration ack_timeout(uint8_t code) noexcept {
  return code == 0 ? Duration{} : time_of_code(code);
}

struct WrongCode {
  const char* fault = nullptr;
  uint32_t value = 0;
};

/// A QP has one port, the one of its address. In SQD, RC and XRC QPs may change it.
WrongCode wrong_port(const ibv_qp_attr& attr, int mask, const ChangeBasis& basis) noexcept {
  const auto exists = [&basis](uint8_t port) { return port != 0 && port <= basis.ports; };
  const uint8_t port = attr.ah_attr.port_num;
  const bool named_port = (mask & IBV_QP_PORT) != 0;
  const bool in_sqd = basis.state == adapter::QpState::kSqd;
  const bool keeps = basis.state == adapter::QpState::kInit || (in_sqd && basis.type == IBV_QPT_UC);
  if ((mask & IBV_QP_AV) != 0) {
    if (!exists(port)) return {"ah_attr.port_num must be a port of the device, from 1", port};
    if (named_port && port != attr.port_num) return {"ah_attr.port_num must be port_num", port};
    if (!named_port && keeps && port != basis.port)
      return {"ah_attr.port_num must be the QP's port (port_num of ibv_query_qp)", port};
  }
  if ((mask & IBV_QP_ALT_PATH) == 0) return {};
  if (!exists(attr.alt_port_num))
    return {"alt_port_num must be a port of the device, from 1", attr.alt_port_num};
  if (attr.alt_ah_attr.port_num != attr.alt_port_num)
    return {"alt_ah_attr.port_num must be alt_port_num", attr.alt_ah_attr.port_num};
  return {};
}

/// InfiniBand lets a QP fail in every state. The kernel lets a QP leave RESET for INIT alone.
WrongCode wrong_move(const ibv_qp_attr& attr, int mask, const ChangeBasis& basis) noexcept {
  const bool fails = (mask & IBV_QP_STATE) != 0 && raw(attr.qp_state) == IBV_QPS_ERR;
  if (!fails || basis.state != adapter::QpState::kReset) return {};
  return {"qp_state of a QP in RESET must be IBV_QPS_RESET (0) or IBV_QPS_INIT (1)", IBV_QPS_ERR};
}

WrongCode wrong_code(const ibv_qp_attr& attr, int mask, int gids) noexcept {
  if ((mask & IBV_QP_AV) != 0 && !has_source(attr.ah_attr, gids))
    return {"ah_attr.grh.sgid_index must be an index of the port's GID table (gid_tbl_len)",
            attr.ah_attr.grh.sgid_index};
  if ((mask & IBV_QP_ALT_PATH) != 0 && !has_source(attr.alt_ah_attr, gids))
    return {"alt_ah_attr.grh.sgid_index must be an index of the port's GID table (gid_tbl_len)",
            attr.alt_ah_attr.grh.sgid_index};
  if ((mask & IBV_QP_TIMEOUT) != 0 && attr.timeout >= kTimeoutCodes)
    return {"timeout must be a code of 5 bits, 0 to 31", attr.timeout};
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr.min_rnr_timer >= kRnrCodes)
    return {"min_rnr_timer must be a code of 5 bits, 0 to 31", attr.min_rnr_timer};
  const uint32_t mtu = raw(attr.path_mtu);
  if ((mask & IBV_QP_PATH_MTU) != 0 && (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096))
    return {"path_mtu must be a code, not a number of bytes: IBV_MTU_256 (1) to IBV_MTU_4096 (5)", mtu};
  if ((mask & IBV_QP_STATE) != 0 && raw(attr.qp_state) > IBV_QPS_ERR)
    return {"qp_state must be a state of enum ibv_qp_state", raw(attr.qp_state)};
  if ((mask & IBV_QP_CUR_STATE) != 0 && static_cast<unsigned>(attr.cur_qp_state) > IBV_QPS_ERR)
    return {"cur_qp_state must be a state of enum ibv_qp_state", static_cast<uint32_t>(attr.cur_qp_state)};
  if ((mask & IBV_QP_ALT_PATH) != 0 && attr.alt_timeout >= kTimeoutCodes)
    return {"alt_timeout must be a code of 5 bits, 0 to 31", attr.alt_timeout};
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && static_cast<unsigned>(attr.path_mig_state) > IBV_MIG_ARMED)
    return {"path_mig_state must be a state of enum ibv_mig_state",
            static_cast<uint32_t>(attr.path_mig_state)};
  return {};
}

adapter::AlternatePath alternate_of(const ibv_qp_attr& attr) noexcept {
  adapter::AlternatePath out{.dlid = dlid_of(attr.alt_ah_attr),
                             .sl = ServiceLevel(attr.alt_ah_attr.sl),
                             .port = attr.alt_port_num,
                             .pkey_index = attr.alt_pkey_index,
                             .ack_timeout = ack_timeout(attr.alt_timeout)};
  if (attr.alt_ah_attr.is_global != 0) out.dgid = far_gid(attr.alt_ah_attr.grh.dgid);
  return out;
}

}  // namespace

QpChange qp_change_of(const ibv_qp_attr& given, int mask, const ChangeBasis& basis) noexcept {
  QpChange out;
  if ((mask & ~kSame) != 0) {
    const bool unknown = (mask & ~(kSame | IBV_QP_CAP)) != 0;
    out.fault = unknown ? "attr_mask must have known bits only"
                        : "attr_mask must not have IBV_QP_CAP, because queues keep their size";
    out.value = static_cast<uint32_t>(mask);
    out.error = unknown ? EOPNOTSUPP : EINVAL;
    return out;
  }
  const ibv_qp_attr attr = named(given, mask);
  WrongCode wrong = wrong_code(attr, mask, basis.gids);
  if (wrong.fault == nullptr) wrong = wrong_port(attr, mask, basis);
  if (wrong.fault == nullptr) wrong = wrong_move(attr, mask, basis);
  out.fault = wrong.fault;
  out.value = wrong.value;
  out.error = wrong.fault != nullptr ? EINVAL : 0;
  out.mask = static_cast<uint32_t>(mask);
  out.attr.state = static_cast<adapter::QpState>(raw(attr.qp_state));
  out.attr.access = static_cast<adapter::Access>(attr.qp_access_flags & ~kOfRegions);
  out.attr.pkey_index = attr.pkey_index;
  out.attr.port = attr.port_num;
  out.attr.qkey = attr.qkey;
  out.attr.dlid = dlid_of(attr.ah_attr);
  if (attr.ah_attr.is_global != 0) out.attr.dgid = far_gid(attr.ah_attr.grh.dgid);
  out.attr.sl = ServiceLevel(attr.ah_attr.sl);
  // The path's MTU bounds a routed unit, which is a cell here. Packets have up to 64 cells, so the adapter
  // gets no path MTU.
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
  out.attr.cur_state = static_cast<adapter::QpState>(attr.cur_qp_state);
  out.attr.sqd_notify = attr.en_sqd_async_notify != 0;
  out.attr.path_mig_state = static_cast<adapter::PathMigState>(attr.path_mig_state);
  out.attr.alt = alternate_of(attr);
  // A new address alone moves the QP to its port.
  const bool in_sqd = basis.state == adapter::QpState::kSqd;
  if (in_sqd && (mask & (IBV_QP_AV | IBV_QP_PORT)) == IBV_QP_AV && attr.ah_attr.port_num != basis.port) {
    out.mask |= IBV_QP_PORT;
    out.attr.port = attr.ah_attr.port_num;
  }
  return out;
}

void settle(KeptAttr& kept, const adapter::QpAttr& now) noexcept {
  const std::lock_guard lock(kept.mutex);
  if (!kept.has_alternate || now.alt.dlid != kLidNone) return;
  kept.address = std::exchange(kept.alternate, {});
  kept.timeout = std::exchange(kept.alt_timeout, uint8_t{0});
  kept.has_alternate = false;
}

void remember(KeptAttr& kept, const ibv_qp_attr& attr, int mask) noexcept {
  const std::lock_guard lock(kept.mutex);
  if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET) {
    kept.address = kept.alternate = {};
    kept.has_alternate = false;
    kept.path_mtu = IBV_MTU_4096;
    kept.timeout = kept.alt_timeout = kept.min_rnr_timer = 0;
  }
  if ((mask & IBV_QP_ALT_PATH) != 0) {
    kept.alternate = attr.alt_ah_attr;
    kept.has_alternate = true;
    kept.alt_timeout = attr.alt_timeout;
  }
  if ((mask & IBV_QP_AV) != 0) kept.address = attr.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) kept.path_mtu = attr.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) kept.timeout = attr.timeout;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) kept.min_rnr_timer = attr.min_rnr_timer;
}

void answer_query(KeptAttr& kept, const adapter::QpAttr& attr, ibv_qp_attr& out) noexcept {
  const std::lock_guard lock(kept.mutex);
  out = {};
  out.qp_state = out.cur_qp_state = static_cast<ibv_qp_state>(attr.state);
  out.path_mtu = kept.path_mtu;
  out.path_mig_state = static_cast<ibv_mig_state>(attr.path_mig_state);
  out.qkey = attr.qkey;
  out.rq_psn = attr.rq_psn.value();
  out.sq_psn = attr.sq_psn.value();
  out.dest_qp_num = attr.dest_qpn.value();
  out.qp_access_flags = static_cast<uint32_t>(attr.access);
  out.cap = kept.cap;
  out.ah_attr = kept.address;
  out.pkey_index = attr.pkey_index;
  out.max_rd_atomic = attr.max_rd_atomic;
  out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  out.min_rnr_timer = kept.min_rnr_timer;
  out.port_num = attr.port;
  out.timeout = kept.timeout;
  out.retry_cnt = attr.retry_count;
  out.rnr_retry = attr.rnr_retry;
  out.sq_draining = attr.sq_draining ? 1 : 0;
  out.alt_ah_attr = kept.alternate;
  out.alt_pkey_index = attr.alt.pkey_index;
  out.alt_port_num = attr.alt.dlid != kLidNone ? attr.alt.port : uint8_t{0};
  out.alt_timeout = kept.alt_timeout;
}

}  // namespace weft::verbs
