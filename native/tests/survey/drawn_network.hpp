// Ordinary networks and traffic drawn from a seed: planes of any rate, length, buffer and random loss.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/plain_network.hpp"

namespace openmrc::survey {

struct DrawnNetwork {
  test::PlainOptions options;
  std::vector<std::pair<int, int>> streams;  // from, to
  std::string traffic;
  int receivers = 1;

  // Payload that may arrive, in bytes per second, without lost packets.
  double limit() const;
  // Traffic, size of packets, and rate, buffer, round trip and random loss of each plane.
  std::string description() const;
};

// One to six planes, together at most 2 Gb/s; the same for the same seed.
DrawnNetwork draw(std::uint64_t seed);

// One-way delays of the planes of network `seed` after a change of routes: 1.3 to 3 times as long as before.
std::vector<TimePs> longer_delays(std::uint64_t seed, const DrawnNetwork& network);

// Jitter of every packet of network `seed`, 0.05 to 5 ms.
TimePs packet_jitter(std::uint64_t seed);

// Bucket of the shapers of network `seed`: the time of 0.1 to 100 ms at the rate of the plane.
TimePs shaper_bucket(std::uint64_t seed);

}  // namespace openmrc::survey
