// The state table, walked from every state to every state for every service, against a second statement of
// it: what InfiniBand's "modify QP" allows.
#include "adapter/queues/qp_rules.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "adapter/transport/rnr_timer.h"

namespace weft::adapter {
namespace {

using S = QpState;
constexpr QpType kTypes[] = {QpType::kRc,  QpType::kUc,      QpType::kUd,     QpType::kRd,
                             QpType::kRaw, QpType::kXrcSend, QpType::kXrcRecv};
constexpr S kStates[] = {S::kReset, S::kInit, S::kRtr, S::kRts, S::kSqd, S::kSqe, S::kErr};

bool allowed(QpType type, S from, S to) {
  if (to == S::kReset || to == S::kErr) return true;
  const std::set<std::pair<S, S>> moves{{S::kReset, S::kInit}, {S::kInit, S::kInit}, {S::kInit, S::kRtr},
                                        {S::kRtr, S::kRts},    {S::kRts, S::kRts},   {S::kRts, S::kSqd},
                                        {S::kSqd, S::kRts},    {S::kSqd, S::kSqd}};
  if (from == S::kSqe && to == S::kRts) return !is_acknowledged(type);
  return moves.contains({from, to});
}

TEST(QpRules, every_pair_of_states_for_every_service) {
  for (const QpType type : kTypes) {
    for (const S from : kStates) {
      for (const S to : kStates) {
        const QpRule* rule = find_qp_rule(type, from, to);
        EXPECT_EQ(rule != nullptr, allowed(type, from, to))
            << static_cast<int>(type) << ": " << to_string(from) << " -> " << to_string(to);
        const uint32_t mask = adapter::kQpAttrState | (rule != nullptr ? rule->required : 0);
        EXPECT_EQ(check_qp_move(type, from, to, mask) == ModifyResult::kOk, allowed(type, from, to));
      }
    }
  }
}

TEST(QpRules, each_required_attribute_is_required_and_no_other_is_taken) {
  for (const QpRule& rule : qp_rules()) {
    for (const QpType type : kTypes) {
      if ((rule.services & service_bit(type)) == 0) continue;
      for (uint32_t bit = 1; bit <= adapter::kQpAttrDestQpn; bit <<= 1) {
        if (bit == adapter::kQpAttrState) continue;
        const bool required = (rule.required & bit) != 0;
        const bool optional = (rule.optional & bit) != 0;
        EXPECT_FALSE(required && optional);
        const ModifyResult without =
            check_qp_move(type, rule.from, rule.to, adapter::kQpAttrState | (rule.required & ~bit));
        const ModifyResult with =
            check_qp_move(type, rule.from, rule.to, adapter::kQpAttrState | rule.required | bit);
        EXPECT_EQ(without, required ? ModifyResult::kMissingAttribute : ModifyResult::kOk);
        EXPECT_EQ(with, required || optional ? ModifyResult::kOk : ModifyResult::kUnexpectedAttribute);
      }
    }
  }
}

TEST(QpRules, states_out_of_range_are_refused_before_any_table) {
  for (const uint8_t bad : {uint8_t{7}, uint8_t{200}, uint8_t{255}}) {
    EXPECT_EQ(find_qp_rule(QpType::kRc, static_cast<S>(bad), S::kInit), nullptr);
    EXPECT_EQ(find_qp_rule(QpType::kRc, S::kReset, static_cast<S>(bad)), nullptr);
  }
}

TEST(QpRules, rc_needs_what_libibverbs_needs) {
  EXPECT_EQ(find_qp_rule(QpType::kRc, S::kReset, S::kInit)->required,
            uint32_t{adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrAccess});
  EXPECT_EQ(find_qp_rule(QpType::kRc, S::kInit, S::kRtr)->required,
            uint32_t{adapter::kQpAttrAddress | adapter::kQpAttrPathMtu | adapter::kQpAttrDestQpn |
                     adapter::kQpAttrRqPsn | adapter::kQpAttrMaxDestRdAtomic | adapter::kQpAttrMinRnrTimer});
  EXPECT_EQ(find_qp_rule(QpType::kRc, S::kRtr, S::kRts)->required,
            uint32_t{adapter::kQpAttrTimeout | adapter::kQpAttrRetryCount | adapter::kQpAttrRnrRetry |
                     adapter::kQpAttrSqPsn | adapter::kQpAttrMaxRdAtomic});
  EXPECT_EQ(find_qp_rule(QpType::kUd, S::kReset, S::kInit)->required,
            uint32_t{adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrQkey});
  EXPECT_EQ(find_qp_rule(QpType::kUd, S::kInit, S::kRtr)->required, 0U);
  EXPECT_EQ(find_qp_rule(QpType::kUd, S::kRtr, S::kRts)->required, uint32_t{adapter::kQpAttrSqPsn});
}

TEST(QpRules, values_out_of_range_are_refused_one_by_one) {
  const auto refused = [](uint32_t bit, auto change) {
    QpAttr attr;
    attr.dlid = Lid(7);
    EXPECT_EQ(check_qp_values(attr, bit, 1), ModifyResult::kOk);
    change(attr);
    return check_qp_values(attr, bit, 1) == ModifyResult::kBadValue &&
           check_qp_values(attr, 0, 1) == ModifyResult::kOk;
  };
  EXPECT_TRUE(refused(adapter::kQpAttrPort, [](QpAttr& a) { a.port = 0; }));
  EXPECT_TRUE(refused(adapter::kQpAttrPort, [](QpAttr& a) { a.port = 2; }));
  EXPECT_TRUE(refused(adapter::kQpAttrAddress, [](QpAttr& a) { a.dlid = Lid(0); }));
  EXPECT_TRUE(refused(adapter::kQpAttrAddress, [](QpAttr& a) { a.dlid = Lid(0xFFFF); }));
  EXPECT_TRUE(refused(adapter::kQpAttrAddress, [](QpAttr& a) { a.sl = ServiceLevel(16); }));
  EXPECT_TRUE(refused(adapter::kQpAttrPkeyIndex, [](QpAttr& a) { a.pkey_index = adapter::kPkeysPerPort; }));
  EXPECT_TRUE(refused(adapter::kQpAttrMaxRdAtomic, [](QpAttr& a) { a.max_rd_atomic = 17; }));
  EXPECT_TRUE(refused(adapter::kQpAttrMaxDestRdAtomic, [](QpAttr& a) { a.max_dest_rd_atomic = 17; }));
  EXPECT_TRUE(refused(adapter::kQpAttrAccess, [](QpAttr& a) { a.access = Access::kWindowBind; }));
  EXPECT_TRUE(refused(adapter::kQpAttrAccess, [](QpAttr& a) { a.access = Access::kOneShot; }));
  EXPECT_TRUE(refused(adapter::kQpAttrDestQpn, [](QpAttr& a) { a.dest_qpn = Qpn(0x1000000); }));
  EXPECT_TRUE(refused(adapter::kQpAttrRetryCount, [](QpAttr& a) { a.retry_count = 8; }));
  EXPECT_TRUE(refused(adapter::kQpAttrRnrRetry, [](QpAttr& a) { a.rnr_retry = 8; }));
  EXPECT_TRUE(refused(adapter::kQpAttrTimeout, [](QpAttr& a) { a.ack_timeout = Duration(-1); }));
  EXPECT_TRUE(refused(adapter::kQpAttrMinRnrTimer, [](QpAttr& a) { a.min_rnr_timer = Duration(-1); }));
  EXPECT_TRUE(refused(adapter::kQpAttrMinRnrTimer, [](QpAttr& a) {
    a.min_rnr_timer = rnr_delay(0) + Duration(1);
  })) << "longer than any code says";
}

}  // namespace
}  // namespace weft::adapter
