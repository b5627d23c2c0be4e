// The measuring loops of native/nic/measure.hpp and udp_stream.hpp. They run without the GIL and stop at Ctrl-C.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/nic_objects.hpp"
#include "nic/measure.hpp"
#include "nic/udp_stream.hpp"

namespace openmrc::bindings {
namespace {

using nic::Device;

// Called inside a loop without the GIL; a pending exception (KeyboardInterrupt) is raised after the loop.
bool signal_pending() {
  const nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

void raise_pending() {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

template <typename Measure>
auto without_gil(Measure measure) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return measure();
  }();
  raise_pending();
  return result;
}

nb::dict stream(Device& device, std::uint32_t qp, CqId cq, std::uint32_t lkey, std::uint64_t local_address,
                std::uint32_t rkey, std::uint64_t remote_address, std::uint64_t region_bytes,
                std::uint64_t message_bytes, std::uint32_t depth, std::int64_t duration_ns, std::uint64_t messages_max,
                std::int64_t drain_ns, bool busy_poll) {
  nic::StreamPlan plan;
  plan.qp = qp;
  plan.cq = cq;
  plan.lkey = lkey;
  plan.rkey = rkey;
  plan.local_address = local_address;
  plan.remote_address = remote_address;
  plan.region_bytes = region_bytes;
  plan.message_bytes = message_bytes;
  plan.depth = depth;
  plan.duration_ns = duration_ns;
  plan.messages_max = messages_max;
  plan.drain_ns = drain_ns;
  plan.busy_poll = busy_poll;
  const nic::StreamResult result = without_gil([&] { return measure_stream(device, plan, signal_pending); });
  nb::dict out;
  out["messages"] = result.messages;
  out["bytes"] = result.bytes;
  out["elapsed_ns"] = result.elapsed_ns;
  out["failed"] = result.failed;
  out["unfinished"] = result.unfinished;
  out["first_failure"] = static_cast<unsigned>(result.first_failure);
  out["post_status"] = static_cast<unsigned>(result.post_status);
  return out;
}

nic::PingPlan ping_plan(std::uint32_t qp, CqId cq, std::uint32_t lkey, std::uint64_t send_address, std::uint32_t rkey,
                        std::uint64_t remote_address, std::uint64_t watch_address, std::uint32_t message_bytes,
                        std::uint32_t iterations, std::int64_t timeout_ns) {
  nic::PingPlan plan;
  plan.qp = qp;
  plan.cq = cq;
  plan.lkey = lkey;
  plan.rkey = rkey;
  plan.send_address = send_address;
  plan.remote_address = remote_address;
  plan.watch_address = watch_address;
  plan.message_bytes = message_bytes;
  plan.iterations = iterations;
  plan.timeout_ns = timeout_ns;
  if (message_bytes < 8 || (watch_address + message_bytes) % 8 != 0) {
    throw nb::value_error("message_bytes is at least 8 and the message ends on a multiple of 8");
  }
  return plan;
}

nic::UdpPingPlan udp_plan(const std::string& local, std::uint16_t local_port, const std::string& remote,
                          std::uint16_t remote_port, std::uint32_t message_bytes, std::uint32_t iterations,
                          std::int64_t timeout_ns) {
  nic::UdpPingPlan plan;
  plan.ends = {address_of(local), address_of(remote), local_port, remote_port};
  plan.message_bytes = message_bytes;
  plan.iterations = iterations;
  plan.timeout_ns = timeout_ns;
  return plan;
}

using MeasureUdp = nic::UdpStreamResult (*)(const nic::UdpStreamPlan& plan, const nic::Interrupted& interrupted);

// A function of one end of a bare UDP stream: (bytes of payload, elapsed ns).
template <MeasureUdp kMeasure>
nb::tuple udp_stream(const std::string& local, std::uint16_t local_port, const std::string& remote,
                     std::uint16_t remote_port, std::uint32_t datagram_bytes, std::uint32_t datagrams,
                     std::uint64_t region_bytes, std::int64_t duration_ns) {
  nic::UdpStreamPlan plan;
  plan.ends = {address_of(local), address_of(remote), local_port, remote_port};
  plan.datagram_bytes = datagram_bytes;
  plan.datagrams = datagrams;
  plan.region_bytes = region_bytes;
  plan.duration_ns = duration_ns;
  if (!plan.valid()) throw nb::value_error("datagrams or region of a UDP stream out of range");
  const nic::UdpStreamResult result = without_gil([&] { return kMeasure(plan, signal_pending); });
  return nb::make_tuple(result.bytes, result.elapsed_ns);
}

}  // namespace

void bind_measure(nb::module_& m) {
  using namespace nb::literals;
  m.def("measure_stream", &stream, "device"_a, nb::kw_only(), "qp"_a, "cq"_a, "lkey"_a, "local_address"_a, "rkey"_a,
        "remote_address"_a, "region_bytes"_a, "message_bytes"_a, "depth"_a, "duration_ns"_a, "messages_max"_a = 0,
        "drain_ns"_a = 30'000'000'000, "busy_poll"_a = false);
  m.def(
      "measure_ping",
      [](Device& device, std::uint32_t qp, CqId cq, std::uint32_t lkey, std::uint64_t send, std::uint32_t rkey,
         std::uint64_t remote, std::uint64_t watch, std::uint32_t bytes, std::uint32_t iterations,
         std::int64_t timeout) {
        const auto plan = ping_plan(qp, cq, lkey, send, rkey, remote, watch, bytes, iterations, timeout);
        return without_gil([&] { return measure_ping(device, plan, signal_pending); });
      },
      "device"_a, nb::kw_only(), "qp"_a, "cq"_a, "lkey"_a, "send_address"_a, "rkey"_a, "remote_address"_a,
      "watch_address"_a, "message_bytes"_a = 64, "iterations"_a, "timeout_ns"_a = 5'000'000'000);
  m.def(
      "measure_pong",
      [](Device& device, std::uint32_t qp, CqId cq, std::uint32_t lkey, std::uint64_t send, std::uint32_t rkey,
         std::uint64_t remote, std::uint64_t watch, std::uint32_t bytes, std::uint32_t iterations,
         std::int64_t timeout) {
        const auto plan = ping_plan(qp, cq, lkey, send, rkey, remote, watch, bytes, iterations, timeout);
        return without_gil([&] { return measure_pong(device, plan, signal_pending); });
      },
      "device"_a, nb::kw_only(), "qp"_a, "cq"_a, "lkey"_a, "send_address"_a, "rkey"_a, "remote_address"_a,
      "watch_address"_a, "message_bytes"_a = 64, "iterations"_a, "timeout_ns"_a = 5'000'000'000);
  m.def(
      "measure_udp_ping",
      [](const std::string& local, std::uint16_t local_port, const std::string& remote, std::uint16_t remote_port,
         std::uint32_t bytes, std::uint32_t iterations, std::int64_t timeout) {
        const auto plan = udp_plan(local, local_port, remote, remote_port, bytes, iterations, timeout);
        return without_gil([&] { return measure_udp_ping(plan, signal_pending); });
      },
      nb::kw_only(), "local"_a, "local_port"_a, "remote"_a, "remote_port"_a, "message_bytes"_a = 64, "iterations"_a,
      "timeout_ns"_a = 5'000'000'000);
  m.def(
      "measure_udp_pong",
      [](const std::string& local, std::uint16_t local_port, const std::string& remote, std::uint16_t remote_port,
         std::uint32_t bytes, std::uint32_t iterations, std::int64_t timeout) {
        const auto plan = udp_plan(local, local_port, remote, remote_port, bytes, iterations, timeout);
        return without_gil([&] { return measure_udp_pong(plan, signal_pending); });
      },
      nb::kw_only(), "local"_a, "local_port"_a, "remote"_a, "remote_port"_a, "message_bytes"_a = 64, "iterations"_a,
      "timeout_ns"_a = 5'000'000'000);

  m.def("measure_udp_source", &udp_stream<nic::measure_udp_source>, nb::kw_only(), "local"_a, "local_port"_a,
        "remote"_a, "remote_port"_a, "datagram_bytes"_a, "datagrams"_a, "region_bytes"_a, "duration_ns"_a);
  m.def("measure_udp_sink", &udp_stream<nic::measure_udp_sink>, nb::kw_only(), "local"_a, "local_port"_a, "remote"_a,
        "remote_port"_a, "datagram_bytes"_a, "datagrams"_a, "region_bytes"_a, "duration_ns"_a);

  nb::class_<nic::ProgressSampler>(m, "ProgressSampler")
      .def(nb::init<Device&, std::uint32_t, std::int64_t>(), "device"_a, "qp"_a, "interval_ns"_a = 10'000'000,
           nb::keep_alive<1, 2>())
      .def("stop", &nic::ProgressSampler::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("samples", [](nic::ProgressSampler& self) {
        nb::list out;
        for (const nic::ProgressSample& sample : self.samples()) {
          out.append(nb::make_tuple(sample.time_ns, sample.placed_bytes));
        }
        return out;
      });
}

}  // namespace openmrc::bindings
