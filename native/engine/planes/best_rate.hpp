// The highest rate of the last ten to twenty seconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class BestRate {
 public:
  void add(TimePs now, std::int64_t rate) {
    if (now - since_ > kPart) {
      before_ = best_;
      best_ = 0;
      since_ = now;
    }
    best_ = std::max(best_, rate);
  }
  std::int64_t get() const { return std::max<std::int64_t>({best_, before_, 1}); }  // bytes per second
  void rebase(TimePs by) { since_ = rebased(since_, by); }

 private:
  static constexpr TimePs kPart = 10 * kPsPerSecond;

  std::int64_t best_ = 0, before_ = 0;
  TimePs since_ = 0;
};

}  // namespace openmrc
