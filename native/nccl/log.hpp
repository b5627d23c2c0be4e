// Messages to NCCL's log, and results at the C boundary.
#pragma once

#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "nccl/fork.hpp"
#include "nccl/net_api.hpp"
#include "nic/error.hpp"
#include "nic/fork.hpp"

namespace openmrc::nccl {

void set_logger(ncclDebugLogger_t logger);
void warn(const std::string& text);
void info(const std::string& text);

// An error that is returned to NCCL, after its text has been logged.
struct Failure {
  ncclResult_t result;
  std::string text;
};

// Result of `call`; nothing is thrown across the C boundary.
template <typename Call>
ncclResult_t guarded(Call&& call) noexcept {
  const OngoingCall ongoing;
  try {
    std::forward<Call>(call)();
    return ncclSuccess;
  } catch (const Failure& failure) {
    warn(failure.text);
    return failure.result;
  } catch (const nic::NicError& error) {
    warn(error.what());
    return ncclSystemError;
  } catch (const nic::ForkedError& error) {
    warn(error.what());
    return ncclInvalidUsage;
  } catch (const std::bad_alloc&) {
    return ncclSystemError;
  } catch (const std::exception& error) {
    warn(error.what());
    return ncclSystemError;
  } catch (...) {
    return ncclInternalError;
  }
}

}  // namespace openmrc::nccl
