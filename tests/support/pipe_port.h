// tests/support/pipe_port.h -- two CellPorts joined by queues in memory: no flits, no credits, no time. Every
// cell that passes is traced, and a filter may drop, change, hold or repeat it, so that a test sees and
// shapes the wire.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "fabric/link/cell_port.h"
#include "messages/cell.h"
#include "messages/ids.h"

namespace weft::test {

/// One cell as it stood on the wire.
struct TracedCell {
  int from = 0;  // 0 or 1: the port that sent it
  std::vector<std::byte> bytes;
  CellView view;  // decoded; its spans point into `bytes`
};

enum class Verdict : uint8_t { kPass, kDrop, kHold, kTwice };

class PipePort;

/// Owns both ends. Cells pass at once, in order, unless a filter says otherwise.
class Pipe {
 public:
  /// Sees each sent cell before the trace and the far end do; it may change the bytes.
  using Filter = std::function<Verdict(int from, std::vector<std::byte>& bytes)>;

  explicit Pipe(uint32_t cell_payload_bytes = 256, Lid lid0 = Lid(1), Lid lid1 = Lid(2));
  ~Pipe();
  [[nodiscard]] PipePort& end(int index) noexcept;

  void set_filter(Filter filter) { filter_ = std::move(filter); }
  /// Lets every held cell pass, oldest first (newest first with `reversed`).
  void release_held(bool reversed = false);
  /// Delivers hand-made bytes to port `to` as if the other one had sent them; the CRC is made right first.
  void inject(int to, std::vector<std::byte> cell);
  /// The same, and the bytes stay as they are: for an adapter that verifies CRCs itself.
  void inject_as_is(int to, std::vector<std::byte> cell);
  void set_up(bool up) noexcept { up_ = up; }
  /// Another LID for an end, as after its switch was started anew; while it is down.
  void set_lid(int index, Lid lid);
  /// Another GUID, or another subnet, in the same way.
  void set_guid(int index, Guid guid);
  void set_subnet(int index, SubnetId subnet);
  /// Another cell size, as after a link came up anew; while it is down.
  void set_cell_payload(uint32_t bytes);
  /// Room for that many further cells per direction; the default is without limit.
  void set_room(int from, uint32_t cells) noexcept { room_[from] = cells; }
  /// Room that port `from` gets while it next takes cells, as credit comes with what arrives.
  void set_room_with_arrivals(int from, uint32_t cells) noexcept { room_with_arrivals_[from] = cells; }

  /// All that was sent and not dropped, in order.
  [[nodiscard]] const std::deque<TracedCell>& trace() const noexcept { return trace_; }
  [[nodiscard]] std::vector<const TracedCell*> sent_by(int from) const;
  /// Cells of `from` that carry `opcode`.
  [[nodiscard]] std::vector<const TracedCell*> sent_by(int from, Opcode opcode) const;
  void clear_trace() noexcept { trace_.clear(); }
  /// How often port `from` was asked for memory for a cell.
  [[nodiscard]] uint64_t claims(int from) const noexcept { return claims_[from]; }

 private:
  friend class PipePort;
  void send(int from, std::vector<std::byte> bytes);
  void pass(int from, const std::vector<std::byte>& bytes);

  std::unique_ptr<PipePort> ends_[2];
  std::deque<TracedCell> trace_;
  std::deque<std::pair<int, std::vector<std::byte>>> held_;
  Filter filter_;
  uint32_t room_[2] = {UINT32_MAX, UINT32_MAX};
  uint32_t room_with_arrivals_[2] = {0, 0};
  uint64_t claims_[2] = {0, 0};
  bool up_ = true;
};

class PipePort final : public fabric::CellPort {
 public:
  PipePort(Pipe& pipe, int index, const fabric::CellPortInfo& info);
  [[nodiscard]] bool up() const noexcept override { return pipe_.up_; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant) noexcept override { return 0; }
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override;
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override;
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override;
  void release() noexcept override;
  void flush(Instant) noexcept override {}
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return arrived_.empty(); }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }

 private:
  friend class Pipe;
  static constexpr size_t kCellsPerReceive = 64;

  Pipe& pipe_;
  int index_;
  fabric::CellPortInfo info_;
  std::vector<std::byte> staging_;
  std::deque<std::vector<std::byte>> arrived_;
  std::deque<std::vector<std::byte>> lent_;
  std::vector<fabric::RxCell> views_;
};

}  // namespace weft::test
