// verbs/work_batch.h -- ibv_wr_*: work requests that a program builds call by call between ibv_wr_start() and
// ibv_wr_complete(). They are posted together.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "adapter/verbs.h"
#include "verbs/call_lock.h"

namespace weft::verbs {

/// One request under construction. Its segments and inline bytes are named by index, because the vectors of
/// the batch may move until the batch is complete.
struct BuiltRequest {
  adapter::SendRequest request{};
  size_t first_sge = 0;
  size_t sges = 0;
  size_t first_byte = 0;
  size_t bytes = 0;
};

/// The vectors keep their capacity from batch to batch.
struct WorkBatch {
  // Held from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort(); also around ibv_post_send().
  CallLock lock;
  std::vector<BuiltRequest> requests;
  std::vector<adapter::Sge> sges;
  std::vector<std::byte> inline_bytes;
  // Used in ibv_wr_complete(): the requests to post, and the segments of inline requests.
  std::vector<adapter::SendRequest> posted;
  std::vector<adapter::Sge> inlined;
  Reason fault = Reason::kOk;  // of the first call of the batch that failed

  void clear() noexcept {
    requests.clear();
    sges.clear();
    inline_bytes.clear();
    posted.clear();
    inlined.clear();
    fault = Reason::kOk;
  }
};

/// Bits of ibv_qp_create_send_ops_flags that a service allows.
[[nodiscard]] uint64_t possible_operations(ibv_qp_type type) noexcept;
/// Sets every pointer, because programs call them without testing for null.
void set_work_calls(ibv_qp_ex& qp) noexcept;

}  // namespace weft::verbs
