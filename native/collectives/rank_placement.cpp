#include "collectives/rank_placement.hpp"

#include <sched.h>

#include <algorithm>
#include <vector>

namespace openmrc::collectives {

int better_processor(std::span<const int> processors, std::size_t own, std::span<const int> allowed) {
  const int here = processors[own];
  const auto after = processors.subspan(own + 1);
  if (here < 0 || std::find(after.begin(), after.end(), here) != after.end()) return -1;
  const auto ranks_on = [&](int processor) { return std::count(processors.begin(), processors.end(), processor); };
  int best = -1;
  for (const int processor : allowed) {
    if (ranks_on(processor) <= ranks_on(here) - 2 && (best < 0 || ranks_on(processor) < ranks_on(best)))
      best = processor;
  }
  return best;
}

int RankPlacement::current() { return ::sched_getcpu(); }

bool RankPlacement::improve(std::span<const int> processors, std::size_t own) {
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof before, &before) != 0) return false;  // more processors than the set has room for
  std::vector<int> allowed;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &before)) allowed.push_back(processor);
  }
  const int target = better_processor(processors, own, allowed);
  if (target < 0) return false;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(target, &only);
  if (::sched_setaffinity(0, sizeof only, &only) != 0) return false;
  ::sched_setaffinity(0, sizeof before, &before);
  return true;
}

}  // namespace openmrc::collectives
