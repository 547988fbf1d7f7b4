#include "adapter/queues/work_queue.h"

#include <bit>

namespace weft::adapter {
SendQueue::SendQueue(uint32_t wqes, uint32_t sges, uint32_t inline_bytes, bool holds)
    : slots_(std::make_unique<SendWqe[]>(std::bit_ceil(wqes))),
      sges_(std::make_unique<Sge[]>(size_t{std::bit_ceil(wqes)} * sges)),
      wqes_(wqes),
      mask_(std::bit_ceil(wqes) - 1),
      sges_per_wqe_(static_cast<uint8_t>(sges)),
      holds_(holds),
      inline_bytes_(static_cast<uint16_t>(inline_bytes)),
      inline_(std::make_unique_for_overwrite<std::byte[]>(size_t{mask_ + 1} * inline_bytes)) {}

}  // namespace weft::adapter
