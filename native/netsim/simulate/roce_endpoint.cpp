#include "netsim/simulate/roce_endpoint.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/ring.hpp"
#include "netsim/simulate/baseline_paths.hpp"
#include "netsim/simulate/baseline_timers.hpp"
#include "netsim/simulate/roce_receiver.hpp"
#include "netsim/simulate/roce_sender.hpp"
#include "netsim/simulate/roce_wire.hpp"

namespace openmrc::netsim {

namespace {

class RoceEndpoint final : public Endpoint {
 public:
  RoceEndpoint(const Surroundings& surroundings, const RoceSettings& settings, std::uint32_t host)
      : surroundings_(&surroundings),
        settings_(settings),
        paths_(surroundings, "roce", host, settings.failover),
        ready_(surroundings.shape.planes),
        answers_(surroundings.shape.planes) {
    MRC_ASSERT(settings.timeout_ps > 0 && settings.ack_packets > 0);
  }

  std::uint32_t open(const ConnectionEnd& end) override {
    senders_.emplace_back();
    receivers_.emplace_back();
    return paths_.open(end);
  }

  void connect(std::uint32_t connection, std::uint32_t peer_number) override {
    paths_.connect(connection, peer_number);
  }

  void post(TimePs now, std::uint32_t connection, MessageId message, std::uint64_t bytes) override {
    MRC_ASSERT(connection < senders_.size());
    auto& sender = senders_[connection];
    if (!sender) sender = std::make_unique<RoceSender>(settings_, *surroundings_);
    if (sender->failed()) {
      done_.push_back({message, Done::Kind::kFailed});
      return;
    }
    sender->post(message, bytes);
    schedule(now, connection);
  }

  void handle_packet(TimePs now, PortId port, const HostPacket& packet) override {
    // The ICRC does not match, or the payload is gone.
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
      sender.fail();
      MessageId message = 0;
      while (sender.pop_any(message)) done_.push_back({message, Done::Kind::kFailed});
    }
  }

  void handle_port_state(TimePs now, PortId port, bool up) override {
    if (paths_.up(port) == up) return;
    paths_.set_port(port, up);
    move_answers();
    ready_.clear();
    for (std::uint32_t connection = 0; connection < senders_.size(); ++connection) {
      if (senders_[connection]) schedule(now, connection);
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

  bool poll_done(Done& done) override {
    if (done_.empty()) return false;
    done = done_.front();
    done_.pop_front();
    return true;
  }

  TimePs next_timer() const override { return std::min(timeouts_.next(), pacing_.next()); }

  ConnectionStats stats(std::uint32_t connection) const override {
    ConnectionStats stats;
    if (senders_[connection]) senders_[connection]->add_to(stats);
    if (receivers_[connection]) receivers_[connection]->add_to(stats);
    return stats;
  }

  std::uint64_t memory_bytes() const override {
    std::uint64_t bytes = sizeof *this + paths_.memory_bytes() + ready_.memory_bytes() + answers_.memory_bytes() +
                          pacing_.memory_bytes() + timeouts_.memory_bytes() + done_.memory_bytes() +
                          senders_.capacity() * sizeof senders_[0] + receivers_.capacity() * sizeof receivers_[0];
    for (const auto& sender : senders_) bytes += sender ? sender->memory_bytes() : 0;
    for (const auto& receiver : receivers_) bytes += receiver ? sizeof *receiver : 0;
    return bytes;
  }

 private:
  // Lets the connection take its turn, now or when its rate allows.
  void schedule(TimePs now, std::uint32_t connection) {
    RoceSender& sender = *senders_[connection];
    if (!sender.may_send()) return;
    const PortId port = paths_.port_of(connection);
    // Through a dead port packets would leave and be lost: the retries count all the same.
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
    if (!timeouts_.armed(connection)) timeouts_.set(connection, now + settings_.timeout_ps);
  }

  void handle_write(TimePs now, PortId port, const RoceHeader& header, const HostPacket& packet) {
    auto& receiver = receivers_[header.connection];
    if (!receiver) receiver = std::make_unique<RoceReceiver>();
    if (receiver->handle_write(now, settings_, header, packet)) {
      done_.push_back({header.message, Done::Kind::kReceived});
    }
    if (receiver->owes() && !answers_.contains(header.connection)) {
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
      MessageId message = 0;
      while (sender.pop_completed(message)) done_.push_back({message, Done::Kind::kCompleted});
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
    out.packet = HostPacket{};
    out.port = port;
    paths_.address(connection, out.packet);
    write_header(header, surroundings_->header_bytes, 0, out.packet);
    out.packet.traffic_class = TrafficClass::kControl;
    if (receiver.owes()) answers_.push(port, connection);
  }

  bool send_write(TimePs now, PortId port, Outbound& out) {
    const std::uint32_t connection = ready_.pop(port);
    RoceSender& sender = *senders_[connection];
    if (!sender.may_send()) return false;  // failed or acknowledged while it waited
    out.packet = HostPacket{};
    out.port = port;
    paths_.address(connection, out.packet);
    RoceHeader header;
    header.connection = paths_.peer_number(connection);
    sender.send(now, header, out.packet);
    if (sender.waits()) arm(now, connection);
    schedule(now, connection);
    return true;
  }

  // Answers leave through the port their packets came in by, as long as that is up.
  void move_answers() {
    const PortMask lost = answers_.ports() & ~paths_.up_ports();
    for (PortMask ports = lost; ports != 0 && paths_.up_ports() != 0; ports &= ports - 1) {
      const auto port = static_cast<PortId>(std::countr_zero(ports));
      while ((answers_.ports() >> port) & 1) {
        const std::uint32_t connection = answers_.pop(port);
        answers_.push(paths_.reply_port(port), connection);
      }
    }
  }

  const Surroundings* surroundings_;
  RoceSettings settings_;
  HashedPaths paths_;
  PortQueues ready_;    // connections that may send data now
  PortQueues answers_;  // connections that owe an acknowledgement or CNP
  TimerHeap pacing_;    // connections that may send data later
  TimerHeap timeouts_;
  std::vector<std::unique_ptr<RoceSender>> senders_;
  std::vector<std::unique_ptr<RoceReceiver>> receivers_;
  Ring<Done> done_;
};

}  // namespace

std::unique_ptr<Endpoint> make_roce_endpoint(const Surroundings& surroundings, const RoceSettings& settings,
                                             std::uint32_t host) {
  return std::make_unique<RoceEndpoint>(surroundings, settings, host);
}

}  // namespace openmrc::netsim
