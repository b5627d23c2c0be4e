#include "bindings/nic_objects.hpp"

#include "engine/wire/names.hpp"

namespace openmrc::bindings {

nb::dict parse_errors(const DropStats& stats) {
  nb::dict out;
  for (std::size_t i = 1; i < stats.parse_errors.size(); ++i) {  // 0 is none
    out[wire::name_of(static_cast<ParseError>(i))] = stats.parse_errors[i];
  }
  return out;
}

}  // namespace openmrc::bindings
