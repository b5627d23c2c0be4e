// Internals of the engine: tables of objects, lists of QPs with packets to send, the timer heap.
#pragma once

#include <deque>
#include <queue>
#include <unordered_map>

#include "engine/base/bounded_queue.hpp"
#include "engine/base/ring.hpp"
#include "engine/completion_queue.hpp"
#include "engine/endpoint.hpp"
#include "engine/engine.hpp"
#include "engine/memory.hpp"
#include "engine/peer.hpp"
#include "engine/qp/qp.hpp"
#include "engine/qp_index.hpp"
#include "engine/urgent_time.hpp"
#include "engine/wire/icrc.hpp"

namespace openmrc {

class EngineEvents final : public EventSink {
 public:
  explicit EngineEvents(std::uint32_t capacity) : queue_(capacity) {}
  void emit(const Event& event) override { queue_.push(event); }
  std::size_t poll(std::span<Event> out) { return queue_.poll(out); }
  void rebase(TimePs by) {
    queue_.for_each([by](Event& event) { event.time = rebased(event.time, by); });
  }
  std::uint64_t dropped() const { return queue_.dropped(); }

 private:
  BoundedQueue<Event> queue_;
};

class EngineImpl final : public PathProber {
 public:
  explicit EngineImpl(const EngineConfig& engine_config);

  void handle_datagram(TimePs now, const RxDatagram& datagram);
  void handle_train(TimePs now, const RxDatagram& train, std::size_t datagram_bytes);
  void handle_timer(TimePs now);
  void handle_port_state(TimePs now, PortId port, bool up);
  void handle_clock_rebase(TimePs by);
  bool poll_transmit(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst, Outgoing what);
  TimePs next_timer() const;
  TimePs patience() const;
  void hot_memory(HotMemory& hot) const;
  QpTotals qp_totals() const;

  Status remove_peer(PeerId id);
  Status create_qp(const QpInitAttributes& attributes, std::uint32_t& qpn);
  Status reset_qp(std::uint32_t qpn);
  Status destroy_qp(std::uint32_t qpn);
  void probe_reverse_path(TimePs now, std::uint32_t qp, PeerId peer, const Ev& ev, TimePs timeout) override;
  bool poll_endpoint_result(EndpointResult& result);

  Qp* find(std::uint32_t qpn) const { return index_.find(qpn); }
  // Call after any change that may have given a QP packets to send or another deadline.
  void touch(Qp& qp);

  EngineConfig config;
  HashKey secret;
  EngineEvents events;
  MemoryTable memory;
  PeerTable peers;
  EndpointOperations endpoint;
  EngineServices services;
  DropStats drops;
  std::vector<PortStats> port_stats;
  std::deque<CqId> signaled_cqs;
  std::unordered_map<CqId, std::unique_ptr<CompletionQueue>> cqs;
  CqId next_cq = 1;

 private:
  struct TimerEntry {
    TimePs time;
    std::uint32_t qpn;
    bool operator>(const TimerEntry& other) const { return time != other.time ? time > other.time : qpn > other.qpn; }
  };

  bool parse(const RxDatagram& datagram, wire::Packet& packet);
  Qp* deliver(TimePs now, const RxDatagram& datagram);
  void handle_endpoint(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void drain_reverse_probes(TimePs now);
  void peer_ports_changed(TimePs now, Peer& peer);
  bool build_from(Ring<Qp*>& list, bool Qp::* listed, TimePs now, PortMask free_ports, std::uint32_t burst_max,
                  TxBurst& burst);
  void end_urgent_time(TimePs now);
  bool build_data(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst);
  void arm(Qp& qp);
  void count(Qp& qp, UnderWay under_way);
  void unlist(Qp& qp);
  void leave_peer(Qp& qp);
  std::uint32_t draw_qp_number();
  bool build_control(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst);

  wire::Packet packet_;                                         // the latest packet, reused
  wire::FlowIcrc icrc_;                                         // of its flow
  std::unordered_map<std::uint32_t, std::unique_ptr<Qp>> qps_;  // for look-up only: its order affects nothing
  QpIndex index_;                                               // the same for every packet
  std::vector<Qp*> in_order_;                                   // of creation
  Ring<Qp*> control_ready_;
  Ring<Qp*> data_ready_;
  Ring<Qp*> urgent_ready_;  // the same of urgent QPs
  UrgentTime urgent_;
  std::priority_queue<TimerEntry, std::vector<TimerEntry>, std::greater<>> timers_;
  std::uint32_t streams_ = 0, ends_ = 0;  // QPs by the kind of their work
  std::deque<EndpointResult> endpoint_results_;
  QpTotals retired_;  // of QPs that are no more
  Rng qpn_rng_;
  std::uint64_t qp_numbers_drawn_ = 0;
};

}  // namespace openmrc
