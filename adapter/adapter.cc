#include "adapter/adapter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "adapter/adapter_parts.h"
#include "adapter/supplies.h"
#include "base/check.h"
#include "base/stats_page.h"

namespace weft::adapter {

AdapterParts::AdapterParts(const AdapterConfig& config, RandomSource& random)
    : engine(config, random),
      writer(engine),
      several_nics(config.nics.size() > 1 ? std::make_unique<SeveralNics>(engine, writer, config.nics)
                                          : nullptr),
      services(config.services, engine, writer),
      pds(config.limits.protection_domains),
      cqs(engine),
      srqs(engine, pds, cqs),
      no_cq(1),
      numbers(config.limits.queue_pairs, engine.qps.places(), random),
      protocols(config.limits.raw_protocols),
      sweep(engine, cqs),
      ports(engine, sweep),
      reliable(static_cast<ReliableService*>(services.object_of(kRcRow))),
      direct(static_cast<DirectService*>(services.object_of(kRcDirectRow))) {
  engine.several_nics = several_nics.get();
  engine.datagram_taker = &window_datagrams;
  if (direct != nullptr && reliable != nullptr) direct->fall_back_to(*reliable);
}

ChannelAdapter::ChannelAdapter(const AdapterConfig& config, RandomSource& random)
    : parts_(std::make_unique<AdapterParts>(config, random)) {}
ChannelAdapter::~ChannelAdapter() = default;

const AdapterLimits& ChannelAdapter::limits() const noexcept {
  return parts_->engine.config.limits;
}

Refusable<PdId> ChannelAdapter::alloc_pd() {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (const PdId pd = parts_->pds.alloc(); pd != PdId()) return pd;
  return Refusal{Reason::kTableFull, "alloc_pd: all are in use; raise AdapterLimits::protection_domains"};
}

Refusable<> ChannelAdapter::dealloc_pd(PdId pd) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (!parts_->pds.has(pd)) return Refusal{Reason::kNoSuchObject, "dealloc_pd: no such protection domain"};
  if (!parts_->engine.pd_unused(pd))
    return Refusal{Reason::kBusy, "dealloc_pd: regions or keys still belong to it"};
  if (!parts_->srqs.pd_unused(pd) || parts_->pds.has_qps(pd))
    return Refusal{Reason::kBusy, "dealloc_pd: an SRQ or a QP still belongs to it"};
  parts_->pds.free(pd);
  parts_->engine.computer.free_pd(pd);
  if (parts_->engine.spaces != nullptr) parts_->engine.spaces->free_pd(pd);
  return {};
}

MemoryTable& ChannelAdapter::memory() noexcept {
  return parts_->engine.memory;
}

MemoryTable& ChannelAdapter::memory(uint8_t nic) noexcept {
  WEFT_CHECK(parts_->engine.computer.of_nic(nic).number() == nic, "no NIC with this number");
  return parts_->engine.computer.of_nic(nic);
}

NicKeys* ChannelAdapter::use_directory(KeyDirectory& directory) noexcept {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (parts_->several_nics == nullptr) return nullptr;
  parts_->several_nics->questions.use_directory(directory);
  return &parts_->several_nics->questions;
}

Ports& ChannelAdapter::ports() noexcept {
  return parts_->ports;
}
const Ports& ChannelAdapter::ports() const noexcept {
  return parts_->ports;
}

CompletionQueues& ChannelAdapter::cqs() noexcept {
  return parts_->cqs;
}

SharedReceives& ChannelAdapter::srqs() noexcept {
  return parts_->srqs;
}

AddressSpaces& ChannelAdapter::use_manager(MemoryManager& manager) {
  Engine& engine = parts_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  WEFT_CHECK(engine.spaces == nullptr, "the adapter has a memory manager");
  engine.spaces = std::make_unique<AddressSpaces>(engine.memory, manager);
  return *engine.spaces;
}

const CounterSet<AdapterCounter>& ChannelAdapter::counters() const noexcept {
  return parts_->engine.counters;
}
const CounterSet<CellError>& ChannelAdapter::bad_cells() const noexcept {
  return parts_->engine.bad_cells;
}
const CounterSet<AccessFault>& ChannelAdapter::access_faults() const noexcept {
  return parts_->engine.faults;
}

