// Bytes -> message -> bytes: every message of the connection manager that the parser accepts is encoded to the same
// bytes, but for the version of a rejection, which may be another one. Input: what a peer has sent so far.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/assert.hpp"
#include "rdmacm/message.hpp"

namespace {

constexpr std::size_t kVersionAt = 4;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace openmrc::rdmacm;
  std::vector<std::uint8_t> left(data, data + size);
  while (!left.empty()) {
    const std::vector<std::uint8_t> exact(left);  // so that the sanitizer sees any read behind it
    Message message;
    std::size_t used = 0;
    if (parse(exact, message, used) != ParseResult::kMessage) break;
    MRC_ASSERT(used >= kHeaderBytes && used <= kMessageBytesMax && used <= exact.size());
    std::vector<std::uint8_t> again = encode(message);
    again[kVersionAt] = exact[kVersionAt];
    MRC_ASSERT(again.size() == used && std::equal(again.begin(), again.end(), exact.begin()));
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(used));
  }
  return 0;
}
