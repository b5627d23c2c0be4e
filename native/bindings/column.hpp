// Arrays of NumPy that own the values of a vector.
#pragma once

#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace openmrc::bindings {

template <class T>
nanobind::object column(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(kept->data(), {kept->size()}, owner));
}

}  // namespace openmrc::bindings
