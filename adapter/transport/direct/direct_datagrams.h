// adapter/transport/direct/direct_datagrams.h -- UD datagrams to processes of this machine: each goes as one
// record through the FIFO of the window to the peer (docs/window.md, "UD over a window"). The UD QPs of an
// adapter and its RC QPs share the windows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "adapter/adapter_engine.h"
#include "adapter/transport/datagram_ways.h"
#include "adapter/transport/direct/direct_state.h"
#include "fabric/link/limits.h"
#include "messages/cell.h"

namespace weft::adapter {

/// A LID without a window is asked for one again after this time, by the next datagram: its program may have
/// started since. The time doubles with each question in vain, up to the longest.
inline constexpr Duration kDatagramAskEvery = 1s;
inline constexpr Duration kDatagramAskMax = 32s;
/// A datagram that finds the FIFO full waits until the peer has taken no record for this time. Then it is
/// dropped, as at an output of a switch.
inline constexpr Duration kDatagramWaitMax = fabric::kOutputStandstill;
/// LIDs that a QP keeps in mind. Datagrams to further ones take the switch.
inline constexpr size_t kDatagramLidsMax = 1024;

/// Where a UD QP's datagrams to one LID go.
struct DatagramWay {
  DirectPeer* peer = nullptr;       // null: by the switch
  Instant ask_at = Instant::min();  // without a peer: when a window is asked for
  Duration pause = kDatagramAskEvery;
};

/// State of a UD QP that has sent to another program.
struct DatagramQp final : ServiceState {
  std::unordered_map<uint16_t, DatagramWay> ways;  // by LID
  Lid last_lid{};
  DatagramWay* last = nullptr;     // of last_lid
  DirectPeer* waits_at = nullptr;  // in its datagrams_waiting
  bool has_sent = false;           // by a window, since it was woken last: others that wait come first
  bool by_port = false;            // a datagram went to its port since send_datagrams() looked
};

/// The windows of an adapter and their users. Owner: DirectService.
class DirectPeers {
 public:
  virtual ~DirectPeers() = default;
  /// The peer process behind a LID, claimed; null when there is none here. The caller enters a QP of its own,
  /// or the next turn drops the peer.
  [[nodiscard]] virtual DirectPeer* peer_of(Lid lid) = 0;
  /// Starts what was put into the window of a peer.
  virtual void flush(DirectPeer& peer) noexcept = 0;
  /// A QP has left the peer. If it was the last one, the window's next turn takes what has come, and gives
  /// the window back.
  virtual void left(const DirectPeer& peer) noexcept = 0;
};

/// Puts one datagram after the other into FIFOs.
class DatagramCarrier final : public fabric::CellPort {
 public:
  DatagramCarrier(Engine& engine, DirectPeers& windows) noexcept : engine_(engine), windows_(windows) {}

  /// The next cell is a datagram of `qp` to the QP `to` at `peer`.
  void aim(QueuePair& qp, Qpn to, DirectPeer& peer) noexcept;
  /// Starts what was put into FIFOs.
  void finish() noexcept;

  [[nodiscard]] bool up() const noexcept override { return peer_ != nullptr; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override;
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant) noexcept override { return 0; }
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override;
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override;
  /// Records arrive at DirectService, which hands them to the DatagramTaker.
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override { return {}; }
  void release() noexcept override {}
  void flush(Instant) noexcept override { finish(); }
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }

 private:
  void wait_no_more(QueuePair& qp) noexcept;

  Engine& engine_;
  DirectPeers& windows_;
  DirectPeer* peer_ = nullptr;
  QueuePair* qp_ = nullptr;
  Qpn to_{};
  bool put_ = false;    // a record of `peer_` has not been started
  bool drops_ = false;  // the claimed cell is lost
  std::byte* room_ = nullptr;
  std::array<std::byte, cell_bytes_max(kCellPayloadBytesMax)> scrap_;  // for a cell that is lost
};

/// Owner: DirectService.
class DirectDatagrams final : public DatagramWays {
 public:
  DirectDatagrams(Engine& engine, DirectPeers& windows) noexcept
      : engine_(engine), windows_(windows), carrier_(engine, windows) {}

  [[nodiscard]] fabric::CellPort* carrier_of(QueuePair& qp, const SendWqe& wqe) noexcept override;
  void ran(QueuePair& qp, bool& blocked) noexcept override;
  [[nodiscard]] bool waits(const QueuePair& qp) const noexcept override;
  void forget(QueuePair& qp) noexcept override;

  /// The window of this peer was refused, or has ended: its QPs use the switch.
  void leave(DirectPeer& peer) noexcept;
  /// QPs wait for room in the FIFO of this peer: they get a turn if there is some, or if they have waited
  /// long enough.
  void look(DirectPeer& peer) noexcept;
  /// Whether a window leads to one of the LIDs to which a UD QP has sent. Sets `by_port` when there is one to
  /// which none leads, or the QP has sent nothing.
  [[nodiscard]] bool goes_by_window(const QueuePair& qp, bool& by_port) const noexcept;
  /// When QPs that wait for room have waited long enough; kNever when none waits.
  [[nodiscard]] static Instant due_of(const DirectPeer& peer) noexcept;

 private:
  [[nodiscard]] bool suits(const QueuePair& qp, const SendWqe& wqe) const noexcept;
  [[nodiscard]] bool carries(DirectPeer& peer) const noexcept;
  [[nodiscard]] DirectPeer* peer_for(QueuePair& qp, const SendWqe& wqe) noexcept;
  [[nodiscard]] DatagramWay* way_of(QueuePair& qp, Lid lid) noexcept;
  void wake(DirectPeer& peer) noexcept;
  void wake(QueuePair& qp) noexcept;
  [[gnu::cold]] void ask(QueuePair& qp, DatagramWay& way, Lid lid) noexcept;
  void put_off(DatagramWay& way) noexcept;

  Engine& engine_;
  DirectPeers& windows_;
  DatagramCarrier carrier_;
};

[[nodiscard]] inline DatagramQp& datagrams_of(const QueuePair& qp) noexcept {
  return static_cast<DatagramQp&>(*qp.kept);
}

}  // namespace weft::adapter
