// control/management.h -- the typed form of control/management.capnp: the requests of `weft` to the control
// endpoint of a process, and the replies. Off the data path: plain structs, strings and vectors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "messages/cfg_data.h"
#include "messages/fault_rule.h"

namespace weft::control {

/// Largest control message, both ways.
inline constexpr size_t kControlMessageBytesMax = 64 * 1024;
inline constexpr size_t kControlSessionsMax = 64;
inline constexpr size_t kControlPortsMax = 254;
inline constexpr size_t kControlWordsMax = 64;  // of a list of short texts
inline constexpr size_t kControlTextBytesMax = 1024;
inline constexpr size_t kControlFaultsMax = 64;
inline constexpr size_t kTrafficSizesMax = 8;
inline constexpr size_t kTrafficKinds = 4;

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
  uint16_t lid = 0;     // 0: no endnode has joined
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
  bool ready = false;  // endnode: its link and all configured sessions are up; switch: its links are up
  std::string state;   // one word
  std::string fault;   // why it is not ready; empty if unknown
  std::vector<SessionInfo> sessions;
  std::vector<PortInfo> ports;
  std::vector<std::string> interfaces;  // of a host or unit, in the order and with the names that captures
                                        // use
};

/// One run of a gen: port. Fields as in management.capnp.
struct TrafficRun {
  uint16_t port = 0;           // gen: port of the process, in the order of --unit
  uint32_t round_trips = 100;  // of each kind below, one outstanding; 0: none
  bool arp = true, icmp = true, icmpv6 = true, udp = true;
  uint32_t round_trip_bytes = 98;
  bool bulk = true;                   // then a bulk run over UDP echo, every byte compared
  uint64_t bulk_frames = 10'000;      // 0: as many as bulk_duration_ms allows
  uint64_t bulk_duration_ms = 0;      // 0: until bulk_frames; both 0 is refused
  std::vector<uint32_t> sizes{1514};  // 1..kTrafficSizesMax frame lengths, in turn
  uint64_t rate = 0;                  // bulk frames per second; 0: as fast as the window lets
  uint32_t window = 64;               // bulk frames without answer
  uint32_t timeout_ms = 0;            // an answer later than this is lost; 0: the generator's own
  uint64_t seed = 1;
  uint32_t target_ipv4 = 0;       // host order; 0: the echo object's own
  uint64_t target_ipv6_high = 0;  // both halves 0: the echo object's own
  uint64_t target_ipv6_low = 0;
};

struct RoundTripTimes {
  uint64_t count = 0, p50_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};

struct TrafficFigures {
  bool running = false;
  std::string phase;
  uint64_t frames_sent = 0;      // bulk frames and round trips together
  uint64_t frames_received = 0;  // answers that came back right
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t late = 0;
  uint64_t bulk_frames_received = 0;
  uint64_t bulk_bytes_received = 0;
  uint64_t bulk_ns = 0;
  RoundTripTimes round_trip;                            // all kinds, one outstanding
  std::array<RoundTripTimes, kTrafficKinds> by_kind{};  // ARP, ICMP, ICMPv6, UDP
  RoundTripTimes bulk_round_trip;                       // under load
};

struct CaptureSpec {
  std::string path;              // capture ring to create, inside the state directory
  uint32_t frame_bytes_max = 0;  // kept of each frame; 0: all
  uint32_t ring_bytes = 0;       // 0: 8 MiB
  std::string interface;         // one of NodeInfo::interfaces; empty: all
  uint32_t reader_pid = 0;       // process that reads the ring
};

/// The settings that a host requests from the LAN NIC at the far end of an interface's session. Fields as in
/// management.capnp.
struct NicWish {
  std::string interface;  // one of NodeInfo::interfaces
  bool clear = false;     // the statistics, after they have been read
  std::optional<bool> promiscuous;
  std::optional<bool> all_multicast;
  std::optional<std::vector<std::string>> multicast;  // MAC addresses, at most kMulticastFiltersMax
};

struct NicReport {
  std::string interface;
  uint16_t unit_lid = 0;
  bool pending = false;  // answers of the unit are still to come
  uint64_t reads = 0;    // how many times statistics have arrived
  bool link_up = false;
  std::string mac;       // of the host, as the unit has it
  uint32_t mtu = 0;      // in force
  uint32_t nic_mtu = 0;  // of the NIC
  std::vector<std::string> offloads;
  std::vector<std::string> nic_offloads;
  bool promiscuous = false;
  bool all_multicast = false;
  std::vector<std::string> multicast;
  NicStatistics statistics;
  std::vector<std::string> faults;  // each difference from the settings the host wants, with its remedy
};

/// A fault rule in force, and its effects so far.
struct FaultInfo {
  uint32_t id = 0;
  FaultRule rule;
  uint64_t matched = 0, struck = 0;
  Duration left{};  // of a rule with a duration; 0: the rule is over, or lasts until it is cleared
};

enum class ControlAction : uint8_t {
  kInfo,
  kTrafficStart,
  kTrafficStop,
  kTrafficReport,
  kCaptureStart,
  kCaptureStop,
  kNicAsk,
  kNicReport,
  kFaultAdd,
  kFaultClear,
  kFaultList,
  kUnknown,  // from a newer client; answered with an error
};

struct ControlRequest {
  uint64_t id = 0;
  ControlAction action = ControlAction::kInfo;
  TrafficRun traffic;     // kTrafficStart
  CaptureSpec capture;    // kCaptureStart; of kCaptureStop the path alone
  NicWish nic;            // kNicAsk; of kNicReport the interface alone
  FaultRule fault;        // kFaultAdd
  uint32_t fault_id = 0;  // kFaultClear; 0: all
};

enum class ControlAnswer : uint8_t { kError, kDone, kInfo, kTraffic, kNic, kFaults };

struct ControlReply {
  uint64_t id = 0;
  ControlAnswer answer = ControlAnswer::kDone;
  std::string error;
  NodeInfo info;
  TrafficFigures traffic;
  NicReport nic;
  std::vector<FaultInfo> faults;
};

/// One single-segment Cap'n Proto message. Texts are cut to kControlTextBytesMax, lists to their limits.
std::vector<std::byte> encode_control_request(const ControlRequest& request);
std::vector<std::byte> encode_control_reply(const ControlReply& reply);

/// Decodes untrusted bytes: private copy, bounded traversal and nesting, list counts and text lengths
/// checked. Fails with one line; an unknown union member of a request is kUnknown, not a failure.
Result<ControlRequest> decode_control_request(std::span<const std::byte> bytes);
Result<ControlReply> decode_control_reply(std::span<const std::byte> bytes);

}  // namespace weft::control
