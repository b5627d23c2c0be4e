#include "netsim/simulate/roce_receiver.hpp"

namespace openmrc::netsim {

bool RoceReceiver::handle_write(TimePs now, const RoceSettings& settings, const RoceHeader& header,
                                const HostPacket& packet) {
  ++received_packets_;
  if (packet.ecn == Ecn::kCe) notify(now, settings);
  if (header.psn < expected_) {
    ++duplicates_;
    ack_ = true;
    return false;
  }
  if (header.psn > expected_) {
    nak_ = nak_ || !gap_told_;
    gap_told_ = true;
    return false;
  }
  ++expected_;
  received_bytes_ += packet.payload_bytes;
  gap_told_ = nak_ = false;
  ack_ = ack_ || header.ack_request != 0;
  return header.last != 0;
}

void RoceReceiver::notify(TimePs now, const RoceSettings& settings) {
  if (!settings.dcqcn || now < next_cnp_) return;
  cnp_ = true;
  next_cnp_ = now + settings.rate.cnp_interval;
}

RoceHeader RoceReceiver::take_answer() {
  RoceHeader header;
  header.psn = expected_;
  if (nak_) {
    header.kind = RoceKind::kNak;
    nak_ = ack_ = false;
  } else if (ack_) {
    header.kind = RoceKind::kAck;
    ack_ = false;
  } else {
    header.kind = RoceKind::kCnp;
    cnp_ = false;
  }
  return header;
}

void RoceReceiver::add_to(ConnectionStats& stats) const {
  stats.received_packets = received_packets_;
  stats.received_bytes = received_bytes_;
  stats.duplicate_packets = duplicates_;
}

}  // namespace openmrc::netsim
