// A region made of pages: the owner has a pool of pages and gives the peer four of them, in no order, as one
// range of addresses. The range begins in the middle of the first page. One RDMA write crosses all of them.
#include <cstring>
#include <memory>

#include "program.h"

using namespace example;

namespace {

constexpr uint64_t kPage = adapter::kPageBytesMin;
constexpr uint32_t kPoolPages = 8;
constexpr uint64_t kFirst = 1000;              // offset of the range in its first page
constexpr uint32_t kLength = 3 * kPage + 500;  // it ends in the fourth page

void fill_pages() {
  Endnode owner(fabric_here());
  Endnode writer(fabric_here());
  const std::unique_ptr<std::byte, decltype(&std::free)> pool(
      static_cast<std::byte*>(std::aligned_alloc(kPage, kPoolPages * kPage)), &std::free);
  check(pool != nullptr, "no memory");
  std::memset(pool.get(), 0, kPoolPages * kPage);
  const auto page = [&](uint32_t number) { return pool.get() + number * kPage; };
  const std::vector<std::byte*> pages{page(6), page(1), page(4), page(3)};
  hca::MemoryRegion* region =
      owner.context
          ->reg_pages(*owner.domain, {.pages = pages, .first_offset = kFirst, .length = kLength},
                      Access::kLocalWrite | Access::kRemoteWrite)
          .object;
  check(region != nullptr, "the pages cannot be registered");
  check(region->region().addr == 0 && region->region().length == kLength, "another range");

  std::vector<std::byte> data(kLength);
  for (uint32_t i = 0; i < kLength; ++i) data[i] = static_cast<std::byte>(1 + i % 251);
  const hca::MemoryRegion* source = writer.context->reg_mr(*writer.domain, data, Access::kNone).object;
  check(source != nullptr, "memory cannot be registered");
  const auto write = [&](uint64_t to, uint32_t bytes) {
    hca::Qp& qp = writer.make_qp();
    hca::Qp& target = owner.make_qp();
    connect(writer, qp, owner, target);  // a refused access ends a connection
    const adapter::Sge from{.addr = source->region().addr, .length = bytes, .lkey = source->region().lkey};
    writer.post(qp, {.wr_id = 1,
                     .opcode = SendOpcode::kRdmaWrite,
                     .flags = adapter::kSendSignaled,
                     .sges = std::span(&from, 1),
                     .remote_addr = to,
                     .rkey = region->region().rkey});
    return writer.next().status;
  };
  check(write(0, kLength) == WcStatus::kSuccess, "the write failed");
  std::vector<std::byte> arrived;
  for (uint32_t i = 0; i < kLength; ++i) {
    const uint64_t place = kFirst + i;
    arrived.push_back(pages[place / kPage][place % kPage]);
  }
  check(arrived == data, "other bytes came");
  check(page(6)[kFirst - 1] == std::byte{} && page(3)[kFirst + kLength - 3 * kPage] == std::byte{},
        "bytes beside the range have changed");
  check(write(kLength - 1, 2) == WcStatus::kRemoteAccess, "an access beyond the last byte is permitted");
  std::cout << "one write filled a range of 4 pages that lie in no order\n";
}

}  // namespace

int main() {
  return run("page_list", fill_pages);
}
