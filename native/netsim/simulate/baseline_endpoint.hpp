// Common part of the RoCEv2 and DCTCP endpoints: senders and receivers by connection, created on first use, the hashed
// paths, the queues of ready connections per port, and finished messages.
#pragma once

#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/ring.hpp"
#include "netsim/simulate/baseline_paths.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

template <class Settings, class Sender, class Receiver>
class BaselineEndpoint : public Endpoint {
 public:
  std::uint32_t open(const ConnectionEnd& end) final {
    senders_.emplace_back();
    receivers_.emplace_back();
    return paths_.open(end);
  }

  void connect(std::uint32_t connection, std::uint32_t peer_number) final { paths_.connect(connection, peer_number); }

  void post(TimePs now, std::uint32_t connection, MessageId message, std::uint64_t bytes) final {
    MRC_ASSERT(connection < senders_.size());
    auto& sender = senders_[connection];
    if (!sender) sender = std::make_unique<Sender>(settings_, *surroundings_);
    if (sender->failed()) {
      done_.push_back({message, Done::Kind::kFailed});
      return;
    }
    sender->post(message, bytes);
    schedule(now, connection);
  }

  void handle_port_state(TimePs now, PortId port, bool up) final {
    if (paths_.up(port) == up) return;
    paths_.set_port(port, up);
    move_answers();
    ready_.clear();
    for (std::uint32_t connection = 0; connection < senders_.size(); ++connection) {
      if (senders_[connection]) schedule(now, connection);
    }
  }

  bool poll_done(Done& done) final {
    if (done_.empty()) return false;
    done = done_.front();
    done_.pop_front();
    return true;
  }

  ConnectionStats stats(std::uint32_t connection) const final {
    ConnectionStats stats;
    if (senders_[connection]) senders_[connection]->add_to(stats);
    if (receivers_[connection]) receivers_[connection]->add_to(stats);
    return stats;
  }

 protected:
  // `name` separates the random streams of the transports. `surroundings` must outlive the endpoint.
  BaselineEndpoint(const Surroundings& surroundings, const Settings& settings, std::string_view name,
                   std::uint32_t host)
      : surroundings_(&surroundings),
        settings_(settings),
        paths_(surroundings, name, host, settings.failover),
        ready_(surroundings.shape.planes),
        answers_(surroundings.shape.planes) {}

  // Schedules the connection's next turn, if and when it may send.
  virtual void schedule(TimePs now, std::uint32_t connection) = 0;

  Receiver& receiver_of(std::uint32_t connection) {
    auto& receiver = receivers_[connection];
    if (!receiver) receiver = std::make_unique<Receiver>();
    return *receiver;
  }

  void complete(Sender& sender) {
    MessageId message = 0;
    while (sender.pop_completed(message)) done_.push_back({message, Done::Kind::kCompleted});
  }

  void fail(Sender& sender) {
    sender.fail();
    MessageId message = 0;
    while (sender.pop_any(message)) done_.push_back({message, Done::Kind::kFailed});
  }

  void begin(PortId port, std::uint32_t connection, Outbound& out) const {
    out.packet = HostPacket{};
    out.port = port;
    paths_.address(connection, out.packet);
  }

  // Of the members here, without the memory that senders and receivers own.
  std::uint64_t shared_memory_bytes() const {
    return paths_.memory_bytes() + ready_.memory_bytes() + answers_.memory_bytes() + done_.memory_bytes() +
           senders_.capacity() * sizeof senders_[0] + receivers_.capacity() * sizeof receivers_[0];
  }

  const Surroundings* surroundings_;
  Settings settings_;
  HashedPaths paths_;
  PortQueues ready_;    // connections that may send data now
  PortQueues answers_;  // connections that owe an acknowledgement, or another response to data
  std::vector<std::unique_ptr<Sender>> senders_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  Ring<Done> done_;

 private:
  // Responses leave through the port on which their packets arrived, while that is up.
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
};

}  // namespace openmrc::netsim
