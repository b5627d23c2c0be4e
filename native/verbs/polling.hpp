// Decides who runs the NIC while a program waits.
//
// A program that polls an empty CQ again and again has nothing else to do, so its thread runs the NIC and the I/O thread
// rests, which saves two threads from disputing one device. Programs also wait by spinning on memory, without any call:
// then the I/O thread has to be back. A program that has returned promptly after its latest completions is trusted to
// return again; with any other the I/O thread takes over as soon as a completion is found.
//
// Where threads outnumber processors, the I/O thread of a program that spins on memory waits for a processor until the
// scheduler's next tick, for milliseconds. A program that made no call between its completions and a peer's WRITE, and
// one right after it, several times in a row, is taken to spin: its next completion is delivered together with the
// WRITE, or without it if none arrives within a fraction of a millisecond. Its thread runs the NIC until then.
#pragma once

#include <atomic>
#include <cstdint>

#include "nic/device.hpp"
#include "nic/spin_forecast.hpp"

namespace openmrc::verbs {

class Polling {
 public:
  explicit Polling(nic::Device& device) : device_(device) {}

  // At the begin of every call of the program.
  void note_call() {
    if (found_.load(std::memory_order_relaxed) != 0) judge();
  }
  // The same for a call that posts sends.
  void note_post() {
    note_call();
    placed_at_post_.store(device_.placed_packets(), std::memory_order_relaxed);
  }
  // After a poll that found nothing. True: the NIC has run, and there may be completions now.
  bool run_if_idle();
  // After a poll that found completions. May wait for a WRITE of a peer.
  void note_found();

 private:
  static constexpr std::uint32_t kEmptyMin = 8;   // polls without completions before the program's thread takes over
  static constexpr std::uint32_t kPromptMin = 8;  // prompt returns, less hesitant ones, before a program is trusted
  static constexpr std::uint32_t kPromptMax = 16;
  static constexpr std::uint32_t kSpinsMin = 4;  // waits on memory, less other ones, before a program is taken to spin
  static constexpr std::uint32_t kSpinsMax = 8;
  static constexpr nic::TimeNs kSleep = 50 * nic::kNsPerUs;  // of one poll at most
  static constexpr nic::TimeNs kPrompt = 5 * nic::kNsPerUs;
  static constexpr nic::TimeNs kReaction = 100 * nic::kNsPerUs;  // of a program that spins, to a WRITE
  static constexpr nic::TimeNs kAwaitMax = 500 * nic::kNsPerUs;  // of a WRITE, with a completion in hand
  // Acknowledgements wait so long for a reply of the program, which would leave first.
  static constexpr nic::TimeNs kAnswerWithin = 3 * nic::kNsPerUs;

  void judge();
  std::uint32_t run(nic::TimeNs now, nic::TimeNs idle);
  bool await_write();

  nic::Device& device_;
  nic::SpinForecast forecast_;
  std::atomic<bool> running_{false};
  std::atomic<std::uint32_t> empty_{0}, prompt_{0}, spins_{0};
  std::atomic<nic::TimeNs> idle_since_{0};
  std::atomic<nic::TimeNs> found_{0};  // time of the latest completions, until the next call
  std::atomic<std::uint64_t> placed_at_post_{0}, placed_when_found_{0};  // packets of peers
};

}  // namespace openmrc::verbs
