// Settings of the environment that both ends of a connection need alike.
#pragma once

#include <cstdlib>
#include <string_view>

#include "verbs/objects.hpp"

namespace openmrc::verbs {

inline Lanes lanes_of_environment() {
  const char* text = std::getenv("OPENMRC_QP");
  const std::string_view word = text == nullptr ? "" : text;
  return word == "mrc" ? Lanes::kMrc : word == "rc" ? Lanes::kRc : Lanes::kPair;
}

// OPENMRC_SIGNAL=marks: MRC as published, for fabrics that mark and for other NICs. Verbs programs exchange no
// abilities, so the extensions for ordinary networks are on at both ends, or off at both ends.
inline bool published_mrc() {
  const char* signal = std::getenv("OPENMRC_SIGNAL");
  return signal != nullptr && std::string_view(signal) == "marks";
}

}  // namespace openmrc::verbs
