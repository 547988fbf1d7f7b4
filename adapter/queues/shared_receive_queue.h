// adapter/queues/shared_receive_queue.h -- a shared receive queue (SRQ), from which several QPs take, as the
// parts of the adapter see it. Users hold only a pointer and use SharedReceives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "adapter/config.h"
#include "adapter/event_box.h"
#include "adapter/queues/recv_queue.h"

namespace weft::adapter {

struct Engine;

class SharedReceiveQueue {
 public:
  explicit SharedReceiveQueue(const SrqConfig& wanted)
      : queue(wanted.wqes, std::max(wanted.sges, 1U), wanted.pd, wanted.hold_places), config(wanted) {}

  RecvQueue queue;
  SrqConfig config;
  uint32_t index = 0;
  uint32_t number = 0;            // peers of XRC targets name the queue by it; not used again soon
  uint32_t users = 0;             // QPs that take from the queue; a queue with users is not destroyed
  const Engine* owner = nullptr;  // the adapter of the queue; null once it has ended
  EventBox events{*this};
};

}  // namespace weft::adapter
