#include "verbs/explain/failure_lines.h"

#include "base/out_of_memory.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/fault_note.h"

namespace weft::verbs {
namespace {

/// The peer has sent no answer, or the data did not reach it.
bool is_silence(Reason reason) noexcept {
  return reason == Reason::kPeerNeverAnswered || reason == Reason::kPeerWentSilent ||
         reason == Reason::kWindowFailed;
}

}  // namespace

void FailureLines::failed(const Failure& failure) noexcept {
  static_cast<void>(with_memory([&] {
    std::string line = describe(failure);
    if (is_silence(failure.reason))
      line += fault_note(endpoint_, Guid(guid_.load(std::memory_order_relaxed))) + window_fault_note(page_);
    explain_line(line);
  }));
}

}  // namespace weft::verbs
