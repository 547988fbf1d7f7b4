#include "sim/verbs/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace weft::sim::verbs {
namespace {

constexpr uint64_t kWords = 4;
constexpr uint64_t kPatches = 3;

/// Whole pages, so that a region may consist of them. Large memory comes from the system as zero pages.
std::byte* zeroed(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kLarge = 4 << 20;
  const uint64_t whole = (std::max<uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  void* memory = bytes < kLarge ? std::aligned_alloc(kPage, whole) : std::calloc(whole, 1);
  WEFT_CHECK(memory != nullptr, "memory for a region");
  if (bytes < kLarge) std::memset(memory, 0, whole);
  return static_cast<std::byte*>(memory);
}

}  // namespace

void FreeBytes::operator()(std::byte* bytes) const noexcept {
  std::free(bytes);
}

Region::Region(Node& owner, adapter::PdId domain, uint64_t size, adapter::Access access)
    : node(owner),
      pd(domain),
      bytes(size),
      rights(access),
      own(size / 2),
      actual(zeroed(size)),
      expected(zeroed(size)) {
  const uint64_t words_at = size - kWords * 2 * kWordBytes;
  const uint64_t each = (words_at - own) / kPatches;
  for (uint64_t i = 0; i < kPatches; ++i) {
    const uint64_t begin = own + i * each + kGuardBytes;
    patches.emplace_back(begin, Patch({at(begin), each - 2 * kGuardBytes}));
  }
  for (uint64_t i = 0; i < kWords; ++i) {
    const uint64_t begin = words_at + i * 2 * kWordBytes;
    words.emplace_back(begin, Word(reinterpret_cast<const uint64_t*>(at(begin))));
  }
}

void Region::accept(uint64_t offset, uint64_t length) noexcept {
  std::memcpy(expected.get() + offset, actual.get() + offset, length);
}

bool Region::as_expected(uint64_t offset, uint64_t length) const noexcept {
  return std::memcmp(expected.get() + offset, actual.get() + offset, length) == 0;
}

std::string Region::sweep() const {
  std::map<uint64_t, uint64_t> free;  // ranges that may change: offset and end
  for (const auto& [offset, lease] : lent)
    if (lease.second) free[offset] = lease.first;
  for (const auto& [offset, patch] : patches) free[offset] = patch.length();
  for (const auto& [offset, word] : words) free[offset] = kWordBytes;
  free[bytes] = 0;
  uint64_t from = 0;
  for (const auto& [offset, length] : free) {
    if (offset > from && !as_expected(from, offset - from)) {
      while (actual.get()[from] == expected.get()[from]) ++from;
      return fmt::format("byte {} of a region of {} on node {} changed without an operation on it", from,
                         bytes, node.number);
    }
    from = std::max(from, offset + length);
  }
  return {};
}

bool Send::is_send() const noexcept {
  using adapter::SendOpcode;
  return opcode == SendOpcode::kSend || opcode == SendOpcode::kSendWithImm ||
         opcode == SendOpcode::kSendWithInvalidate;
}
bool Send::is_write() const noexcept {
  return opcode == adapter::SendOpcode::kRdmaWrite || opcode == adapter::SendOpcode::kRdmaWriteWithImm;
}
bool Send::is_atomic() const noexcept {
  return opcode == adapter::SendOpcode::kCompareSwap || opcode == adapter::SendOpcode::kFetchAdd;
}
bool Send::has_imm() const noexcept {
  return opcode == adapter::SendOpcode::kSendWithImm || opcode == adapter::SendOpcode::kRdmaWriteWithImm;
}
bool Send::takes_receive() const noexcept {
  return is_send() || opcode == adapter::SendOpcode::kRdmaWriteWithImm;
}

std::vector<Srq*> Qp::shared_queues() const {
  std::vector<Srq*> all;
  for (const auto& one : node->srqs)
    if (takes_from(*one)) all.push_back(one.get());
  return all;
}

adapter::PdId domain_of(const Send& send) noexcept {
  return send.srq != nullptr ? send.srq->pd : send.to->config.pd;
}

}  // namespace weft::sim::verbs
