// Result of a simulated run, and the exit codes of openmrc_sim.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace openmrc::sim {

enum class Verdict : int {
  kPass = 0,
  kUsage = 2,
  kCrash = 10,        // assertion or signal
  kLiveness = 11,     // work that should have completed did not, or an end never became idle
  kCorrectness = 12,  // a check failed
  kDeterminism = 13,  // two runs of one seed differed
};

struct Failure {
  Verdict verdict;
  std::string message;
};

[[noreturn]] [[gnu::format(printf, 2, 3)]] inline void fail(Verdict verdict, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Failure{verdict, text};
}

}  // namespace openmrc::sim

// A checker's condition, with a message about the violation.
#define SIM_REQUIRE(condition, ...)                                                             \
  do {                                                                                          \
    if (!(condition)) ::openmrc::sim::fail(::openmrc::sim::Verdict::kCorrectness, __VA_ARGS__); \
  } while (false)
