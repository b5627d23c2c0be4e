// Collectives: reductions, plans, and the executor that runs plans over a device's QPs.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "collectives/device_executor.hpp"
#include "collectives/reducing_placer.hpp"

namespace openmrc::bindings {
namespace {

namespace nb = nanobind;
using collectives::DeviceExecutor;
using collectives::ElementType;
using collectives::Inbox;
using collectives::Plan;
using collectives::ReduceOp;
using Release = nb::call_guard<nb::gil_scoped_release>;
using StepRows = nb::ndarray<const std::uint64_t, nb::shape<-1, 8>, nb::c_contig, nb::device::cpu>;
using Buffers = std::vector<std::tuple<std::uint64_t, std::uint64_t>>;  // address, bytes
using CallNumbers =                                                     // kind, algorithm, type, reduction, root, bytes
    std::tuple<std::uint8_t, std::uint8_t, std::uint8_t, std::uint8_t, std::uint16_t, std::uint64_t>;
using WaitRows = nb::ndarray<const std::uint32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

// Columns: kind, reversed, peer, from_buffer, into_buffer, from_offset, into_offset, bytes.
std::shared_ptr<Plan> make_plan(std::uint32_t ranks, const StepRows& steps, const WaitRows& waits,
                                const std::vector<std::uint64_t>& buffer_bytes, unsigned type, unsigned op,
                                double factor, std::uint32_t divisor, const std::vector<std::uint64_t>& shifts,
                                std::uint8_t shifted_buffer, bool offered, bool fence, bool circle,
                                const CallNumbers& call, std::uint8_t scratch_buffer) {
  collectives::PlanConfig config;
  config.ranks = ranks;
  config.steps.reserve(steps.shape(0));
  for (std::size_t i = 0; i < steps.shape(0); ++i) {
    const std::uint64_t* row = steps.data() + i * 8;
    if (row[0] > static_cast<std::uint64_t>(collectives::StepKind::kDivide))
      throw nb::value_error("unknown kind of step");
    config.steps.push_back({static_cast<collectives::StepKind>(row[0]), row[1] != 0, static_cast<std::uint8_t>(row[3]),
                            static_cast<std::uint8_t>(row[4]), static_cast<std::uint16_t>(row[2]), row[5], row[6],
                            row[7]});
  }
  config.waits.reserve(waits.shape(0));
  for (std::size_t i = 0; i < waits.shape(0); ++i) config.waits.emplace_back(waits(i, 0), waits(i, 1));
  config.buffer_bytes = buffer_bytes;
  config.shifts = shifts;
  config.shifted_buffer = shifted_buffer;
  config.offered = offered;
  config.fence = fence;
  config.circle = circle;
  config.scratch_buffer = scratch_buffer;
  if (type >= collectives::kElementTypes || op >= collectives::kReduceOps) throw nb::value_error("unknown type or op");
  config.type = static_cast<ElementType>(type);
  config.op = static_cast<ReduceOp>(op);
  config.factor = factor;
  config.divisor = divisor;
  std::tie(config.call.kind, config.call.algorithm, config.call.type, config.call.reduction, config.call.root,
           config.call.bytes) = call;
  return std::make_shared<Plan>(std::move(config));
}

std::vector<collectives::Memory> memory_for(const Plan& plan, const Buffers& buffers) {
  std::vector<collectives::Memory> memory;
  const auto& needed = plan.config().buffer_bytes;
  if (buffers.size() != needed.size()) throw nb::value_error("another number of buffers than the plan has");
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& [address, bytes] = buffers[i];
    if (bytes < needed[i]) throw nb::value_error("a buffer is smaller than the plan needs");
    memory.push_back({reinterpret_cast<std::uint8_t*>(address), bytes});
  }
  return memory;
}

std::uint64_t submit(DeviceExecutor& self, std::shared_ptr<Plan> plan, std::uint64_t key, std::uint8_t lane,
                     const Buffers& buffers) {
  const std::vector<collectives::Memory> memory = memory_for(*plan, buffers);
  const nb::gil_scoped_release release;
  return self.submit(std::move(plan), key, lane, memory);
}

// Address of a contiguous, writable buffer. NumPy's own interfaces take microseconds.
std::uint64_t address_of(const nb::object& buffer) {
  Py_buffer view{};
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE | PyBUF_WRITABLE) != 0) throw nb::python_error();
  const auto address = reinterpret_cast<std::uintptr_t>(view.buf);
  PyBuffer_Release(&view);
  return address;
}

