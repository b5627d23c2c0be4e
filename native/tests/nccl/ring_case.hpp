// Messages in the pattern of NCCL's ring between two ranks: in each channel as many both ways at a time as NCCL has slots,
// and every second one leaves only when one has arrived and a GPU has had time to add it.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "tests/nccl/ranks.hpp"

namespace ring {

constexpr std::size_t kBytes = 64 << 20, kMessage = 512 << 10, kChannels = 2, kSlots = 8, kPage = 4096;
constexpr std::size_t kMessages = kBytes / kMessage / kChannels;
constexpr int kRounds = 11;
constexpr std::chrono::microseconds kGpu{20};

using Clock = std::chrono::steady_clock;

struct Half {
  std::unique_ptr<std::uint8_t, decltype(&std::free)> memory{nullptr, &std::free};
  void* comm = nullptr;
  void* mhandle = nullptr;
  std::size_t begun = 0, done = 0;
  std::array<void*, kSlots> requests{};

  void prepare(const Net& net, void* of) {
    comm = of;
    memory.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, kSlots * kMessage)));
    std::memset(memory.get(), 1, kSlots * kMessage);
    succeed(net.regMr(comm, memory.get(), kSlots * kMessage, NCCL_PTR_HOST, &mhandle), "regMr");
  }
  bool has_slot() const { return begun < kMessages && begun < done + kSlots; }
  std::uint8_t* slot() const { return memory.get() + begun % kSlots * kMessage; }
  void begin(void* request) {
    if (request != nullptr) requests[begun++ % kSlots] = request;
  }
  // True: one more is done.
  bool test(const Net& net) {
    int finished = 0, size = 0;
    if (done < begun) succeed(net.test(requests[done % kSlots], &finished, &size), "test");
    done += finished != 0 ? 1 : 0;
    return finished != 0;
  }
};

struct Channel {
  Half sending, receiving;
  std::array<Clock::time_point, kMessages> added{};  // when the GPU has added what arrived

  void step(const Net& net) {
    void* request = nullptr;
    if (receiving.has_slot()) {
      void* data = receiving.slot();
      std::size_t size = kMessage;
      int tag = 0;
      succeed(net.irecv(receiving.comm, 1, &data, &size, &tag, &receiving.mhandle, &request), "irecv");
      receiving.begin(request);
    }
    if (receiving.test(net)) added[receiving.done - 1] = Clock::now() + kGpu;
    const std::size_t next = sending.begun;
    const bool ready = next % 2 == 0 || (next - 1 < receiving.done && Clock::now() >= added[next - 1]);
    if (sending.has_slot() && ready) {
      request = nullptr;
      succeed(net.isend(sending.comm, sending.slot(), kMessage, 0, sending.mhandle, &request), "isend");
      sending.begin(request);
    }
    sending.test(net);
  }
  bool done() const { return sending.done == kMessages && receiving.done == kMessages; }
  void restart() { sending.begun = sending.done = receiving.begun = receiving.done = 0; }
};

inline void run(const Rank& rank) {
  const std::vector<Pair> pairs = connect_pairs(rank, kChannels);
  std::vector<Channel> channels(kChannels);
  for (std::size_t i = 0; i < kChannels; ++i) {
    channels[i].sending.prepare(rank.net, pairs[i].sending);
    channels[i].receiving.prepare(rank.net, pairs[i].receiving);
  }
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    for (Channel& channel : channels) channel.restart();
    rank.meet("round" + std::to_string(round) + "of");
    const Clock::time_point begin = Clock::now();
    while (!std::all_of(channels.begin(), channels.end(), [](const Channel& one) { return one.done(); })) {
      for (Channel& channel : channels) channel.step(rank.net);
      ::sched_yield();  // as NCCL's thread does
    }
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  if (rank.number == 0) std::printf("{\"gbit_s\": %.3f}\n", kBytes * 8 / seconds[seconds.size() / 2] / 1e9);
  rank.meet("ended");
  for (const Pair& pair : pairs) close_pair(rank, pair);
}

}  // namespace ring
