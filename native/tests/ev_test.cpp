// EV <-> (source port, flow label): both directions, every format.
#include "engine/wire/ev.hpp"
#include "engine/base/rng.hpp"
#include "tests/check.hpp"

namespace openmrc {

using wire::EvFields;
using wire::EvFormat;

// proves A.3.6
TEST_CASE(ev_low_half_is_the_source_port) {
  CHECK((wire::fields_of_ev(0x0001C123, EvFormat::kStev) == EvFields{0xC123, 1}));
  CHECK((wire::fields_of_ev(0x0001C123, EvFormat::kSrv6) == EvFields{0xC123, 1}));
  CHECK((wire::fields_of_ev(0x0001C123, EvFormat::kUdp) == EvFields{0xC123, 0}));
}

TEST_CASE(ev_survives_the_way_through_the_fields) {
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    const auto ev = static_cast<std::uint32_t>(rng.next());
    for (const EvFormat format : {EvFormat::kUdp, EvFormat::kStev, EvFormat::kSrv6}) {
      const std::uint32_t carried = format == EvFormat::kUdp ? ev & 0xFFFFU : ev;
      CHECK(wire::ev_of_fields(wire::fields_of_ev(ev, format), format) == carried);
    }
  }
}

// proves A.3.6
TEST_CASE(ev_of_a_port_only_format_has_zeros_for_the_rest) {
  CHECK(wire::ev_of_fields({0xC123, 0xBEEF}, EvFormat::kUdp) == 0x0000C123);
}

}  // namespace openmrc
