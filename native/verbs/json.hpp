// JSON of whole numbers, texts, lists and objects, as path files contain it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace openmrc::verbs {

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBoolean, kWhole, kFraction, kText, kList, kObject };

  Kind kind = Kind::kNull;
  std::int64_t whole = 0;
  std::string text;
  std::vector<JsonValue> items;
  std::vector<std::pair<std::string, JsonValue>> members;  // in the order of the file
  std::string_view source;                                 // as written; refers to the parsed text
};

// Throws JsonError, with the line. Keys of an object differ; lists and objects are nested 16 deep at most; whole numbers
// have up to 18 digits, and larger ones count as fractions.
JsonValue parse_json(std::string_view text);

}  // namespace openmrc::verbs
