// adapter/memory/fault_handler.h -- what a process does about a region whose memory is gone (SIGSEGV, or
// SIGBUS where a mapped file was cut short).
#pragma once

namespace weft::adapter {

/// Installs the process's handler for both signals, once; later calls do nothing. A fault in a guarded copy
/// becomes a MemoryFault in the thread that copied. Every other fault is passed on to the handler that was
/// there before, or ends the process as it would have. False where it is not installed: under the thread
/// sanitizer, which runs handlers on frames of its own that nothing can be thrown through.
bool install_fault_handler();

}  // namespace weft::adapter
