// control/control_client.h -- asks a process on its control endpoint and waits for the answer, never longer
// than told.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "control/management.h"

namespace weft::control {

/// One asker; may ask many endpoints. Owner: one thread.
class ControlClient {
 public:
  ControlClient();
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Sends `request` to ipc://`path` and waits up to `timeout` for the reply with its id. Fails when no
  /// answer comes, the answer is malformed, or the process answered with an error (its text then is the
  /// error's).
  Result<ControlReply> ask(const std::string& path, ControlRequest request, Duration timeout);

 private:
  Status check_room();

  void* context_;
  bool has_threads_ = false;  // libzmq starts them with the first socket
  uint64_t next_id_ = 1;
};

}  // namespace weft::control
