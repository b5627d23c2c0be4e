#include "verbs/polling.hpp"

#include <algorithm>

namespace openmrc::verbs {

// Asleep in the kernel the thread leaves its processor to the peer's, and is scheduled first when a datagram arrives.
std::uint32_t Polling::run(nic::TimeNs now, nic::TimeNs idle) {
  const bool spins = forecast_.spins(idle);
  const std::uint32_t datagrams =
      spins ? device_.progress(kAnswerWithin, now) : device_.await_progress(kSleep, -1, kAnswerWithin);
  if (datagrams > 0) forecast_.ended(spins);
  return datagrams;
}

bool Polling::run_if_idle() {
  if (!running_.load(std::memory_order_relaxed)) {
    if (empty_.fetch_add(1, std::memory_order_relaxed) + 1 < kEmptyMin) return false;
    running_.store(true, std::memory_order_relaxed);
  }
  const nic::TimeNs now = nic::now_ns();
  nic::TimeNs since = idle_since_.load(std::memory_order_relaxed);
  if (since == 0) idle_since_.store(since = now, std::memory_order_relaxed);
  if (run(now, now - since) > 0) idle_since_.store(0, std::memory_order_relaxed);
  return true;
}

void Polling::note_found() {
  empty_.store(0, std::memory_order_relaxed);
  idle_since_.store(0, std::memory_order_relaxed);
  const bool spins = spins_.load(std::memory_order_relaxed) >= kSpinsMin;
  if (spins && await_write()) return;  // as expected: nothing to judge, which saves two looks at the clock
  const bool trusted = !spins && prompt_.load(std::memory_order_relaxed) >= kPromptMin;
  if (!trusted && running_.exchange(false, std::memory_order_relaxed)) device_.rest_polling();
  placed_when_found_.store(device_.placed_packets(), std::memory_order_relaxed);
  found_.store(nic::now_ns(), std::memory_order_relaxed);
}

// True at once if a packet has been placed since the program's latest post, which it may be waiting for.
bool Polling::await_write() {
  running_.store(true, std::memory_order_relaxed);
  const std::uint64_t before = placed_at_post_.load(std::memory_order_relaxed);
  for (nic::TimeNs since = 0; device_.placed_packets() == before;) {
    const nic::TimeNs now = nic::now_ns();
    if (since == 0) since = now;
    if (now - since > kAwaitMax || device_.closed()) {
      spins_.store(0, std::memory_order_relaxed);
      return false;
    }
    run(now, now - since);
  }
  return true;
}

void Polling::judge() {
  const nic::TimeNs found = found_.exchange(0, std::memory_order_relaxed);
  if (found == 0) return;
  const nic::TimeNs now = nic::now_ns();
  const std::uint32_t prompt = prompt_.load(std::memory_order_relaxed);
  if (now - found < kPrompt) {
    prompt_.store(std::min(prompt + 1, kPromptMax), std::memory_order_relaxed);
    return;
  }
  prompt_.store(prompt / 2, std::memory_order_relaxed);
  const bool written = device_.placed_packets() != placed_when_found_.load(std::memory_order_relaxed);
  const std::uint32_t spins = spins_.load(std::memory_order_relaxed);
  const bool reacts = written && now - device_.placed_at() < kReaction;
  spins_.store(reacts ? std::min(spins + 1, kSpinsMax) : spins - std::min(spins, 1U), std::memory_order_relaxed);
}

}  // namespace openmrc::verbs
