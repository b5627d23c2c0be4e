// One QP: its states, the attribute rules of each step (F.1), and the dispatch of packets to its halves.
#pragma once

#include <memory>

#include "engine/qp/halves.hpp"

namespace openmrc {

struct EndpointResult;

class Qp {
 public:
  Qp(EngineServices& services, const QpInitAttributes& attributes, std::uint32_t qpn)
      : context_(services, attributes, qpn) {}
  ~Qp();

  Status to_init(TimePs now, const QpToInit& attributes);
  Status to_rtr(TimePs now, const QpToRtr& attributes, Peer* peer);
  Status to_rts(TimePs now, const QpToRts& attributes);
  void to_error(TimePs now, QpErrorCause cause);

  Status post_send(TimePs now, const SendWr& wr);
  Status check_send(const SendWr& wr);
  Status post_recv(std::uint64_t wr_id, std::span<const Sge> sges);
  Status ask_peer();

  // False: dropped, since it does not belong to this connection.
  bool handle_packet(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, DropStats& drops);
  // Handles packets behind the one just handled, see Responder::handle_run.
  std::uint32_t handle_run(TimePs now, const RxDatagram& train, const wire::Packet& first, std::uint32_t count,
                           std::size_t datagram_bytes);
  void handle_payload_probe(TimePs now, const EndpointResult& result);
  void handle_timer(TimePs now);
  void handle_ports(TimePs now);
  // The peer has answered a check for the connection with this nonce.
  void on_same_kernel(std::uint32_t nonce);
  TimePs next_timer() const;
  void resume(TimePs now);
  UnderWay under_way() const;
  bool has_backlog() const;
  void rebase(TimePs by);
  BuildResult build_control(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst);
  BuildResult build_data(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst);
  bool may_build_data() const;  // false if build_data() would find nothing

  // Adds an ACK that is due behind a packet of data.
  void add_ack(TxBurst& burst) {
    if (responder_ != nullptr && (context_.state == QpState::kRts || context_.state == QpState::kRtr))
      responder_->add_ack(burst);
  }

  void hot_memory(HotMemory& memory) const;

  QpContext& context() { return context_; }
  const QpContext& context() const { return context_; }
  bool urgent() const { return context_.init.urgent; }
  Requester* requester() { return requester_.get(); }
  const Requester* requester() const { return requester_.get(); }
  Responder* responder() { return responder_.get(); }

  // The engine's book-keeping: membership in its lists, and the entry in the timer heap.
  bool control_listed = false;
  bool data_listed = false;
  bool change_noted = false;
  TimePs timer_entry = kNever;
  UnderWay counted = UnderWay::kNothing;
  bool backlog_counted = false;

 private:
  void announce(TimePs now) const;
  void settle(TimePs now);
  void receive(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void check_kernel(TimePs now);
  void flush_receives();
  bool sends() const { return context_.state == QpState::kRts && (urgent() || !context_.services.ordinary_data_waits); }

  QpContext context_;
  bool answered_ = false;  // by the latest burst of data
  std::unique_ptr<Requester> requester_;
  std::unique_ptr<Responder> responder_;
};

}  // namespace openmrc
