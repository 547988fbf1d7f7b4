// management/mad_port.h -- the interface that sends management datagrams between the ports of a fabric.
#pragma once

#include "messages/ids.h"
#include "messages/mad/mad.h"

namespace weft::management {

/// Sends datagrams from QP1. False: the datagram could not be sent and is lost.
class MadPort {
 public:
  virtual ~MadPort() = default;
  [[nodiscard]] virtual bool send(Lid to, const MadBytes& mad) noexcept = 0;
  /// Sends to QP1 of every other endnode.
  [[nodiscard]] virtual bool flood(const MadBytes& mad) noexcept = 0;
};

}  // namespace weft::management
