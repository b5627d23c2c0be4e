// The MRC engine of one NIC, sans-IO: all QPs, their paths and congestion control, registered memory, CQs.
//
// Four kinds of methods:
//   handle_*   events of the NIC: a datagram, a timer, a port going down or up
//   commands   requests of the application or the controller; they return a Status
//   poll_*     output for the driver: datagrams, completions, events, endpoint results
//   nouns      getters, without side effects
//
// Order of calls. After any handle_* or command: call poll_transmit until it returns false, then next_timer and arm one
// timer for it; poll_completion / poll_event at any time (they only drain queues). `now` must not go backwards. When
// next_timer() <= now, call handle_timer. Nothing inside reads a clock, a socket, a file or an outside random source;
// the same calls with the same arguments give the same results, bit for bit.
//
// Not thread safe: one engine, one lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/hot_memory.hpp"
#include "engine/base/keyed_hash.hpp"
#include "engine/base/ring.hpp"
#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "engine/config.hpp"
#include "engine/datagram.hpp"
#include "engine/endpoint.hpp"
#include "engine/engine_services.hpp"
#include "engine/event_queue.hpp"
#include "engine/events.hpp"
#include "engine/memory.hpp"
#include "engine/peer.hpp"
#include "engine/qp_index.hpp"
#include "engine/types.hpp"
#include "engine/urgent_time.hpp"
#include "engine/wire/icrc.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {

class CompletionQueue;
class EvSet;
class Qp;
struct SharedReceives;
enum class UnderWay : std::uint8_t;

