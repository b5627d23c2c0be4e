// The extension module openmrc._native: conversions only, no logic.
#include "bindings/bindings.hpp"

NB_MODULE(_native, m) {
  // Objects alive at the end of a program, above all after Ctrl-C, are no leak to report on its terminal.
  nanobind::set_leak_warnings(false);
  m.doc() = "Native half of openmrc. Private: use the package openmrc.";
  openmrc::bindings::bind_device(m);
  openmrc::bindings::bind_collectives(m);
  openmrc::bindings::bind_calls(m);
  openmrc::bindings::bind_qp(m);
  openmrc::bindings::bind_measure(m);
  openmrc::bindings::bind_netsim(m);
  openmrc::bindings::bind_paths(m);
  openmrc::bindings::bind_policies(m);
  openmrc::bindings::bind_records(m);
  openmrc::bindings::bind_simulate(m);
  openmrc::bindings::bind_wire(m);
}
