#include "tools/fault/window_orders.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/unique_fd.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/window/window_door.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {
namespace {

constexpr size_t kReplyBytesMax = 4096;

}  // namespace

std::string window_door_of(const StateDir& dir, uint16_t lid) {
  if (lid == 0) return {};
  const std::string ending = fmt::format("-{}.sock", lid);
  std::error_code fault;
  const std::string doors = fabric::doors_of(dir.file("programs"));
  for (const auto& entry : std::filesystem::directory_iterator(doors, fault)) {
    std::string path = entry.path().string();
    if (!path.ends_with(ending)) continue;
    const Result<UniqueFd> socket = fabric::connect_unix(path);  // a killed program leaves its file
    if (socket.ok()) return path;
  }
  return {};
}

Result<WindowOrderReply> order_windows(const std::string& door, const WindowOrder& order, Duration limit) {
  Result<UniqueFd> socket = fabric::connect_unix(door);
  if (!socket.ok()) return socket.error();
  if (!fabric::peer_is_our_user(socket->get())) return Error{"it belongs to another user"};
  if (!fabric::send_packet(socket->get(), encode_window_order(order), {}))
    return Error{"it does not take orders"};
  pollfd ready{socket->get(), POLLIN, 0};
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(limit);
  if (poll(&ready, 1, static_cast<int>(wait.count())) <= 0)
    return Error{"it does not answer: is it stopped, or has it no queue pair yet?"};
  std::vector<std::byte> bytes(kReplyBytesMax);
  fabric::Packet packet;
  if (fabric::receive_packet(socket->get(), bytes, packet) != fabric::PacketIo::kOk)
    return Error{"it hung up"};
  bytes.resize(packet.bytes);
  std::optional<WindowOrderReply> reply = decode_window_order_reply(bytes);
  if (!reply) return Error{"its answer is not understood: it is of another version of Weft"};
  if (!reply->error.empty()) return Error{reply->error};
  return *std::move(reply);
}

}  // namespace weft::tools
