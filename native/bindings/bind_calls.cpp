// Repeated calls of collectives. For arguments seen before, one native call starts the operation, and another one
// waits for it, checks its result and releases its memory. The Python path through a group takes several times as long
// as a small operation itself, and runs with cold caches after a large one.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "collectives/device_executor.hpp"

namespace openmrc::bindings {
namespace {

namespace nb = nanobind;
using collectives::Executor;
using collectives::Memory;
using collectives::OpId;
using collectives::OpState;
using collectives::Plan;

constexpr std::int64_t kSliceNs = 100'000'000;  // Ctrl-C is noticed between slices
constexpr double kForeverS = 1e9;
constexpr std::size_t kCallsMax = 32;

// Never waits for the executor's lock while holding the GIL: the lock's holder may be in a Python selector that needs
// the GIL.
template <typename Function>
auto without_gil(const Function& function) {
  const nb::gil_scoped_release release;
  return function();
}

using Bytes = std::unique_ptr<std::uint8_t[]>;

// Scratch memory of operations that have ended, for the next ones, since new pages cost more than a reduction. By size,
// in powers of two.
class ScratchPool {
 public:
  Bytes take(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    std::vector<Bytes>& free = free_[size_class(bytes)];
    if (free.empty()) return std::make_unique_for_overwrite<std::uint8_t[]>(std::bit_ceil(bytes));
    kept_bytes_ -= std::bit_ceil(bytes);
    Bytes taken = std::move(free.back());
    free.pop_back();
    return taken;
  }
  // `bytes`: as they were taken.
  void give_back(Bytes memory, std::size_t bytes) {
    if (memory == nullptr || kept_bytes_ + std::bit_ceil(bytes) > kKeptBytesMax) return;
    kept_bytes_ += std::bit_ceil(bytes);
    free_[size_class(bytes)].push_back(std::move(memory));
  }

 private:
  static constexpr std::size_t kKeptBytesMax = 256U << 20;  // as much as a group's pool in Python
  static std::size_t size_class(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(bytes - 1)); }

  std::array<std::vector<Bytes>, 65> free_;
  std::size_t kept_bytes_ = 0;
};

// The address of a buffer and the properties that plans depend on. `element`: format of a Python View, which has none
// of its own.
struct Shape {
  nb::handle type, element;
  std::string_view format;
  std::uint64_t bytes = 0;
};

struct Call {
  nb::object type, element;
  std::string format;
  std::uint64_t bytes = 0;
  nb::object op, algorithm, traffic_class;

  std::string kind, chosen;
  std::shared_ptr<Plan> plan;
  std::uint8_t lane = 0;
  std::size_t scratch_bytes = 0;

  // Arguments are compared by identity: arguments that are equal but not identical take the slow path.
  bool is(const Shape& shape, nb::handle wanted_op, nb::handle wanted_algorithm, nb::handle wanted_class) const {
    return bytes == shape.bytes && type.is(shape.type) && element.is(shape.element) && op.is(wanted_op) &&
           algorithm.is(wanted_algorithm) && traffic_class.is(wanted_class) && format == shape.format;
  }
};

// State of a group, shared by all its operations.
struct Shared {
  nb::object executor_object;
  Executor* executor;
  std::string where;
  nb::object failure_of, lateness_of;  // create the exceptions
  ScratchPool scratch{};
  std::vector<nb::object> under_way{};  // keeps memory alive while in use, even if the caller drops the operation
};

// One running operation; `Work` in Python.
class Started {
 public:
  Started(std::shared_ptr<Call> call, const std::shared_ptr<Shared>& shared, nb::handle buffer, Bytes scratch, OpId id)
      : call_(std::move(call)),
        shared_(shared),
        executor_object_(shared->executor_object),
        executor_(shared->executor),
        buffer_(nb::borrow(buffer)),
        scratch_(std::move(scratch)),
        id_(id) {}

  void wait(std::optional<double> timeout_s) {
    const bool limited = timeout_s.has_value();
    auto left = limited ? static_cast<std::int64_t>(std::clamp(*timeout_s, 0.0, kForeverS) * 1e9) : kSliceNs;
    while (state_ == OpState::kRunning) {
      const std::int64_t slice = std::min(left, kSliceNs);
      bool released = false;
      OpState state{};
      {
        const nb::gil_scoped_release release;
        state = executor_->finish(id_, slice, released);
        if (state == OpState::kUnknown) std::this_thread::yield();  // another thread is about to report its result
      }
      if (released) let_go();
      note(state);
      if (state_ != OpState::kRunning) break;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (limited && state == OpState::kRunning && (left -= slice) <= 0) raise(lateness(*timeout_s));
    }
    if (failure_.is_valid()) raise(failure_);
  }

