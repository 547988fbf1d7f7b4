#include "messages/link_hello.h"

#include <array>

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(LinkRefusal::kCount)> kNames{
    "none",
    "no common version",
    "flit payload differs",
    "cell payload differs",
    "too few credits",
    "lid taken",
    "lid invalid",
    "no free port",
    "node not allowed to join",
    "too many attempts"};

}  // namespace

std::string_view to_string(LinkRefusal refusal) noexcept {
  return kNames[static_cast<size_t>(refusal)];
}

}  // namespace weft
