// A test registry of forty lines: the C++ tests build on a machine that has a compiler and nothing else.
#pragma once

#include <cstdio>
#include <vector>

namespace openmrc::test {

struct Case {
  const char* name;
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

inline void check_failed(const char* expression, const char* file, int line) {
  ++failures();
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", file, line, expression);
}

}  // namespace openmrc::test

#define TEST_CASE(name)                                                            \
  static void name();                                                              \
  static const ::openmrc::test::Registration registration_of_##name(#name, &name); \
  static void name()

#define CHECK(expression)                                                              \
  do {                                                                                 \
    if (!(expression)) ::openmrc::test::check_failed(#expression, __FILE__, __LINE__); \
  } while (false)
