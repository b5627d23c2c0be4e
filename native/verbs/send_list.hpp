// Work requests that a program builds call by call, between ibv_wr_start() and ibv_wr_complete().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "verbs/api.hpp"

namespace openmrc::verbs {

class SendList {
 public:
  struct Limits {
    std::uint32_t wrs, sges, inline_bytes;
  };

  SendList(const Limits& limits, std::uint64_t operations) : limits_(limits), operations_(operations) {}

  // Waits while another thread has it open.
  void open();
  void close();
  // By the calling thread. The functions below need that.
  bool is_open() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  bool allows(std::uint64_t operation) const { return (operations_ & operation) != 0; }

  // The first error is kept.
  void refuse(int error) {
    if (error_ == 0) error_ = error;
  }
  int error() const { return error_; }

  // nullptr, and an error: there is no room.
  ibv_send_wr* add();
  // Of the request added last.
  void set_sges(const ibv_sge* sges, std::size_t count);
  void begin_inline();
  void add_inline(const void* bytes, std::size_t count);

  // The requests as a list, and their number; it is valid until the next call.
  ibv_send_wr* linked(std::size_t& count);

 private:
  struct Part {
    std::size_t begin = 0, count = 0;  // of `sges_`, or of `bytes_` if the data is inline
  };

  const Limits limits_;
  const std::uint64_t operations_;
  std::mutex mutex_;  // held while the list is open
  std::atomic<std::thread::id> owner_;
  int error_ = 0;
  std::vector<ibv_send_wr> wrs_;
  std::vector<Part> parts_;  // one for each request
  std::vector<ibv_sge> sges_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace openmrc::verbs
