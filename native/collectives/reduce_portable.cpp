#include "collectives/reduce_kernels.hpp"

namespace openmrc::collectives {

const ReduceTable& portable_reductions() {
  static constexpr ReduceTable kTable = make_table("portable");
  return kTable;
}

}  // namespace openmrc::collectives
