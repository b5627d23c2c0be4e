#include "netsim/simulate/dctcp_endpoint.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/base/assert.hpp"
#include "netsim/simulate/baseline_endpoint.hpp"
#include "netsim/simulate/baseline_timers.hpp"
#include "netsim/simulate/dctcp_receiver.hpp"
#include "netsim/simulate/dctcp_sender.hpp"
#include "netsim/simulate/dctcp_wire.hpp"

namespace openmrc::netsim {

namespace {

class DctcpEndpoint final : public BaselineEndpoint<DctcpSettings, DctcpSender, DctcpReceiver> {
 public:
  DctcpEndpoint(const Surroundings& surroundings, const DctcpSettings& settings, std::uint32_t host)
      : BaselineEndpoint(surroundings, settings, "dctcp", host) {
    MRC_ASSERT(settings.gain_shift < 20 && settings.min_window > 0 && settings.ack_packets > 0);
    MRC_ASSERT(settings.rto_min > 0 && settings.rto_max >= settings.rto_min && settings.ack_delay > 0);
  }

  void handle_packet(TimePs now, PortId port, const HostPacket& packet) override {
    // The checksum does not match, or the payload was trimmed.
    if (packet.corruption != kNotCorrupted || is_trimmed(packet.traffic_class)) return;
    if (dctcp_kind(packet) == DctcpKind::kData) {
      handle_data(now, port, packet);
      return;
    }
    const auto ack = read_dctcp_header<DctcpAck>(packet);
    MRC_ASSERT(ack.connection < senders_.size() && senders_[ack.connection]);
    handle_ack(now, ack, *senders_[ack.connection]);
  }

  void handle_timer(TimePs now) override {
    std::uint32_t connection = 0;
    while (delays_.pop_due(now, connection)) {
      receivers_[connection]->handle_timer();
      answer(reply_ports_[connection], connection);
    }
    while (timers_.pop_due(now, connection)) {
      DctcpSender& sender = *senders_[connection];
      if (!sender.handle_timer()) {
        fail(sender);
        continue;
      }
      if (sender.waits()) timers_.set(connection, now + sender.patience());
      schedule(now, connection);
    }
  }

  bool poll_transmit(TimePs now, PortMask free_ports, PortMask paused_ports, Outbound& out) override {
    // TCP's acknowledgements share the class of its data, so a pause stops both.
    free_ports &= paths_.up_ports() & ~paused_ports;
    if (const PortMask ports = answers_.ports() & free_ports; ports != 0) {
      send_ack(static_cast<PortId>(std::countr_zero(ports)), out);
      return true;
    }
    while ((ready_.ports() & free_ports) != 0) {
      const auto port = static_cast<PortId>(std::countr_zero(ready_.ports() & free_ports));
      if (send_data(now, port, out)) return true;
    }
    return false;
  }

  TimePs next_timer() const override { return std::min(timers_.next(), delays_.next()); }

  std::uint64_t memory_bytes() const override {
    std::uint64_t bytes = sizeof *this + shared_memory_bytes() + timers_.memory_bytes() + delays_.memory_bytes() +
                          reply_ports_.capacity();
    for (const auto& sender : senders_) bytes += sender ? sender->memory_bytes() : 0;
    for (const auto& receiver : receivers_) bytes += receiver ? receiver->memory_bytes() : 0;
    return bytes;
  }

 private:
  // Gives the connection its turn if its window allows it.
  void schedule(TimePs now, std::uint32_t connection) override {
    DctcpSender& sender = *senders_[connection];
    if (!sender.may_send()) return;
    const PortId port = paths_.port_of(connection);
    // With a dead interface segments would be sent and lost; the timer runs as in that case.
    if (!paths_.up(port) && !timers_.armed(connection)) timers_.set(connection, now + sender.patience());
    if (!ready_.contains(connection)) ready_.push(port, connection);
  }

  void answer(PortId port, std::uint32_t connection) {
    if (!answers_.contains(connection)) answers_.push(paths_.reply_port(port), connection);
  }

  void handle_data(TimePs now, PortId port, const HostPacket& packet) {
    const auto data = read_dctcp_header<DctcpData>(packet);
    const std::uint32_t connection = data.connection;
    MRC_ASSERT(connection < receivers_.size());
    DctcpReceiver& receiver = receiver_of(connection);
    receiver.handle_data(now, settings_, data, packet, done_);
    if (connection >= reply_ports_.size()) reply_ports_.resize(receivers_.size());
    reply_ports_[connection] = port;
    if (receiver.owes()) answer(port, connection);
    if (!receiver.delays()) {
      delays_.cancel(connection);
    } else if (!delays_.armed(connection)) {
      delays_.set(connection, now + settings_.ack_delay);
    }
  }

  void handle_ack(TimePs now, const DctcpAck& ack, DctcpSender& sender) {
    if (sender.handle_ack(now, ack)) {
      complete(sender);
      if (sender.waits()) {
        timers_.set(ack.connection, now + sender.patience());
      } else {
        timers_.cancel(ack.connection);
      }
    }
    schedule(now, ack.connection);
  }

  void send_ack(PortId port, Outbound& out) {
    const std::uint32_t connection = answers_.pop(port);
    DctcpReceiver& receiver = *receivers_[connection];
    DctcpAck ack = receiver.take_ack();
    ack.connection = paths_.peer_number(connection);
    begin(port, connection, out);
    write_header(ack, surroundings_->header_bytes, out.packet);
    out.packet.traffic_class = TrafficClass::kNoTrim;
    out.packet.ecn = Ecn::kEct0;  // as Linux under DCTCP; otherwise a marking queue would drop them
    if (receiver.owes()) answers_.push(port, connection);
  }

  bool send_data(TimePs now, PortId port, Outbound& out) {
    const std::uint32_t connection = ready_.pop(port);
    DctcpSender& sender = *senders_[connection];
    if (!sender.may_send()) return false;  // the window has shrunk since
    begin(port, connection, out);
    DctcpData data;
    data.connection = paths_.peer_number(connection);
    sender.send(now, data, out.packet);
    if (!timers_.armed(connection) || sender.would_probe()) timers_.set(connection, now + sender.patience());
    schedule(now, connection);
    return true;
  }

  TimerHeap timers_;                 // retransmission or probe
  TimerHeap delays_;                 // delayed acknowledgements
  std::vector<PortId> reply_ports_;  // port of the latest arrival
};

}  // namespace

std::unique_ptr<Endpoint> make_dctcp_endpoint(const Surroundings& surroundings, const DctcpSettings& settings,
                                              std::uint32_t host) {
  return std::make_unique<DctcpEndpoint>(surroundings, settings, host);
}

}  // namespace openmrc::netsim
