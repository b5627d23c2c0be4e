// Interface of the two halves of a QP, implemented by MRC and by the RC fallback.
#pragma once

#include "engine/qp/context.hpp"
#include "engine/qp/send_queue.hpp"

namespace openmrc {

// Error that a NAK causes in the QP that receives it; kNone: not fatal.
constexpr QpErrorCause cause_of_nak(wire::AethSyndrome syndrome) {
  switch (syndrome) {
    case wire::AethSyndrome::kNakRemoteAccess:
      return QpErrorCause::kRemoteAccess;
    case wire::AethSyndrome::kNakRemoteOperational:
      return QpErrorCause::kRemoteOperational;
    case wire::AethSyndrome::kNakInvalidRequest:
      return QpErrorCause::kRemoteInvalid;
    default:
      return QpErrorCause::kNone;
  }
}

// Unacknowledged work of a requester: determines whether its driver may delay reading.
enum class UnderWay : std::uint8_t {
  kNothing,
  kStream,  // at least the same amount again waits to be sent
  kEnd,     // nothing or little waits: the application may be waiting for the acknowledgement
};

class Requester {
 public:
  explicit Requester(QpContext& context) : context_(context), queue_(context) {}
  virtual ~Requester() = default;

  Status post(TimePs now, const SendWr& wr) {
    const bool was_empty = queue_.empty();
    const Status status = queue_.post(wr);
    if (status != Status::kOk) return status;
    if (was_empty) work_began(now);
    if (context_.payload.gains(queue_.back().wr.length_bytes)) probe_payload(now);
    return status;
  }
  // Result of post(), without posting; a full queue is not considered.
  Status check(const SendWr& wr) { return queue_.check(wr); }
  std::uint32_t outstanding() const { return queue_.size(); }

  virtual void start(TimePs now, const QpToRts& attributes) = 0;
  // Handles any kind of acknowledgement for this QP.
  virtual void handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) = 0;
  virtual void handle_timer(TimePs now) = 0;
  // A probe for a larger payload has ended.
  virtual void handle_payload_probe(TimePs /*now*/, PortId /*plane*/, bool /*answered*/) {}
  virtual TimePs next_timer() const = 0;
  virtual UnderWay under_way() const { return queue_.empty() ? UnderWay::kNothing : UnderWay::kEnd; }
  // Time for which acknowledgements of a stream may stay unread.
  virtual TimePs patience() const { return 0; }
  // Data may be sent again after it waited for urgent QPs; until then no timer runs.
  virtual void resume(TimePs now) = 0;
  virtual void rebase(TimePs by) = 0;  // see Engine::handle_clock_rebase
  virtual BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) = 0;
  // False if build() would find nothing.
  virtual bool may_build() const { return true; }
  // Packets of posted work that have not been sent yet.
  virtual std::uint64_t unsent_packets() const = 0;
  virtual std::uint64_t in_flight_packets() const = 0;
  // Adds statistics of the packets in flight to the counters.
  virtual void fill(QpStats& stats) const = 0;
  // False if planes are not controlled one by one.
  virtual bool fill_plane(PortId /*plane*/, PlaneStats& /*stats*/) const { return false; }
  // After a change of the usable ports.
  virtual void handle_ports(TimePs now) = 0;
  // Sends a question that the peer's QP answers, whether or not anything is posted. False if the transport has none.
  virtual bool ask_peer() { return false; }
  virtual void hot_memory(HotMemory& memory) const = 0;

  // Completes all posted work: the first request with `status`, the rest as flushed.
  void fail_all(WcStatus status) {
    queue_.fail_all(status);
    work_ended();
  }
  // Discards all posted work, without completions.
  void discard_all() {
    queue_.discard_all();
    work_ended();
  }

 protected:
  // Called for the first message after the queue was empty.
  virtual void work_began(TimePs now) = 0;
  // Called when a message was posted that would gain from a larger payload.
  virtual void probe_payload(TimePs /*now*/) {}
  // Called when all posted work was given up.
  virtual void work_ended() {}

  QpContext& context_;
  SendQueue queue_;
};

class Responder {
 public:
  explicit Responder(QpContext& context) : context_(context) {}
  virtual ~Responder() = default;

  virtual void start(TimePs now, const QpToRtr& attributes) = 0;
  virtual void handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) = 0;
  // The same for `count` packets that follow `first` in PSN and address, and behind it in `train`, each datagram of
  // `datagram_bytes`. `first` was handled by the call before. Returns how many were taken; the rest has to be handled
  // packet by packet.
  virtual std::uint32_t handle_run(TimePs /*now*/, const RxDatagram& /*train*/, const wire::Packet& /*first*/,
                                   std::uint32_t /*count*/, std::size_t /*datagram_bytes*/) {
    return 0;
  }
  virtual void handle_timer(TimePs now) = 0;
  virtual TimePs next_timer() const = 0;
  virtual void rebase(TimePs by) = 0;  // see Engine::handle_clock_rebase
  // True once a request was refused: every later arrival gets the NAK again, and no more data is placed.
  virtual bool refusing() const = 0;
  // Answers that carry data are due. They leave with data, and acknowledgements behind them wait.
  virtual bool answering() const { return false; }
  virtual BuildResult build_answers(PortMask /*free_ports*/, std::uint32_t /*burst_max*/, TxBurst& /*burst*/) {
    return BuildResult::kNothing;
  }
  // Adds an ACK to a burst of data if that is all that is due.
  virtual void add_ack(TxBurst& burst) = 0;
  // Builds a burst of acknowledgements that are due.
  virtual BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) = 0;
  virtual void hot_memory(HotMemory& memory) const = 0;

 protected:
  QpContext& context_;
};

}  // namespace openmrc
