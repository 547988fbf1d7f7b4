// adapter/protection_domains.h -- the protection domains of an adapter, and the number of QPs in each.
// Internal to adapter/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "adapter/verbs.h"

namespace weft::adapter {

/// Owner: the adapter's thread. PdId() is no domain.
class ProtectionDomains {
 public:
  explicit ProtectionDomains(uint32_t most) : domains_(most + 1U) { domains_.front().open = true; }

  /// PdId() when all are in use.
  [[nodiscard]] PdId alloc() noexcept {
    const auto found =
        std::find_if(domains_.begin(), domains_.end(), [](const Domain& pd) { return !pd.open; });
    if (found == domains_.end()) return PdId();
    found->open = true;
    return PdId(static_cast<uint32_t>(found - domains_.begin()));
  }
  void free(PdId pd) noexcept { domains_[pd.value()].open = false; }
  [[nodiscard]] bool has(PdId pd) const noexcept {
    return pd != PdId() && pd.value() < domains_.size() && domains_[pd.value()].open;
  }
  /// A QP of the domain was made, or ends.
  void enter(PdId pd) noexcept { ++domains_[pd.value()].qps; }
  void leave(PdId pd) noexcept { --domains_[pd.value()].qps; }
  [[nodiscard]] bool has_qps(PdId pd) const noexcept { return domains_[pd.value()].qps != 0; }

 private:
  struct Domain {
    bool open = false;
    uint32_t qps = 0;
  };
  std::vector<Domain> domains_;  // by number; place 0 stands for none
};

}  // namespace weft::adapter
