// A bare UDP socket between two ends, for comparison with the NIC.
#pragma once

#include <cstdint>

#include "engine/base/address.hpp"
#include "nic/file_descriptor.hpp"

namespace openmrc::nic {

struct UdpEnds {
  Address local, remote;
  std::uint16_t local_port = 0, remote_port = 0;

  // A connected socket that does not block. Throws NicError if it cannot be opened.
  FileDescriptor open() const;
};

}  // namespace openmrc::nic
