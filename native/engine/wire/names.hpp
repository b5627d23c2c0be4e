// Names for people, used by counters, logs and Python errors.
#pragma once

#include "engine/wire/packet.hpp"

namespace openmrc::wire {

// For example "bad_version"; "unknown" for a value outside the enum.
const char* name_of(ParseError error);

// For example "write_only_imm"; "unknown" for an unsupported opcode.
const char* name_of(Opcode opcode);

}  // namespace openmrc::wire
