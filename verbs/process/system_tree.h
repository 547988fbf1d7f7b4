// verbs/process/system_tree.h -- the files that a kernel would show of our device below /sys/class, in a
// directory of this user. The preloaded object redirects programs that read /sys/class to them.
#pragma once

#include <string>

namespace weft::verbs {

class ProcessNode;

/// Writes the tree below `root`, or renews it with the present counters. False on a failed write.
[[nodiscard]] bool write_system_tree(ProcessNode& node, const std::string& root);
/// Removes the tree that write_system_tree() wrote for this node, if it wrote one.
void remove_system_tree(const ProcessNode& node) noexcept;

}  // namespace weft::verbs
