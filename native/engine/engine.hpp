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
#include <memory>
#include <span>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/hot_memory.hpp"
#include "engine/base/keyed_hash.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/base/traffic.hpp"
#include "engine/events.hpp"
#include "engine/types.hpp"
#include "engine/wire/ev.hpp"

namespace openmrc {

struct PortConfig {
  Address local;  // as the peers see it: enters the ICRC
  bool up = true;
  std::vector<std::uint32_t> evs;  // that the driver can send from; endpoint operations need them. Empty: any
};

struct EngineConfig {
  std::uint64_t seed = 0;
  // Of numbers that strangers must not guess: QP numbers and nonces. Zero: they follow from the seed.
  HashKey secret;
  std::vector<PortConfig> ports;  // 1 .. kPortCountMax
  std::uint16_t partition_key = 0xFFFF;
  std::uint16_t udp_port = 4791;
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  bool icrc = true;                       // seal and check; false only where the driver carries packets by value
  bool driver_seals = false;              // bursts come without their ICRCs, which the driver adds: see engine/seal.hpp
  TimePs endpoint_retry = 20 * kPsPerMs;  // port status updates are repeated this often until answered
  std::uint8_t endpoint_retries = 8;
  // Limits on answers to EV probes: one per interval for each peer and in total (0: no limit), with bursts of this
  // size. They leave after data and acknowledgements unless one has waited for `answer_patience`.
  TimePs answer_interval_peer = 200 * kPsPerUs;
  TimePs answer_interval = 20 * kPsPerUs;
  TimePs answer_patience = 100 * kPsPerUs;
  // EV probes of unknown senders: false leaves them unanswered, true answers a limited number (a diagnostic service).
  bool answer_strangers = false;
  // A peer's ports that are believed down are probed this often, while QPs use the peer; kNever: never.
  TimePs port_check_interval = kPsPerSecond;
  // Packets per burst on a plane that is controlled by delay, which limits bursts separately; 0: the driver's limit.
  std::uint32_t plane_burst_packets = 0;
  std::uint32_t reverse_probe_packets = 1;        // that must have come in since the last one
  TimePs reverse_probe_interval = 50 * kPsPerMs;  // refresh of the reverse EV set while traffic is inbound only
  std::uint32_t qps_max = 1U << 16;
  std::uint32_t events_max = 1U << 14;  // queued events; more are dropped and counted
};

struct RxDatagram {
  PortId port = 0;
  Address source;
  wire::EvFields fields;  // source port and flow label as received
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
  std::span<const std::uint8_t> bytes;
  std::uint32_t phantom_bytes = 0;  // payload not carried (simulator); needs icrc = false
  TimePs waited = 0;                // from its arrival at the port until now, where the driver knows
  bool checked = false;             // the driver found the ICRC right
};

// One datagram to send: gather headers, payload, trailer.
struct TxPacket {
  // Ends with the trailer of the previous packet of the burst, directly before the headers: a driver that sends the
  // burst in one piece gathers both as one.
  std::array<std::uint8_t, kTrailerBytesMax> seam;
  std::array<std::uint8_t, kHeaderBytesMax> headers;
  const std::uint8_t* payload;  // in registered memory; nullptr when the region is phantom
  std::uint16_t header_bytes;
  std::uint16_t payload_bytes;
  std::uint8_t trailer_bytes;  // pad + ICRC
  std::array<std::uint8_t, kTrailerBytesMax> trailer;

