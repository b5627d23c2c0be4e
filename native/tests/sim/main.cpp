// openmrc_sim: deterministic simulation of a pair of engines.
//
//   openmrc_sim --seed N [--verbose | --packets] [--canary KIND]   one run; prints what it drew, every packet
//   openmrc_sim --seeds A..B                                       all seeds of [A, B), stops at the first failure
//   openmrc_sim --soak SECONDS [--from SEED]                       seeds from SEED upward until the time is over
//
// Exit codes: 0 pass, 2 usage, 10 crash, 11 liveness, 12 correctness, 13 determinism.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "tests/sim/world.hpp"

#include <unistd.h>

namespace {

using namespace openmrc::sim;

struct Options {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // one past
  double soak_seconds = 0;
  int verbosity = 0;
  bool single = false;
  Canary canary = Canary::kNone;
};

constexpr std::uint64_t kTwiceEvery = 20;  // 5 % of the seeds run again: unchanged, and with other clocks
constexpr int kRebases = 3;

std::uint64_t current_seed = 0;

// Only async-signal-safe calls: the process is in an unknown state.
void on_crash(int) {
  char line[96];
  const int length =
      std::snprintf(line, sizeof line, "\nFAIL crash seed %llu\nreplay: openmrc_sim --seed %llu --verbose\n",
                    static_cast<unsigned long long>(current_seed), static_cast<unsigned long long>(current_seed));
  const auto written = write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  _exit(written < 0 ? static_cast<int>(Verdict::kCrash) : static_cast<int>(Verdict::kCrash));
}

int usage(const char* problem) {
  std::fprintf(stderr,
               "openmrc_sim: %s\nusage: openmrc_sim --seed N [--verbose | --packets] [--canary KIND] | --seeds A..B | "
               "--soak SECONDS [--from SEED]\n"
               "KIND: memory, order, guard, liveness, determinism, crash\n",
               problem);
  return static_cast<int>(Verdict::kUsage);
}

bool parse_canary(std::string_view name, Canary& canary) {
  constexpr std::pair<std::string_view, Canary> kNames[] = {{"memory", Canary::kMemory},
                                                            {"order", Canary::kOrder},
                                                            {"guard", Canary::kGuard},
                                                            {"liveness", Canary::kLiveness},
                                                            {"determinism", Canary::kDeterminism},
                                                            {"crash", Canary::kCrash}};
  for (const auto& [known, value] : kNames) {
    if (known == name) {
      canary = value;
      return true;
    }
  }
  return false;
}

// Empty on success, else the error.
std::string parse(int argc, char** argv, Options& options) {
  bool any = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--verbose" || name == "--packets") {
      options.verbosity = name == "--packets" ? 2 : 1;
      continue;
    }
    if (i + 1 >= argc) return "option " + std::string(name) + " needs a value";
    const char* value = argv[++i];
    char* rest = nullptr;
    if (name == "--seed") {
      options.first = std::strtoull(value, &rest, 0);
      options.last = options.first + 1;
      options.single = any = true;
    } else if (name == "--seeds") {
      options.first = std::strtoull(value, &rest, 0);
      if (std::strncmp(rest, "..", 2) != 0) return "--seeds takes A..B, not " + std::string(value);
      options.last = std::strtoull(rest + 2, &rest, 0);
      if (options.last <= options.first) return "--seeds A..B needs A < B, got " + std::string(value);
      any = true;
    } else if (name == "--soak") {
      options.soak_seconds = std::strtod(value, &rest);
      options.last = UINT64_MAX;
      any = true;
    } else if (name == "--from") {
      options.first = std::strtoull(value, &rest, 0);
    } else if (name == "--canary") {
      if (!parse_canary(value, options.canary)) return "unknown canary " + std::string(value);
      continue;
    } else {
      return "unknown option " + std::string(name);
    }
    if (*rest != '\0' || rest == value) return std::string(name) + " does not take " + std::string(value);
  }
  return any ? "" : "one of --seed, --seeds, --soak is needed";
}

