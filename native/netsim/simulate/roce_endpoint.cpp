#include "netsim/simulate/roce_endpoint.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/base/assert.hpp"
#include "netsim/simulate/baseline_endpoint.hpp"
#include "netsim/simulate/baseline_timers.hpp"
#include "netsim/simulate/roce_receiver.hpp"
#include "netsim/simulate/roce_sender.hpp"
#include "netsim/simulate/roce_wire.hpp"

namespace openmrc::netsim {

namespace {

class RoceEndpoint final : public BaselineEndpoint<RoceSettings, RoceSender, RoceReceiver> {
 public:
  RoceEndpoint(const Surroundings& surroundings, const RoceSettings& settings, std::uint32_t host)
      : BaselineEndpoint(surroundings, settings, "roce", host) {
    MRC_ASSERT(settings.timeout > 0 && settings.timeout_max > 0 && settings.ack_packets > 0);
  }

  void handle_packet(TimePs now, PortId port, const HostPacket& packet) override {
    // The ICRC does not match, or the payload was trimmed.
    if (packet.corruption != kNotCorrupted || is_trimmed(packet.traffic_class)) return;
    const RoceHeader header = read_roce_header(packet);
    MRC_ASSERT(header.connection < senders_.size());
    if (header.kind == RoceKind::kWrite) {
      handle_write(now, port, header, packet);
    } else if (RoceSender* sender = senders_[header.connection].get()) {
      handle_answer(now, header, *sender);
    }
  }

  void handle_timer(TimePs now) override {
    release(now);
    std::uint32_t connection = 0;
    while (timeouts_.pop_due(now, connection)) {
      RoceSender& sender = *senders_[connection];
      if (sender.handle_timeout()) {
        schedule(now, connection);
        continue;
      }
      pacing_.cancel(connection);
      fail(sender);
    }
  }

  bool poll_transmit(TimePs now, PortMask free_ports, PortMask paused_ports, Outbound& out) override {
    release(now);
    free_ports &= paths_.up_ports();
    if (const PortMask ports = answers_.ports() & free_ports; ports != 0) {
      send_answer(static_cast<PortId>(std::countr_zero(ports)), out);
      return true;
    }
    free_ports &= ~paused_ports;
    while ((ready_.ports() & free_ports) != 0) {
      const auto port = static_cast<PortId>(std::countr_zero(ready_.ports() & free_ports));
      if (send_write(now, port, out)) return true;
    }
    return false;
  }

  TimePs next_timer() const override { return std::min(timeouts_.next(), pacing_.next()); }

  std::uint64_t memory_bytes() const override {
    std::uint64_t bytes = sizeof *this + shared_memory_bytes() + pacing_.memory_bytes() + timeouts_.memory_bytes();
    for (const auto& sender : senders_) bytes += sender ? sender->memory_bytes() : 0;
    for (const auto& receiver : receivers_) bytes += receiver ? sizeof *receiver : 0;
    return bytes;
  }

 private:
  // Schedules the connection's turn, now or when its rate allows.
  void schedule(TimePs now, std::uint32_t connection) override {
    RoceSender& sender = *senders_[connection];
    if (!sender.may_send()) return;
    const PortId port = paths_.port_of(connection);
    // Through a dead port packets would be sent and lost; the retries count as in that case.
    if (!paths_.up(port)) arm(now, connection);
    if (ready_.contains(connection) || pacing_.armed(connection)) return;
    if (sender.next_send(now) > now) {
      pacing_.set(connection, sender.next_look());
    } else {
      ready_.push(port, connection);
    }
  }

  void release(TimePs now) {
    std::uint32_t connection = 0;
    while (pacing_.pop_due(now, connection)) schedule(now, connection);
  }

  void arm(TimePs now, std::uint32_t connection) {
    if (!timeouts_.armed(connection)) timeouts_.set(connection, now + senders_[connection]->patience());
  }

  void handle_write(TimePs now, PortId port, const RoceHeader& header, const HostPacket& packet) {
    RoceReceiver& receiver = receiver_of(header.connection);
    if (receiver.handle_write(now, settings_, header, packet)) {
      done_.push_back({header.message, Done::Kind::kReceived});
    }
    if (receiver.owes() && !answers_.contains(header.connection)) {
      answers_.push(paths_.reply_port(port), header.connection);
    }
  }

  void handle_answer(TimePs now, const RoceHeader& header, RoceSender& sender) {
    if (header.kind == RoceKind::kCnp) {
      sender.handle_cnp(now);
      return;
    }
    const bool progress = header.kind == RoceKind::kNak ? sender.handle_nak(header.psn) : sender.handle_ack(header.psn);
    if (progress) {
      complete(sender);
      timeouts_.cancel(header.connection);
    }
    if (sender.waits()) {
      arm(now, header.connection);
    } else {
      timeouts_.cancel(header.connection);
    }
    schedule(now, header.connection);
  }

  void send_answer(PortId port, Outbound& out) {
    const std::uint32_t connection = answers_.pop(port);
    RoceReceiver& receiver = *receivers_[connection];
    RoceHeader header = receiver.take_answer();
    header.connection = paths_.peer_number(connection);
    begin(port, connection, out);
    write_header(header, surroundings_->header_bytes, 0, out.packet);
    out.packet.traffic_class = TrafficClass::kControl;
    if (receiver.owes()) answers_.push(port, connection);
  }

  bool send_write(TimePs now, PortId port, Outbound& out) {
    const std::uint32_t connection = ready_.pop(port);
    RoceSender& sender = *senders_[connection];
    if (!sender.may_send()) return false;  // failed or acknowledged while waiting
    begin(port, connection, out);
    RoceHeader header;
    header.connection = paths_.peer_number(connection);
    sender.send(now, header, out.packet);
    if (sender.waits()) arm(now, connection);
    schedule(now, connection);
    return true;
  }

  TimerHeap pacing_;  // connections that may send data later
  TimerHeap timeouts_;
};

}  // namespace

std::unique_ptr<Endpoint> make_roce_endpoint(const Surroundings& surroundings, const RoceSettings& settings,
                                             std::uint32_t host) {
  return std::make_unique<RoceEndpoint>(surroundings, settings, host);
}

}  // namespace openmrc::netsim
