// A port that carries datagrams within the process, without sockets: several devices on one `Pipe`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "nic/file_descriptor.hpp"
#include "nic/port.hpp"

namespace openmrc::test {

class PipePort;

// The network between ports, which outlives them. A port with a full queue blocks its senders.
class Pipe {
 public:
  explicit Pipe(std::uint32_t mtu = 9'000, std::uint64_t queue_bytes = 1U << 20)
      : mtu_(mtu), queue_bytes_(queue_bytes) {}

  nic::PortFactory factory();

 private:
  friend class PipePort;
  using Place = std::tuple<decltype(Address::bytes), AddressFamily, std::uint16_t>;  // address and UDP port

  static Place place(const Address& address, std::uint16_t udp_port);

  std::uint32_t mtu_;
  std::uint64_t queue_bytes_;
  std::mutex mutex_;
  std::map<Place, PipePort*> ports_;
};

class PipePort final : public nic::Port {
 public:
  PipePort(Pipe& pipe, PortId id, const nic::Settings& device, std::uint32_t& next_source_port);
  ~PipePort() override;

  std::uint32_t send(const TxBurst& burst, std::uint32_t first) override;
  int blocked_fd() const override { return room_.get(); }
  void drop(std::uint32_t datagrams) override { stats_.dropped_datagrams += datagrams; }
  nic::Received receive(nic::ReceiveBuffers& buffers, nic::TrainSink& sink) override;
  nic::Received receive_endpoint(nic::ReceiveBuffers&, nic::TrainSink&) override { return {}; }
  nic::TimeNs endpoint_rests_until() const override { return 0; }
  int receive_fd() const override { return arrived_.get(); }
  int endpoint_fd() const override { return -1; }
  bool interface_gone() const override { return false; }
  int rebind() override { return 0; }
  void close() override;
  nic::SocketStats stats() const override { return stats_; }
  std::uint32_t path_mtu(const Address& peer, std::uint16_t udp_port) const override;
  const std::vector<Ev>& evs() const override { return evs_; }

 private:
  struct Message {
    nic::Train train;
    std::vector<std::uint8_t> bytes;
  };

  std::uint32_t fits(const TxBurst& burst, std::uint32_t first);

  Pipe& pipe_;
  PortId id_;
  Address local_;
  std::uint16_t udp_port_;
  std::vector<Ev> evs_;
  nic::FileDescriptor arrived_;  // eventfd: readable while messages wait
  nic::FileDescriptor room_;     // eventfd: writable unless this port is blocked
  nic::SocketStats stats_;
  // Protected by the pipe's lock.
  std::deque<Message> queue_;
  std::uint64_t queued_bytes_ = 0;
  std::vector<PipePort*> blocked_;  // by this port's queue
};

}  // namespace openmrc::test
