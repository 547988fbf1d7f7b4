// verbs/work_batch.h -- ibv_wr_*: work requests that a program builds call by call between ibv_wr_start() and
// ibv_wr_complete(), and that are posted together.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "adapter/verbs.h"
#include "verbs/call_lock.h"

namespace weft::verbs {

/// One request under construction. Its segments, and inline bytes, are places in the batch, whose vectors
/// may move until it is complete.
struct BuiltRequest {
  adapter::SendRequest request{};
  size_t first_sge = 0;
  size_t sges = 0;
  size_t first_byte = 0;
  size_t bytes = 0;
};

/// Vectors keep their room from batch to batch.
struct WorkBatch {
  CallLock lock;  // from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort(); also around ibv_post_send()
  std::vector<BuiltRequest> requests;
  std::vector<adapter::Sge> sges;
  std::vector<std::byte> inline_bytes;
  // Of ibv_wr_complete(): what is handed over, and the segments of inline requests.
  std::vector<adapter::SendRequest> posted;
  std::vector<adapter::Sge> inlined;
  int fault = 0;  // errno of the first call that cannot be

  void clear() noexcept {
    requests.clear();
    sges.clear();
    inline_bytes.clear();
    posted.clear();
    inlined.clear();
    fault = 0;
  }
};

/// Bits of ibv_qp_create_send_ops_flags for a service.
[[nodiscard]] uint64_t possible_operations(ibv_qp_type type) noexcept;
/// Every pointer, for programs call them without a look.
void set_work_calls(ibv_qp_ex& qp) noexcept;

}  // namespace weft::verbs