  std::uint32_t datagram_bytes() const { return std::uint32_t{header_bytes} + payload_bytes + trailer_bytes; }
};

static_assert(offsetof(TxPacket, headers) == kTrailerBytesMax);

// Packets of one QP for one EV. All have the size of the first, only the last may be shorter (UDP_SEGMENT).
struct TxBurst {
  PortId port = 0;
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
  Address destination;
  std::uint16_t destination_port = 0;
  std::uint32_t ev = 0;
  wire::EvFields fields;
  std::uint32_t qp = 0;  // 0: endpoint operation
  std::uint32_t count = 0;
  std::array<TxPacket, kBurstPacketsMax> packets;
};

// Addresses of a peer NIC: one per port, in port order. Two NICs meet plane by plane.
struct PeerConfig {
  std::vector<Address> ports;
  std::uint16_t udp_port = 4791;
  PortMask ports_up = ~PortMask{0};
};

struct RegionConfig {
  std::uint8_t* base = nullptr;       // nullptr: phantom region, lengths only (simulator)
  std::uint64_t virtual_address = 0;  // address in the terms of lkey/rkey users; usually the address itself
  std::uint64_t length_bytes = 0;
  std::uint32_t key = 0;    // lkey and rkey; unguessable, drawn by the driver; unique, not 0
  std::uint8_t access = 0;  // Access bits
  DomainId domain = 0;      // of the QPs that may use the key, at either end
};

// Kinds of packets that a driver requests.
enum class Outgoing : std::uint8_t {
  kEverything,  // control first, then retransmissions and data of the QPs in turn
  kDataOnly,    // acknowledgements wait, and merge, until the driver requests everything
};

struct EndpointResult {
  std::uint16_t request_id = 0;
  wire::EndpointOp op{};
  PortId port = 0;
  PeerId peer = 0;
  std::uint32_t ev = 0;
  bool answered = false;  // false: timed out
  bool marked = false;
  bool service_time_removed = false;
  TimePs rtt = 0;
};

class EngineImpl;

class Engine {
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
  Status destroy_cq(CqId cq);                          // kBusy while a QP uses it
  Status register_memory(const RegionConfig& region);  // kInvalidArgument: key in use or 0
  Status deregister_memory(std::uint32_t key);         // kBusy while posted sends read from it
  // The same addresses and UDP port give the same id. Every call is a reference that remove_peer() gives back; QPs hold
  // one of their own from RTR on. kLimit: too many peers.
  Status add_peer(const PeerConfig& peer, PeerId& id);
  Status remove_peer(PeerId id);
  Status create_qp(const QpInitAttributes& attributes, std::uint32_t& qp);
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToInit& attributes);
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToRtr& attributes);
  Status modify_qp(TimePs now, std::uint32_t qp, const QpToRts& attributes);
  Status move_to_error(TimePs now, std::uint32_t qp);  // flushes everything posted
  Status reset_qp(TimePs now, std::uint32_t qp);       // back to RST, forgets everything
  Status destroy_qp(TimePs now, std::uint32_t qp);

  // --- commands: work
  Status post_send(TimePs now, std::uint32_t qp, const SendWr& wr);
  Status post_recv(std::uint32_t qp, std::uint64_t wr_id);
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
  std::size_t poll_completions(CqId cq, std::span<Completion> out);
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
  QpTotals qp_totals() const;
  bool cc_stats(std::uint32_t qp, CcStats& stats) const;
  // False: no such QP or plane, or the planes of the QP are not controlled one by one.
  bool plane_stats(std::uint32_t qp, PortId plane, PlaneStats& stats) const;
  const EvSet* ev_set(std::uint32_t qp) const;              // nullptr: no such QP, or RC
  std::uint32_t sends_outstanding(std::uint32_t qp) const;  // posted, not completed
  PortMask ports_up() const;
  PortMask peer_ports_up(PeerId peer) const;
  std::size_t peer_count() const;
  const PortStats& port_stats(PortId port) const;
  DropStats drops() const;
  // Adds the addresses of QP state that traffic touches; valid until QPs or their settings change, then still a hint.
  void hot_memory(HotMemory& memory) const;
  const EngineConfig& config() const;

 private:
  std::unique_ptr<EngineImpl> impl_;
};

// sizeof of every component that an idle QP consists of, for the memory report (at most 4 KiB plus EV set and bitmaps).
struct QpFootprint {
  const char* component;
  std::size_t bytes;
};
std::vector<QpFootprint> qp_footprint();

}  // namespace openmrc
