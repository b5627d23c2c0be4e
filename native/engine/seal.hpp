// The ICRC of whole bursts and trains. Independent of the engine: a driver that sends bursts or receives trains on
// several threads does this outside the engine's lock.
#pragma once

#include <cstddef>

#include "engine/datagram.hpp"
#include "engine/wire/icrc.hpp"

namespace openmrc {

// Appends its ICRC to every packet of a burst that has them, and fills the seams. `source`: PortConfig::local of the
// burst's port.
void seal(TxBurst& burst, const Address& source);
// The same with the flow of a previous burst, for which much is already computed if this burst has the same.
void seal(TxBurst& burst, const Address& source, wire::FlowIcrc& icrc);

// True if each datagram of the train, `datagram_bytes` long except for the last, ends with its ICRC or announces that it
// has none. `icrc` caches the flow between calls.
bool intact(const RxDatagram& train, std::size_t datagram_bytes, const Address& destination,
            std::uint16_t destination_port, wire::FlowIcrc& icrc);

}  // namespace openmrc
