// The receiving half of an MRC QP: places every packet on arrival, in any order, and reports arrivals to the sender
// (A.5 to A.8).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/planes/plane_transit.hpp"
#include "engine/qp/bit_ring.hpp"
#include "engine/qp/halves.hpp"
#include "engine/qp/placement.hpp"

namespace openmrc {

class MrcResponder final : public Responder {
 public:
  explicit MrcResponder(QpContext& context)
      : Responder(context), placement_(context.services.memory, context.init.domain) {}

  void start(TimePs now, const QpToRtr& attributes) override;
  void handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) override;
  std::uint32_t handle_run(TimePs now, const RxDatagram& train, const wire::Packet& first, std::uint32_t count,
                           std::size_t datagram_bytes) override;
  void handle_timer(TimePs now) override;
  TimePs next_timer() const override;
  void rebase(TimePs by) override;
  bool refusing() const override { return refused_; }
  void add_ack(TxBurst& burst) override;
  BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  void hot_memory(HotMemory& memory) const override {
    memory.push_back(bytes_of(*this));
    for (const BitRing* ring : {&received_, &last_, &untold_}) memory.push_back(ring->bytes());
  }

  void set_penalty(std::uint8_t penalty, bool restore) {
    penalty_ = penalty;
    restore_cwnd_ = restore;
  }
  // Shrinks or grows the receive window that SACKs announce; at most the one agreed at RTR.
  bool set_window(std::uint8_t mpr_units);

 private:
  // A SACK to be sent. While it waits, later triggers merge into it; once its bitmap is filled it does not change.
  struct PendingSack {
    TimePs arrived = 0;  // here
    TimePs waited = 0;   // time before that, at the port
    Psn trigger = 0;
    std::uint32_t entropy = 0;
    std::uint16_t timestamp = 0;
    std::uint16_t probe_id = 0;
    wire::TimestampResolution resolution{};
    wire::SackMark mark{};
    PortId port = 0;
    bool probe = false;
    Psn cack = 0;
    Psn base = 0;
    std::uint64_t bitmap = 0;
  };
  // Arrivals on one plane since its last SACK, if planes are reported one by one.
  struct PlaneArrivals {
    std::uint32_t bytes = 0;
    std::uint32_t period = 0;  // see PlaneTraffic
    PlaneTransit transit;
    PortId answer_over = 0;  // plane that its SACKs take
    TimePs way_chosen = kLongAgo;
    TimePs due = kNever;
    PendingSack latest;
  };
  struct PendingNack {
    TimePs arrived = 0;
    Psn psn = 0;
    std::uint32_t entropy = 0;
    std::uint16_t timestamp = 0;
    wire::TimestampResolution resolution{};
    wire::NackReason reason{};
    PortId port = 0;
  };
  struct Immediate {
    Psn psn = 0;
    std::uint32_t value = 0;
    std::uint32_t bytes = 0;
  };
  struct Refusal {
    Psn psn = 0;
    wire::AethSyndrome syndrome = wire::AethSyndrome::kAck;
    QpErrorCause cause = QpErrorCause::kNone;
  };

  void handle_probe(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void handle_trimmed(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, Psn psn);
  bool is_duplicate(Psn psn) const { return psn <= cack_ || received_.test(psn); }
  bool accept(const wire::Packet& packet, const RxDatagram& datagram, Psn psn);
  std::uint32_t place_run(const RxDatagram& train, const wire::Packet& first, std::uint32_t count,
                          std::size_t datagram_bytes);
  void take_run(PlaneArrivals& plane, std::uint32_t count);
  bool keep_immediate(const wire::Packet& packet, Psn psn);
  void advance();
  void deliver_immediate();
  void refuse(Psn psn, wire::AethSyndrome syndrome, QpErrorCause cause);
  void refuse_if_reached();
  void note_arrival(const PendingSack& sack, std::uint32_t bytes, bool at_once);
  void note_transit(const PendingSack& sack);
  void resolve_transits(TimePs now);
  void tell_overdue_planes(TimePs now);
  void queue_sack(const PendingSack& sack);
  void take_stock(PendingSack& sack);
  const PendingSack& latest_data(PortId port) const;
  void follow_up();
  void queue_nack(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, Psn psn, wire::NackReason reason);
  void arm_reverse_probe(TimePs now);

  wire::Packet sack_packet(TimePs now, const PendingSack& sack) const;
  wire::Packet nack_packet(TimePs now, const PendingNack& nack) const;
  wire::Packet next_sack(TimePs now);
  wire::AckHeaders ack_headers();
  static std::uint16_t transit_of(const PendingSack& sack);
  std::uint16_t echo(TimePs now, TimePs arrived, std::uint16_t timestamp, wire::TimestampResolution resolution) const;

  Placement placement_;
  BitRing received_;                   // PSNs above cack_
  BitRing last_;                       // of these, the last packets of messages
  BitRing untold_;                     // subset not yet reported in any SACK
  std::vector<Immediate> immediates_;  // by PSN, waiting for everything before them
  std::vector<PendingSack> sacks_;     // with filled bitmaps, oldest first
  std::vector<PendingNack> nacks_;
  std::vector<PlaneArrivals> arrivals_;  // by plane; empty: counted together
  TimePs next_plane_sack_ = kNever;
  TimePs marked_ = kLongAgo;  // arrival of the latest packet with a mark
  PendingSack pending_;
  PendingSack latest_;  // latest arrival, if planes are not reported one by one
  Refusal refusal_;
  Psn cack_ = 0;
  Psn max_received_ = 0;
  Psn latest_end_ = 0;           // the highest last packet of a message
  std::uint64_t completed_ = 0;  // messages, in order
  std::uint64_t rcvd_bytes_ = 0;
  std::int64_t transit_reference_ = 0;  // latest one of any plane
  TimePs next_reverse_probe_ = kNever;
  std::uint32_t window_psns_ = 0;
  std::uint32_t window_psns_max_ = 0;
  std::uint32_t sack_bytes_ = 4096;
  std::uint32_t trigger_bytes_ = 0;
  std::uint32_t inbound_since_probe_ = 0;  // packets since a reverse path was last probed
  std::uint32_t unreported_packets_ = 0;   // arrivals since the last SACK bitmap was filled
  std::uint32_t ooo_ = 0;                  // packets received above cack_
  std::uint16_t wimm_max_ = 0;
  std::uint8_t mpr_units_ = 0;
  std::uint8_t penalty_ = 0;
  PortId last_port_ = 0;
  bool restore_cwnd_ = false;
  bool pending_sack_ = false;
  bool ack_due_ = false;
  bool refused_ = false;
  bool nack_out_of_window_ = true;
};

}  // namespace openmrc
