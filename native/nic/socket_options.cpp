#include "nic/socket_options.hpp"

#include <sys/socket.h>

namespace openmrc::nic {

bool set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

std::uint32_t grow_buffer(int fd, int forced, int plain, int read_back, std::uint32_t bytes) {
  const int wanted = static_cast<int>(bytes);
  if (!set_option(fd, SOL_SOCKET, forced, wanted)) set_option(fd, SOL_SOCKET, plain, wanted);
  int granted = 0;
  socklen_t length = sizeof granted;
  ::getsockopt(fd, SOL_SOCKET, read_back, &granted, &length);
  return static_cast<std::uint32_t>(granted);
}

}  // namespace openmrc::nic