std::uint64_t receive(DeviceExecutor& self, std::shared_ptr<Inbox> inbox, int source, std::shared_ptr<Plan> plan,
                      std::uint8_t lane, const Buffers& buffers) {
  const std::vector<collectives::Memory> memory = memory_for(*plan, buffers);
  const nb::gil_scoped_release release;
  return self.receive(inbox, source, std::move(plan), lane, memory);
}

using FileNumbers = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
using OfferNumbers = std::tuple<FileNumbers, FileNumbers, FileNumbers, FileNumbers>;

FileNumbers numbers_of(const collectives::ProcessFile& file) {
  return {file.process, file.descriptor, file.device, file.inode};
}

collectives::ProcessFile file_of(const FileNumbers& numbers) {
  const auto& [process, descriptor, device, inode] = numbers;
  return {.process = process, .descriptor = descriptor, .device = device, .inode = inode};
}

nb::dict statistics(DeviceExecutor& self) {
  const collectives::ExecutorStats stats = self.stats();
  nb::dict out;
  out["ops"] = stats.ops;
  out["slot_messages"] = stats.slot_messages;
  out["direct_messages"] = stats.direct_messages;
  out["early_messages"] = stats.early_messages;
  out["early_bytes_max"] = stats.early_bytes_max;
  out["reduced_bytes"] = stats.reduced_bytes;
  out["copied_bytes"] = stats.copied_bytes;
  out["shared_messages"] = stats.shared_messages;
  out["shared_bytes"] = stats.shared_bytes;
  out["protocol_errors"] = stats.protocol_errors;
  out["delayed_ops"] = stats.delayed_ops;
  return out;
}

void check_pair(unsigned type, unsigned op) {
  if (type >= collectives::kElementTypes || op >= collectives::kReduceOps ||
      !collectives::reducible(static_cast<ElementType>(type), static_cast<ReduceOp>(op))) {
    throw nb::value_error("these elements cannot be reduced so");
  }
}

void bind_executor(nb::module_& m) {
  nb::class_<DeviceExecutor>(m, "Executor")
      .def("__init__",
           [](DeviceExecutor* self, std::shared_ptr<nic::Device> device, CqId cq, std::uint16_t rank,
              std::uint16_t ranks, std::uint8_t lanes, std::uint32_t recv_depth, std::int64_t spin_ns,
              std::int64_t poll_ns, DomainId domain) {
             new (self) DeviceExecutor(std::move(device), cq,
                                       {.rank = rank,
                                        .ranks = ranks,
                                        .lanes = lanes,
                                        .recv_depth = recv_depth,
                                        .spin = spin_ns,
                                        .poll = poll_ns,
                                        .domain = domain});
           })
      .def_prop_ro("mailbox_address", &DeviceExecutor::mailbox_address)
      .def_prop_ro("mailbox_rkeys", &DeviceExecutor::mailbox_rkeys)
      .def("connect",
           [](DeviceExecutor& self, std::uint16_t rank, const std::vector<std::uint32_t>& qps, std::uint64_t address,
              std::uint32_t rkey) {
             const nb::gil_scoped_release release;
             self.connect(rank, qps, address, rkey);
           })
      .def("offer_memory",
           [](DeviceExecutor& self, std::uint16_t rank) {
             const std::optional<collectives::SharedOffer> offer = self.offer_memory(rank);
             std::optional<OfferNumbers> numbers;
             if (offer.has_value()) {
               numbers.emplace(numbers_of(offer->memory), numbers_of(offer->doorbells[0]),
                               numbers_of(offer->doorbells[1]), numbers_of(offer->board));
             }
             return numbers;
           })
      .def("open_memory",
           [](DeviceExecutor& self, std::uint16_t rank, const OfferNumbers& offer) {
             const auto& [memory, waiter, thread, board] = offer;
             return self.open_memory(rank, {file_of(memory), {file_of(waiter), file_of(thread)}, file_of(board)});
           })
      .def("use_memory", &DeviceExecutor::use_memory, nb::arg("rank"), nb::arg("agreed"))
      .def("submit", &submit)
      .def("receive", &receive)
      .def("source", &DeviceExecutor::source, Release())
      .def(
          "state", [](DeviceExecutor& self, std::uint64_t op) { return static_cast<unsigned>(self.state(op)); },
          Release())
      .def(
          "wait",
          [](DeviceExecutor& self, std::uint64_t op, std::int64_t timeout_ns) {
            return static_cast<unsigned>(self.wait(op, timeout_ns));
          },
          Release())
      .def("ended", &DeviceExecutor::ended, Release())
      .def("await_end", &DeviceExecutor::await_end, Release(), nb::arg("seen"), nb::arg("timeout_ns"))
      .def(
          "user_of",
          [](DeviceExecutor& self, std::uint64_t address, std::uint64_t bytes, bool writes) {
            return self.user_of(reinterpret_cast<const void*>(address), bytes, writes);
          },
          Release())
      .def("delayed", &DeviceExecutor::delayed, Release())
      .def("failure", &DeviceExecutor::failure, Release())
      .def("faulty", &DeviceExecutor::faulty, Release(), nb::arg("rank"))
      .def("release", &DeviceExecutor::release, Release())
      .def("flush", &DeviceExecutor::flush, Release())
      .def("fail_peer", &DeviceExecutor::fail_peer, Release(), nb::arg("rank"), nb::arg("reason"),
           nb::arg("left") = false, nb::arg("culprit") = -1)
      .def("close", &DeviceExecutor::close, Release())
      .def("statistics", &statistics);
}

}  // namespace

