#include "bench/support/cm_ids.h"

#include <infiniband/verbs.h>

#include "base/check.h"

namespace weft::bench {
namespace {

constexpr uint16_t kPortSpace = 0x0106;  // RDMA_PS_TCP

}  // namespace

CmIds::CmIds() : endnode_(random_, *this, *this) {}

void CmIds::make(rdma_cm::CmFile& file, uint32_t count) {
  ids_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    ids_.push_back(endnode_.ids().create(file, kPortSpace, IBV_QPT_RC));
    WEFT_CHECK(ids_.back() != nullptr, "no identifier");
    ids_.back()->uid = 1;  // one without gets no events
  }
  // The endnode itself has the address, so each answer is there when the grace period has passed.
  for (rdma_cm::CmId* id : ids_) {
    id->question = endnode_.resolver().ask(now_, {}, Lid(1), std::chrono::seconds(1), id->handle);
    WEFT_CHECK(id->question != 0, "no question");
    now_ += std::chrono::seconds(2);
    endnode_.poll(now_);
    rdma_cm::QueuedEvent event;
    WEFT_CHECK(id->question == 0 && file.descriptor->take() == hca::Answer::kOk &&
                   endnode_.ids().pop(file, event) && event.id == id,
               "no answer");
  }
}

void CmIds::open_and_close(uint32_t count) {
  for (const bool by_channel : {true, false}) {
    rdma_cm::CmFile* file = endnode_.open();
    WEFT_CHECK(file != nullptr, "no channel");
    make(*file, count);
    for (size_t i = 0; i < ids_.size() && !by_channel; ++i) endnode_.destroy(now_, *ids_[i]);
    endnode_.close(now_, *file);
  }
}

}  // namespace weft::bench
