// adapter/queues/shared_receive_queue.h -- a receive queue that several QPs take from (SRQ), as the adapter's
// parts see it. Users hold only the pointer; they see it through SharedReceives.
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
  uint32_t number = 0;            // what peers of XRC targets call it; none comes again soon
  uint32_t users = 0;             // QPs that take from it; a queue in use is not destroyed
  const Engine* owner = nullptr;  // the adapter that has it
  EventBox events{*this};
};

}  // namespace weft::adapter
