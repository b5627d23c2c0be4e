// The backend `mrc` as a c10d::Backend: torch's dispatcher calls it, and it calls the delegate, a Python object that
// starts the operations. Works and futures are c10d's own, so that C++ code of torch (DDP's reducer, functional
// collectives, the debug wrapper) can use them without Python.
//
// Compiled against the headers of the installed torch, as c10d's classes change with every version of it.
//
// Locks. Virtual methods are called without the GIL, as torch's bindings release it, and take it for the delegate. The
// lock of a work is never held while Python runs, nor while callbacks of its future do.
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <pybind11/chrono.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using Milliseconds = std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// Names that differ between versions of torch.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
using PreMulSum = c10d::NCCLPreMulSumSupplement;
#else
using PreMulSum = c10d::PreMulSumSupplement;
#endif
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
constexpr c10d::OpType kReduceScatterCoalesced = c10d::OpType::COALESCED;
#else
constexpr c10d::OpType kReduceScatterCoalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#endif

// A Python object that C++ owns. Works may outlive the interpreter, in registries of torch: then it is left alone.
class Owned {
 public:
  explicit Owned(py::object object) : object_(std::move(object)) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { reset(); }
  const py::object& get() const { return object_; }
  void reset() {
    if (!object_) return;
    if (Py_IsInitialized() == 0) {
      object_.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }

 private:
  py::object object_;
};

// Python's exception as one that C++ may keep and throw several times, which pybind11's own may not. Needs the GIL.
python_error keepable(py::error_already_set& error) {
  error.restore();
  python_error kept;
  kept.persist();
  return kept;
}

python_error keepable(const py::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  python_error kept;
  kept.persist();
  return kept;
}

// Calls Python, with the GIL.
template <class Call>
auto with_python(const Call& call) {
  const py::gil_scoped_acquire gil;
  try {
    return call();
  } catch (py::error_already_set& error) {
    throw keepable(error);
  }
}

double seconds(Milliseconds time) { return std::chrono::duration<double>(time).count(); }

// One operation. `operation` is the delegate's, with these methods: `poll() -> bool` (whether it is over), `wait(seconds)`
// (0: the time of the operation; raises why it failed), `failure() -> exception or None`, `source_rank() -> int`,
// `abort()`, and `watch(work)`, after which it calls `work._finish(exception or None)` once when it is over.
class MrcWork final : public c10d::Work {
 public:
  MrcWork(int rank, c10d::OpType type, const char* title, const Tensors& inputs, Tensors results,
          std::uint64_t sequence)
      : Work(rank, type, title, inputs), results_(std::move(results)), sequence_(sequence) {}

  bool profiled() const { return recordFunctionEndCallback_ != nullptr; }

  // The rest of the constructor: a work is watched when others own it already.
  void begin(py::object operation) {
    operation_ = std::make_unique<Owned>(std::move(operation));
    if (profiled()) watch();
  }

  const py::object& operation() const { return operation_->get(); }
  const Tensors& results() const { return results_; }

  bool isCompleted() override {
    if (over_) return true;
    const bool over = with_python([this] { return operation().attr("poll")().cast<bool>(); });
    if (over) over_ = true;
    return over;
  }

  bool isSuccess() const override {
    // Base classes return true for a running work, too; callers then check isCompleted().
    return over_ && failure() == nullptr;
  }

  std::exception_ptr exception() const override { return over_ ? failure() : nullptr; }

  int sourceRank() const override {
    return with_python([this] { return operation().attr("source_rank")().cast<int>(); });
  }

  std::vector<at::Tensor> result() override { return results_; }

  void synchronize() override { wait(kNoTimeout); }

  bool wait(Milliseconds timeout) override {
    with_python([this, timeout] { operation().attr("wait")(seconds(timeout)); });
    over_ = true;
    if (watched_) {
      // The profiler may be stopped as soon as this returns, so its record of this work ends before.
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait(lock, [this] { return completed_; });
    }
    // A waiter of the work also finds its future completed; callbacks run elsewhere.
    if (const FuturePtr future = known_future()) future->wait();
    return true;
  }

  void abort() override {
    with_python([this] { operation().attr("abort")(); });
  }

  FuturePtr getFuture() override {
    FuturePtr future;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (future_) return future_;
      future = future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    }
    settle();
    with_python([this] { watch(); });
    return future;
  }

