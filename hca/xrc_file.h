// hca/xrc_file.h -- identity of a shared XRC domain: the file by which it is opened, and the number of its
// opens.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "adapter/verbs.h"

namespace weft::hca {

/// The file's device and inode.
struct XrcFile {
  uint64_t device = 0;
  uint64_t inode = 0;
  [[nodiscard]] bool operator<(const XrcFile& other) const noexcept {
    return std::tie(device, inode) < std::tie(other.device, other.inode);
  }
};

/// A shared domain of the device and the number of its opens.
struct SharedXrcd {
  adapter::XrcdId id{};
  uint32_t opens = 0;
};
using SharedXrcds = std::map<XrcFile, SharedXrcd>;

}  // namespace weft::hca
