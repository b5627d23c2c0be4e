#include "verbs/polling.hpp"

namespace openmrc::verbs {

bool Polling::run_if_idle() {
  if (!running_.load(std::memory_order_relaxed)) {
    if (empty_.fetch_add(1, std::memory_order_relaxed) + 1 < kEmptyMin) return false;
    running_.store(true, std::memory_order_relaxed);
  }
  const nic::TimeNs now = nic::now_ns();
  nic::TimeNs since = idle_since_.load(std::memory_order_relaxed);
  if (since == 0) idle_since_.store(since = now, std::memory_order_relaxed);
  // Asleep in the kernel the thread leaves its processor to the peer's, and is scheduled first when a datagram arrives.
  const std::uint32_t datagrams =
      now - since < kSpin ? device_.progress(kAnswerWithin) : device_.await_progress(kSleep);
  if (datagrams > 0) idle_since_.store(0, std::memory_order_relaxed);
  return true;
}

void Polling::note_found() {
  empty_.store(0, std::memory_order_relaxed);
  idle_since_.store(0, std::memory_order_relaxed);
  if (!running_.load(std::memory_order_relaxed)) return;
  found_.store(nic::now_ns(), std::memory_order_relaxed);
  if (prompt_.load(std::memory_order_relaxed) >= kPromptMin) return;
  running_.store(false, std::memory_order_relaxed);
  device_.rest_polling();
}

void Polling::judge() {
  const nic::TimeNs found = found_.exchange(0, std::memory_order_relaxed);
  if (found == 0) return;
  const bool prompt = nic::now_ns() - found < kPrompt;
  prompt_.store(prompt ? prompt_.load(std::memory_order_relaxed) + 1 : 0, std::memory_order_relaxed);
}

}  // namespace openmrc::verbs
