#include "node/endnode_process.h"

#include <algorithm>
#include <thread>

namespace weft::node {
namespace {

/// Closes the sessions and waits, for at most kOrderlyEndMax, until the switch has their last cells.
void end_orderly(Endnode& endnode, EndnodeProgram& program, const Clock& clock) {
  program.close();
  const Instant until = clock.now() + kOrderlyEndMax;
  while ((!program.closed() || endnode.loses_at_end()) && clock.now() < until)
    if (endnode.poll(clock.now()) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

EndnodeProgram::EndnodeProgram(const EndnodeSpec& spec, const char* name, const Endnode& endnode,
                               std::vector<CapturePort*> ports)
    : spec_(spec),
      name_(name),
      endnode_(endnode),
      ports_(std::move(ports)),
      captures_({ports_.begin(), ports_.end()}) {}

control::NodeInfo EndnodeProgram::info() {
  control::NodeInfo out = endnode_.describe(spec_, name_);
  for (const CapturePort* port : ports_) out.interfaces.push_back(port->name());
  describe(out);
  return out;
}

Status EndnodeProgram::capture_start(const control::CaptureSpec& spec) {
  return captures_.start({spec.path, spec.interface, spec.frame_bytes_max, spec.ring_bytes,
                          static_cast<pid_t>(spec.reader_pid)});
}

Status EndnodeProgram::capture_stop(const std::string& path) {
  captures_.stop(path);
  return {};
}

Status run_endnode(const EndnodeSpec& spec, const char* name, const EndnodeParts& parts) {
  Result<std::unique_ptr<Process>> made = Process::create(spec, name);
  if (!made) return made.error();
  Process& process = **made;
  if (Status opened = parts.open_ports(process.clock()); !opened) return opened;
  if (Status dropped = process.drop_rights(); !dropped) return dropped;
  if (Status opened = process.open_page(); !opened) return opened;
  Result<std::unique_ptr<Endnode>> endnode =
      Endnode::create(spec, parts.make_adapter(process.random()), process.random());
  if (!endnode) return endnode.error();
  (*endnode)->publish(process.page());
  const std::unique_ptr<EndnodeProgram> program = parts.build(**endnode, process.random(), process.page());
  if (Status ran = process.run(*program, {endnode->get()}); !ran) return ran;
  end_orderly(**endnode, *program, process.clock());
  return {};
}

}  // namespace weft::node
