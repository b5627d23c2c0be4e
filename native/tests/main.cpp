// Runs every TEST_CASE linked in, or those whose name contains the first argument.
#include <cstdio>
#include <cstring>

#include "tests/check.hpp"

int main(int argc, char** argv) {
  int run = 0;
  for (const auto& test : openmrc::test::cases()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    const int before = openmrc::test::failures();
    test.run();
    ++run;
    if (openmrc::test::failures() != before) std::fprintf(stderr, "FAILED %s\n", test.name);
  }
  std::printf("%d cases, %d failed checks\n", run, openmrc::test::failures());
  return run == 0 || openmrc::test::failures() != 0 ? 1 : 0;
}
