// Path of one half of an RC QP: one for life, or, as an extension, one plane after the other (X.8.11).
#pragma once

#include <algorithm>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

class RcPaths {
 public:
  // Of a QP that may move the first EV of each port counts, of another one the first EV.
  RcPaths(const std::vector<Ev>& universe, bool may_move) {
    for (const Ev& ev : universe) {
      if (paths_.empty() || (may_move && !has(ev.port))) paths_.push_back(ev);
    }
  }

  const Ev& current() const { return paths_[current_]; }
  bool usable(PortMask ports) const { return (ports >> current().port & 1) != 0; }

  // Takes the next path on one of `ports`; false: there is none but the current one.
  bool leave(PortMask ports) {
    for (std::size_t step = 1; step < paths_.size(); ++step) {
      const std::size_t next = (current_ + step) % paths_.size();
      if ((ports >> paths_[next].port & 1) == 0) continue;
      current_ = next;
      return true;
    }
    return false;
  }
  // Takes the path on `port`, by which the peer has just been heard.
  void follow(PortId port) {
    if (paths_.size() == 1 || port == current().port) return;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (paths_[i].port == port) current_ = i;
    }
  }

 private:
  bool has(PortId port) const {
    return std::any_of(paths_.begin(), paths_.end(), [port](const Ev& path) { return path.port == port; });
  }

  std::vector<Ev> paths_;
  std::size_t current_ = 0;
};

}  // namespace openmrc
