// The two values of a failed comparison. `values <= a == b` parses as `(values <= a) == b`: the first `<=` captures the
// left value, the next operator compares, and stores both as text if the comparison is false.
#pragma once

#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// Chained comparisons are intended here.
#pragma GCC diagnostic ignored "-Wparentheses"

namespace openmrc::test {

inline constexpr std::size_t kShownElements = 16;

// The code for failures stays out of line: there are thousands of checks, and each is compiled.
template <class T>
[[gnu::cold, gnu::noinline]] std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    return "nullptr";
  } else if constexpr (std::is_convertible_v<const T&, std::string_view> && !std::is_pointer_v<T>) {
    return '"' + std::string(std::string_view(value)) + '"';
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(+static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_pointer_v<T>) {
    return value == nullptr ? "nullptr" : "a pointer";
  } else if constexpr (requires { text_of(*value), value.has_value(); }) {
    return value.has_value() ? text_of(*value) : "nullopt";
  } else if constexpr (requires { text_of(value.count()); }) {
    return text_of(value.count());
  } else if constexpr (std::ranges::sized_range<const T>) {
    std::string text = "[";
    std::size_t shown = 0;
    for (const auto& element : value) {
      if (shown == kShownElements) return text + ", ...] of " + std::to_string(std::ranges::size(value));
      text += (shown++ == 0 ? "" : ", ") + text_of(element);
    }
    return text + "]";
  } else {
    return "a value of " + std::to_string(sizeof(T)) + " bytes";
  }
}

template <class T>
inline constexpr bool kWholeNumber = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;

// A literal has become a reference to `int`, so its value no longer allows the comparison with an unsigned integer.
template <class A, class B>
inline constexpr bool kMixedSigns = kWholeNumber<A> && kWholeNumber<B> && std::is_signed_v<A> != std::is_signed_v<B>;

// The integer is converted for comparison with a floating-point number, as the language does for a literal.
template <class A, class B>
inline constexpr bool kMixedKinds =
    std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && std::is_floating_point_v<A> != std::is_floating_point_v<B>;

class Values {
 public:
  Values();
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values();

  // Empty, or the comparison with both values, or the single value that was false.
  const std::string& text() const { return text_; }

  template <class A>
  struct Left {
    Values& values;
    const A& left;

    explicit operator bool() const {
      const bool holds = static_cast<bool>(left);
      if (!holds) values.keep(left);
      return holds;
    }

#define OPENMRC_COMPARE(op, mixed)                                     \
  template <class B>                                                   \
  bool operator op(const B& right) const {                             \
    bool holds = false;                                                \
    if constexpr (kMixedSigns<A, B>) {                                 \
      holds = std::mixed(left, right);                                 \
    } else if constexpr (kMixedKinds<A, B>) {                          \
      using Common = std::common_type_t<A, B>;                         \
      holds = static_cast<Common>(left) op static_cast<Common>(right); \
    } else {                                                           \
      holds = static_cast<bool>(left op right);                        \
    }                                                                  \
    if (!holds) values.keep(left, " " #op " ", right);                 \
    return holds;                                                      \
  }
    OPENMRC_COMPARE(==, cmp_equal)
    OPENMRC_COMPARE(!=, cmp_not_equal)
    OPENMRC_COMPARE(<, cmp_less)
    OPENMRC_COMPARE(<=, cmp_less_equal)
    OPENMRC_COMPARE(>, cmp_greater)
    OPENMRC_COMPARE(>=, cmp_greater_equal)
#undef OPENMRC_COMPARE
  };

  template <class A>
  Left<A> operator<=(const A& left) {
    return {*this, left};
  }

 private:
  template <class A>
  [[gnu::cold, gnu::noinline]] void keep(const A& value) {
    text_ = text_of(value);
  }
  template <class A, class B>
  [[gnu::cold, gnu::noinline]] void keep(const A& left, const char* op, const B& right) {
    text_ = text_of(left) + op + text_of(right);
  }

  std::string text_;
};

}  // namespace openmrc::test
