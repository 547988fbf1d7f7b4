#include "node/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/command_line.h"
#include "base/log.h"
#include "base/private_files.h"
#include "base/privileges.h"
#include "messages/link_hello.h"

namespace weft::node {

Result<std::unique_ptr<Process>> Process::create(const ProcessSpec& spec, const char* program) {
  log_setup(program, spec.log_level);
  std::unique_ptr<Process> out(new Process(spec));  // tidy: private constructor
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::create(out->loop_, spec.parent_fd);
  if (!guard) return guard.error();
  out->guard_ = std::move(*guard);
  if (Status made = make_directory(spec.dir); !made) return made.error();
  return out;
}

Status Process::drop_rights() {
  return drop_privileges();
}

Status Process::open_page(uint32_t entries) {
  Result<StatsPage> made = StatsPage::create(spec_.file_base() + ".stats", entries);
  if (!made) return made.error();
  page_ = std::move(*made);
  page_->publish("loop", loop_.counters());
  return {};
}

Status Process::run(control::ControlHandler& handler, std::initializer_list<Pollable*> cores) {
  Result<std::unique_ptr<control::ControlServer>> control =
      control::ControlServer::open(spec_.file_base() + ".ctl", handler);
  if (!control) return control.error();
  page_->publish("control", (*control)->counters());
  for (Pollable* core : cores) loop_.add(*core);
  loop_.add(**control);
  loop_.add(*guard_);
  if (!bind_to_core(spec_.core))
    return Error{fmt::format(
        "--core {}: not a core that this process may use; taskset -cp $$ shows which are", spec_.core)};
  loop_.run();
  return {};
}

fabric::LinkConfig link_config(const ProcessSpec& spec) noexcept {
  fabric::LinkConfig config;
  config.guid = spec.guid;
  config.cell_payload_bytes = spec.links.cell_payload_bytes;
  config.flit_payload_bytes = spec.links.flit_payload_bytes;
  config.lanes = spec.links.lanes;
  config.credits_per_lane = spec.links.credits;
  return config;
}

control::NodeInfo describe_node(const ProcessSpec& spec, const char* program) {
  control::NodeInfo out;
  out.program = program;
  out.name = spec.name;
  out.version = kProgramVersion;
  out.pid = static_cast<uint32_t>(::getpid());
  out.guid = spec.guid.value();
  out.wire_version = kLinkVersionMax;
  out.ready = true;
  return out;
}

int exit_code_of(const Status& ended) {
  if (ended.ok()) return 0;
  log(LogLevel::kError, "{}", ended.error().text);
  return 1;
}

int wrong_use(const char* program, const Error& fault) {
  return CommandLine(program, {}, {}).wrong_use(fault.text);
}

}  // namespace weft::node
