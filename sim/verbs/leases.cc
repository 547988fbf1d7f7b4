#include "sim/verbs/leases.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace weft::sim::verbs {
namespace {

constexpr uint32_t kAttempts = 12;

/// Finds a free range in the region's own half; false when there is none.
bool find_room(PlanDraw& draw, const Region& region, uint64_t bytes, uint64_t& offset) {
  if (bytes + 2 * kGuardBytes >= region.own) return false;
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    offset = kGuardBytes + draw.below(region.own - bytes - 2 * kGuardBytes);
    const auto next = region.lent.lower_bound(offset);
    if (next != region.lent.end() && next->first < offset + bytes + kGuardBytes) continue;
    if (next == region.lent.begin()) return true;
    const auto before = std::prev(next);
    if (before->first + before->second.first + kGuardBytes <= offset) return true;
  }
  return false;
}

void fill(PlanDraw& draw, const Piece& piece) {
  for (uint64_t at = 0; at < piece.length; at += kWordBytes) {
    const uint64_t high = draw.below(uint64_t{1} << 32);
    const uint64_t value = high << 32 | draw.below(uint64_t{1} << 32);
    const uint64_t bytes = std::min<uint64_t>(kWordBytes, piece.length - at);
    std::memcpy(piece.region->at(piece.offset + at), &value, bytes);
    piece.region->accept(piece.offset + at, bytes);
  }
}

}  // namespace

bool lease(PlanDraw& draw, Node& node, adapter::PdId pd, uint64_t length, uint32_t pieces, bool may_change,
           std::vector<Piece>& out) {
  std::vector<Region*> regions;
  for (auto& region : node.regions) {
    if (region->pd == pd && region->registered) regions.push_back(region.get());
  }
  if (regions.empty()) return false;
  for (uint64_t left = length, part = 0; part < pieces; ++part) {
    const bool last = part + 1 == pieces;
    const auto bytes = static_cast<uint32_t>(last ? left : draw.below(left + 1));
    Region& region = *regions[draw.below(regions.size())];
    left -= bytes;
    uint64_t offset = 0;
    if (!find_room(draw, region, bytes, offset)) {
      give_back(out);
      out.clear();
      return false;
    }
    region.lent[offset] = {bytes, may_change};
    out.push_back({&region, offset, bytes});
  }
  for (const Piece& piece : out) fill(draw, piece);
  return true;
}

void give_back(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    piece.region->accept(piece.offset, piece.length);
    piece.region->lent.erase(piece.offset);
  }
}

std::vector<adapter::Sge> segments(const std::vector<Piece>& pieces, bool by_pointer) {
  std::vector<adapter::Sge> sges;
  for (const Piece& piece : pieces) {
    Region& region = *piece.region;
    const uint64_t addr =
        by_pointer ? reinterpret_cast<uintptr_t>(region.at(piece.offset)) : region.mr.addr + piece.offset;
    sges.push_back({addr, piece.length, by_pointer ? Lkey() : region.mr.lkey});
  }
  return sges;
}

uint32_t room(const Cq& cq) {
  size_t taken = 0;
  for (const auto& qp : cq.node->qps) {
    if (qp->send_cq == &cq) taken += qp->sends.size();
    if (qp->recv_cq == &cq)
      taken += qp->receives.size() + (qp->srq != nullptr ? qp->srq->receives.size() : 0);
  }
  for (const auto& srq : cq.node->srqs)
    if (srq->cq == &cq) taken += srq->receives.size();
  return taken >= cq.depth ? 0 : cq.depth - static_cast<uint32_t>(taken);
}

}  // namespace weft::sim::verbs