bool ChannelAdapter::publish(StatsPage& page, std::string_view prefix) {
  const std::string name(prefix);
  return page.publish(name, parts_->engine.counters) &&
         page.publish(name + ".bad_cell", parts_->engine.bad_cells) &&
         page.publish(name + ".refused", parts_->engine.faults) &&
         parts_->ports.publish(page, name + ".port");
}

bool ChannelAdapter::publish(StatsPage& page, std::string_view prefix, QueuePair& qp) {
  return page.publish(prefix, qp.counters);
}

Refusable<AddressHandle> ChannelAdapter::make_ah(PdId pd, const AhAttr& attr) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (!parts_->pds.has(pd)) return Refusal{Reason::kNoSuchObject, "make_ah: no such protection domain"};
  if (const uint32_t most = parts_->ports.count(); attr.port == 0 || attr.port > most)
    return Refusal{Reason::kNoSuchObject, "make_ah: port {}; 1 to {} are possible", attr.port, most};
  if (attr.dlid == kLidNone || attr.dlid.value() > kLidMax || attr.sl.value() >= kVlCount)
    return Refusal{Reason::kBadAddress,
                   "make_ah: dlid {} or sl {} is out of range: dlid 1 to 0xFFFE (the lid of the peer's "
                   "ibv_query_port), sl 0 to 15",
                   attr.dlid.value(), attr.sl.value()};
  if (is_multicast(attr.dlid) && attr.is_global != is_multicast(attr.route.dgid))
    return Refusal{Reason::kBadAddress, "make_ah: with a multicast LID the global route must name a group"};
  if (attr.is_global && (attr.route.flow_label >> 20) != 0)
    return Refusal{Reason::kBadAddress, "make_ah: a flow label has 20 bits"};
  return AddressHandle{.pd = pd, .attr = attr};
}

namespace {

bool lacks_keys(const Engine& engine) noexcept {
  return engine.memory.lacks_room() || std::any_of(engine.more_memory.begin(), engine.more_memory.end(),
                                                   [](const auto& list) { return list->lacks_room(); });
}

}  // namespace

uint32_t ChannelAdapter::lacks() const noexcept {
  const Engine& engine = parts_->engine;
  return (lacks_keys(engine) ? kSupplyKeys : 0U) | (engine.tx_chunks.low() ? kSupplyTxPackets : 0U) |
         (engine.rx_chunks.low() ? kSupplyRxPackets : 0U) |
         (engine.strict_acks.low() ? kSupplyStrictAcks : 0U);
}

void ChannelAdapter::supply(Supplies& supplies) noexcept {
  Engine& engine = parts_->engine;
  engine.memory.entries().give_room(supplies.keys);
  for (const auto& list : engine.more_memory) list->entries().give_room(supplies.keys);
  if (supplies.tx_packets != nullptr && engine.tx_chunks.low())
    engine.tx_chunks.add(std::move(supplies.tx_packets));
  if (supplies.rx_packets != nullptr && engine.rx_chunks.low())
    engine.rx_chunks.add(std::move(supplies.rx_packets));
  if (supplies.strict_acks != nullptr && engine.strict_acks.low())
    engine.strict_acks.add(std::move(supplies.strict_acks));
}

void ChannelAdapter::go_without() noexcept {
  parts_->engine.tx_chunks.go_without();
  parts_->engine.rx_chunks.go_without();
  parts_->engine.strict_acks.go_without();
}

void ChannelAdapter::report_lack(bool& flag) noexcept {
  parts_->engine.rx_chunks.keep(kCellsPerReceive);
  parts_->engine.tx_chunks.report_to(flag);
  parts_->engine.rx_chunks.report_to(flag);
  parts_->engine.strict_acks.report_to(flag);
}

bool ChannelAdapter::next_failure(Failure& out) noexcept {
  return parts_->engine.failures.take(out);
}

void ChannelAdapter::report_failures(bool& flag) noexcept {
  parts_->engine.failures.report_to(flag);
}

bool ChannelAdapter::next_event(AsyncEvent& out) noexcept {
  return parts_->engine.next_event(out);
}

bool ChannelAdapter::has_reports() const noexcept {
  const Engine& engine = parts_->engine;
  return !engine.events.empty() || engine.spaces != nullptr || parts_->cqs.has_notified();
}

}  // namespace weft::adapter
