// Destination addresses by path rules, with vectors from the Python definition (openmrc.srv6.rules).
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nic/path_rules.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::PathCopy;
using nic::PathRule;
using nic::PathRules;

Address address(const std::string& text) {
  Address out;
  CHECK(nic::parse_address(text, out));
  return out;
}

PathRule rule(const std::string& prefix, std::uint8_t bits, const std::string& base, std::vector<PathCopy> copies) {
  return {address(prefix), bits, address(base), std::move(copies)};
}

std::string destination(const PathRules& rules, const std::string& peer, std::uint16_t selector) {
  Address out;
  return rules.destination(address(peer), selector, out) ? nic::format_address(out) : "none";
}

bool refused(const std::vector<PathRule>& rules) {
  try {
    const PathRules made(rules);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

// Rules of NIC 0 in a fabric of two planes, eight hosts, two per T0, four T1s per plane.
std::vector<PathRule> planned() {
  const std::vector<PathCopy> near{{true, 79, 1, 63}};
  const std::vector<PathCopy> far{{false, 14, 2, 62}, {true, 62, 2, 78}, {true, 79, 1, 95}};
  return {rule("fd00:6d72::", 62, "fcbb:bb00:4000:8000:4000:e000::", far),
          rule("fd00:6d72:1::", 62, "fcbb:bb00:4004:8004:4004:e002::", far),
          rule("fd00:6d72::", 64, "fcbb:bb00:4000:e000::", near),
          rule("fd00:6d72:1::", 64, "fcbb:bb00:4004:e002::", near)};
}

}  // namespace

TEST_CASE(path_rules_make_the_addresses_of_the_plan) {
  const PathRules rules(planned());
  CHECK(destination(rules, "fd00:6d72::1:0:0:1", 0) == "fcbb:bb00:4000:e001::");
  CHECK(destination(rules, "fd00:6d72:0:3:1::1", 2) == "fcbb:bb00:4000:8002:4003:e001::");
  CHECK(destination(rules, "fd00:6d72:1:2::1", 3) == "fcbb:bb00:4004:8007:4006:e002::");
}

TEST_CASE(path_rules_most_specific_prefix_wins_in_any_order) {
  std::vector<PathRule> rules{rule("::", 0, "fc00::1", {}), rule("fd00::", 16, "fc00::2", {}),
                              rule("fd00::7", 128, "fc00::3", {})};
  for (int turn = 0; turn < 2; ++turn) {
    const PathRules made(rules);
    CHECK(destination(made, "2001:db8::1", 0) == "fc00::1");
    CHECK(destination(made, "fd00::6", 0) == "fc00::2");
    CHECK(destination(made, "fd00::7", 0) == "fc00::3");
    std::swap(rules.front(), rules.back());
  }
}

TEST_CASE(path_rules_copy_to_both_ends_and_across_the_middle) {
  const PathRules rules({rule("fd00::", 16, "::", {{false, 0, 16, 56}, {true, 120, 8, 0}, {true, 0, 8, 120}})});
  CHECK(destination(rules, "fd00::a5", 0xBEEF) == "a500::be:ef00:0:0:fd");
  const PathRules whole({rule("::", 0, "::", {{true, 0, 128, 0}})});
  CHECK(destination(whole, "fd00:1:2:3:4:5:6:7", 1) == "fd00:1:2:3:4:5:6:7");
}

TEST_CASE(path_rules_copies_add_to_the_bits_of_the_base) {
  const PathRules rules({rule("fd00::", 16, "fcbb::f0", {{false, 12, 4, 124}})});
  CHECK(destination(rules, "fd00::1", 0x1235) == "fcbb::f5");
}

TEST_CASE(path_rules_know_no_stranger_and_no_ipv4) {
  const PathRules rules(planned());
  CHECK(destination(rules, "fd00:6d72:2::1", 0) == "none");
  CHECK(destination(rules, "10.0.0.1", 0) == "none");
  CHECK(destination(PathRules(), "fd00:6d72::1", 0) == "none");
  CHECK(PathRules().empty() && !rules.empty());
}

TEST_CASE(path_rules_that_cannot_be_are_refused) {
  const auto one = [](std::vector<PathCopy> copies) {
    return std::vector<PathRule>{rule("fd00::", 16, "fc00::", std::move(copies))};
  };
  CHECK(!refused(one(std::vector<PathCopy>(8, {false, 0, 1, 0}))));
  CHECK(refused(one(std::vector<PathCopy>(9, {false, 0, 1, 0}))));
  CHECK(refused(one({{false, 0, 0, 0}})));
  CHECK(refused(one({{false, 15, 2, 0}})));
  CHECK(refused(one({{true, 127, 2, 0}})));
  CHECK(refused(one({{true, 255, 255, 0}})));
  CHECK(refused(one({{false, 0, 16, 113}})));
  CHECK(refused({rule("fd00::", 129, "fc00::", {})}));
  CHECK(refused({rule("10.0.0.0", 8, "fc00::", {})}));
  CHECK(refused({rule("fd00::", 16, "10.0.0.1", {})}));
  CHECK(refused({rule("fd00::", 16, "fc00::1", {}), rule("fd00:1::", 16, "fc00::2", {})}));  // the same first 16 bits
}
