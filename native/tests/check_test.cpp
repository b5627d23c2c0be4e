// The checks themselves: a failing comparison shows both of its values.
#include "tests/check.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace openmrc::test {
namespace {

enum class Colour : std::uint8_t { kRed = 3 };

struct Opaque {
  int inside[3] = {};
  bool operator==(const Opaque& other) const { return inside[0] == other.inside[0]; }
};

TEST_CASE(failed_comparisons_show_both_values) {
  const auto text = [](auto compare) {
    Values values;
    CHECK(!compare(values));
    return values.text();
  };
  const int two = 2;
  const std::size_t size = 7;
  CHECK(text([&](Values& v) { return v <= two == 3; }) == "2 == 3");
  CHECK(text([&](Values& v) { return v <= two != 2; }) == "2 != 2");
  CHECK(text([&](Values& v) { return v <= two + 1 < two; }) == "3 < 2");
  CHECK(text([&](Values& v) { return v <= two <= 1; }) == "2 <= 1");
  CHECK(text([&](Values& v) { return v <= two > size; }) == "2 > 7");
  CHECK(text([&](Values& v) { return v <= -1 >= size; }) == "-1 >= 7");
  CHECK(text([](Values& v) { return v <= Colour::kRed == Colour{}; }) == "3 == 0");
  CHECK(text([](Values& v) { return v <= std::string("a") == "b"; }) == "\"a\" == \"b\"");
  CHECK(text([](Values& v) { return v <= std::optional<int>() == 4; }) == "nullopt == 4");
  CHECK(text([](Values& v) { return v <= std::vector{1, 2} == std::vector{1}; }) == "[1, 2] == [1]");
  CHECK(text([](Values& v) { return v <= Opaque{} == Opaque{{1, 0, 0}}; }) ==
        "a value of 12 bytes == a value of 12 bytes");
}

TEST_CASE(failed_conditions_show_their_value_and_compound_ones_the_first_comparison) {
  Values condition;
  CHECK(!static_cast<bool>(condition <= std::optional<int>()));
  CHECK(condition.text() == "nullopt");
  Values first;
  CHECK(!(first <= 1 == 2 && 3 == 3));
  CHECK(first.text() == "1 == 2");
  Values second;
  CHECK(!(second <= 1 == 1 && 3 == 4));
  CHECK(second.text().empty());
}

TEST_CASE(a_comparison_that_holds_costs_no_text_and_long_sequences_are_cut) {
  Values values;
  const bool holds = values <= 5u == 5;
  CHECK(holds);
  CHECK(values.text().empty());
  CHECK(text_of(std::vector<int>(kShownElements + 1, 0)).ends_with(", ...] of 17"));
}

TEST_CASE(a_failed_check_names_its_place_and_expression) {
  Values values;
  CHECK(!(values <= 1 == 2));
  CHECK(failed_check("one == two", values, "x_test.cpp", 12) == "x_test.cpp:12: CHECK(one == two) failed: 1 == 2");
  CHECK(failed_check("one && two", Values{}, "x_test.cpp", 12) == "x_test.cpp:12: CHECK(one && two) failed");
}

}  // namespace
}  // namespace openmrc::test
