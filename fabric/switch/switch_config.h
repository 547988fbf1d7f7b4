// fabric/switch/switch_config.h -- configuration of a switch, constant after its construction.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "fabric/link/link_handshake.h"
#include "fabric/switch/vl_arbiter.h"
#include "messages/ids.h"

namespace weft::fabric {

struct SwitchConfig {
  LinkConfig link;  // offer of every port; link.cut_through: forward a cell before its tail has come
  SubnetId subnet;
  uint32_t ports = 16;           // 1..254, not counting the management port 0
  bool table_per_input = false;  // SAN-SW-05
  // Strict reading of SAN-VL-07 (C-32): in the whole switch a lane sends one cell at a time.
  bool one_cell_per_lane = false;
  VlArbitration arbitration;               // empty: all lanes equal
  uint32_t management_per_second = 2000;   // lane 15, per input port
  uint32_t gsi_per_second = 2000;          // cells for QP1, per input port
  uint32_t copies_per_second = 1'000'000;  // copies of multicast cells, per input port
  // Answers for endnodes that stand still, to one input port.
  uint32_t standstill_answers_per_second = 2000;
  // Number of links that are polled in every turn even when idle: up to here polling costs less than bells.
  uint32_t links_awake = 8;
  Duration lifetime = kHeadOfQueueLifetime;
  Duration standstill = kOutputStandstill;
};

}  // namespace weft::fabric
