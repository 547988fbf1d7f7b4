// verbs/system_tree.h -- what the kernel would show of our device below /sys/class, as files in a directory
// of this user's: for programs that read it there, to which the preloaded object gives these.
#pragma once

#include <string>

namespace weft::verbs {

class ProcessNode;

/// Writes the tree below `root`, with the counters of now, over what was written before. False when it
/// cannot.
[[nodiscard]] bool write_system_tree(ProcessNode& node, const std::string& root);
/// Removes the tree that write_system_tree() has written for this node, if it has.
void remove_system_tree(const ProcessNode& node) noexcept;

}  // namespace weft::verbs
