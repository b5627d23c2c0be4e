#include "collectives/reducing_placer.hpp"

#include <algorithm>
#include <cstring>

namespace openmrc::collectives {

std::shared_ptr<ReducingPlacer> ReducingPlacer::of(const Operation& op, std::uint64_t longer_than) {
  const Plan& plan = *op.plan;
  const PlanConfig& config = plan.config();
  const std::size_t element = collectives::element_bytes(config.type);
  if (element > kCombinedBytesMax) return nullptr;
  auto placer = std::make_shared<ReducingPlacer>();
  for (std::uint32_t i = 0; i < plan.step_count(); ++i) {
    // As with Steps::reduces_now(), except that nothing has arrived yet.
    const std::uint32_t reduction = plan.reduction_of(i);
    if (reduction == kNoStep || op.waits[reduction] != 1 || plan.step(i).bytes <= longer_than) continue;
    const Step& from = plan.step(i);
    const Step& step = plan.step(reduction);
    placer->ranges_.push_back({.begin = from.into_offset,
                               .end = from.into_offset + from.bytes,
                               .receive = i,
                               .into = op.buffers[step.into_buffer].base + step.into_offset,
                               .reversed = step.reversed});
  }
  if (placer->ranges_.empty()) return nullptr;
  std::sort(placer->ranges_.begin(), placer->ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  placer->scratch_ = op.buffers[config.scratch_buffer].base;
  placer->type_ = config.type;
  placer->op_ = config.op;
  placer->element_bytes_ = element;
  return placer;
}

bool ReducingPlacer::reduces(std::uint32_t receive) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) { return range.receive == receive; });
}

bool ReducingPlacer::place(std::uint64_t offset, std::span<const std::uint8_t> payload) {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), offset,
                                      [](std::uint64_t wanted, const Range& range) { return wanted < range.begin; });
  if (after != ranges_.begin() && offset < std::prev(after)->end) {
    const Range& range = *std::prev(after);
    const std::uint64_t skipped = offset - range.begin;
    const bool whole = skipped % element_bytes_ == 0 && payload.size() % element_bytes_ == 0;
    if (!whole || payload.size() > range.end - offset) return false;
    reduce(type_, op_, range.into + skipped, payload.data(), payload.size() / element_bytes_, range.reversed);
    return true;
  }
  if (after != ranges_.end() && payload.size() > after->begin - offset) return false;
  std::memcpy(scratch_ + offset, payload.data(), payload.size());
  return true;
}

}  // namespace openmrc::collectives
