// Usage: openmrc_tests [--jobs N] [--short] [TEXT]    Runs every TEST_CASE linked in, or those whose name contains TEXT,
// in N processes that share the cases; with --short no LONG_TEST_CASE.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "tests/check.hpp"

namespace {

constexpr int kJobsMax = 256;

struct Options {
  int jobs = 1;
  bool only_short = false;
  const char* text = "";
};

// Shared by all processes.
struct Progress {
  std::atomic<std::size_t> next_case = 0;
  std::atomic<int> run = 0;
  std::atomic<int> failures = 0;
  std::array<std::atomic<const char*>, kJobsMax> running{};  // the case of each process
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--jobs") == 0 && i + 1 < argc) {
      options.jobs = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--short") == 0) {
      options.only_short = true;
    } else {
      options.text = argv[i];
    }
  }
  return options.jobs >= 1 && options.jobs <= kJobsMax;
}

void run_cases(const Options& options, Progress& progress, int job) {
  const auto& cases = openmrc::test::cases();
  for (std::size_t i = progress.next_case++; i < cases.size(); i = progress.next_case++) {
    if (std::strstr(cases[i].name, options.text) == nullptr || (options.only_short && cases[i].is_long)) continue;
    const int before = openmrc::test::failures();
    progress.running[static_cast<std::size_t>(job)] = cases[i].name;
    cases[i].run();
    ++progress.run;
    if (openmrc::test::failures() != before) std::fprintf(stderr, "FAILED %s\n", cases[i].name);
  }
  progress.failures += openmrc::test::failures();
}

// True if all processes ran to the end. Prints the case, the last one, of each that did not.
bool run_in_processes(const Options& options, Progress& progress) {
  std::map<pid_t, int> jobs;
  for (int i = 0; i < options.jobs; ++i) {
    const pid_t child = ::fork();
    if (child < 0) std::abort();
    if (child == 0) {
      run_cases(options, progress, i);
      std::exit(0);  // not _exit: a sanitizer checks for leaks here
    }
    jobs[child] = i;
  }
  bool all = true;
  int status = 0;
  for (pid_t child = ::wait(&status); child > 0; child = ::wait(&status)) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    all = false;
    const char* name = progress.running[static_cast<std::size_t>(jobs[child])];
    std::fprintf(stderr, "CRASHED with wait status %d in %s\n", status, name == nullptr ? "no case" : name);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "--jobs takes 1 to %d\n", kJobsMax);
    return 2;
  }
  void* memory = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& progress = *new (memory) Progress;
  bool ended = true;
  if (options.jobs == 1) {
    run_cases(options, progress, 0);
  } else {
    ended = run_in_processes(options, progress);
  }
  std::printf("%d cases, %d failed checks%s\n", progress.run.load(), progress.failures.load(),
              ended ? "" : ", and a process that ended in the middle of a case");
  return ended && progress.run > 0 && progress.failures == 0 ? 0 : 1;
}
