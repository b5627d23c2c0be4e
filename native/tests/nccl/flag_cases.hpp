// Data with flags in between, which NCCL's protocols LL and LL128 read on the GPU while it arrives: a flag that is there
// says that the data before it is, too.
#pragma once

#include <atomic>
#include <thread>

#include "tests/nccl/ranks.hpp"

namespace flags {

constexpr std::size_t kBytes = 64 << 10;
constexpr std::uint32_t kRounds = 300;
constexpr std::size_t kWords = kBytes / 4;

// LL: each word of data has its flag behind it. LL128: the last 8 bytes of 128 are the flag.
constexpr std::size_t words_of_line(std::uint32_t round) { return round % 2 == 0 ? 2 : 32; }
constexpr std::size_t flag_words(std::uint32_t round) { return round % 2 == 0 ? 1 : 2; }

inline std::uint32_t word_of(std::uint32_t round, std::size_t word) {
  const std::size_t line = words_of_line(round);
  if (word % line >= line - flag_words(round)) return round;
  return static_cast<std::uint32_t>(word) * 0x9E37'79B9U + round;
}

// The peer's stores, one by one.
inline std::uint32_t read(const std::uint8_t* memory, std::size_t word) {
  return *reinterpret_cast<const volatile std::uint32_t*>(memory + 4 * word);
}

// Reads all lines as often as it takes, as the threads of a GPU do at once, and checks each as soon as its flag is there.
inline void watch(const std::uint8_t* memory, std::uint32_t round) {
  const std::size_t words = words_of_line(round), lines = kWords / words, data = words - flag_words(round);
  std::vector<bool> seen(lines);
  for (std::size_t left = lines; left > 0;) {
    for (std::size_t line = lines; line-- > 0;) {
      if (seen[line] || read(memory, line * words + words - 1) != round) continue;
      std::atomic_thread_fence(std::memory_order_acquire);
      for (std::size_t i = line * words; i < line * words + data; ++i) {
        expect(read(memory, i) == word_of(round, i), "data behind its flag in line " + std::to_string(line));
      }
      seen[line] = true;
      --left;
    }
  }
}

inline void run(const Rank& rank) {
  const Pair pair = connect_pairs(rank, 1).front();
  const Net& net = rank.net;
  if (rank.number == 0) {
    Memory from = memory_of(net, pair.sending, kBytes, 0);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      for (std::size_t i = 0; i < kWords; ++i) {
        const std::uint32_t word = word_of(round, i);
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
      std::thread watcher([&] { watch(memory, round); });
      finish(net, request, nullptr);
      watcher.join();
    }
  }
  rank.meet("checked");
  close_pair(rank, pair);
}

}  // namespace flags
