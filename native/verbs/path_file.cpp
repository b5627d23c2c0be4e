#include "verbs/path_file.hpp"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/limits.hpp"
#include "nic/socket_address.hpp"
#include "verbs/json.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kRulesMax = 4096;
constexpr std::int64_t kBaseRttUsMax = 10'000'000;
constexpr std::int64_t kRateBpsMin = 1000, kRateBpsMax = 100'000'000'000'000;
constexpr std::size_t kShownMax = 80;
constexpr std::uint32_t kAddressBits = nic::PathRules::kAddressBits;

[[noreturn]] void refuse(const std::string& field, std::string_view value, const std::string& allowed) {
  std::string shown(value.substr(0, kShownMax));
  if (shown.size() < value.size()) shown += "...";
  throw PathFileError(field + " is " + shown + ": " + allowed);
}

std::int64_t whole_in(const JsonValue& value, const std::string& field, std::int64_t low, std::int64_t high) {
  if (value.kind == JsonValue::Kind::kWhole && low <= value.whole && value.whole <= high) return value.whole;
  refuse(field, value.source, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

// The members of an object, each taken once; end() refuses the others.
class Members {
 public:
  Members(const JsonValue& value, std::string where) : value_(value), where_(std::move(where)) {
    if (value.kind != JsonValue::Kind::kObject) {
      refuse(where_.empty() ? "path file" : where_, value.source, "an object, {...}");
    }
  }

  std::string name(std::string_view key) const { return (where_.empty() ? "" : where_ + ".") + std::string(key); }

  const JsonValue* find(std::string_view key) {
    known_.push_back(key);
    const auto found = std::find_if(value_.members.begin(), value_.members.end(),
                                    [&](const auto& member) { return member.first == key; });
    return found == value_.members.end() || found->second.kind == JsonValue::Kind::kNull ? nullptr : &found->second;
  }

  const JsonValue& get(std::string_view key) {
    if (const JsonValue* found = find(key)) return *found;
    refuse(name(key), "missing", "a value");
  }

  std::int64_t number(std::string_view key, std::int64_t low, std::int64_t high) {
    return whole_in(get(key), name(key), low, high);
  }

  // 0: absent.
  std::int64_t optional_number(std::string_view key, std::int64_t low, std::int64_t high) {
    const JsonValue* found = find(key);
    return found == nullptr ? 0 : whole_in(*found, name(key), low, high);
  }

  Address address(std::string_view key) {
    const JsonValue& value = get(key);
    Address found;
    const bool valid = value.kind == JsonValue::Kind::kText && value.text.find('%') == std::string::npos &&
                       nic::parse_address(value.text, found) && found.family == AddressFamily::kIpv6;
    if (!valid) refuse(name(key), value.source, "an IPv6 address, such as fd00:6d72::1");
    return found;
  }

  const std::vector<JsonValue>& list(std::string_view key, std::size_t least, std::size_t most) {
    const JsonValue& value = get(key);
    const std::size_t size = value.items.size();
    if (value.kind == JsonValue::Kind::kList && least <= size && size <= most) return value.items;
    refuse(name(key), value.source, "a list of " + std::to_string(least) + " to " + std::to_string(most) + " entries");
  }

  void end() const {
    for (const auto& [key, value] : value_.members) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      std::string allowed = "the keys are";
      for (const std::string_view one : known_) allowed += " " + std::string(one);
      refuse(name(key), value.source, allowed);
    }
  }

 private:
  const JsonValue& value_;
  std::string where_;
  std::vector<std::string_view> known_;
};

std::string entry(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

PlaneDescription plane_of(const JsonValue& value, std::size_t index) {
  Members port(value, entry("ports", index));
  const auto number = static_cast<std::int64_t>(index);
  PlaneDescription plane;
  port.number("plane", number, number);
  plane.local = plane.advertise = port.address("address");
  plane.prefix_bits = kAddressBits;  // planes number hosts alike: see peer_address()
  plane.receive = port.address("receive_address");
  const std::vector<JsonValue>& selectors = port.list("selectors", 1, 1U << nic::PathRules::kSelectorBits);
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    const std::int64_t one = whole_in(selectors[i], entry(port.name("selectors"), i), 0, UINT16_MAX);
    plane.selectors.push_back(static_cast<std::uint16_t>(one));
  }
  std::vector<std::uint16_t> sorted = plane.selectors;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    refuse(port.name("selectors"), "a list with a selector twice", "each selector once");
  }
  if (const JsonValue* interface = port.find("interface")) {
    plane.interface = interface->text;
    const bool valid = interface->kind == JsonValue::Kind::kText && !plane.interface.empty() &&
                       plane.interface.size() < IFNAMSIZ && plane.interface.find_first_of(" /:") == std::string::npos;
    if (!valid) refuse(port.name("interface"), interface->source, "an interface's name, 1 to 15 characters");
  }
  plane.rate_bps = static_cast<std::uint64_t>(port.optional_number("rate_bps", kRateBpsMin, kRateBpsMax));
  port.end();
  return plane;
}

// Bit 0 is the highest.
bool bit_of(const Address& address, std::uint32_t bit) { return (address.bytes[bit / 8] >> (7 - bit % 8) & 1U) != 0; }

