// tools/capture/roce_translator.h -- translates cells into equivalent RoCE v2 frames, for tools that know
// InfiniBand but not our cells. docs/captures.md has the rules. No I/O.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/net/capture_ring.h"
#include "messages/cell.h"
#include "tools/capture/psn_map.h"
#include "tools/capture/roce_frame.h"

namespace weft::tools {

/// The upper three bits of InfiniBand's operation codes.
enum class RoceService : uint8_t { kRc = 0x00, kUc = 0x20, kRd = 0x40, kUd = 0x60, kXrc = 0xA0 };

/// Takes the cells of one place in the order in which they passed. The first frame of a write must contain
/// the length of the write. It therefore waits for the last cell of its packet, and all later frames wait
/// behind it. Each cell becomes at least one frame: bytes that are no cell, and cells without a RoCE form,
/// stand unchanged in a frame of kEtherTypeOther whose note gives the reason. Memory is bounded by the limits
/// below.
class RoceTranslator {
 public:
  /// Longest wait for the last cell of a packet, in nanoseconds by the cells' time stamps.
  static constexpr uint64_t kWaitNs = 20'000'000;
  static constexpr size_t kWaitingFramesMax = 4096;
  static constexpr size_t kFlowsMax = 8192;

  /// `cell_payload_bytes`: payload of the fabric's cells, at least 1.
  explicit RoceTranslator(uint32_t cell_payload_bytes);

  /// Appends to `out` the frames that are ready.
  void take(const CapturedFrame& cell, std::vector<CapturedFrame>& out);
  /// Call when no cell has come until `now_ns`: appends the frames that have waited kWaitNs.
  void idle(uint64_t now_ns, std::vector<CapturedFrame>& out) { release(now_ns, out); }
  /// Appends all frames that still wait.
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
    uint32_t msn = 0;  // messages completed, from the responder's latest answer
  };
  /// A frame to be written. If its length is not yet known, `flow` and `psn` name its packet.
  struct Waiting {
    CapturedFrame frame;
    bool sealed = false;   // needs no invariant CRC
    size_t length_at = 0;  // offset of the length in its RETH; 0: the length is known
    FlowKey flow{};
    Psn psn{};
  };
  /// Common part of all frames of one cell.
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
  /// Fills in the length if it is known or `now` is set. True when the front frame may be written.
  bool complete(Waiting& front, bool now);

  Flow& flow_of(const FlowKey& key, RoceService service);
  /// Flow of the requests that this cell answers; null when no such request was seen.
  Flow* answered_flow(const CellView& cell);
  [[nodiscard]] uint32_t frames_of(size_t bytes) const noexcept;

  uint32_t cell_payload_;
  uint32_t frames_per_cell_;
  std::map<FlowKey, Flow> flows_;
  std::set<End> unreliable_;  // queue pairs that a connection request named as UC
  std::deque<Waiting> waiting_;
};

}  // namespace weft::tools
