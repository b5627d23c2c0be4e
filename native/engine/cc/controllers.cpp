// The registry of congestion controllers.
#include <array>

#include "engine/base/name_registry.hpp"
#include "engine/cc/controller.hpp"
#include "engine/cc/custom_controller.hpp"
#include "engine/cc/none.hpp"
#include "engine/cc/nscc.hpp"

namespace openmrc {
namespace {

// Factory of a controller; custom ones are built from the functions in `custom`.
struct Entry {
  std::unique_ptr<CongestionController> (*make)(const Entry& self, const CcConfig& config) = nullptr;
  CustomControllerFunctions custom;
};

std::unique_ptr<CongestionController> make_none(const Entry&, const CcConfig&) { return std::make_unique<NoControl>(); }

std::unique_ptr<CongestionController> make_nscc(const Entry&, const CcConfig& config) {
  return std::make_unique<Nscc>(config);
}

std::unique_ptr<CongestionController> make_custom(const Entry& self, const CcConfig& config) {
  return make_custom_controller(self.custom, config);
}

constexpr std::array<std::string_view, 2> kNames = {"none", "nscc"};

constinit NameRegistry<Entry, kNames.size()> registry(kNames, std::array<Entry, kNames.size()>{
                                                                  Entry{.make = make_none, .custom = {}},
                                                                  Entry{.make = make_nscc, .custom = {}},
                                                              });

}  // namespace

std::unique_ptr<CongestionController> make_controller(std::string_view name, const CcConfig& config) {
  const Entry* entry = registry.find(name);
  return entry == nullptr ? nullptr : entry->make(*entry, config);
}

std::span<const std::string_view> controller_names() { return registry.names(); }

RegisterResult register_controller(std::string_view name, const CustomControllerFunctions& functions) {
  const bool complete = functions.init != nullptr && functions.on_ack != nullptr && functions.on_trim != nullptr &&
                        functions.on_loss != nullptr && functions.window_bytes != nullptr;
  if (!complete || functions.state_words == 0 || functions.state_words > kPolicyStateWordsMax) {
    return RegisterResult::kFunctionsInvalid;
  }
  return registry.add(name, {.make = make_custom, .custom = functions});
}

}  // namespace openmrc