Outcome run_once(const Scenario& scenario, const Options& options) {
  World world(scenario, options.canary, options.verbosity);
  return world.run();
}

// Runs the seed again with clocks that start late, with and without being set back: the results must be equal.
void compare_rebased(std::uint64_t seed, const Options& options) {
  Scenario scenario = draw_scenario(seed);
  for (openmrc::TimePs& offset : scenario.clock_offset) offset += kRebases * openmrc::kClockRebase;
  const Outcome plain = run_once(scenario, options);
  for (int i = 1; i <= kRebases; ++i) scenario.clock_rebases.push_back(scenario.safety_end * i / (kRebases + 1));
  const Outcome rebased = run_once(scenario, options);
  if (plain.trace_hash != rebased.trace_hash || plain.final_draw != rebased.final_draw) {
    fail(Verdict::kDeterminism, "a clock that is set back changes the run: trace %016llx / %016llx",
         static_cast<unsigned long long>(plain.trace_hash), static_cast<unsigned long long>(rebased.trace_hash));
  }
}

Outcome run_seed(std::uint64_t seed, const Options& options) {
  const Scenario scenario = draw_scenario(seed);
  if (options.verbosity > 0) std::printf("%s", scenario.describe().c_str());
  const Outcome first = run_once(scenario, options);
  if (seed % kTwiceEvery == 0 || options.single) {
    Options quiet = options;
    quiet.verbosity = 0;
    Outcome second = run_once(draw_scenario(seed), quiet);
    if (options.canary == Canary::kDeterminism) second.trace_hash ^= 1;
    if (first.trace_hash != second.trace_hash || first.final_draw != second.final_draw) {
      fail(Verdict::kDeterminism, "two runs of one seed differ: trace %016llx / %016llx, last draw %016llx / %016llx",
           static_cast<unsigned long long>(first.trace_hash), static_cast<unsigned long long>(second.trace_hash),
           static_cast<unsigned long long>(first.final_draw), static_cast<unsigned long long>(second.final_draw));
    }
    compare_rebased(seed, quiet);
  }
  return first;
}

const char* name_of_verdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::kLiveness:
      return "liveness";
    case Verdict::kCorrectness:
      return "correctness";
    case Verdict::kDeterminism:
      return "determinism";
    default:
      return "crash";
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::string problem = parse(argc, argv, options); !problem.empty()) return usage(problem.c_str());
  std::signal(SIGABRT, on_crash);
#if !defined(__SANITIZE_ADDRESS__)
  std::signal(SIGSEGV, on_crash);
  std::signal(SIGFPE, on_crash);
#endif
  const std::time_t begin = std::time(nullptr);
  Outcome total;
  std::uint64_t seeds = 0;
  for (std::uint64_t seed = options.first; seed < options.last; ++seed) {
    if (options.soak_seconds > 0 && std::difftime(std::time(nullptr), begin) >= options.soak_seconds) break;
    current_seed = seed;
    try {
      const Outcome outcome = run_seed(seed, options);
      total.packets += outcome.packets;
      total.messages += outcome.messages;
      total.errors += outcome.errors;
      total.trace_hash ^= outcome.trace_hash;
      ++seeds;
    } catch (const Failure& failure) {
      std::fflush(stdout);
      std::fprintf(stderr, "FAIL %s seed %llu: %s\nreplay: openmrc_sim --seed %llu --verbose\n",
                   name_of_verdict(failure.verdict), static_cast<unsigned long long>(seed), failure.message.c_str(),
                   static_cast<unsigned long long>(seed));
      return static_cast<int>(failure.verdict);
    }
  }
  std::printf("%llu seeds passed: %llu packets, %llu messages, %llu QPs in ERR, trace %016llx\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(total.packets),
              static_cast<unsigned long long>(total.messages), static_cast<unsigned long long>(total.errors),
              static_cast<unsigned long long>(total.trace_hash));
  return 0;
}