  // Completes with the result of the work, an int, and never with an exception.
  FuturePtr getFutureResult() override {
    const auto self = c10::intrusive_ptr<MrcWork>::unsafe_reclaim_from_nonowning(this);
    return getFuture()->then(
        [](c10::ivalue::Future& future) {
          const auto result = future.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
          return c10::IValue(static_cast<std::int64_t>(result));
        },
        c10::IntType::get());
  }

  std::uint64_t getSequencenumber() const override { return sequence_; }

  // Called by the operation, with the GIL, on a thread that callbacks may block.
  void complete(const py::object& exception) {
    std::exception_ptr reason;
    if (!exception.is_none()) reason = std::make_exception_ptr(keepable(exception));
    const py::gil_scoped_release release;
    over_ = true;
    finish(reason);
    settle();
  }

 private:
  void watch() {
    if (watched_.exchange(true)) return;
    operation().attr("watch")(py::cast(c10::intrusive_ptr<MrcWork>::unsafe_reclaim_from_nonowning(this)));
  }

  // Completes the future, once there is one and the work is finished. Runs its callbacks.
  void settle() {
    std::exception_ptr reason;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!completed_ || !future_ || settled_) return;
      settled_ = true;
      reason = exception_;
    }
    if (reason) {
      future_->setError(reason);
    } else {
      future_->markCompleted(c10::IValue(results_));
    }
  }

  FuturePtr known_future() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return future_;
  }

  std::exception_ptr failure() const {
    return with_python([this]() -> std::exception_ptr {
      const py::object exception = operation().attr("failure")();
      return exception.is_none() ? nullptr : std::make_exception_ptr(keepable(exception));
    });
  }

  std::unique_ptr<Owned> operation_;
  const Tensors results_;
  const std::uint64_t sequence_;
  std::atomic<bool> over_ = false, watched_ = false;
  FuturePtr future_;  // set once, under the lock
  bool settled_ = false;
};

using MrcWorkPtr = c10::intrusive_ptr<MrcWork>;

// Memory that the delegate may read and write through its address. Subclasses that dispatch to Python come here only
// past the dispatcher, and have no memory of their own.
void check_memory(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), "mrc: a tensor is undefined; pass a tensor");
  if (tensor.key_set().has(c10::DispatchKey::Python)) {
    const std::string name = with_python([&tensor] {
      const py::object object = py::cast(tensor);
      return py::str(py::type::of(object).attr("__name__")).cast<std::string>();
    });
    TORCH_CHECK_TYPE(false, "mrc: a tensor of class ", name,
                     " has no memory of its own that could be sent; pass the torch.Tensor that it wraps");
  }
  TORCH_CHECK_VALUE(
      tensor.device().is_cpu(), "mrc: a tensor is on ", tensor.device(),
      "; this backend moves tensors of the CPU: copy it with .cpu() first, or give accelerators a backend of "
      "their own, as init_process_group(\"cpu:mrc,cuda:nccl\") does");
  if (tensor.layout() != c10::kStrided) return;
  TORCH_CHECK_VALUE(!tensor.is_neg() && !tensor.is_conj(),
                    "mrc: a tensor is a lazy negative or conjugate; pass .resolve_neg() or .resolve_conj() of it");
  if (tensor.numel() == 0) return;
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto needed = static_cast<std::size_t>(last + 1) * tensor.dtype().itemsize();
  TORCH_CHECK_VALUE(tensor.has_storage() && tensor.storage().data() != nullptr && tensor.storage().nbytes() >= needed,
                    "mrc: the storage of a tensor with ", tensor.numel(),
                    " elements was freed or is too small; allocate it again first");
}

void check_result(const at::Tensor& tensor) {
  check_memory(tensor);
  TORCH_CHECK_VALUE(tensor.layout() != c10::kStrided || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                    "mrc: elements of a tensor for results share memory, as expand() makes them; pass .clone() of it");
}

template <class Item>
void check_memory(const std::vector<Item>& items) {
  for (const Item& item : items) check_memory(item);
}

template <class Item>
void check_result(const std::vector<Item>& items) {
  for (const Item& item : items) check_result(item);
}

Tensors flat(const TensorLists& lists) {
  Tensors all;
  for (const Tensors& tensors : lists) all.insert(all.end(), tensors.begin(), tensors.end());
  return all;
}

