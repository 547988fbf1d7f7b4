#include "hca/answer.h"

#include <array>
#include <cerrno>

namespace weft::hca {
namespace {

struct Row {
  std::string_view name;
  int error;
};
constexpr std::array<Row, static_cast<size_t>(Answer::kCount)> kAnswers{{
    {"ok", 0},
    {"invalid", EINVAL},
    {"no memory", ENOMEM},
    {"busy", EBUSY},
    {"nothing there", EAGAIN},
    {"interrupted", EINTR},
    {"not supported", EOPNOTSUPP},
    {"no descriptor left", EMFILE},
    {"called by a signal handler that has interrupted another call on this device", EDEADLK},
    {"this process is a child after fork(), and the object belongs to its parent: open the device in the "
     "child",
     EIO},
}};

}  // namespace

std::string_view to_string(Answer answer) noexcept {
  return kAnswers[static_cast<size_t>(answer)].name;
}

int to_errno(Answer answer) noexcept {
  return kAnswers[static_cast<size_t>(answer)].error;
}

Answer answer_of(adapter::PostResult result) noexcept {
  switch (result) {
    case adapter::PostResult::kOk:
      return Answer::kOk;
    case adapter::PostResult::kWouldBlock:
      return Answer::kNoMemory;
    case adapter::PostResult::kBadState:
    case adapter::PostResult::kBadOpcode:
    case adapter::PostResult::kNoDestination:
    case adapter::PostResult::kNoRemoteKey:
    case adapter::PostResult::kBadSges:
    case adapter::PostResult::kTooManySges:
    case adapter::PostResult::kBadAtomic:
    case adapter::PostResult::kTooLong:
    case adapter::PostResult::kInlineTooLong:
    case adapter::PostResult::kCount:
      break;
  }
  return Answer::kInvalid;
}

Answer answer_of(adapter::ModifyResult result) noexcept {
  return result == adapter::ModifyResult::kOk ? Answer::kOk : Answer::kInvalid;
}

}  // namespace weft::hca
