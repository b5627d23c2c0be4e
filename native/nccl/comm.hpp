// One end of a connection: a QP with a CQ of its own, registered memory, and the TCP connection of the set-up, on which
// both ends say goodbye.
//
// The receiving end announces each group of receives by a WRITE_IMM into the sending end's slots. The sending end writes
// each message to its receive, with the place in the group as immediate data. So the completion queue reports all
// arrivals, and nothing depends on the order of stores.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "nccl/adapter.hpp"
#include "nccl/log.hpp"
#include "nccl/messages.hpp"
#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"

namespace openmrc::nccl {

class Comm;

struct Region {
  std::uint8_t* base = nullptr;
  std::size_t size_bytes = 0;
  std::uint32_t key = 0;

  bool holds(const void* data, std::size_t bytes) const;
};

struct Request {
  Comm* comm = nullptr;
  bool done = false;
  std::uint32_t count = 0;
  std::array<std::uint64_t, kGroupMax> sizes{};
};

// Every method may be called from any thread. Those that return a Request return nullptr if NCCL has to try again.
class Comm {
 public:
  Comm(std::shared_ptr<Adapter> adapter, std::uint8_t access);  // throws Failure
  virtual ~Comm() { tear_down(); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Adapter& adapter() { return *adapter_; }
  virtual EndDescription description() const;
  // Takes the QP to RTS. Throws Failure.
  void establish(const EndDescription& theirs, std::uint32_t payload);
  void adopt(nic::FileDescriptor socket) { socket_ = std::move(socket); }

  // Ends the connection: sends the peer the number of completed messages, and drops all other work.
  void close();
  // In a forked child, whose copy would keep the connection open: closes it.
  void abandon() { socket_.reset(); }
  void check_process() const { adapter_->device().check_process(); }  // throws ForkedError

  // Throw Failure.
  Region* register_memory(void* data, std::size_t size_bytes) { return register_memory(data, size_bytes, access_); }
  void deregister_memory(const Region* region);
  // True: done, and the request is gone.
  bool test(Request* request, int* sizes);

 protected:
  virtual void handle_arrival(const Completion& completion) = 0;
  virtual void handle_written() = 0;  // a signaled WRITE_IMM of this end is done
  virtual void handle_goodbye(std::uint64_t completed) = 0;
  virtual std::uint64_t completed() const = 0;
  virtual std::uint32_t receives_posted() const = 0;

  void poll();
  void check() const;  // throws Failure after a failure
  void fail(ncclResult_t result, std::string reason);
  const Region& region_of(const void* mhandle) const;
  Status post(std::span<const SendWr> work);
  void post_receives(std::uint32_t count);
  Request* new_request(std::uint32_t count);
  void drop(const Request* request);
  std::uint64_t slot_address(std::uint64_t slot) const { return their_slots_ + slot * kSlotBytes; }
  std::uint32_t slots_key() const { return their_key_; }
  Region* register_memory(void* data, std::size_t size_bytes, std::uint8_t access);
  // Ends all use of memory; a derived class whose memory the peer writes into has to call it first. Idempotent.
  void tear_down();

  std::mutex mutex_;

 private:
  struct Silence {
    nic::TimeNs heard_ns = 0, answered_ns = 0;
  };

  void create_queues();
  bool drain();
  void handle(const Completion& completion);
  void watch();
  void read_socket(nic::TimeNs now);
  void question_peer(nic::TimeNs now);
  Silence silence();
  void stop();

  std::shared_ptr<Adapter> adapter_;
  EndDescription own_;
  std::uint64_t their_slots_ = 0;
  std::uint32_t their_key_ = 0;
  CqId cq_ = 0;
  std::array<Completion, 32> batch_;  // on the stack each poll would clear it; a poll within handle() throws
  bool torn_down_ = false;
  DomainId domain_ = 0;
  std::uint8_t access_ = 0;
  nic::FileDescriptor socket_;
  std::array<std::uint8_t, kCloseBytes> closing_{};
  std::size_t closing_bytes_ = 0;
  nic::TimeNs next_look_ = 0, next_question_ = 0, cut_since_ = 0;
  std::uint32_t questions_ = 0;
  ncclResult_t failed_ = ncclSuccess;
  std::string reason_;
  std::unordered_set<const Region*> regions_;
  std::unordered_set<const Request*> requests_;
};

class SendComm final : public Comm {
 public:
  explicit SendComm(std::shared_ptr<Adapter> adapter);
  ~SendComm() override { tear_down(); }

  EndDescription description() const override;
  // Throws Failure.
  Request* send(const void* data, std::size_t size_bytes, int tag, const void* mhandle);

 private:
  struct Slots {
    alignas(64) std::array<std::array<std::uint8_t, kSlotBytes>, kSlots> bytes{};
  };
  struct Group {
    AnnouncedGroup announced;
    std::uint32_t used = 0;  // one bit for each receive
  };
  struct Pending {
    Request* request = nullptr;
    std::uint32_t works = 0;
  };

  void handle_arrival(const Completion& completion) override;
  void handle_written() override;
  void handle_goodbye(std::uint64_t completed) override;
  std::uint64_t completed() const override { return sent_ - pending_.size(); }
  std::uint32_t receives_posted() const override { return kSlots; }
  Status post_message(const Announced& to, const Arrival& place, const void* data, std::size_t size_bytes,
                      std::uint32_t key);

  std::unique_ptr<Slots> slots_ = std::make_unique<Slots>();
  const Region* slots_region_;
  std::uint64_t announced_ = 0;  // groups
  std::deque<Group> groups_;     // with receives that no message has taken
  std::deque<Pending> pending_;  // in the order of posting
  std::uint64_t sent_ = 0;       // messages posted
  std::uint32_t works_ = 0;      // in the send queue
};

class RecvComm final : public Comm {
 public:
  explicit RecvComm(std::shared_ptr<Adapter> adapter);

  // Throws Failure.
  Request* receive(std::span<void* const> data, std::span<const std::size_t> sizes, std::span<const int> tags,
                   std::span<void* const> mhandles);

 private:
  struct Group {
    Request* request = nullptr;  // nullptr: done
    std::uint32_t count = 0;
    std::uint32_t arrived = 0;  // one bit for each receive
    std::array<std::uint64_t, kGroupMax> room_bytes{};
  };

  void handle_arrival(const Completion& completion) override;
  void handle_written() override { --announcing_; }
  void handle_goodbye(std::uint64_t) override {}
  std::uint64_t completed() const override { return received_; }
  std::uint32_t receives_posted() const override { return 0; }

  std::deque<Group> groups_;  // announced, and not completed
  std::uint64_t next_ = 0;    // sequence of the next group
  std::uint64_t received_ = 0;
  std::uint32_t announcing_ = 0;
};

}  // namespace openmrc::nccl
