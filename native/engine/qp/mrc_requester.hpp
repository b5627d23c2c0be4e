// The sending half of an MRC QP: sprays packets over the EV set and repairs exactly the missing ones (A.5 to A.9).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/qp/halves.hpp"
#include "engine/qp/packet_builder.hpp"
#include "engine/qp/plane_set.hpp"
#include "engine/qp/retry_timer.hpp"
#include "engine/qp/rtt.hpp"
#include "engine/qp/send_window.hpp"

namespace openmrc {

class MrcRequester final : public Requester {
 public:
  using Requester::Requester;

  void start(TimePs now, const QpToRts& attributes) override;
  void handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) override;
  void handle_timer(TimePs now) override;
  void handle_payload_probe(TimePs now, PortId plane, bool answered) override;
  TimePs next_timer() const override;
  UnderWay under_way() const override;
  TimePs patience() const override { return planes_ == nullptr ? 0 : planes_->patience(); }
  void resume(TimePs now) override;
  void rebase(TimePs by) override;
  BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  bool may_build() const override;
  void handle_ports(TimePs now) override;
  bool ask_peer() override {
    asked_ = true;
    return true;
  }
  std::uint64_t unsent_packets() const override { return queue_.end_psn() - window_.end(); }
  std::uint64_t in_flight_packets() const override { return window_.in_flight(); }
  void fill(QpStats& stats) const override;
  bool fill_plane(PortId plane, PlaneStats& stats) const override;
  void hot_memory(HotMemory& memory) const override { memory.push_back(bytes_of(*this)); }

 private:
  // Reason for a reliability probe over path `ev`.
  enum class Purpose : std::uint8_t {
    kPath,   // to revive that path
    kState,  // to learn the receiver's state
    kAsked,  // the application asked whether the peer is present
    kPlane,  // the plane of that path is silent
  };
  struct Probe {
    TimePs sent = 0;
    std::uint16_t id = 0;
    EvIndex ev = kNoEv;
    Purpose purpose = Purpose::kPath;
    std::uint32_t order = 0;  // kPlane: position in the sending order of its plane
  };

  void work_began(TimePs now) override;
  void probe_payload(TimePs now) override;
  void work_ended() override {
    if (planes_ != nullptr) planes_->end_work();
  }

  // Acknowledgements (mrc_requester_ack.cpp).
  void handle_sack(TimePs now, PortId port, const wire::Packet& packet);
  void handle_nack(TimePs now, const wire::Packet& packet);
  void handle_transport_ack(TimePs now, const wire::Packet& packet);
  void handle_probe_answer(TimePs now, PortId port, const wire::Packet& packet);
  void complete_up_to(std::uint64_t completed);
  void refused(wire::AethSyndrome syndrome);
  // `certain`: the latest copy of the packet is the one that arrived.
  void acknowledge(TimePs now, Psn psn, bool certain = false);
  void acknowledge_below(TimePs now, Psn psn);
  void acknowledge_bitmap(TimePs now, Psn base, std::uint64_t bitmap);
  TimePs sample_rtt(TimePs now, const wire::Packet& packet, Psn trigger);
  void note_path(TimePs now, const wire::Seth& seth, Psn trigger, TimePs rtt);
  void note_port_status(std::uint8_t port_status, PortId port);
  bool context_matches(std::uint16_t source, std::uint16_t destination);

  // Losses (mrc_requester_loss.cpp).
  void detect_losses(TimePs now);
  bool path_lost(Psn psn);
  void declare_lost(TimePs now, Psn psn, EvFeedback feedback);

