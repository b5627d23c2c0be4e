// Errors at the C boundary: nothing is thrown across it, and every failure is an errno.
#pragma once

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "engine/generated/enums.hpp"
#include "nic/error.hpp"
#include "nic/fork.hpp"
#include "nic/no_cancellation.hpp"

namespace openmrc::verbs {

inline int errno_of(Status status) {
  switch (status) {
    case Status::kOk:
      return 0;
    case Status::kQueueFull:
      return ENOMEM;
    case Status::kLimit:
      return ENOMEM;
    case Status::kBusy:
      return EBUSY;
    case Status::kInvalidArgument:
    case Status::kInvalidState:
    case Status::kNotFound:
      break;
  }
  return EINVAL;
}

// Result of `call`, an errno; exceptions become one. The call may contain no point of cancellation; the NIC's data path
// has none.
template <typename Call>
int guarded_data_path(Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (const nic::NicError& error) {
    return error.code() == 0 ? EIO : error.code();
  } catch (const nic::ForkedError&) {
    return EPERM;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (...) {
    return EIO;
  }
}

template <typename Call>
int guarded(Call&& call) noexcept {
  const nic::NoCancellation uncancelled;
  return guarded_data_path(std::forward<Call>(call));
}

// The object that `make` stores, or nullptr with errno set.
template <typename Object, typename Make>
Object* made(Make&& make) noexcept {
  Object* object = nullptr;
  const int error = guarded([&] { return make(object); });
  if (error == 0) return object;
  errno = error;
  return nullptr;
}

}  // namespace openmrc::verbs