void set_prefix(Members& rule, nic::PathRule& to) {
  const JsonValue& peers = rule.get("peers");
  const std::size_t slash = peers.text.find('/');
  const std::string bits = slash == std::string::npos ? "128" : peers.text.substr(slash + 1);
  const bool digits = !bits.empty() && bits.size() <= 3 && bits.find_first_not_of("0123456789") == std::string::npos;
  const std::string address = peers.text.substr(0, slash);
  bool valid = digits && std::stoul(bits) <= kAddressBits && address.find('%') == std::string::npos &&
               nic::parse_address(address, to.prefix) && to.prefix.family == AddressFamily::kIpv6;
  if (valid) to.prefix_bits = static_cast<std::uint8_t>(std::stoul(bits));
  for (std::uint32_t bit = to.prefix_bits; valid && bit < kAddressBits; ++bit) valid = !bit_of(to.prefix, bit);
  if (!valid) {
    refuse(rule.name("peers"), peers.source, "an IPv6 prefix with no bits behind its length, such as fd00:6d72::/48");
  }
}

nic::PathCopy copy_of(const JsonValue& value, const std::string& where) {
  Members copy(value, where);
  nic::PathCopy made;
  const JsonValue& from = copy.get("from");
  made.from_peer = from.text == "peer";
  if (!made.from_peer && from.text != "selector") refuse(copy.name("from"), from.source, "\"selector\" or \"peer\"");
  const std::int64_t width = made.from_peer ? kAddressBits : nic::PathRules::kSelectorBits;
  made.at = static_cast<std::uint8_t>(copy.number("from_bit", 0, width - 1));
  made.bits = static_cast<std::uint8_t>(copy.number("bits", 1, width - made.at));
  made.to = static_cast<std::uint8_t>(copy.number("to_bit", 0, kAddressBits - made.bits));
  copy.end();
  return made;
}

// A bit has one origin: the base, or one copy.
void take_bits(const nic::PathCopy& copy, const std::string& where, Address& used) {
  for (std::uint32_t bit = copy.to; bit < std::uint32_t{copy.to} + copy.bits; ++bit) {
    if (bit_of(used, bit)) {
      refuse(where + ".to_bit", std::to_string(copy.to), "bits that are 0 in the base and that no other copy uses");
    }
    used.bytes[bit / 8] = static_cast<std::uint8_t>(used.bytes[bit / 8] | 0x80U >> bit % 8);
  }
}

nic::PathRule rule_of(const JsonValue& value, std::size_t index) {
  Members rule(value, entry("rules", index));
  nic::PathRule made;
  set_prefix(rule, made);
  made.base = rule.address("base");
  const std::vector<JsonValue>& copies = rule.list("copies", 0, nic::PathRules::kCopiesMax);
  Address used = made.base;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::string where = entry(rule.name("copies"), i);
    made.copies.push_back(copy_of(copies[i], where));
    take_bits(made.copies.back(), where, used);
  }
  rule.end();
  return made;
}

void check_addresses(const std::vector<PlaneDescription>& planes) {
  for (std::size_t i = 0; i < planes.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      const std::string port = entry("ports", i);
      if (planes[i].local == planes[other].local) {
        refuse(port + ".address", nic::format_address(planes[i].local), "a different address for each port");
      }
      if (planes[i].receive == planes[other].receive) {
        refuse(port + ".receive_address", nic::format_address(planes[i].receive), "a different address for each port");
      }
    }
  }
}

void check_prefixes(const std::vector<nic::PathRule>& rules) {
  std::set<std::pair<std::array<std::uint8_t, 16>, std::uint8_t>> known;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (known.emplace(rules[i].prefix.bytes, rules[i].prefix_bits).second) continue;
    const std::string prefix = nic::format_address(rules[i].prefix) + "/" + std::to_string(rules[i].prefix_bits);
    refuse(entry("rules", i) + ".peers", prefix, "a prefix that no other rule has");
  }
}

}  // namespace

DeviceDescription parse_path_file(std::string_view text) {
  JsonValue value;
  try {
    value = parse_json(text);
  } catch (const JsonError& error) {
    throw PathFileError(std::string("not JSON: ") + error.what());
  }
  Members top(value, "");
  const JsonValue& format = top.get("format");
  if (format.text != "openmrc NIC paths") refuse("format", format.source, "\"openmrc NIC paths\"");
  top.number("version", 1, 1);
  DeviceDescription device;
  device.base_rtt = top.optional_number("base_rtt_us", 1, kBaseRttUsMax) * kPsPerUs;
  const std::vector<JsonValue>& ports = top.list("ports", 1, kPortCountMax);
  for (std::size_t i = 0; i < ports.size(); ++i) device.planes.push_back(plane_of(ports[i], i));
  const std::vector<JsonValue>& rules = top.list("rules", 1, kRulesMax);
  for (std::size_t i = 0; i < rules.size(); ++i) device.rules.push_back(rule_of(rules[i], i));
  top.end();
  check_addresses(device.planes);
  check_prefixes(device.rules);
  return device;
}

DeviceDescription read_path_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) throw PathFileError(std::string("cannot be read: ") + std::strerror(errno));
  return parse_path_file(text);
}

}  // namespace openmrc::verbs
