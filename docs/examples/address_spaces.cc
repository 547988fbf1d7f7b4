// The memory manager of the SAN verbs: this program plays an operating system with one user process. The
// process names its memory by effective addresses, which a segment table and a page table turn into places;
// the manager changes both while peers hold keys. Nothing else can be registered in the name of the
// process.
#include <weft/hca/spaces.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "program.h"

using namespace example;

namespace {

constexpr uint64_t kPage = adapter::kSpacePageBytes;
constexpr uint64_t kHeap = 0x123;    // effective segment ID
constexpr uint64_t kUpper = 0x4567;  // the upper bits of virtual addresses that it stands for
constexpr adapter::ProcessId kProcess{7};
constexpr Access kRights = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

/// Two pages of the process's heap, which lie in memory in reverse order.
class Manager final : public adapter::MemoryManager {
 public:
  Manager() : frames_(static_cast<std::byte*>(std::aligned_alloc(kPage, 2 * kPage)), &std::free) {
    check(frames_ != nullptr, "no memory");
    for (uint32_t page = 0; page < 2; ++page) entry(page).physical = address(frame(1 - page)) / kPage;
  }
  [[nodiscard]] std::byte* frame(uint32_t number) const { return frames_.get() + number * kPage; }
  [[nodiscard]] static uint64_t virtual_address(uint32_t page) {
    return adapter::join_address({kUpper, page, 0});
  }
  adapter::PageEntry& entry(uint32_t page) {
    adapter::PageEntry& out = pages_[virtual_address(page) / kPage];
    out.page = virtual_address(page) / kPage;
    return out;
  }

  std::vector<adapter::Segment> segment_table(adapter::ProcessId process) override {
    if (process != kProcess) return {};
    return {{.id = kHeap, .upper = kUpper}};
  }
  std::optional<adapter::PageEntry> page_entry(uint64_t page) override {
    const auto found = pages_.find(page);
    return found == pages_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<adapter::PageEntry> page_in(uint64_t page) noexcept override {
    ++page_ins;
    adapter::PageEntry& back = pages_.at(page);
    back.valid = true;
    return back;
  }

  int page_ins = 0;

 private:
  static uint64_t address(const std::byte* at) { return reinterpret_cast<uintptr_t>(at); }
  std::unique_ptr<std::byte, decltype(&std::free)> frames_;
  std::map<uint64_t, adapter::PageEntry> pages_;
};

/// An RDMA write of `text` to an effective address of the process, over a connection of its own.
WcStatus write(Endnode& writer, Endnode& owner, uint64_t to, Rkey key, const std::string& text) {
  hca::Qp& qp = writer.make_qp();
  hca::Qp& target = owner.make_qp();
  connect(writer, qp, owner, target);
  writer.put(0, text);
  const adapter::Sge from = writer.sge(0, static_cast<uint32_t>(text.size()));
  writer.post(qp, {.wr_id = 1,
                   .opcode = SendOpcode::kRdmaWrite,
                   .flags = adapter::kSendSignaled,
                   .sges = std::span(&from, 1),
                   .remote_addr = to,
                   .rkey = key});
  const WcStatus status = writer.next().status;
  check(writer.context->destroy(&qp) == Answer::kOk && owner.context->destroy(&target) == Answer::kOk,
        "a queue pair stays");
  return status;
}

void serve() {
  Manager manager;
  Endnode owner(fabric_here());
  Endnode writer(fabric_here());
  hca::Spaces& spaces = owner.device.use_manager(manager);
  owner.domain = owner.context->alloc_pd().object;
  check(spaces.assign(*owner.domain, kProcess, adapter::ProcessMode::kUser) == Answer::kOk, "no process");

  // Memory of this program is none of the process's.
  check(owner.context->reg_mr(*owner.domain, owner.memory, kRights).answer == Answer::kInvalid,
        "a user process has registered an address");
  std::cout << "an address of the program is none of the process's\n";
  check(spaces.map_local_page(Manager::virtual_address(0), 2 * kPage) == Answer::kOk, "no page");
  const uint64_t heap = adapter::join_address({kHeap, 0, 0});
  const hca::MemoryRegion* region =
      owner.context->reg_addresses(*owner.domain, adapter::AddressKind::kEffective, heap, 2 * kPage, kRights)
          .object;
  check(region != nullptr, "the heap cannot be registered");
  const Rkey key = region->region().rkey;

  // Across the border of two pages: page 0 is frame 1, page 1 is frame 0.
  check(write(writer, owner, heap + kPage - 3, key, "abcdef") == WcStatus::kSuccess, "the write failed");
  check(std::string(reinterpret_cast<char*>(manager.frame(1) + kPage - 3), 3) == "abc" &&
            std::string(reinterpret_cast<char*>(manager.frame(0)), 3) == "def",
        "the bytes lie elsewhere");
  std::cout << "a write has crossed two pages that lie in reverse order\n";

  // A page that was swapped out is asked for when a peer comes.
  manager.entry(1).valid = false;
  check(spaces.page_changed(manager.entry(1)) == Answer::kOk, "no change");
  check(write(writer, owner, heap + kPage, key, "back") == WcStatus::kSuccess, "the page did not come back");
  check(manager.page_ins == 1, "nobody asked for the page");
  std::cout << "a page that was swapped out has come back for a write\n";

  // Without its segment the range grants nothing, whatever key a peer has; with it, the same key works again.
  check(spaces.segment_table_update(kProcess, {.id = kHeap, .upper = kUpper, .valid = false}) == Answer::kOk,
        "no change");
  check(write(writer, owner, heap, key, "gone") == WcStatus::kRemoteAccess,
        "a range without a segment was reached");
  check(spaces.segment_table_update(kProcess, {.id = kHeap, .upper = kUpper}) == Answer::kOk, "no change");
  check(write(writer, owner, heap, key, "here") == WcStatus::kSuccess, "the segment did not come back");
  std::cout << "a key has granted nothing while its segment was gone\n";
  std::cout << "peers reached the heap of the process by effective addresses, and nothing else\n";
}

}  // namespace

int main() {
  return run("address_spaces", serve);
}
