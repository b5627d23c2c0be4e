#include "engine/base/assert.hpp"

namespace openmrc {

// Traps instead of calling abort() with a message on stderr: the engine links against nothing that does I/O. These
// locals keep the failing expression readable in a debugger and in a core file.
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
