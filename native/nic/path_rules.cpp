#include "nic/path_rules.hpp"

#include <algorithm>
#include <stdexcept>

#include "nic/socket_address.hpp"

namespace openmrc::nic {

PathRules::PathRules(const std::vector<PathRule>& rules) {
  std::vector<const PathRule*> order;
  for (const PathRule& rule : rules) order.push_back(&rule);
  std::stable_sort(order.begin(), order.end(),
                   [](const PathRule* a, const PathRule* b) { return a->prefix_bits > b->prefix_bits; });
  for (const PathRule* rule : order) {
    Rule made = compiled(*rule);
    for (const Rule& other : rules_) {
      if (other.prefix == made.prefix && other.prefix_mask == made.prefix_mask) {
        throw std::invalid_argument("two path rules for " + format_address(rule->prefix) + "/" +
                                    std::to_string(rule->prefix_bits));
      }
    }
    rules_.push_back(std::move(made));
  }
}

bool PathRules::destination(const Address& peer, std::uint16_t selector, Address& out) const {
  if (peer.family != AddressFamily::kIpv6) return false;
  const Bits known = bits_of(peer);
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [known](const Rule& one) { return (known & one.prefix_mask) == one.prefix; });
  if (rule == rules_.end()) return false;
  Bits value = rule->base;
  for (const Copy& copy : rule->copies) {
    value |= ((copy.from_peer ? known : Bits{selector}) >> copy.right & copy.mask) << copy.left;
  }
  out.family = AddressFamily::kIpv6;
  for (auto byte = out.bytes.rbegin(); byte != out.bytes.rend(); ++byte, value >>= 8) {
    *byte = static_cast<std::uint8_t>(value & 0xFF);
  }
  return true;
}

PathRules::Bits PathRules::bits_of(const Address& address) {
  Bits value = 0;
  for (const std::uint8_t byte : address.bytes) value = value << 8 | byte;
  return value;
}

PathRules::Rule PathRules::compiled(const PathRule& rule) {
  if (rule.prefix.family != AddressFamily::kIpv6 || rule.base.family != AddressFamily::kIpv6) {
    throw std::invalid_argument("a path rule whose prefix or base is not an IPv6 address");
  }
  if (rule.prefix_bits > kAddressBits)
    throw std::invalid_argument("a path rule whose prefix is longer than an address");
  if (rule.copies.size() > kCopiesMax) throw std::invalid_argument("a path rule with too many copies");
  Rule made;
  made.prefix_mask = rule.prefix_bits == 0 ? 0 : ~Bits{0} << (kAddressBits - rule.prefix_bits);
  made.prefix = bits_of(rule.prefix) & made.prefix_mask;
  made.base = bits_of(rule.base);
  for (const PathCopy& copy : rule.copies) {
    const unsigned width = copy.from_peer ? kAddressBits : kSelectorBits;
    const unsigned bits = copy.bits;
    if (bits == 0 || copy.at + bits > width || copy.to + bits > kAddressBits) {
      throw std::invalid_argument("a path rule that copies bits outside of an address or selector");
    }
    made.copies.push_back({copy.from_peer, static_cast<std::uint8_t>(width - copy.at - bits),
                           static_cast<std::uint8_t>(kAddressBits - copy.to - bits),
                           bits == kAddressBits ? ~Bits{0} : (Bits{1} << bits) - 1});
  }
  return made;
}

}  // namespace openmrc::nic