  bool done() {
    if (state_ == OpState::kRunning) note(without_gil([this] { return executor_->state(id_); }));
    return state_ != OpState::kRunning;
  }
  bool settled() { return !kept_ || (done() && release()); }
  nb::object error() const { return failure_.is_valid() ? failure_ : nb::none(); }
  const std::string& algorithm() const { return call_->chosen; }

 private:
  [[noreturn]] static void raise(const nb::object& error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
  }

  nb::object lateness(double timeout_s) {
    const bool delayed = without_gil([this] { return executor_->delayed(id_); });
    return shared_->lateness_of(call_->kind, shared_->where, timeout_s, delayed);
  }

  void note(OpState state) {
    if (state == OpState::kRunning || state == OpState::kUnknown || state_ != OpState::kRunning) return;
    if (state == OpState::kFailed) {
      const auto [rank, reason] = without_gil([this] { return executor_->failure(id_); });
      const nb::object failure = shared_->failure_of(call_->kind, shared_->where, rank, reason);
      if (state_ == OpState::kRunning) failure_ = failure;
    }
    state_ = state;
    release();
  }

  bool release() {
    if (kept_ && without_gil([this] { return executor_->release(id_); })) let_go();
    return !kept_;
  }

  // Releases the memory, which nothing uses any more.
  void let_go() {
    if (!std::exchange(kept_, false)) return;
    shared_->scratch.give_back(std::move(scratch_), call_->scratch_bytes);
    const nb::object buffer = std::move(buffer_);
    auto& under_way = shared_->under_way;
    const auto own = std::find_if(under_way.begin(), under_way.end(),
                                  [this](const nb::object& one) { return nb::inst_ptr<Started>(one) == this; });
    if (own == under_way.end()) return;
    const nb::object self = std::move(*own);  // the caller holds a reference, too
    under_way.erase(own);
  }

