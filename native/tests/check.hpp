// A small test registry: building the C++ tests requires a compiler and nothing else.
#pragma once

#include <string>
#include <vector>

#include "tests/check_values.hpp"

namespace openmrc::test {

struct Case {
  const char* name;
  void (*run)();
  bool is_long;
};

std::vector<Case>& cases();
int& failures();

struct Registration {
  Registration(const char* name, void (*run)(), bool is_long);
};

// For a compound expression, `values` are those of the first comparison, if that one is false.
std::string failed_check(const char* expression, const Values& values, const char* file, int line);
[[gnu::cold]] void report(const char* expression, const Values& values, const char* file, int line);

}  // namespace openmrc::test

#define OPENMRC_TEST_CASE(name, is_long)                                                    \
  static void name();                                                                       \
  static const ::openmrc::test::Registration registration_of_##name(#name, &name, is_long); \
  static void name()

#define TEST_CASE(name) OPENMRC_TEST_CASE(name, false)

// For a mean of many seconds of virtual time in code that shorter cases run, too: it takes many seconds under a
// sanitizer.
#define LONG_TEST_CASE(name) OPENMRC_TEST_CASE(name, true)

#define CHECK(expression)                                                        \
  do {                                                                           \
    ::openmrc::test::Values values_of_check;                                     \
    if (!static_cast<bool>(values_of_check <= expression))                       \
      ::openmrc::test::report(#expression, values_of_check, __FILE__, __LINE__); \
  } while (false)
