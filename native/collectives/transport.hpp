// Interface of the transports that carry messages between the ranks of a group. A transport moves bytes and knows nothing
// of plans; it hands over what arrives, and reports room and failures. Every call comes under the executor's lock, but for
// progress(), await() and clear().
//
// Small messages go at once and are copied. Large ones go after the receiver has announced its buffers: in place where the
// transport can write there, else in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/circle.hpp"
#include "collectives/executor_stats.hpp"
#include "collectives/message.hpp"
#include "collectives/operation.hpp"
#include "collectives/sleeper.hpp"
#include "engine/placer.hpp"
#include "nic/clock.hpp"

namespace openmrc::collectives {

// Takes the messages of a transport. No input is trusted. Calls come from poll(), and from put() and send() where these
// find out that a peer is gone or breaks the rules.
class TransportReceiver {
 public:
  // A small message. True: it is held for a later operation, and with it too much is held for its sender.
  virtual bool take_message(std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) = 0;
  // A part of a large message; `left` bytes of it are still to come.
  virtual void take_part(std::uint16_t rank, std::uint8_t lane, const MessageHead& part, std::uint64_t left,
                         const std::uint8_t* data) = 0;
  // A large message of `bytes` was written into the buffers of the operation in this slot.
  virtual void take_written(std::uint16_t rank, std::uint32_t op_slot, std::uint32_t pair_index,
                            std::uint64_t bytes) = 0;
  // The buffers of a large message that was posted are not read any more. `arrived`: at the peer.
  virtual void take_sent(OpId op, std::uint32_t step, bool arrived) = 0;
  virtual void take_breach(std::uint16_t rank, const char* breach) = 0;  // of the rules, by this rank
  virtual void take_loss(std::uint16_t rank, const char* reason) = 0;    // of the connection to this rank

 protected:
  ~TransportReceiver() = default;
};

// A send of a plan whose receiver has announced its buffers.
struct LargeMessage {
  OpId op = 0;
  std::uint32_t step = 0;
  MessageHead head;                    // without kind and bytes; op_slot: the receiver's
  const std::uint8_t* data = nullptr;  // stays until it is sent
  std::uint64_t bytes = 0;
  std::uint32_t local_key = 0;  // of the memory that holds the data
  std::uint32_t remote_key = 0;
  std::uint64_t remote_address = 0;
};

class Transport {
 public:
  struct Traits {
    bool in_place = false;    // reads and writes large messages in the buffers, under the keys that enlist() makes
    bool local = false;       // between ranks on one host, without the device
    bool overtaking = false;  // sends of the oldest operation may pass others that wait for room
    bool accounts = false;    // keeps a rank from sending on for which too much is held, until make_room()
  };
  enum class Sending : std::uint8_t { kNoRoom, kPosted, kSent };
  // kSome: messages, or room for messages. kMore: there may be more of them than one look takes.
  enum class Arrivals : std::uint8_t { kNothing, kSome, kMore };

  explicit Transport(const Traits& traits) : traits_(traits) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Before everything else.
  void attach(TransportReceiver& receiver) { receiver_ = &receiver; }
  const Traits& traits() const { return traits_; }
  std::uint64_t messages() const { return messages_; }  // that have come in, small ones and parts

  // --- sending. False, kNoRoom: nothing goes now, or nothing ever as the rank is gone.

  // `urgent`: may take the room that is kept free for the oldest operation.
  virtual bool put(std::uint16_t rank, std::uint8_t lane, const MessageHead& head, const void* data, bool urgent) = 0;
  // The ranks of a group, the own one and `others` in ascending order, as a circle; nullptr: there is none.
  virtual Circle* circle(std::uint64_t /*group*/, std::span<const std::uint16_t> /*others*/) { return nullptr; }
  // kNoRoom: perhaps a part of it is gone; the next call with the same message goes on. kPosted: take_sent() follows.
  virtual Sending send(std::uint16_t rank, std::uint8_t lane, const LargeMessage& message) = 0;
  // Posts again what queues had no room for.
  virtual void retry() {}

  // --- receiving

  virtual Arrivals poll() = 0;
  // Part of what poll() takes, for a thread that looks again at once. True: messages came.
  virtual bool look() { return poll() == Arrivals::kMore; }
  // After the work that follows from poll(): resources for further messages.
  virtual void replenish() {}
  // Messages held for this rank have been taken.
  virtual void make_room(std::uint16_t /*rank*/) {}

  // --- memory, of a transport in place. False: the device takes no more; still in use.

  // `placer`: takes what peers write; nullptr: it is copied.
  virtual bool enlist(const Memory& /*memory*/, bool /*peers_write*/, std::uint32_t& /*key*/,
                      const std::shared_ptr<Placer>& /*placer*/) {
    return true;
  }
  virtual bool delist(std::uint32_t /*key*/) { return true; }

  // --- sleeping

  // Asks to be woken. True: there is something already.
  virtual bool arm(Sleeper sleeper) = 0;
  virtual void disarm(Sleeper sleeper) = 0;
  // Readable when something has come after arm(); -1: this sleeper sleeps in await().
  virtual int descriptor(Sleeper sleeper) const = 0;
  virtual void clear(Sleeper sleeper) = 0;
  // One look at the hardware by the calling thread: the datagrams that it received.
  virtual std::uint32_t progress() { return 0; }
  // The same, asleep until something comes or the descriptor `also` is readable; -1: none.
  virtual std::uint32_t await(nic::TimeNs longest, int also) = 0;
  // Calls of progress() follow, with breaks up to half of `span`. When they end, the descriptor of the thread becomes
  // readable.
  virtual void attend(nic::TimeNs /*span*/) {}
  virtual bool attended() const { return false; }  // they have not ended
  virtual void rest() {}                           // no progress() for now

  // --- the end

  // The rank has failed: nothing more goes to it or is taken from it.
  virtual void stop(std::uint16_t rank) = 0;
  // True if everything sent to ranks that have not failed has arrived.
  virtual bool flushed() const { return true; }
  virtual bool closed() const { return false; }
  virtual void leave_to_parent() = 0;  // in a forked child
  virtual void add_to(ExecutorStats& stats) const = 0;

 protected:
  TransportReceiver& receiver() { return *receiver_; }
  void count_message() { ++messages_; }

 private:
  Traits traits_;
  TransportReceiver* receiver_ = nullptr;
  std::uint64_t messages_ = 0;
};

}  // namespace openmrc::collectives