  // Sending (mrc_requester.cpp).
  bool may_send(std::uint64_t bytes) const;
  Psn window_end() const;
  bool wimm_blocked(const Wqe& wqe) const;
  std::uint32_t packet_nominal_bytes(const Wqe& wqe, Psn psn) const;
  std::uint32_t full_nominal_bytes() const;  // of a full packet without immediate data
  bool last_probe_over(TimePs now, EvIndex ev);
  BuildResult build_probe(TimePs now, PortMask free_ports, TxBurst& burst);
  BuildResult send_probe(TimePs now, Probe& probe, TxBurst& burst);
  void begin_question(Probe& probe);
  EvIndex repair_ev(TimePs now, PortMask free_ports, EvIndex lost_on);
  BuildResult build_retransmission(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst);
  BuildResult build_new(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst);
  BuildResult no_ev(PortMask free_ports) const;
  void add_data(TimePs now, BurstBuilder& builder, const Wqe& wqe, Psn psn, EvIndex ev, bool ack_request);
  bool wants_ack(Psn psn, std::uint32_t bytes);
  bool new_data_ready() const;
  bool waits_for_port() const;
  TimePs retry_deadline() const;
  TimePs state_probe_time() const;
  void handle_timeout(TimePs now);

  // Planes under per-plane control (mrc_requester_planes.cpp); requires planes_.
  BuildResult build_on_plane(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst);
  std::uint32_t extend_run(TimePs now, BurstBuilder& builder, const TxBurst& burst, const PlaneSet::Departure& latest,
                           EvIndex ev);
  BuildResult build_plane_probe(TimePs now, PortMask free_ports, TxBurst& burst);
  bool next_for_plane(Psn from, Psn& psn);
  bool wants_plane_ack(PortId plane, Psn psn, std::int64_t burst_bytes);
  std::uint32_t open_record(Psn psn);
  std::int64_t backlog_bytes() const;
  std::int64_t posted_bytes() const;
  void acknowledge_on_plane(TimePs now, Psn psn, bool certain);
  void sample_plane(TimePs now, PortId port, const wire::Packet& packet, Psn trigger, AckSample& sample);
  TimePs echoed(TimePs now, const wire::Packet& packet) const;
  bool names_latest_copy(const wire::Seth& seth, Psn trigger) const;
  void end_plane_feedback(TimePs now, AckSample& sample, const wire::Seth& seth);
  void lose_on_planes(TimePs now);
  void handle_plane_timer(TimePs now);
  void condemn_unanswered(TimePs now);
  void announce_plane(TimePs now, PortId plane, bool silent);

  RetryTimer retry_;
  RttEstimator rtt_;
  SendWindow window_;
  std::unique_ptr<PlaneSet> planes_;  // null: one controller for all planes
  std::vector<Psn> plane_losses_;     // empty between calls
  // Per EV: losses since the latest arrival over it.
  struct EvLosses {
    TimePs first = 0, latest = kLongAgo;  // sending times of these packets
    std::uint8_t bursts = 0;
  };
  std::vector<EvLosses> ev_losses_;
  std::vector<Probe> probes_;
  TimePs latest_delivered_ =
      -kNever;              // sending time of the latest packet known to have arrived; one less is still a valid time
  TimePs quiet_since_ = 0;  // last progress, timeout or start of work: base of the timer with nothing in flight
  TimePs last_sent_ = 0;    // data, or a question for the receiver's state
  TimePs last_timeout_ = kLongAgo;    // latest timeout that counted as a retry, since the last progress
  std::uint32_t rcvd_256_bytes_ = 0;  // last value from the peer
  std::uint32_t window_psns_ = 0;
  std::uint32_t wimm_unfinished_ = 0;  // WRITE_IMM messages begun and not completed
  std::uint16_t wimm_max_ = 0;
  std::uint16_t next_probe_id_ = 0;
  TrafficClass data_class_ = TrafficClass::kTrimmable;
  wire::TimestampResolution resolution_ = wire::TimestampResolution::k128Ns;
  Psn next_ack_request_ = 0;  // while the window limits sending, request a SACK from this PSN on
  bool state_probe_due_ = false;
  bool asked_ = false;
  bool path_probe_due_ = false;
  std::uint8_t state_probes_ = 0;  // sent since the last progress
};

}  // namespace openmrc
