#include "adapter/queues/qp_rules.h"

#include <array>

#include "adapter/limits.h"
#include "adapter/transport/rnr_timer.h"

namespace weft::adapter {
namespace {

constexpr uint16_t kRc = service_bit(QpType::kRc);
constexpr uint16_t kUc = service_bit(QpType::kUc);
constexpr uint16_t kUd = service_bit(QpType::kUd);
constexpr uint16_t kRd = service_bit(QpType::kRd);
constexpr uint16_t kRaw = service_bit(QpType::kRaw);
constexpr uint16_t kXrcSend = service_bit(QpType::kXrcSend);
constexpr uint16_t kXrcRecv = service_bit(QpType::kXrcRecv);
constexpr uint16_t kXrc = kXrcSend | kXrcRecv;
constexpr uint16_t kAll = kRc | kUc | kUd | kRd | kRaw | kXrc;

constexpr uint32_t kAccess = kQpAttrAccess;
constexpr uint32_t kPkey = kQpAttrPkeyIndex;
constexpr uint32_t kPort = kQpAttrPort;
constexpr uint32_t kQkey = kQpAttrQkey;
constexpr uint32_t kRnrTimer = kQpAttrMinRnrTimer;
constexpr uint32_t kCur = kQpAttrCurState;
constexpr uint32_t kDrain = kQpAttrSqdNotify;
constexpr uint32_t kRate = kQpAttrRateLimit;
constexpr uint32_t kAlt = kQpAttrAltPath;
constexpr uint32_t kMigration = kQpAttrAltPath | kQpAttrPathMigState;
constexpr uint32_t kRcRtr = kQpAttrAddress | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                            kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
constexpr uint32_t kUcRtr = kQpAttrAddress | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
constexpr uint32_t kRcRts =
    kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic;
constexpr uint32_t kRdRts = kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry;
constexpr uint32_t kRcSqd = kPort | kQpAttrAddress | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry |
                            kQpAttrMaxRdAtomic | kQpAttrMaxDestRdAtomic | kPkey | kAccess | kRnrTimer |
                            kMigration;
constexpr uint32_t kTargetRts = kQpAttrTimeout | kQpAttrSqPsn;
constexpr uint32_t kInitiatorSqd = kPort | kQpAttrAddress | kQpAttrTimeout | kQpAttrRetryCount |
                                   kQpAttrRnrRetry | kQpAttrMaxRdAtomic | kPkey | kAccess | kMigration;
constexpr uint32_t kTargetSqd = kPort | kQpAttrAddress | kQpAttrTimeout | kQpAttrMaxDestRdAtomic | kPkey |
                                kAccess | kRnrTimer | kMigration;

using S = QpState;
constexpr std::array kRules{
    QpRule{S::kReset, S::kInit, kRc | kUc, kPkey | kPort | kAccess, 0},
    QpRule{S::kReset, S::kInit, kRd, kPkey | kPort | kQkey, kAccess},
    QpRule{S::kReset, S::kInit, kUd, kPkey | kPort | kQkey, 0},
    QpRule{S::kReset, S::kInit, kRaw, kPort, 0},
    QpRule{S::kInit, S::kInit, kRc | kUc, 0, kPkey | kPort | kAccess},
    QpRule{S::kInit, S::kInit, kRd, 0, kPkey | kPort | kAccess | kQkey},
    QpRule{S::kInit, S::kInit, kUd, 0, kPkey | kPort | kQkey},
    QpRule{S::kInit, S::kInit, kRaw, 0, 0},
    QpRule{S::kInit, S::kRtr, kRc, kRcRtr, kAlt | kPkey | kAccess},
    QpRule{S::kInit, S::kRtr, kUc, kUcRtr, kAlt | kPkey | kAccess},
    QpRule{S::kInit, S::kRtr, kRd, kRnrTimer, kPkey | kAccess | kQkey},
    QpRule{S::kInit, S::kRtr, kUd, 0, kPkey | kQkey},
    QpRule{S::kInit, S::kRtr, kRaw, 0, 0},
    QpRule{S::kRtr, S::kRts, kRc, kRcRts, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kRtr, S::kRts, kUc, kQpAttrSqPsn, kCur | kAccess | kMigration},
    QpRule{S::kRtr, S::kRts, kRd, kRdRts, kCur | kAccess | kQkey | kRnrTimer | kQpAttrSqPsn},
    QpRule{S::kRtr, S::kRts, kUd, kQpAttrSqPsn, kCur | kQkey},
    QpRule{S::kRtr, S::kRts, kRaw, 0, kRate},
    QpRule{S::kRts, S::kRts, kRc, 0, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kRts, S::kRts, kUc, 0, kCur | kAccess | kMigration},
    QpRule{S::kRts, S::kRts, kRd, 0, kCur | kAccess | kQkey | kRnrTimer},
    QpRule{S::kRts, S::kRts, kUd, 0, kCur | kQkey},
    QpRule{S::kRts, S::kRts, kRaw, 0, kRate},
    QpRule{S::kRts, S::kSqd, kRc | kUc | kRd | kUd | kXrc, 0, kDrain},
    QpRule{S::kRts, S::kSqd, kRaw, 0, 0},
    QpRule{S::kSqd, S::kRts, kRc, 0, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kSqd, S::kRts, kUc, 0, kCur | kAccess | kMigration},
    QpRule{S::kSqd, S::kRts, kRd, 0, kCur | kAccess | kQkey | kRnrTimer},
    QpRule{S::kSqd, S::kRts, kUd, 0, kCur | kQkey},
    QpRule{S::kSqd, S::kRts, kRaw, 0, 0},
    QpRule{S::kSqd, S::kSqd, kRc, 0, kRcSqd},
    QpRule{S::kSqd, S::kSqd, kUc, 0, kQpAttrAddress | kPkey | kAccess | kMigration},
    QpRule{S::kSqd, S::kSqd, kRd, 0, kRdRts | kPkey | kAccess | kQkey | kRnrTimer},
    QpRule{S::kSqd, S::kSqd, kUd, 0, kPkey | kQkey},
    QpRule{S::kSqd, S::kSqd, kRaw, 0, 0},
    // XRC: an initiator has the rules of requesters, a target those of responders.
    QpRule{S::kReset, S::kInit, kXrc, kPkey | kPort | kAccess, 0},
    QpRule{S::kInit, S::kInit, kXrc, 0, kPkey | kPort | kAccess},
    QpRule{S::kInit, S::kRtr, kXrcSend, kUcRtr, kAlt | kPkey | kAccess},
    QpRule{S::kInit, S::kRtr, kXrcRecv, kRcRtr, kAlt | kPkey | kAccess},
    QpRule{S::kRtr, S::kRts, kXrcSend, kRcRts, kCur | kAccess | kMigration},
    QpRule{S::kRtr, S::kRts, kXrcRecv, kTargetRts, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kRts, S::kRts, kXrcSend, 0, kCur | kAccess | kMigration},
    QpRule{S::kRts, S::kRts, kXrcRecv, 0, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kSqd, S::kRts, kXrcSend, 0, kCur | kAccess | kMigration},
    QpRule{S::kSqd, S::kRts, kXrcRecv, 0, kCur | kAccess | kRnrTimer | kMigration},
    QpRule{S::kSqd, S::kSqd, kXrcSend, 0, kInitiatorSqd},
    QpRule{S::kSqd, S::kSqd, kXrcRecv, 0, kTargetSqd},
    // Only the adapter enters kSqe, and only for services without acknowledgement.
    QpRule{S::kSqe, S::kRts, kUc, 0, kCur | kAccess},
    QpRule{S::kSqe, S::kRts, kUd, 0, kCur | kQkey},
    QpRule{S::kSqe, S::kRts, kRaw, 0, 0},
};

/// From every state, for every service.
constexpr std::array kAnyRules{
    QpRule{S::kReset, S::kReset, kAll, 0, 0},
    QpRule{S::kReset, S::kErr, kAll, 0, 0},
};

/// Rights that a QP can grant its peer. Programs of the verbs also name local write, which has no effect
/// here.
constexpr auto kQpRights = static_cast<uint32_t>(Access::kLocalWrite | Access::kRemoteWrite |
                                                 Access::kRemoteRead | Access::kRemoteAtomic);

bool out_of_range(QpState state) noexcept {
  return static_cast<uint32_t>(state) >= kQpStateCount;
}

bool is_port(uint8_t port, uint32_t ports) noexcept {
  return port != 0 && port <= ports;
}

bool is_address(Lid dlid, ServiceLevel sl) noexcept {
  return dlid != kLidNone && dlid.value() <= kLidMax && sl.value() < kVlCount;
}

bool is_timeout(Duration timeout) noexcept {
  return timeout >= Duration::zero() && timeout <= kAckTimeoutMax;
}

bool is_path(const AlternatePath& path, uint32_t ports) noexcept {
  return is_port(path.port, ports) && is_address(path.dlid, path.sl) && path.pkey_index < kPkeysPerPort &&
         is_timeout(path.ack_timeout);
}

/// States that the adapter leaves by itself, so that a consumer may not know the current one.
bool may_be_current(QpState state) noexcept {
  return state >= QpState::kRtr && state <= QpState::kSqe;
}

}  // namespace

std::span<const QpRule> qp_rules() noexcept {
  return kRules;
}

const QpRule* find_qp_rule(QpType type, QpState from, QpState to) noexcept {
  if (out_of_range(from) || out_of_range(to)) return nullptr;
  for (const QpRule& rule : kAnyRules) {
    if (rule.to == to && (rule.services & service_bit(type)) != 0) return &rule;
  }
  for (const QpRule& rule : kRules) {
    if (rule.from == from && rule.to == to && (rule.services & service_bit(type)) != 0) return &rule;
  }
  return nullptr;
}

ModifyResult check_qp_move(QpType type, QpState from, QpState to, uint32_t mask) noexcept {
  const QpRule* rule = find_qp_rule(type, from, to);
  if (rule == nullptr) return ModifyResult::kBadTransition;
  const uint32_t attributes = mask & ~uint32_t{kQpAttrState};
  if ((rule->required & ~attributes) != 0) return ModifyResult::kMissingAttribute;
  if ((attributes & ~(rule->required | rule->optional)) != 0) return ModifyResult::kUnexpectedAttribute;
  return ModifyResult::kOk;
}

ModifyResult check_qp_values(const QpAttr& attr, uint32_t mask, uint32_t ports) noexcept {
  const auto named = [mask](uint32_t bit) { return (mask & bit) != 0; };
  const bool bad = (named(kQpAttrPort) && !is_port(attr.port, ports)) ||
                   (named(kQpAttrAddress) && !is_address(attr.dlid, attr.sl)) ||
                   (named(kQpAttrCurState) && !may_be_current(attr.cur_state)) ||
                   (named(kQpAttrAltPath) && !is_path(attr.alt, ports)) ||
                   (named(kQpAttrPathMigState) && attr.path_mig_state > PathMigState::kArmed) ||
                   (named(kQpAttrPkeyIndex) && attr.pkey_index >= kPkeysPerPort) ||
                   (named(kQpAttrAccess) && (static_cast<uint32_t>(attr.access) & ~kQpRights) != 0) ||
                   (named(kQpAttrMaxRdAtomic) && attr.max_rd_atomic > kReadsPerQp) ||
                   (named(kQpAttrMaxDestRdAtomic) && attr.max_dest_rd_atomic > kReadsPerQp) ||
                   (named(kQpAttrDestQpn) && (attr.dest_qpn.value() & ~kQpnMask) != 0) ||
                   (named(kQpAttrRetryCount) && attr.retry_count > 7) ||
                   (named(kQpAttrRnrRetry) && attr.rnr_retry > 7) ||
                   (named(kQpAttrTimeout) && !is_timeout(attr.ack_timeout)) ||
                   (named(kQpAttrMinRnrTimer) &&
                    (attr.min_rnr_timer < Duration::zero() || attr.min_rnr_timer > rnr_delay(0)));
  return bad ? ModifyResult::kBadValue : ModifyResult::kOk;
}

void merge_qp_attr(QpAttr& into, const QpAttr& from, uint32_t mask) noexcept {
  const auto take = [&](uint32_t bit, auto member) {
    if ((mask & bit) != 0) into.*member = from.*member;
  };
  take(kQpAttrAccess, &QpAttr::access);
  take(kQpAttrPkeyIndex, &QpAttr::pkey_index);
  take(kQpAttrPort, &QpAttr::port);
  take(kQpAttrQkey, &QpAttr::qkey);
  take(kQpAttrAddress, &QpAttr::dlid);
  take(kQpAttrAddress, &QpAttr::dgid);
  take(kQpAttrAddress, &QpAttr::sl);
  take(kQpAttrPathMtu, &QpAttr::path_mtu_bytes);
  take(kQpAttrTimeout, &QpAttr::ack_timeout);
  take(kQpAttrRetryCount, &QpAttr::retry_count);
  take(kQpAttrRnrRetry, &QpAttr::rnr_retry);
  take(kQpAttrRqPsn, &QpAttr::rq_psn);
  take(kQpAttrMaxRdAtomic, &QpAttr::max_rd_atomic);
  take(kQpAttrMinRnrTimer, &QpAttr::min_rnr_timer);
  take(kQpAttrSqPsn, &QpAttr::sq_psn);
  take(kQpAttrMaxDestRdAtomic, &QpAttr::max_dest_rd_atomic);
  take(kQpAttrDestQpn, &QpAttr::dest_qpn);
  take(kQpAttrAltPath, &QpAttr::alt);
  take(kQpAttrPathMigState, &QpAttr::path_mig_state);
  take(kQpAttrRateLimit, &QpAttr::rate_limit_kbps);
}

}  // namespace weft::adapter
