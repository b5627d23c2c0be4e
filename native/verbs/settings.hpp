// The kind of QPs, which both ends of a connection need alike.
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

}  // namespace openmrc::verbs
