// Replacement for libFuzzer's driver: replays every corpus file, then mutates them until the limit.
//
//   fuzz_NAME [-max_total_time=SECONDS] [-runs=COUNT] [-seed=N] FILE_OR_FOLDER...
//
// The options are libFuzzer's. Mutations depend on the seed and the corpus only; the input that breaks a target is
// written to ./crash-input before the process ends.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) __attribute__((weak));
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kInputBytesMax = 16384;
constexpr std::uint64_t kClockEvery = 256;

struct Options {
  std::uint64_t seconds = 0;
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> paths;
};

const Input* current = nullptr;

void save_current() {
  if (current == nullptr) return;
  if (std::FILE* file = std::fopen("crash-input", "wb")) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in ./crash-input (%zu bytes)\n", current->size());
  }
  current = nullptr;
}

void on_signal(int number) {
  save_current();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void run(const Input& input) {
  current = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current = nullptr;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&] { return std::strtoull(argument.c_str() + argument.find('=') + 1, nullptr, 10); };
    if (argument.starts_with("-max_total_time=")) {
      options.seconds = number();
    } else if (argument.starts_with("-runs=")) {
      options.runs = number();
    } else if (argument.starts_with("-seed=")) {
      options.seed = number();
    } else if (!argument.starts_with("-")) {
      options.paths.push_back(argument);
    }
  }
  return options;
}

std::vector<Input> read_corpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else {
      files.emplace_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      std::exit(2);
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

void mutate_once(Input& input, const std::vector<Input>& corpus, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  if (input.empty()) input.resize(1 + below(64));
  const std::size_t at = below(input.size());
  switch (below(7)) {
    case 0:
      input[at] = static_cast<std::uint8_t>(input[at] ^ (1U << below(8)));
      break;
    case 1:
      input[at] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      input[at] = std::array<std::uint8_t, 4>{0x00, 0xFF, 0x7F, 0x80}[below(4)];
      break;
    case 3:
      input.resize(at);
      break;
    case 4: {
      Input extra(1 + below(64));
      for (auto& byte : extra) byte = static_cast<std::uint8_t>(random());
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), extra.begin(), extra.end());
      break;
    }
    case 5: {
      const Input& other = corpus[below(corpus.size())];
      const std::size_t count = std::min(other.size(), input.size() - at);
      std::copy_n(other.begin(), count, input.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    }
    default: {
      const Input& other = corpus[below(corpus.size())];
      input.insert(input.end(), other.begin(), other.end());
      break;
    }
  }
  if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  const Options options = parse(argc, argv);
  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) std::signal(number, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current);

  std::vector<Input> corpus = read_corpus(options.paths);
  for (const Input& input : corpus) run(input);
  const std::size_t replayed = corpus.size();
  if (corpus.empty()) corpus.emplace_back();

  std::mt19937_64 random(options.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  std::uint64_t count = 0;
  const auto more = [&] {
    if (options.runs != 0) return count < options.runs;
    return options.seconds != 0 && (count % kClockEvery != 0 || std::chrono::steady_clock::now() < end);
  };
  for (; more(); ++count) {
    Input input = corpus[random() % corpus.size()];
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) mutate_once(input, corpus, random);
    run(input);
  }
  std::printf("%zu corpus inputs, %llu mutations, seed %llu: no failure\n", replayed,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(options.seed));
  return 0;
}
