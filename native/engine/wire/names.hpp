// Names for people: counters, logs and Python errors use these and no others.
#pragma once

#include "engine/wire/packet.hpp"

namespace openmrc::wire {

// For example "bad_version"; "unknown" for a value outside the enum.
const char* name_of(ParseError error);

// For example "write_only_imm"; "unknown" for a code that is no opcode of ours.
const char* name_of(Opcode opcode);

}  // namespace openmrc::wire
