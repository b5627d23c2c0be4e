#include "engine/base/assert.hpp"

namespace openmrc {

// A trap rather than abort() and a message on stderr: the engine links against nothing that does I/O. The failing
// expression stays readable in a debugger and in a core file through these locals.
void assert_failed(const char* expression, const char* file, int line) {
  const char* volatile keep_expression = expression;
  const char* volatile keep_file = file;
  volatile int keep_line = line;
  (void)keep_expression;
  (void)keep_file;
  (void)keep_line;
  __builtin_trap();
}

}  // namespace openmrc