  std::shared_ptr<Call> call_;
  std::shared_ptr<Shared> shared_;
  nb::object executor_object_;
  Executor* executor_;
  nb::object buffer_;
  Bytes scratch_;
  OpId id_;
  OpState state_ = OpState::kRunning;
  nb::object failure_;
  bool kept_ = true;
};

// Known calls of one group.
class Calls {
 public:
  Calls(nb::object executor, std::string where, std::uint64_t key_base, nb::object view, nb::object failure_of,
        nb::object lateness_of)
      : key_base_(key_base), view_(std::move(view)) {
    auto* native = nb::cast<collectives::DeviceExecutor*>(executor);
    shared_ = std::make_shared<Shared>(
        Shared{std::move(executor), native, std::move(where), std::move(failure_of), std::move(lateness_of)});
  }
  // Operations that nobody waits for keep each other's memory alive, and `shared_` keeps the operations.
  ~Calls() {
    const std::vector<nb::object> left = std::move(shared_->under_way);
    shared_->under_way.clear();
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  std::uint64_t next_key() { return key_base_ | (sequence_++ & ((1ULL << collectives::kSequenceBits) - 1)); }

  // None for an unknown call.
  nb::object start(nb::handle buffer, nb::handle op, nb::handle algorithm, nb::handle traffic_class) {
    Py_buffer view{};
    Shape shape;
    std::uint64_t address = 0;
    if (!look(buffer, view, shape, address)) return nb::none();
    const std::shared_ptr<Call> call = find(shape, op, algorithm, traffic_class);
    if (view.obj != nullptr) PyBuffer_Release(&view);
    if (call == nullptr || !shared_->executor->usable()) return nb::none();
    prune();
    Bytes scratch = shared_->scratch.take(call->scratch_bytes);
    std::array<Memory, 2> memory{
        {{reinterpret_cast<std::uint8_t*>(address), shape.bytes}, {scratch.get(), call->scratch_bytes}}};
    const std::size_t count = call->plan->config().buffer_bytes.size();
    const std::uint64_t key = next_key();
    OpId id = 0;
    {
      const nb::gil_scoped_release release;
      id = shared_->executor->submit(call->plan, key, call->lane, std::span(memory).first(count));
    }
    nb::object started =
        nb::cast(new Started(call, shared_, buffer, std::move(scratch), id), nb::rv_policy::take_ownership);
    shared_->under_way.push_back(started);
    return started;
  }

  // `chosen`: the algorithm. Without a buffer: None.
  void remember(nb::handle buffer, nb::object op, nb::object algorithm, nb::object traffic_class, std::string kind,
                std::string chosen, std::shared_ptr<Plan> plan, std::uint8_t lane, std::size_t scratch_bytes) {
    Py_buffer view{};
    Shape shape;
    std::uint64_t address = 0;
    if (!look(buffer, view, shape, address)) return;
    auto call = std::make_shared<Call>();
    call->type = nb::borrow(shape.type);
    call->element = nb::borrow(shape.element);
    call->format = std::string(shape.format);
    call->bytes = shape.bytes;
    if (view.obj != nullptr) PyBuffer_Release(&view);
    call->op = std::move(op);
    call->algorithm = std::move(algorithm);
    call->traffic_class = std::move(traffic_class);
    call->kind = std::move(kind);
    call->chosen = std::move(chosen);
    call->plan = std::move(plan);
    call->lane = lane;
    call->scratch_bytes = scratch_bytes;
    if (calls_.size() == kCallsMax) calls_.erase(calls_.begin());
    calls_.push_back(std::move(call));
    latest_ = calls_.size() - 1;
  }

 private:
  // False if the buffer offers no memory that could be used in place.
  bool look(nb::handle buffer, Py_buffer& view, Shape& shape, std::uint64_t& address) const {
    shape.type = reinterpret_cast<PyObject*>(Py_TYPE(buffer.ptr()));
    shape.element = Py_None;
    if (buffer.is_none()) return true;
    if (shape.type.is(view_)) {
      address = PyLong_AsUnsignedLongLong(PyTuple_GetItem(buffer.ptr(), 0));
      shape.bytes = PyLong_AsUnsignedLongLong(PyTuple_GetItem(buffer.ptr(), 1));
      shape.element = PyTuple_GetItem(buffer.ptr(), 2);
      return true;
    }
    constexpr int kWanted = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT;
    if (!PyObject_CheckBuffer(buffer.ptr())) return false;
    if (PyObject_GetBuffer(buffer.ptr(), &view, kWanted) != 0) {
      PyErr_Clear();
      return false;
    }
    address = reinterpret_cast<std::uintptr_t>(view.buf);
    shape.bytes = static_cast<std::uint64_t>(view.len);
    shape.format = view.format == nullptr ? "" : view.format;
    return true;
  }

  std::shared_ptr<Call> find(const Shape& shape, nb::handle op, nb::handle algorithm, nb::handle traffic_class) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const std::size_t at = (latest_ + i) % calls_.size();
      if (!calls_[at]->is(shape, op, algorithm, traffic_class)) continue;
      latest_ = at;
      return calls_[at];
    }
    return nullptr;
  }

  // Drops finished operations that nobody waits for.
  void prune() {
    if (shared_->under_way.empty()) return;
    const std::vector<nb::object> now = shared_->under_way;
    for (const nb::object& one : now) nb::inst_ptr<Started>(one)->settled();
  }

  std::shared_ptr<Shared> shared_;
  std::uint64_t key_base_, sequence_ = 0;
  nb::object view_;
  std::vector<std::shared_ptr<Call>> calls_;
  std::size_t latest_ = 0;
};

}  // namespace

void bind_calls(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("collectives"));
  nb::class_<Started>(m, "Started")
      .def("wait", &Started::wait, nb::arg("timeout_s").none() = nb::none())
      .def_prop_ro("done", &Started::done)
      .def_prop_ro("settled", &Started::settled)
      .def_prop_ro("error", &Started::error)
      .def_prop_ro("algorithm", &Started::algorithm)
      .def_prop_ro("source", [](const Started&) { return nb::none(); });
  nb::class_<Calls>(m, "Calls")
      .def(nb::init<nb::object, std::string, std::uint64_t, nb::object, nb::object, nb::object>(), nb::arg("executor"),
           nb::arg("where"), nb::arg("key_base"), nb::arg("view"), nb::arg("failure_of"), nb::arg("lateness_of"))
      .def("next_key", &Calls::next_key)
      .def("start", &Calls::start, nb::arg("buffer").none(), nb::arg("op").none(), nb::arg("algorithm").none(),
           nb::arg("traffic_class"))
      .def("remember", &Calls::remember, nb::arg("buffer").none(), nb::arg("op").none(), nb::arg("algorithm").none(),
           nb::arg("traffic_class"), nb::arg("kind"), nb::arg("chosen"), nb::arg("plan"), nb::arg("lane"),
           nb::arg("scratch_bytes"));
}

}  // namespace openmrc::bindings
