// messages/management.h -- the typed form of messages/management.capnp: what `weft` asks a process of the
// fabric on its control endpoint, and the answers. Off the data path: plain structs, strings and vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

/// Largest control message, both ways.
inline constexpr size_t kControlMessageBytesMax = 64 * 1024;
inline constexpr size_t kControlSessionsMax = 64;
inline constexpr size_t kControlPortsMax = 64;
inline constexpr size_t kControlTextBytesMax = 1024;

struct SessionInfo {
  uint16_t peer_lid = 0;
  std::string state;     // as NetdevSession prints it
  std::string mode;      // "rdma", "sendrecv", "senddata"
  std::string encoding;  // "capnp", "bytes"
  std::string mac;
};

struct PortInfo {
  uint16_t number = 0;
  std::string state;    // "up", "down", "faulty"
  uint16_t lid = 0;     // 0: nobody has joined
  std::string peer;     // node name
  std::string carrier;  // "shm", "zmq"
};

struct NodeInfo {
  std::string program;
  std::string name;
  std::string version;
  uint32_t pid = 0;
  uint16_t lid = 0;  // 0: none yet, or a switch
  uint64_t guid = 0;
  uint16_t wire_version = 0;
  bool ready = false;  // endnode: every session it was told to open is open; switch: it listens
  std::string state;   // one word
  std::string fault;   // why it is not ready, when it knows
  std::vector<SessionInfo> sessions;
  std::vector<PortInfo> ports;
};

enum class TrafficKind : uint8_t { kUdp, kIcmp, kIcmp6, kArp, kCount };
[[nodiscard]] std::string_view to_string(TrafficKind kind) noexcept;
/// Parses "udp", "icmp", "icmp6" or "arp"; false leaves `out` unchanged.
[[nodiscard]] bool parse_traffic_kind(std::string_view text, TrafficKind& out) noexcept;

/// One run of a gen: port. Fields as in management.capnp.
struct TrafficSpec {
  TrafficKind kind = TrafficKind::kUdp;
  uint64_t frames = 0;       // 0: until duration_ms
  uint64_t duration_ms = 0;  // 0: until frames; both 0 is refused
  uint64_t rate = 0;         // frames per second; 0: as fast as the fabric takes them
  uint32_t frame_bytes_min = 1514;
  uint32_t frame_bytes_max = 1514;
  uint32_t window = 64;  // answers outstanding at most; 0: nobody answers
  bool verify = true;
  uint16_t port = 0;           // gen: port of the process, in the order of --unit
  uint32_t timeout_ms = 1000;  // an answer later than this is lost
  uint64_t peer_mac = 0;       // low 48 bits; 0: ask
  uint32_t peer_ipv4 = 0;      // host order; 0: the echo object's own
  uint32_t own_ipv4 = 0;       // 0: one on the echo object's network
};

struct TrafficReport {
  bool running = false;
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;  // answers that came back right
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t elapsed_ns = 0;
  uint64_t rtt_min_ns = 0;
  uint64_t rtt_p50_ns = 0;
  uint64_t rtt_p90_ns = 0;
  uint64_t rtt_p99_ns = 0;
  uint64_t rtt_p999_ns = 0;
  uint64_t rtt_max_ns = 0;
  uint64_t blocked = 0;  // times a frame was due and the driver did not take it
};

struct CaptureSpec {
  std::string path;              // capture ring to create, inside the state directory
  uint32_t frame_bytes_max = 0;  // kept of each frame; 0: all
  uint32_t ring_bytes = 0;       // 0: 8 MiB
};

enum class ControlAction : uint8_t {
  kInfo,
  kTrafficStart,
  kTrafficStop,
  kTrafficReport,
  kCaptureStart,
  kCaptureStop,
  kUnknown,  // decoded from a newer asker; answered with an error
};

struct ControlRequest {
  uint64_t id = 0;
  ControlAction action = ControlAction::kInfo;
  TrafficSpec traffic;  // kTrafficStart
  CaptureSpec capture;  // kCaptureStart
};

enum class ControlAnswer : uint8_t { kError, kDone, kInfo, kTraffic };

struct ControlReply {
  uint64_t id = 0;
  ControlAnswer answer = ControlAnswer::kDone;
  std::string error;
  NodeInfo info;
  TrafficReport traffic;
};

/// One single-segment Cap'n Proto message. Texts are cut to kControlTextBytesMax, lists to their limits.
std::vector<std::byte> encode_control_request(const ControlRequest& request);
std::vector<std::byte> encode_control_reply(const ControlReply& reply);

/// Reads what a peer sent: private copy, bounded traversal and nesting, list counts and text lengths checked.
/// Fails with one line; an unknown union member of a request is kUnknown, not a failure.
Result<ControlRequest> decode_control_request(std::span<const std::byte> bytes);
Result<ControlReply> decode_control_reply(std::span<const std::byte> bytes);

}  // namespace weft
