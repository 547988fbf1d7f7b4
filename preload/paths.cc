#include "preload/paths.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/engine.h"

namespace weft::preload {
namespace {

constexpr char kDeviceNodes[] = "/dev/infiniband";
constexpr char kManagerNode[] = "/dev/infiniband/rdma_cm";
constexpr char kSystemTree[] = "/sys/class/";
constexpr const char* kSystemParts[] = {"infiniband", "infiniband_verbs", "misc/rdma_cm"};

bool starts_with(const char* text, const char* prefix, size_t bytes) noexcept {
  return std::strncmp(text, prefix, bytes) == 0;
}
bool ends_or_goes_on(char c) noexcept {
  return c == '\0' || c == '/';
}

/// Without a fabric there is no device and no path is changed. Read once, before the program can change its
/// environment.
const bool on = secure_getenv("WEFT_FABRIC") != nullptr;
/// Directory of the generated trees; if absent, sysfs paths stay as they are.
const char* const tree = secure_getenv("WEFT_SYSFS");

/// Puts the directory of this process's files into `room`; they show the current state of the device. Calls
/// of the engine itself do not ask the engine. Without a device it is the run's empty tree, so that the
/// machine's own devices are hidden. False if there is no room.
bool show_device(PathRoom& room) noexcept {
  static thread_local bool busy = false;
  bool shown = false;
  if (!busy) {
    busy = true;
    const Engine* all = engine();
    shown = all != nullptr && all->system_root(room.text, sizeof room.text) == 0;
    busy = false;
  }
  if (shown) return true;
  const size_t bytes = std::strlen(tree);
  if (bytes >= sizeof room.text) return false;
  std::memcpy(room.text, tree, bytes + 1);
  return true;
}

}  // namespace

PathKind kind_of(const char* path) noexcept {
  if (path == nullptr || path[0] != '/' || !on) return PathKind::kOther;
  constexpr size_t kNodes = sizeof kDeviceNodes - 1;
  constexpr size_t kSystem = sizeof kSystemTree - 1;
  if (path[1] == 'd' && starts_with(path, kDeviceNodes, kNodes) && ends_or_goes_on(path[kNodes])) {
    if (std::strcmp(path, kManagerNode) == 0) return PathKind::kManager;
    return path[kNodes] == '\0' || path[kNodes + 1] == '\0' ? PathKind::kDevices : PathKind::kDevice;
  }
  if (path[1] != 's' || !starts_with(path, kSystemTree, kSystem)) return PathKind::kOther;
  for (const char* part : kSystemParts) {
    const size_t bytes = std::strlen(part);
    if (starts_with(path + kSystem, part, bytes) && ends_or_goes_on(path[kSystem + bytes]))
      return PathKind::kSystem;
  }
  return PathKind::kOther;
}

const char* stand_in(const char* path, PathRoom& room) noexcept {
  const PathKind kind = kind_of(path);
  if (kind == PathKind::kManager || kind == PathKind::kDevice) return "/dev/null";  // a character device
  if (kind == PathKind::kOther || tree == nullptr) return path;
  if (!show_device(room)) return path;
  const char* below = kind == PathKind::kSystem ? path + std::strlen("/sys") : path;
  const size_t head = std::strlen(room.text);
  const size_t tail = std::strlen(below);
  if (head + tail >= sizeof room.text) return path;
  std::memcpy(room.text + head, below, tail + 1);
  return room.text;
}

}  // namespace weft::preload
