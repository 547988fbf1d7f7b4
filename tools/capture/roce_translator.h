// tools/capture/roce_translator.h -- cells into the RoCE v2 frames that would do the same on a wire, for
// tools that know InfiniBand and not our cells. docs/captures.md says what becomes of what. No I/O.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/capture_ring.h"
#include "messages/cell.h"
#include "tools/capture/psn_map.h"
#include "tools/capture/roce_frame.h"

namespace weft::tools {

/// The upper three bits of InfiniBand's operation codes.
enum class RoceService : uint8_t { kRc = 0x00, kUc = 0x20, kRd = 0x40, kUd = 0x60, kXrc = 0xA0 };

/// Takes the cells of one place in the order in which they passed. The first frame of a write has to say how
/// long the write is, so it waits for the last cell of its packet, and what came after it waits behind it.
/// Every cell becomes a frame at least: one that is no cell, or has no form in RoCE, stands whole in a frame
/// of kEtherTypeOther whose note says why. Bounded memory, whatever comes.
class RoceTranslator {
 public:
  /// Longest wait for the last cell of a packet; by the time stamps of the cells.
  static constexpr uint64_t kWaitNs = 20'000'000;
  static constexpr size_t kWaitingFramesMax = 4096;
  static constexpr size_t kFlowsMax = 8192;

  /// `cell_payload_bytes`: of the fabric's cells, at least 1.
  explicit RoceTranslator(uint32_t cell_payload_bytes);

  /// Appends to `out` the frames that are ready.
  void take(const CapturedFrame& cell, std::vector<CapturedFrame>& out);
  /// No cell has come since `now_ns`: appends the frames that have waited kWaitNs.
  void idle(uint64_t now_ns, std::vector<CapturedFrame>& out) { release(now_ns, out); }
  /// Appends all that wait.
  void finish(std::vector<CapturedFrame>& out);

 private:
  /// One end of a connection: subnet, LID and queue pair.
  struct End {
    uint32_t port = 0;
    uint32_t qpn = 0;
    auto operator<=>(const End&) const = default;  // NOLINT: 0, no pointer
  };
  struct FlowKey {
    End requester;
    End responder;
    auto operator<=>(const FlowKey&) const = default;  // NOLINT: 0, no pointer
  };
  struct Flow {
    RoceService service = RoceService::kRc;
    PsnMap psns;
    uint32_t msn = 0;  // messages completed, as the responder said last
  };
  /// A frame on its way out. One whose length field lacks names the packet that knows it.
  struct Waiting {
    CapturedFrame frame;
    bool sealed = false;   // has no invariant CRC to be made
    size_t length_at = 0;  // of the length in its RETH; 0: it lacks nothing
    FlowKey flow{};
    Psn psn{};
  };
  /// What the frames of one cell have in common.
  struct Source {
    const CapturedFrame& captured;
    const CellView& cell;
    RoceRoute route;
    RoceBase base;
  };

  void translate(const CapturedFrame& captured, const CellView& cell);
  void add_request(Source& source);
  void add_data(Source& source, Flow& flow, const FlowKey& key, bool is_write);
  void add_read_request(Source& source, Flow& flow);
  void add_fetch_request(Source& source, Flow& flow);
  void add_read_response(Source& source);
  void add_fetch_response(Source& source);
  void add_acknowledgement(Source& source);
  void add_datagram(Source& source);
  void add_rd_request(Source& source);
  void add_raw(Source& source);
  void learn_service(const CellView& cell);
  void learn_end(const End& end, bool unreliable);

  void emit(const Source& source, const RoceHeaders& headers, std::span<const std::byte> payload,
            const std::string& note = {});
  void emit_other(const CapturedFrame& captured, const RoceRoute& route, const std::string& why);
  void release(uint64_t now_ns, std::vector<CapturedFrame>& out);
  /// True when the front frame may go; puts its length in.
  bool complete(Waiting& front, bool now);

  Flow& flow_of(const FlowKey& key, RoceService service);
  /// Of the requests that this cell answers; null when none was seen.
  Flow* answered_flow(const CellView& cell);
  [[nodiscard]] uint32_t frames_of(size_t bytes) const noexcept;

  uint32_t cell_payload_;
  uint32_t frames_per_cell_;
  std::map<FlowKey, Flow> flows_;
  std::set<End> unreliable_;  // ends that a connection request named as those of UC
  std::deque<Waiting> waiting_;
};

}  // namespace weft::tools