class Engine final {
 public:
  explicit Engine(const EngineConfig& config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- handle_*
  void handle_datagram(TimePs now, const RxDatagram& datagram);
  // The same of several datagrams that arrived as one: `train.bytes` are theirs one after the other, each of
  // `datagram_bytes` (above 0) but the last, which may be shorter.
  void handle_train(TimePs now, const RxDatagram& train, std::size_t datagram_bytes);
  void handle_timer(TimePs now);
  // Carrier of one local port. Peers are informed by a port status update over the remaining ports.
  void handle_port_state(TimePs now, PortId port, bool up);
  // The driver sets its clock back by `by`, a multiple of kClockRebase, from the next call on: before kEngineTimeMax.
  void handle_clock_rebase(TimePs by);

  // --- commands: objects
  Status create_cq(std::uint32_t capacity, CqId& cq);
  Status destroy_cq(CqId cq);  // kBusy while a QP uses it
  Status create_srq(const SrqAttributes& attributes, SrqId& srq);
  // An event says, once, that fewer receives than `limit` are left; 0: none does.
  Status set_srq_limit(SrqId srq, std::uint32_t limit);
  // kInvalidArgument, without effect: 0, fewer than are posted, or less than the limit.
  Status resize_srq(SrqId srq, std::uint32_t wr_max, std::uint32_t limit);
  Status destroy_srq(SrqId srq);                       // kBusy while a QP uses it
  Status register_memory(const RegionConfig& region);  // kInvalidArgument: key in use or 0
  Status deregister_memory(std::uint32_t key);         // kBusy while posted sends read from it
  // The same addresses and UDP port give the same id. Every call is a reference that remove_peer() gives back; QPs hold
  // one of their own from RTR on. kLimit: too many peers.
  Status add_peer(const PeerConfig& peer, PeerId& id);
  Status remove_peer(PeerId id);
  Status create_qp(const QpInitAttributes& attributes, std::uint32_t& qp);  // kBusy: the number is in use
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToInit& attributes);
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToRtr& attributes);
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToRts& attributes);
  // Operations of the peer that the QP accepts, of kRemoteWrite, kRemoteRead and kRemoteAtomic; all after a reset.
  Status set_remote_access(std::uint32_t qp, std::uint8_t access);
  // RC: `rc_rnr_timer` of RTR, for RNR NAKs from now on.
  Status set_rnr_timer(std::uint32_t qp, std::uint8_t code);
  Status move_to_error(TimePs now, std::uint32_t qp);  // flushes everything posted
  Status reset_qp(TimePs now, std::uint32_t qp);       // back to RST, forgets everything
  Status destroy_qp(TimePs now, std::uint32_t qp);

  // --- commands: work
  Status post_send(TimePs now, std::uint32_t qp, const SendWr& wr);
  // Result of post_send(), without posting; a full queue is not considered.
  Status check_send(std::uint32_t qp, const SendWr& wr);
  // kInvalidArgument: the QP has a shared receive queue.
  Status post_recv(std::uint32_t qp, std::uint64_t wr_id, std::span<const Sge> sges = {});
  Status post_srq_recv(SrqId srq, std::uint64_t wr_id, std::span<const Sge> sges = {});
  // Asks the peer's QP for its state, over the next path; qp_answered() reflects the answer. kInvalidState: not in RTS,
  // or RC.
  Status ask_peer(std::uint32_t qp);

  // --- commands: controller
  Status deny_ev(TimePs now, std::uint32_t qp, std::uint32_t ev);
  Status enable_ev(TimePs now, std::uint32_t qp, std::uint32_t ev);
  Status set_receive_penalty(std::uint32_t qp, std::uint8_t penalty, bool restore);  // rcv_cwnd_pen of our SACKs
  Status set_receive_window(std::uint32_t qp, std::uint8_t mpr_units);               // dynamic MPR
  // Request and answer are padded by `padding_bytes`, a multiple of 4, at most kProbePaddingMax. kQueueFull: too many
  // requests wait for their answers.
  Status send_ev_probe(TimePs now, PeerId peer, PortId port, std::uint32_t ev, std::uint16_t request_id, TimePs timeout,
                       std::uint32_t padding_bytes = 0);

  // --- poll_*
  // Next burst for a port in `free_ports`, of at most `burst_max` packets. False: nothing to send now.
  bool poll_transmit(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst,
                     Outgoing what = Outgoing::kEverything);
  // False if poll_transmit() would find no data.
  bool may_have_data() const { return !data_ready_.empty() || !urgent_ready_.empty() || services_.ordinary_data_waits; }
  // False if poll_signaled_cq(), poll_events() and poll_endpoint_result() would find nothing.
  bool has_reports() const { return !signaled_cqs_.empty() || !events_.empty() || !endpoint_results_.empty(); }
  std::size_t poll_completions(CqId cq, std::span<Completion> out);
  // For frequent polls, until the CQ is destroyed; nullptr: no such CQ.
  CompletionQueue* find_cq(CqId cq);
  bool poll_signaled_cq(CqId& cq);  // CQs that got completions since last asked
  std::size_t poll_events(std::span<Event> out);
  bool poll_endpoint_result(EndpointResult& result);

  // --- nouns
  TimePs next_timer() const;  // kNever: none
  // Time for which the driver may leave acknowledgements unread. 0: the end of some message is in flight; kNever:
  // nothing is.
  TimePs patience() const;
  QpState qp_state(std::uint32_t qp) const;  // kReset for an unknown QP
  QpErrorCause qp_error(std::uint32_t qp) const;
  TimePs qp_heard(std::uint32_t qp) const;     // when the latest packet of the peer's QP arrived
  TimePs qp_answered(std::uint32_t qp) const;  // when the latest question was asked that got an answer; kLongAgo: none
  bool qp_stats(std::uint32_t qp, QpStats& stats) const;
  std::uint64_t unsent_packets(std::uint32_t qp) const;  // of posted work; 0: no such QP
  std::uint64_t in_flight_packets(std::uint32_t qp) const;
  bool srq_stats(SrqId srq, SrqStats& stats) const;
  QpTotals qp_totals() const;
  bool cc_stats(std::uint32_t qp, CcStats& stats) const;
  // False: no such QP or plane, or the planes of the QP are not controlled one by one.
  bool plane_stats(std::uint32_t qp, PortId plane, PlaneStats& stats) const;
  const EvSet* ev_set(std::uint32_t qp) const;              // nullptr: no such QP, or RC
  std::uint32_t sends_outstanding(std::uint32_t qp) const;  // posted, not completed
  // Packets of peers' WRITEs and SENDs that have been placed in memory, in all QPs together.
  std::uint64_t placed_packets() const { return services_.placed_packets; }
  // True if the latest datagram left its QP with part of a message, whose sender tolerates late acknowledgements.
  bool message_open() const { return services_.message_open; }
  PortMask ports_up() const;
  PortMask peer_ports_up(PeerId peer) const;
  std::size_t peer_count() const;
  const PortStats& port_stats(PortId port) const;
  DropStats drops() const;
  // Adds the addresses of QP state that traffic touches; valid until QPs or their settings change, then still a hint.
  void hot_memory(HotMemory& memory) const;
  const EngineConfig& config() const;

 private:
  struct TimerEntry {
    TimePs time;
    std::uint32_t qpn;
    bool operator>(const TimerEntry& other) const { return time != other.time ? time > other.time : qpn > other.qpn; }
  };

  // --- received datagrams
  Qp* deliver(TimePs now, const RxDatagram& datagram, bool& taken);
  std::uint32_t handle_run(TimePs now, const RxDatagram& train, std::size_t datagram_bytes);
  bool parse(const RxDatagram& datagram, wire::Packet& packet);
  void handle_endpoint(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void drain_reverse_probes(TimePs now);
  void peer_ports_changed(TimePs now, Peer& peer);

  // --- packets to send
  void add_ack(TxBurst& burst);
  bool build_control(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst);
  bool build_data(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst);
  bool build_from(Ring<Qp*>& list, bool Qp::* listed, TimePs now, PortMask free_ports, std::uint32_t burst_max,
                  TxBurst& burst);
  void note_urgent(TimePs now);
  void end_urgent_time(TimePs now);

  // --- QPs
  Qp* find(std::uint32_t qpn) const { return index_.find(qpn); }
  // Runs a command on a QP, after which the QP may have packets to send.
  template <typename Command>
  Status on_qp(std::uint32_t qpn, Command command);
  // Call after any change that may have given a QP packets to send.
  void touch(Qp& qp);
  // Call after any change of a QP that may have moved its deadline or changed the kind of its work.
  void note_change(Qp& qp);
  // Brings timers and counts up to date. Every reader of them calls it first.
  void account_changes() const;
  void arm(Qp& qp) const;
  void count(Qp& qp, UnderWay under_way) const;
  void count_backlog(Qp& qp, bool backlog) const;
  void unlist(Qp& qp);
  void leave_peer(Qp& qp);
  void share_receives(Qp& qp);
  std::uint32_t draw_qp_number();

  EngineConfig config_;
  HashKey secret_;
  EventQueue events_;
  MemoryTable memory_;
  PeerTable peers_;
  EndpointOperations endpoint_;
  EngineServices services_;
  DropStats drops_;
  std::vector<PortStats> port_stats_;
  std::deque<CqId> signaled_cqs_;
  std::unordered_map<CqId, std::unique_ptr<CompletionQueue>> cqs_;
  CqId next_cq_ = 1;
  std::unordered_map<SrqId, std::shared_ptr<SharedReceives>> srqs_;
  SrqId next_srq_ = 1;
  wire::Packet packet_;                                         // the latest packet, reused
  wire::FlowIcrc icrc_;                                         // of its flow
  std::unordered_map<std::uint32_t, std::unique_ptr<Qp>> qps_;  // for look-up only: its order affects nothing
  QpIndex index_;                                               // the same for every packet
  std::vector<Qp*> in_order_;                                   // of creation
  Ring<Qp*> control_ready_;
  Ring<Qp*> data_ready_;
  Ring<Qp*> urgent_ready_;  // the same of urgent QPs
  UrgentTime urgent_;
  // Timers and counts follow from the state of the QPs. A QP changes several times per packet, so they are updated only
  // when they are read.
  mutable std::vector<Qp*> changed_;
  mutable std::priority_queue<TimerEntry, std::vector<TimerEntry>, std::greater<>> timers_;
  mutable std::uint32_t streams_ = 0, ends_ = 0;  // QPs by the kind of their work
  mutable std::uint32_t backlogs_ = 0;            // ordinary QPs with one
  std::deque<EndpointResult> endpoint_results_;
  QpTotals retired_;  // of QPs that are no more
  Rng qpn_rng_;
  std::uint64_t qp_numbers_drawn_ = 0;
};

// sizeof of every component that an idle QP consists of, for the memory report (at most 4 KiB plus EV set and bitmaps).
struct QpFootprint {
  const char* component;
  std::size_t bytes;
};
std::vector<QpFootprint> qp_footprint();

}  // namespace openmrc
