// control/control_client.h -- sends a request to the control endpoint of a process and waits for the reply,
// at most for the given time-out.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "control/management.h"

namespace weft::control {

/// May ask any number of endpoints, one after the other. Owner: one thread.
class ControlClient {
 public:
  ControlClient();
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Sends `request` to ipc://`path` and waits up to `timeout` for the reply with its id. Fails if no answer
  /// comes, the answer is malformed, or the process answers with an error, whose text is returned.
  Result<ControlReply> ask(const std::string& path, ControlRequest request, Duration timeout);

 private:
  Status check_room();

  void* context_;
  bool has_threads_ = false;  // libzmq starts them with the first socket
  uint64_t next_id_ = 1;
};

}  // namespace weft::control
