// Assertions for programming errors, on in release builds. Errors that a peer or a user can cause are error values
// instead.
#pragma once

namespace openmrc {

// Prints the failed expression and aborts; never returns.
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);

}  // namespace openmrc

#define MRC_ASSERT(expression)                                   \
  do {                                                           \
    if (!(expression)) [[unlikely]]                              \
      ::openmrc::assert_failed(#expression, __FILE__, __LINE__); \
  } while (false)