void bind_collectives(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("collectives", "Reductions, plans and their executor.");
  m.def("element_bytes", [](unsigned type) {
    if (type >= collectives::kElementTypes) throw nb::value_error("unknown type");
    return collectives::element_bytes(static_cast<ElementType>(type));
  });
  m.def("reducible", [](unsigned type, unsigned op) {
    return type < collectives::kElementTypes && op < collectives::kReduceOps &&
           collectives::reducible(static_cast<ElementType>(type), static_cast<ReduceOp>(op));
  });
  m.def("reduce",
        [](unsigned type, unsigned op, std::uint64_t into, std::uint64_t with, std::size_t count, bool reversed) {
          check_pair(type, op);
          const nb::gil_scoped_release release;
          collectives::reduce(static_cast<ElementType>(type), static_cast<ReduceOp>(op), reinterpret_cast<void*>(into),
                              reinterpret_cast<const void*>(with), count, reversed);
        });
  m.def("address_of", &address_of);
  m.def("reduce_engine", &collectives::reduce_engine);
  m.attr("ANY_SOURCE") = collectives::kAnySource;
  m.attr("CALL_KINDS") =
      nb::tuple(nb::cast(std::vector<std::string>(collectives::kCallKinds.begin(), collectives::kCallKinds.end())));
  m.attr("CALL_ALGORITHMS") = nb::tuple(
      nb::cast(std::vector<std::string>(collectives::kCallAlgorithms.begin(), collectives::kCallAlgorithms.end())));
  m.attr("SEQUENCE_BITS") = collectives::kSequenceBits;
  m.attr("EAGER_BYTES_MAX") = collectives::kEagerBytesMax;
  m.attr("COMBINED_BYTES_MAX") = collectives::kCombinedBytesMax;  // of an element
  m.attr("CREDIT_RECEIVES") = collectives::kCreditReceives;
  m.attr("MAILBOX_BYTES") = collectives::Mailbox::kAreaBytes;  // per rank and lane

  nb::class_<Plan>(m, "Plan")
      .def(nb::new_(&make_plan))
      .def_prop_ro("steps", &Plan::step_count)
      .def_prop_ro("buffer_bytes", [](const Plan& self) { return self.config().buffer_bytes; });

  nb::class_<Inbox>(m, "Inbox").def(nb::new_([](const std::vector<std::pair<std::uint16_t, std::uint64_t>>& sources) {
    return std::make_shared<Inbox>(sources);
  }));

  bind_executor(m);
}

}  // namespace openmrc::bindings
