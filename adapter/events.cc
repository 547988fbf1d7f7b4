#include "adapter/events.h"

#include <array>

namespace weft::adapter {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(AsyncEventKind::kCount)> kEventNames{
    "communication established",
    "path migrated",
    "path migration failed",
    "QP fatal",
    "QP request error",
    "QP access error",
    "SQ drained",
    "CQ overrun",
    "SRQ limit reached",
    "SRQ error",
    "last WQE reached",
    "P_Key change",
    "LID change",
    "GID change",
    "client reregister",
    "port up",
    "port down",
    "port expired",
    "page fault"};

}  // namespace

std::string_view to_string(AsyncEventKind kind) noexcept {
  return kEventNames[static_cast<size_t>(kind)];
}

}  // namespace weft::adapter
