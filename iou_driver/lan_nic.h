// iou_driver/lan_nic.h -- creates the LAN NIC that the configuration names.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/net/frame_port.h"
#include "base/result.h"
#include "node/port_kind.h"

namespace weft::iou {

/// @param fd the NIC, opened by the launcher; -1: opened here, which may need a capability `clock` outlives
/// the NIC.
Result<std::unique_ptr<FramePort>> open_nic(const node::NicName& nic, int fd, const Clock& clock);

/// True for a NIC that is a model in this process: it takes the address of the host. An interface of the
/// kernel keeps its own, because behind it is a stack of its own.
[[nodiscard]] bool is_model(node::NicKind kind) noexcept;

}  // namespace weft::iou
