// Addresses of the memory that traffic touches. A driver that serves many engines in turn can prefetch those of the
// next one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace openmrc {

using HotMemory = std::vector<std::span<const std::byte>>;

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return {reinterpret_cast<const std::byte*>(&object), sizeof(T)};
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& elements) {
  return std::as_bytes(std::span<const T>(elements));
}

}  // namespace openmrc
