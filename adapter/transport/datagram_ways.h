// adapter/transport/datagram_ways.h -- ways of UD datagrams beside the ports of the adapter: memory windows
// to peers on the same machine. A datagram is the same cell by either way (docs/window.md, "UD over a
// window").
#pragma once

#include <cstddef>
#include <span>

#include "messages/ids.h"

namespace weft::fabric {
class CellPort;
}  // namespace weft::fabric

namespace weft::adapter {

class QueuePair;
struct SendWqe;

/// The sending side. Owner: the adapter's thread.
class DatagramWays {
 public:
  virtual ~DatagramWays() = default;
  /// The carrier of the next datagram of a QP: `wqe`. Holds until the next call. Null: the QP's port.
  [[nodiscard]] virtual fabric::CellPort* carrier_of(QueuePair& qp, const SendWqe& wqe) noexcept = 0;
  /// A turn of the QP's send queue ends: what went by these ways leaves. Clears `blocked` if waits().
  virtual void ran(QueuePair& qp, bool& blocked) noexcept = 0;
  /// The QP waits for room in one of these ways. It gets a turn when there is some.
  [[nodiscard]] virtual bool waits(const QueuePair& qp) const noexcept = 0;
  /// The QP receives no more, or ends.
  virtual void forget(QueuePair& qp) noexcept = 0;
};

/// The receiving side. Owner: the adapter's thread.
class DatagramTaker {
 public:
  virtual ~DatagramTaker() = default;
  /// Takes the cell of a datagram from a peer process that has the LIDs `sources`. The peer may change the
  /// bytes at any time. A cell that is no datagram for a UD QP of this adapter, or names another source, is
  /// dropped and counted.
  virtual void take_datagram(std::span<const std::byte> cell, std::span<const Lid> sources) noexcept = 0;
};

}  // namespace weft::adapter
