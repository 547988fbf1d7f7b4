// rdma_cm/answer_rate.h -- how many questions of other endnodes are answered. A switch passes a limited
// number of datagrams a second from an endnode to QP1 of others. Askers must not use up what the connections
// of the endnode need of it, and one asker not what the others need.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "messages/ids.h"

namespace weft::rdma_cm {

class AnswerRate {
 public:
  static constexpr uint32_t kPerSecond = 1000;
  static constexpr uint32_t kBurst = 256;
  static constexpr uint32_t kToOnePerSecond = 800;
  static constexpr uint32_t kToOneBurst = 128;
  /// Of answers that say only that the endnode has the address. Each endnode of a host has the addresses of
  /// the host, and the program that listens there is one of them.
  static constexpr uint32_t kOfAddressPerSecond = 400;
  static constexpr uint32_t kOfAddressBurst = 128;

  /// True when one more question of `asker` may be answered now.
  /// @param listens the answer says that the endnode listens there
  [[nodiscard]] bool take(Instant now, Lid asker, bool listens) noexcept {
    if (!listens) return of_address_.take(now);
    return to_one_[asker.value() % kShares].bucket.take(now) && all_.take(now);
  }

 private:
  /// LIDs of a fabric are consecutive, so endnodes seldom have a share in common.
  static constexpr size_t kShares = 256;
  struct Share {
    TokenBucket bucket{kToOnePerSecond, kToOneBurst};
  };

  std::array<Share, kShares> to_one_{};
  TokenBucket all_{kPerSecond, kBurst};
  TokenBucket of_address_{kOfAddressPerSecond, kOfAddressBurst};
};

}  // namespace weft::rdma_cm
