// management/mad_port.h -- what carries management datagrams between the ports of a fabric.
#pragma once

#include "messages/ids.h"
#include "messages/mad/mad.h"

namespace weft::management {

/// Sends datagrams from QP1. False: not now; the datagram is as good as lost.
class MadPort {
 public:
  virtual ~MadPort() = default;
  [[nodiscard]] virtual bool send(Lid to, const MadBytes& mad) noexcept = 0;
  /// To QP1 of every endnode but this one.
  [[nodiscard]] virtual bool flood(const MadBytes& mad) noexcept = 0;
};

}  // namespace weft::management
