#include "tests/check.hpp"

#include <cstdio>
#include <string>
#include <vector>

namespace openmrc::test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

int& failures() {
  static int count = 0;
  return count;
}

Registration::Registration(const char* name, void (*run)(), bool is_long) { cases().push_back({name, run, is_long}); }

Values::Values() = default;
Values::~Values() = default;

std::string failed_check(const char* expression, const Values& values, const char* file, int line) {
  std::string text = std::string(file) + ':' + std::to_string(line) + ": CHECK(" + expression + ") failed";
  return values.text().empty() ? text : text + ": " + values.text();
}

void report(const char* expression, const Values& values, const char* file, int line) {
  ++failures();
  std::fprintf(stderr, "%s\n", failed_check(expression, values, file, line).c_str());
}

}  // namespace openmrc::test
