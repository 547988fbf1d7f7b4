// host_driver/os_port.h -- creates the OS interface that the configuration names.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/net/frame_port.h"
#include "base/result.h"
#include "host_driver/gen_port.h"
#include "node/port_kind.h"

namespace weft::host {

struct OsPort {
  std::unique_ptr<FramePort> port;
  GenPort* gen = nullptr;  // `port`, when it is a generator
};

/// @param fd the interface, opened by the launcher; -1: opened here, which may need a capability @param mac
/// address of an interface that has none of its own
/// `clock` outlives the port.
Result<OsPort> open_os(const node::OsName& os, int fd, const MacAddress& mac, const Clock& clock);

}  // namespace weft::host
