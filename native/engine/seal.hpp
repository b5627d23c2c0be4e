// The ICRC of whole bursts and trains. It needs nothing of the engine: a driver that sends bursts, or receives trains, on
// several threads at a time does this part outside the engine's lock.
#pragma once

#include <cstddef>

#include "engine/engine.hpp"
#include "engine/wire/icrc.hpp"

namespace openmrc {

// Ends every packet of the burst with its ICRC, and fills the seams. `source`: PortConfig::local of the burst's port.
void seal(TxBurst& burst, const Address& source);

// Whether each datagram of the train, `datagram_bytes` long but for the last, ends with its ICRC. `icrc` remembers the flow
// from call to call.
bool intact(const RxDatagram& train, std::size_t datagram_bytes, const Address& destination,
            std::uint16_t destination_port, wire::FlowIcrc& icrc);

}  // namespace openmrc
