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
  SharedReceiveQueue(const SrqConfig& wanted, uint32_t place, uint32_t srq_number, const Engine* adapter)
      : queue(wanted.wqes, std::max(wanted.sges, 1U), wanted.pd),
        config(wanted),
        index(place),
        number(srq_number),
        owner(adapter) {}

  RecvQueue queue;
  SrqConfig config;
  uint32_t index;
  uint32_t number;     // what peers of XRC targets call it; none comes again soon
  uint32_t users = 0;  // QPs that take from it; a queue in use is not destroyed
  const Engine* owner;
  EventBox events{*this};
};

}  // namespace weft::adapter
