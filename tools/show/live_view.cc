#include "tools/show/live_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "tools/show/terminal.h"

namespace weft::tools {
namespace {

std::string describe(const NodeProcess& node) {
  if (!node.running()) return node.last_exit().empty() ? "not started" : node.last_exit();
  if (!node.info.fault.empty()) return node.info.fault;
  if (node.info.state.empty()) return "starting";
  size_t up = 0;
  for (const control::PortInfo& port : node.info.ports) up += port.state == "up" ? 1U : 0U;
  if (!node.info.ports.empty())
    return fmt::format("{}, {} of {} ports up", node.info.state, up, node.info.ports.size());
  return node.info.state;
}

}  // namespace

void LiveView::draw(const std::string& fabric, const std::vector<NodeProcess>& nodes, Instant now) {
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(250);
  std::string text;
  if (lines_ != 0) text += fmt::format("\x1b[{}A", lines_);
  const size_t width = terminal_window().columns;  // a wrapped line would shift the table
  const auto add = [&text, width](const std::string& line) {
    text += "\x1b[2K" + fitted(line, width) + "\n";
  };
  add(fmt::format("fabric {}: Ctrl-C ends it", fabric));
  for (const NodeProcess& node : nodes) {
    const Lid lid = node.command().lid();
    add(fmt::format("  {:<10} {:<6} {:<9} {:<30} pid {} restarts {}", node.command().name,
                    to_string(node.command().role), lid == kLidNone ? "" : fmt::format("lid {}", lid.value()),
                    describe(node), node.pid(), node.restarts()));
  }
  lines_ = nodes.size() + 1;
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
}

void LiveView::finish() {
  lines_ = 0;
}

}  // namespace weft::tools
