// Options of sockets, whose refusal is not an error.
#pragma once

#include <cstdint>

namespace openmrc::nic {

// False: the kernel refuses.
bool set_option(int fd, int level, int name, int value);

// The privileged form ignores the system's limit; without the privilege the limit applies. The granted bytes.
std::uint32_t grow_buffer(int fd, int forced, int plain, int read_back, std::uint32_t bytes);

}  // namespace openmrc::nic
