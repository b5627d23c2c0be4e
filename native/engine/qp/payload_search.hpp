// Payload of the packets of WRITEs: that of RTR until padded EV probes as large as a packet with the largest payload have
// been answered over every plane, then the largest one (X.3.2).
//
// A packet may be repeated on any plane, so one plane without an answer keeps the smaller payload for all. Probes leave
// only while messages that would gain from them wait, one at a time on each plane, and wait longer and longer for their
// answers: the first ones may be lost to a full queue, and precede the peer's RTR.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc {

class PayloadSearch {
 public:
  // At RTR. `largest` 0, or `agreed`: there is nothing to search for.
  void start(std::uint32_t agreed, std::uint32_t largest) {
    *this = PayloadSearch();
    payload_ = agreed;
    largest_ = std::max(agreed, largest);
  }
  // Planes that carry data, known from RTS on.
  void set_planes(PortMask planes) { untested_ = planes; }

  // Of messages posted from now on.
  std::uint32_t payload() const { return payload_; }
  bool gains(std::uint64_t message_bytes) const {
    return largest_ > payload_ && untested_ != 0 && message_bytes > payload_;
  }
  // Planes whose next probe is due.
  PortMask due() const { return untested_ & ~asked_; }
  TimePs patience(PortId plane) const { return kPatienceFirst << unanswered_[plane]; }
  // A number that identifies probes of this size; never 0.
  std::uint16_t id() const { return static_cast<std::uint16_t>(largest_ / 4); }
  std::uint32_t padding_bytes() const {
    constexpr std::size_t kData =
        wire::kBthBytes + wire::kMethBytes + wire::kTsethBytes + wire::kRethBytes + wire::kImmDtBytes;
    return largest_ + static_cast<std::uint32_t>(kData - wire::kBthBytes - wire::kErthBytes);
  }

  void asked(PortId plane) { asked_ |= bit(plane); }
  // True: every plane carries the largest payload, which payload() returns from now on.
  bool ended(PortId plane, bool answered) {
    if ((asked_ & bit(plane)) == 0) return false;
    asked_ &= ~bit(plane);
    if (!answered) {
      unanswered_[plane] = static_cast<std::uint8_t>(std::min(unanswered_[plane] + 1, kDoublingsMax));
      return false;
    }
    untested_ &= ~bit(plane);
    if (untested_ != 0) return false;
    payload_ = largest_;
    return true;
  }

 private:
  static constexpr TimePs kPatienceFirst = 10 * kPsPerMs;
  static constexpr int kDoublingsMax = 8;  // then a probe of each plane in 2.56 s

  static PortMask bit(PortId plane) { return PortMask{1} << plane; }

  std::uint32_t payload_ = 0, largest_ = 0;
  PortMask untested_ = 0, asked_ = 0;
  std::array<std::uint8_t, kPortCountMax> unanswered_{};
};

static_assert(kPayloadMtuMax / 4 <= UINT16_MAX);

}  // namespace openmrc
