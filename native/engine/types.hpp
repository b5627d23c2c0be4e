// The types of the verbs layer inside the engine: statuses, work requests, completions, QP attributes, counters.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/ids.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/generated/enums.hpp"
#include "engine/generated/qp_attributes.hpp"
#include "engine/generated/statistics.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {

// Part of a scatter or gather list: bytes of a local region.
struct Sge {
  std::uint64_t address = 0;  // virtual address inside the region of lkey
  std::uint64_t length_bytes = 0;
  std::uint32_t lkey = 0;
};

struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kWrite;
  std::uint32_t lkey = 0;
  std::uint64_t local_address = 0;  // virtual address inside the region of lkey
  std::uint64_t length_bytes = 0;   // 0 .. kMessageBytesMax; a WRITE of 0 bytes is one packet without payload
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;
  std::uint64_t compare = 0;   // of a COMPARE_SWAP
  std::uint64_t swap_add = 0;  // value to swap in or add
  bool signaled = true;
  bool fence = false;        // RC: starts when all earlier READs and atomics have finished
  bool solicited = false;    // RC: sets the solicited event bit of the last packet
  bool inline_data = false;  // the bytes are copied when posted; lkeys count for nothing, addresses are the process's
  std::span<const Sge> sges{};  // if not empty, in place of lkey, local_address and length_bytes; read when posted
};

struct SrqAttributes {
  std::uint32_t wr_max = 128;  // receives posted and not consumed
  DomainId domain = 0;
};

struct SrqStats {
  std::uint32_t posted = 0;
  std::uint32_t limit = 0;
};

struct Completion {
  std::uint64_t wr_id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t qp = 0;
  std::uint32_t immediate = 0;
  WcStatus status{};
  WcOpcode opcode{};
  bool solicited = false;  // of a receive: the sender set the solicited event bit
};

}  // namespace openmrc
