// The two halves of a QP as the engine drives them; MRC and the RC fallback implement both.
#pragma once

#include "engine/qp/context.hpp"
#include "engine/qp/send_queue.hpp"

namespace openmrc {

// What a NAK means for the QP that gets it; kNone: nothing that ends it.
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

// Work of a requester that is not acknowledged: may its driver take its time?
enum class UnderWay : std::uint8_t {
  kNothing,
  kStream,  // at least as much again waits to be sent
  kEnd,     // nothing or little waits: whoever posted it may wait for the acknowledgement
};

class Requester {
 public:
  explicit Requester(QpContext& context) : context_(context), queue_(context) {}
  virtual ~Requester() = default;

  Status post(TimePs now, const SendWr& wr) {
    const bool was_empty = queue_.empty();
    const Status status = queue_.post(wr);
    if (status == Status::kOk && was_empty) work_began(now);
    return status;
  }
  std::uint32_t outstanding() const { return queue_.size(); }

  virtual void start(TimePs now, const QpToRts& attributes) = 0;
  // An acknowledgement of any kind that came in for this QP.
  virtual void handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) = 0;
  virtual void handle_timer(TimePs now) = 0;
  virtual TimePs next_timer() const = 0;
  virtual UnderWay under_way() const { return queue_.empty() ? UnderWay::kNothing : UnderWay::kEnd; }
  // How long acknowledgements of a stream may be left unread.
  virtual TimePs patience() const { return 0; }
  virtual void rebase(TimePs by) = 0;  // see Engine::handle_clock_rebase
  virtual BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) = 0;
  // Adds what is known of the packets in flight to the counters.
  virtual void fill(QpStats& stats) const = 0;
  // False: planes are not controlled one by one.
  virtual bool fill_plane(PortId /*plane*/, PlaneStats& /*stats*/) const { return false; }
  // After a change of the usable ports.
  virtual void handle_ports(TimePs now) = 0;
  // Sends a question that the peer's QP answers, whether or not anything is posted. False: the transport has none.
  virtual bool ask_peer() { return false; }
  virtual void hot_memory(HotMemory& memory) const = 0;

  // Ends everything posted: the first with `status`, the rest flushed.
  void fail_all(WcStatus status) { queue_.fail_all(status); }
  // Forgets everything posted, without completions.
  void discard_all() { queue_.discard_all(); }

 protected:
  // The first message after the queue was empty.
  virtual void work_began(TimePs now) = 0;

  QpContext& context_;
  SendQueue queue_;
};

class Responder {
 public:
  explicit Responder(QpContext& context) : context_(context) {}
  virtual ~Responder() = default;

  virtual void start(TimePs now, const QpToRtr& attributes) = 0;
  virtual void handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) = 0;
  virtual void handle_timer(TimePs now) = 0;
  virtual TimePs next_timer() const = 0;
  virtual void rebase(TimePs by) = 0;  // see Engine::handle_clock_rebase
  // True once a request was refused: the NAK is repeated to whatever still arrives, and nothing is placed any more.
  virtual bool refusing() const = 0;
  // Acknowledgements waiting to be sent.
  virtual BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) = 0;
  virtual void hot_memory(HotMemory& memory) const = 0;

 protected:
  QpContext& context_;
};

}  // namespace openmrc
