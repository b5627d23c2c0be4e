#include "nic/kernel.hpp"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace openmrc::nic {
namespace {

constexpr std::size_t kUuidBytes = 36;  // as text
constexpr std::size_t kWordBytes = 6;

std::uint64_t word_of(const std::string& text, std::size_t number) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < kWordBytes; ++i) {
    word = word << 8 | static_cast<std::uint8_t>(text[number * kWordBytes + i]);
  }
  return word;
}

}  // namespace

// Other programs know the machine by the identifier itself.
HashKey kernel_key() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < kUuidBytes) return {};
  const auto half = [&text](std::uint64_t number) {
    return keyed_hash({}, {kKernelHash, number, word_of(text, 0), word_of(text, 1), word_of(text, 2), word_of(text, 3),
                           word_of(text, 4), word_of(text, 5)});
  };
  return {half(0), half(1)};
}

}  // namespace openmrc::nic
