// Decides who runs the NIC while a program polls.
//
// A program that polls an empty CQ again and again has nothing else to do, so its thread runs the NIC and the I/O thread
// rests, which saves two threads from disputing one device. Programs also wait by spinning on memory, without any call:
// then the I/O thread has to be back. A program that has returned promptly after its latest completions is trusted to
// return again; with any other the I/O thread takes over as soon as a completion is found.
#pragma once

#include <atomic>
#include <cstdint>

#include "nic/device.hpp"

namespace openmrc::verbs {

class Polling {
 public:
  explicit Polling(nic::Device& device) : device_(device) {}

  // At the begin of every call of the program.
  void note_call() {
    if (found_.load(std::memory_order_relaxed) != 0) judge();
  }
  // After a poll that found nothing. True: the NIC has run, and there may be completions now.
  bool run_if_idle();
  // After a poll that found completions.
  void note_found();

 private:
  static constexpr std::uint32_t kEmptyMin = 8;   // polls without completions before the program's thread takes over
  static constexpr std::uint32_t kPromptMin = 8;  // prompt returns before a program is trusted
  static constexpr nic::TimeNs kSpin = 50 * nic::kNsPerUs;   // without a datagram, before polls sleep
  static constexpr nic::TimeNs kSleep = 50 * nic::kNsPerUs;  // of one poll at most
  static constexpr nic::TimeNs kPrompt = 5 * nic::kNsPerUs;
  // Acknowledgements wait so long for a reply of the program, which would leave first.
  static constexpr nic::TimeNs kAnswerWithin = 3 * nic::kNsPerUs;

  void judge();

  nic::Device& device_;
  std::atomic<bool> running_{false};
  std::atomic<std::uint32_t> empty_{0}, prompt_{0};
  std::atomic<nic::TimeNs> idle_since_{0};
  std::atomic<nic::TimeNs> found_{0};  // time of the latest completions, until the next call
};

}  // namespace openmrc::verbs
