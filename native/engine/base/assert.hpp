// Assertions for our own mistakes, on in release builds. Anything a peer or a user can cause is an error value instead.
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
