// The API of the connection manager as its headers declare it, and its errors: -1 with errno, no exceptions.
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "nic/no_cancellation.hpp"

// A function that programs link against; librdmacm.map gives it its version node.
#define CM_API extern "C" __attribute__((visibility("default")))

namespace openmrc::rdmacm {

inline int result_of(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// Result of `call`, an errno; exceptions become one.
template <typename Call>
int contained(Call&& call) noexcept {
  const nic::NoCancellation uncancelled;
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (...) {
    return EIO;
  }
}

// Calls `call`, which returns an errno, and returns -1 with errno set unless that is 0.
template <typename Call>
int guarded(Call&& call) noexcept {
  return result_of(contained(std::forward<Call>(call)));
}

}  // namespace openmrc::rdmacm