// The operation as the number that the delegate knows, and the factor of PREMUL_SUM.
std::pair<int, double> reduction(const c10d::ReduceOp& op) {
  double factor = 1.0;
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    if (const auto* supplement = dynamic_cast<const PreMulSum*>(op.supplement_.get())) {
      factor =
          supplement->tensor_factor.defined() ? supplement->tensor_factor.item().toDouble() : supplement->double_factor;
    }
  }
  return {static_cast<int>(op.op_), factor};
}

class MrcBackend final : public c10d::Backend {
 public:
  MrcBackend(py::object delegate, int rank, int size, Milliseconds timeout, std::string group,
             std::vector<std::uint64_t> ranks)
      : Backend(rank, size), delegate_(std::move(delegate)), options_(c10::make_intrusive<Options>("mrc", timeout)) {
    options_->group_name = std::move(group);
    options_->global_ranks_in_group = std::move(ranks);
    init();
  }

  py::object delegate() const { return delegate_.get(); }

  const std::string getBackendName() const override { return "mrc"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }

  void setTimeout(Milliseconds timeout) override {
    with_python([this, timeout] { delegate().attr("set_timeout")(seconds(timeout)); });
    options_->timeout = timeout;
  }

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  void abort() override {
    with_python([this] { delegate().attr("abort")(); });
  }

  void shutdown() override {
    with_python([this] { delegate().attr("shutdown")(); });
  }

