// Tags of the descriptors in a device's epoll instances.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>

#include "nic/file_descriptor.hpp"

namespace openmrc::nic {

enum class Source : std::uint32_t { kReceive, kEndpoint, kBlocked, kWake, kLinks };

inline std::uint64_t tag(Source source, std::size_t port = 0) {
  return (static_cast<std::uint64_t>(source) << 32) | static_cast<std::uint64_t>(port);
}

inline bool watch(const FileDescriptor& epoll, int operation, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(epoll.get(), operation, fd, &event) == 0;
}

}  // namespace openmrc::nic
