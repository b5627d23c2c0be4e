// Properties of a device that librdmacm of openmrc needs beyond the public API.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <cstdint>

namespace openmrc::verbs {

inline constexpr std::uint32_t kPlanesDescribedMax = 32;

union PlaneAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

struct DeviceDetails {
  std::uint32_t planes;
  std::uint8_t kind;       // of QPs: 0 pair, 1 MRC, 2 RC
  std::uint8_t published;  // 1: MRC without extensions
  std::uint8_t by_file;    // 1: a path file describes it, and it is the only device
  PlaneAddress local[kPlanesDescribedMax];
  PlaneAddress advertised[kPlanesDescribedMax];
};

}  // namespace openmrc::verbs

// Version node OPENMRC_1. Returns an errno.
extern "C" int openmrc_device_details(ibv_context* context, openmrc::verbs::DeviceDetails* details);
