// fabric/switch/switch_config.h -- what a switch is told when it is made.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "fabric/link/link_handshake.h"
#include "fabric/switch/vl_arbiter.h"
#include "messages/ids.h"

namespace weft::fabric {

struct SwitchConfig {
  LinkConfig link;  // what every port offers; link.cut_through: forward before the tail has come
  SubnetId subnet;
  uint32_t ports = 16;           // 1..254, not counting the management port 0
  bool table_per_input = false;  // SAN-SW-05
  bool one_cell_per_lane =
      false;                  // strict reading of SAN-VL-07 (C-32): one cell per lane in the whole switch
  VlArbitration arbitration;  // empty: every lane alike
  uint32_t management_per_second = 2000;   // lane 15, per input port
  uint32_t gsi_per_second = 2000;          // cells for QP1, per input port
  uint32_t copies_per_second = 1'000'000;  // of multicast cells, per input port: what one may cost the others
  // For endnodes that stand still, to the requests of one input port.
  uint32_t standstill_answers_per_second = 2000;
  // Links that are polled in every turn though idle: for this few, polling costs less than bells.
  uint32_t links_awake = 8;
  Duration lifetime = kHeadOfQueueLifetime;
  Duration standstill = kOutputStandstill;
};

}  // namespace weft::fabric
