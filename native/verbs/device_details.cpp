#include "verbs/device_details.hpp"

#include <cstring>

#include "nic/socket_address.hpp"
#include "verbs/connection_values.hpp"
#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"
#include "verbs/settings.hpp"

namespace openmrc::verbs {
namespace {

static_assert(kPortCountMax <= kPlanesDescribedMax);

void store(const Address& address, PlaneAddress& to) {
  const nic::SocketAddress socket = nic::to_socket_address(address, 0);
  std::memcpy(&to, &socket.storage, sizeof to);
}

int describe(Context& context, DeviceDetails& details) {
  details = {};
  details.kind = static_cast<std::uint8_t>(lanes_of_environment());
  details.published = published_mrc() ? 1 : 0;
  details.by_file = context.nic->description().rules.empty() ? 0 : 1;
  for (const PlaneDescription& plane : context.nic->description().planes) {
    store(plane.local, details.local[details.planes]);
    store(plane.advertise, details.advertised[details.planes]);
    ++details.planes;
  }
  return 0;
}

}  // namespace
}  // namespace openmrc::verbs

extern "C" __attribute__((visibility("default"))) int openmrc_device_details(ibv_context* context,
                                                                             openmrc::verbs::DeviceDetails* details) {
  using namespace openmrc::verbs;
  if (context == nullptr || details == nullptr || !is_live(&Context::of(context))) return EINVAL;
  return guarded([&] { return describe(Context::of(context), *details); });
}
