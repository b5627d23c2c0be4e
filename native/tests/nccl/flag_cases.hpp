// Data with flags in between, which NCCL's protocols LL and LL128 read on the GPU while it arrives: a flag that is there
// says that the data before it is, too. The plugin promises this of LL128 where NCCL_PROTO names it.
#pragma once

#include <atomic>
#include <thread>

#include "tests/nccl/ranks.hpp"

namespace flags {

constexpr std::size_t kBytes = 64 << 10;
constexpr std::uint32_t kRounds = 300;
constexpr std::size_t kWords = kBytes / 4;

struct Lines {
  std::size_t words, flag_words;
};
constexpr Lines kLl{2, 1};      // each word of data has its flag behind it
constexpr Lines kLl128{32, 2};  // the last 8 bytes of 128 are the flag

inline std::uint32_t word_of(const Lines& lines, std::uint32_t round, std::size_t word) {
  if (word % lines.words >= lines.words - lines.flag_words) return round;
  return static_cast<std::uint32_t>(word) * 0x9E37'79B9U + round;
}

// The peer's stores, one by one.
inline std::uint32_t read(const std::uint8_t* memory, std::size_t word) {
  return *reinterpret_cast<const volatile std::uint32_t*>(memory + 4 * word);
}

// Reads all lines as often as it takes, as the threads of a GPU do at once, and checks each as soon as its flag is there.
inline void watch(const Lines& lines, const std::uint8_t* memory, std::uint32_t round) {
  const std::size_t words = lines.words, count = kWords / words, data = words - lines.flag_words;
  std::vector<bool> seen(count);
  for (std::size_t left = count; left > 0;) {
    for (std::size_t line = count; line-- > 0;) {
      if (seen[line] || read(memory, line * words + words - 1) != round) continue;
      std::atomic_thread_fence(std::memory_order_acquire);
      for (std::size_t i = line * words; i < line * words + data; ++i) {
        expect(read(memory, i) == word_of(lines, round, i), "data behind its flag in line " + std::to_string(line));
      }
      seen[line] = true;
      --left;
    }
  }
}

inline void run(const Rank& rank, const Lines& even, const Lines& odd) {
  const auto lines_of = [&](std::uint32_t round) { return round % 2 == 0 ? even : odd; };
  const Pair pair = connect_pairs(rank, 1).front();
  const Net& net = rank.net;
  if (rank.number == 0) {
    Memory from = memory_of(net, pair.sending, kBytes, 0);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      for (std::size_t i = 0; i < kWords; ++i) {
        const std::uint32_t word = word_of(lines_of(round), round, i);
        std::memcpy(from.bytes.data() + 4 * i, &word, sizeof word);
      }
      finish(net, send_one(net, pair.sending, from.bytes.data(), kBytes, 1, from.mhandle), nullptr);
    }
  } else {
    // As NCCL's buffers, at a multiple of a line.
    Memory to = memory_of(net, pair.receiving, kBytes + 128, 0);
    std::uint8_t* memory = to.bytes.data() + (128 - reinterpret_cast<std::uintptr_t>(to.bytes.data()) % 128);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      void* request = receive_one(net, pair.receiving, memory, kBytes, 1, to.mhandle);
      std::thread watcher([&] { watch(lines_of(round), memory, round); });
      finish(net, request, nullptr);
      watcher.join();
    }
  }
  rank.meet("checked");
  close_pair(rank, pair);
}

inline void run_ll(const Rank& rank) { run(rank, kLl, kLl); }
inline void run_both(const Rank& rank) { run(rank, kLl, kLl128); }

}  // namespace flags
