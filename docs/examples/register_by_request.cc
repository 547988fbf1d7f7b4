// Registration by work request: the keys of memory are known before it is registered, and the request that
// registers it carries the message that tells them to the peer. The peer writes with the key, and ends it
// with its answer. No request waits for a registration, and no key outlives its transfer.
#include <cstring>

#include "program.h"

using namespace example;

namespace {

struct Place {
  uint64_t addr = 0;
  uint32_t rkey = 0;
};

void transfer() {
  Endnode owner(fabric_here());
  Endnode writer(fabric_here());
  adapter::QpConfig config;
  config.signal_all = false;
  config.registration = adapter::SendRegistration::kReactive;
  hca::Qp& near = owner.make_qp(config);
  hca::Qp& far = writer.make_qp();
  connect(owner, near, writer, far);
  std::vector<std::byte> buffer(256);
  hca::MemoryRegion* lent = owner.context->reserve_mr(*owner.domain, true).object;
  check(lent != nullptr, "no entry");

  Rkey last{};
  for (int round = 0; round < 3; ++round) {
    check(lent->stage(buffer) == Answer::kOk, "memory cannot be staged");
    check(lent->region().rkey != last, "a key came twice");
    last = lent->region().rkey;
    const Place place{reinterpret_cast<uintptr_t>(buffer.data()), last.value()};
    std::memcpy(owner.memory.data(), &place, sizeof place);
    writer.expect(far, 1024, sizeof place);
    owner.expect(near, 1024, 64);

    // One request: register, and tell the peer.
    const adapter::Sge telling = owner.sge(0, sizeof place);
    const adapter::SendRequest tell{
        .wr_id = 1, .flags = adapter::kSendSignaled, .sges = std::span(&telling, 1)};
    check(near.post_registration({.region = lent, .access = Access::kLocalWrite | Access::kRemoteWrite},
                                 tell) == Answer::kOk,
          "the request is refused");
    owner.next_good();

    writer.next_good();
    Place told;
    std::memcpy(&told, writer.memory.data() + 1024, sizeof told);
    writer.put(0, "round " + std::to_string(round));
    const adapter::Sge data = writer.sge(0, 7);
    writer.post(far, {.wr_id = 2,
                      .opcode = SendOpcode::kRdmaWrite,
                      .flags = adapter::kSendSignaled,
                      .sges = std::span(&data, 1),
                      .remote_addr = told.addr,
                      .rkey = Rkey(told.rkey)});
    writer.post(far, {.wr_id = 3,
                      .opcode = SendOpcode::kSendWithInvalidate,
                      .flags = adapter::kSendSignaled,
                      .sges = std::span(&data, 1),
                      .rkey = Rkey(told.rkey)});
    writer.next_good();
    writer.next_good();
    const adapter::WorkCompletion ended = owner.next_good();
    check(ended.invalidated == last, "another key was ended");
    check(std::memcmp(buffer.data(), ("round " + std::to_string(round)).data(), 7) == 0, "other bytes came");
  }
  // The key is dead.
  const adapter::Sge data = writer.sge(0, 7);
  writer.post(far, {.wr_id = 4,
                    .opcode = SendOpcode::kRdmaWrite,
                    .flags = adapter::kSendSignaled,
                    .sges = std::span(&data, 1),
                    .remote_addr = reinterpret_cast<uintptr_t>(buffer.data()),
                    .rkey = last});
  check(writer.next().status == WcStatus::kRemoteAccess, "a key outlived its transfer");
  std::cout << "3 transfers, each under a key of its own\n";
}

}  // namespace

int main() {
  return run("register_by_request", transfer);
}
