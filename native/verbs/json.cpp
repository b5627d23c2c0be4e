#include "verbs/json.hpp"

#include <algorithm>
#include <charconv>

namespace openmrc::verbs {
namespace {

constexpr int kDepthMax = 16;
constexpr std::size_t kDigitsMax = 18;

void append_utf8(std::string& to, unsigned code) {
  if (code < 0x80) {
    to += static_cast<char>(code);
    return;
  }
  if (code < 0x800) {
    to += static_cast<char>(0xC0U | code >> 6);
  } else {
    to += static_cast<char>(0xE0U | code >> 12);
    to += static_cast<char>(0x80U | (code >> 6 & 0x3FU));
  }
  to += static_cast<char>(0x80U | (code & 0x3FU));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  JsonValue whole_text() {
    JsonValue value = parse(0);
    skip_space();
    if (at_ != text_.size()) fail("more text behind the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw JsonError("line " + std::to_string(line) + ": " + why);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(char sign) {
    skip_space();
    if (peek() != sign) return false;
    ++at_;
    return true;
  }

  void need(char sign) {
    if (!take(sign)) fail(std::string("a '") + sign + "' is missing");
  }

  JsonValue parse(int depth) {
    if (depth > kDepthMax) fail("nested too deep");
    skip_space();
    const std::size_t begin = at_;
    JsonValue value;
    if (peek() == '{') {
      parse_object(value, depth);
    } else if (peek() == '[') {
      parse_list(value, depth);
    } else if (peek() == '"') {
      value.kind = JsonValue::Kind::kText;
      value.text = parse_text();
    } else {
      parse_word(value);
    }
    value.source = text_.substr(begin, at_ - begin);
    return value;
  }

  void parse_object(JsonValue& to, int depth) {
    to.kind = JsonValue::Kind::kObject;
    need('{');
    if (take('}')) return;
    do {
      skip_space();
      if (peek() != '"') fail("a key in quotes is missing");
      std::string key = parse_text();
      const auto same = [&](const auto& member) { return member.first == key; };
      if (std::any_of(to.members.begin(), to.members.end(), same)) fail("the key '" + key + "' occurs twice");
      need(':');
      to.members.emplace_back(std::move(key), parse(depth + 1));
    } while (take(','));
    need('}');
  }

  void parse_list(JsonValue& to, int depth) {
    to.kind = JsonValue::Kind::kList;
    need('[');
    if (take(']')) return;
    do {
      to.items.push_back(parse(depth + 1));
    } while (take(','));
    need(']');
  }

  std::string parse_text() {
    std::string found;
    for (++at_; peek() != '"'; ++at_) {
      if (at_ == text_.size() || static_cast<unsigned char>(peek()) < 0x20) fail("a text has no end");
      if (peek() == '\\') {
        ++at_;
        parse_escape(found);
      } else {
        found += peek();
      }
    }
    ++at_;
    return found;
  }

  // At the sign behind the backslash; stays at the last one of the escape.
  void parse_escape(std::string& to) {
    constexpr std::string_view kSigns = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t found = at_ < text_.size() ? kSigns.find(peek()) : std::string_view::npos;
    if (found != std::string_view::npos) {
      to += kMeanings[found];
      return;
    }
    unsigned code = 0;
    const std::string_view digits = text_.substr(std::min(at_ + 1, text_.size()), 4);
    const char* end = digits.data() + digits.size();
    const bool whole = digits.size() == 4 && std::from_chars(digits.data(), end, code, 16).ptr == end;
    if (peek() != 'u' || !whole || (code & 0xF800U) == 0xD800U) fail("an escape that is not allowed");
    append_utf8(to, code);
    at_ += 4;
  }

  void parse_word(JsonValue& to) {
    constexpr std::string_view kEnds = " \t\r\n,]}:\"[{";
    const std::size_t begin = at_;
    while (at_ < text_.size() && kEnds.find(text_[at_]) == std::string_view::npos) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "null") return;
    to.kind = JsonValue::Kind::kBoolean;
    if (word == "true" || word == "false") return;
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    const auto is_digit = [](char sign) { return sign >= '0' && sign <= '9'; };
    if (digits.empty() || !is_digit(digits.front())) fail("a value is missing");
    if (digits.find_first_not_of("0123456789+-.eE") != std::string_view::npos) fail("a number that is none");
    to.kind = JsonValue::Kind::kFraction;
    if (digits.size() > kDigitsMax || !std::all_of(digits.begin(), digits.end(), is_digit)) return;
    if (digits.size() > 1 && digits.front() == '0') fail("a number begins with 0");
    to.kind = JsonValue::Kind::kWhole;
    std::from_chars(word.data(), word.data() + word.size(), to.whole);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

JsonValue parse_json(std::string_view text) { return Parser(text).whole_text(); }

}  // namespace openmrc::verbs
