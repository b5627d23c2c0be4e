// The registry of congestion controllers.
#include <array>

#include "engine/cc/controller.hpp"
#include "engine/cc/none.hpp"
#include "engine/cc/nscc.hpp"

namespace openmrc {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"none", "nscc"};

}  // namespace

std::unique_ptr<CongestionController> make_controller(std::string_view name, const CcConfig& config) {
  if (name == "nscc") return std::make_unique<Nscc>(config);
  if (name == "none") return std::make_unique<NoControl>();
  return nullptr;
}

std::span<const std::string_view> controller_names() { return kNames; }

}  // namespace openmrc