  c10d::ErrorType getError() override {
    return with_python([this] { return delegate().attr("failed")().cast<bool>(); }) ? c10d::ErrorType::COMM_ERROR
                                                                                    : c10d::ErrorType::SUCCESS;
  }

  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& opts) override {
    return with_python([&]() -> c10::intrusive_ptr<Backend> {
      const py::object made = delegate().attr("split")(store, ranks, seconds(opts->timeout), opts->group_name);
      if (made.is_none()) return nullptr;
      return made.cast<c10::intrusive_ptr<MrcBackend>>();
    });
  }

  void startCoalescing() override {
    with_python([this] { delegate().attr("start_coalescing")(); });
    const std::lock_guard<std::mutex> lock(coalescing_mutex_);
    coalescing_ = true;
  }

  WorkPtr endCoalescing() override {
    Tensors results;
    {
      const std::lock_guard<std::mutex> lock(coalescing_mutex_);
      results = std::exchange(coalesced_, {});
      coalescing_ = false;
    }
    return start(c10d::OpType::COALESCED, "mrc:coalesced", {}, std::move(results), "end_coalescing");
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    check_result(tensors);
    const auto [op, factor] = reduction(opts.reduceOp);
    return collective(c10d::OpType::ALLREDUCE, "mrc:all_reduce", tensors, tensors, "all_reduce", tensors, op, factor,
                      seconds(opts.timeout));
  }

  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return allreduce(tensors, opts);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    check_result(tensors);
    const auto [op, factor] = reduction(opts.reduceOp);
    return collective(c10d::OpType::ALLREDUCE_COALESCED, "mrc:all_reduce", tensors, tensors, "all_reduce_coalesced",
                      tensors, op, factor, seconds(opts.timeout));
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    check_result(tensors);
    const auto [op, factor] = reduction(opts.reduceOp);
    return collective(c10d::OpType::REDUCE, "mrc:reduce", tensors, tensors, "reduce", tensors, opts.rootRank, op,
                      factor, seconds(opts.timeout));
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    check_result(tensors);
    return collective(c10d::OpType::BROADCAST, "mrc:broadcast", tensors, tensors, "broadcast", tensors, opts.rootRank,
                      seconds(opts.timeout));
  }

  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    return collective(c10d::OpType::ALLGATHER, "mrc:all_gather", inputs, flat(outputs), "all_gather", outputs, inputs,
                      seconds(opts.timeout));
  }

  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    return collective(c10d::OpType::ALLGATHER_COALESCED, "mrc:all_gather", inputs, flat(outputs),
                      "all_gather_coalesced", outputs, inputs, seconds(opts.timeout));
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override {
    return gather_into(c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor", {output}, {input}, opts);
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override {
    return gather_into(c10d::OpType::COALESCED, "all_gather_into_tensor_coalesced", outputs, inputs, opts);
  }

  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    return collective(c10d::OpType::GATHER, "mrc:gather", inputs, flat(outputs), "gather", outputs, inputs,
                      opts.rootRank, seconds(opts.timeout));
  }

  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    return collective(c10d::OpType::SCATTER, "mrc:scatter", flat(inputs), outputs, "scatter", outputs, inputs,
                      opts.rootRank, seconds(opts.timeout));
  }

  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    const auto [op, factor] = reduction(opts.reduceOp);
    return collective(c10d::OpType::REDUCE_SCATTER, "mrc:reduce_scatter", flat(inputs), outputs, "reduce_scatter",
                      outputs, inputs, op, factor, seconds(opts.timeout));
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override {
    return reduce_scatter_tensors(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", {output}, {input}, opts);
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override {
    return reduce_scatter_tensors(kReduceScatterCoalesced, "reduce_scatter_tensor_coalesced", outputs, inputs, opts);
  }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override {
    check_result(outputs);
    check_memory(inputs);
    return collective(c10d::OpType::ALLTOALL, "mrc:all_to_all", inputs, outputs, "all_to_all", outputs, inputs,
                      seconds(opts.timeout));
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& opts) override {
    check_result(output);
    check_memory(input);
    return collective(c10d::OpType::ALLTOALL_BASE, "mrc:all_to_all", {input}, {output}, "all_to_all_single", output,
                      input, output_splits, input_splits, seconds(opts.timeout));
  }

  WorkPtr barrier(const c10d::BarrierOptions& opts) override {
    return collective(c10d::OpType::BARRIER, "mrc:barrier", {}, {}, "barrier", seconds(opts.timeout));
  }

  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override {
    with_python([&] { delegate().attr("monitored_barrier")(seconds(opts.timeout), wait_all_ranks); });
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    check_memory(tensors);
    return start(c10d::OpType::SEND, "mrc:send", tensors, tensors, "send", tensors, to, tag);
  }

  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    check_result(tensors);
    return start(c10d::OpType::RECV, "mrc:recv", tensors, tensors, "recv", tensors, source, tag);
  }

  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    check_result(tensors);
    return start(c10d::OpType::RECVANYSOURCE, "mrc:recvAnySource", tensors, tensors, "recv", tensors,
                 std::optional<int>(), tag);
  }

 private:
  // Calls a method of the delegate that returns an operation.
  template <class... Args>
  WorkPtr start(c10d::OpType type, const char* title, const Tensors& inputs, Tensors results, const char* method,
                const Args&... args) {
    auto work = c10::make_intrusive<MrcWork>(rank_, type, title, inputs, std::move(results), sequence_.load());
    with_python([&] { work->begin(delegate().attr(method)(args...)); });
    const std::lock_guard<std::mutex> lock(coalescing_mutex_);
    if (coalescing_) coalesced_.insert(coalesced_.end(), work->results().begin(), work->results().end());
    return work;
  }

  template <class... Args>
  WorkPtr collective(c10d::OpType type, const char* title, const Tensors& inputs, Tensors results, const char* method,
                     const Args&... args) {
    const WorkPtr work = start(type, title, inputs, std::move(results), method, args...);
    ++sequence_;
    return work;
  }

  WorkPtr gather_into(c10d::OpType type, const char* method, const Tensors& outputs, const Tensors& inputs,
                      const c10d::AllgatherOptions& opts) {
    check_result(outputs);
    check_memory(inputs);
    return collective(type, "mrc:all_gather", inputs, outputs, method, outputs, inputs, seconds(opts.timeout));
  }

  WorkPtr reduce_scatter_tensors(c10d::OpType type, const char* method, const Tensors& outputs, const Tensors& inputs,
                                 const c10d::ReduceScatterOptions& opts) {
    check_result(outputs);
    check_memory(inputs);
    const auto [op, factor] = reduction(opts.reduceOp);
    return collective(type, "mrc:reduce_scatter", inputs, outputs, method, outputs, inputs, op, factor,
                      seconds(opts.timeout));
  }

  Owned delegate_;
  const c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::mutex coalescing_mutex_;
  bool coalescing_ = false;
  Tensors coalesced_;  // results of what was started since startCoalescing()
};

}  // namespace

PYBIND11_MODULE(openmrc_torch_backend, module) {
  py::class_<MrcWork, c10d::Work, MrcWorkPtr>(module, "MrcWork").def("_finish", &MrcWork::complete);

  py::class_<MrcBackend, c10d::Backend, c10::intrusive_ptr<MrcBackend>>(module, "MrcBackend")
      .def(py::init<py::object, int, int, Milliseconds, std::string, std::vector<std::uint64_t>>())
      .def_property_readonly("delegate", &MrcBackend::delegate)
      .def_property_readonly("options", &MrcBackend::getBackendOptions)
      .def("get_error", &MrcBackend::getError, py::call_guard<py::gil_scoped_release>());
}
