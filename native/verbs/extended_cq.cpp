// Extended completion queues: one completion at a time, with a call for each of its fields.
#include <atomic>
#include <mutex>
#include <thread>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {

// The completion that a thread reads between ibv_start_poll() and ibv_end_poll(). Others wait for the end.
struct CompletionReader {
  std::mutex mutex;  // held in between
  std::atomic<std::thread::id> owner;
  ibv_wc current{};

  bool is_open() const { return owner.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
};

namespace {

CompletionReader& reader_of(ibv_cq_ex* cq) { return *Cq::of(ibv_cq_ex_to_cq(cq)).reader; }

int fetch(ibv_cq_ex* cq, CompletionReader& reader) {
  const int count = poll_cq(ibv_cq_ex_to_cq(cq), 1, &reader.current);
  if (count < 0) return -count;
  if (count == 0) return ENOENT;
  cq->status = reader.current.status;
  cq->wr_id = reader.current.wr_id;
  return 0;
}

void close(CompletionReader& reader) {
  reader.owner = std::thread::id();
  reader.mutex.unlock();
}

// With an error there is nothing to end.
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
  if (attributes == nullptr || attributes->comp_mask != 0) return EINVAL;
  // In a forked child another thread may have had it open for ever.
  if (Cq::of(ibv_cq_ex_to_cq(cq)).nic().device().closed()) return EPERM;
  CompletionReader& reader = reader_of(cq);
  if (reader.is_open()) return EINVAL;
  return guarded([&] {
    reader.mutex.lock();
    reader.owner = std::this_thread::get_id();
    const int error = fetch(cq, reader);
    if (error != 0) close(reader);
    return error;
  });
}

int next_poll(ibv_cq_ex* cq) {
  CompletionReader& reader = reader_of(cq);
  return reader.is_open() ? fetch(cq, reader) : EINVAL;
}

void end_poll(ibv_cq_ex* cq) {
  CompletionReader& reader = reader_of(cq);
  if (reader.is_open()) close(reader);
}

// A function that reads one member of the present completion.
template <auto Member>
auto read(ibv_cq_ex* cq) {
  return reader_of(cq).current.*Member;
}

// A field that no CQ of openmrc can be created with.
template <typename Value>
Value absent(ibv_cq_ex*) {
  return Value();
}

void no_tag(ibv_cq_ex*, ibv_wc_tm_info* info) {
  if (info != nullptr) *info = {};
}

void set_functions(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read<&ibv_wc::opcode>;
  cq.read_vendor_err = read<&ibv_wc::vendor_err>;
  cq.read_byte_len = read<&ibv_wc::byte_len>;
  cq.read_imm_data = [](ibv_cq_ex* from) { return reader_of(from).current.imm_data; };  // member of a union
  cq.read_qp_num = read<&ibv_wc::qp_num>;
  cq.read_src_qp = read<&ibv_wc::src_qp>;
  cq.read_wc_flags = read<&ibv_wc::wc_flags>;
  cq.read_slid = [](ibv_cq_ex* from) -> std::uint32_t { return reader_of(from).current.slid; };
  cq.read_sl = read<&ibv_wc::sl>;
  cq.read_dlid_path_bits = read<&ibv_wc::dlid_path_bits>;
  cq.read_completion_ts = absent<std::uint64_t>;
  cq.read_cvlan = absent<std::uint16_t>;
  cq.read_flow_tag = absent<std::uint32_t>;
  cq.read_tm_info = no_tag;
  cq.read_completion_wallclock_ns = absent<std::uint64_t>;
}

int check(const ibv_cq_init_attr_ex& wanted) {
  if ((wanted.comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0) return EOPNOTSUPP;
  const bool flagged = (wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if (flagged && (wanted.flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) return EOPNOTSUPP;
  if ((wanted.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) return EOPNOTSUPP;
  return wanted.cqe > kCqeMax || wanted.comp_vector != 0 ? EINVAL : 0;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  ibv_cq* cq = nullptr;
  int error = wanted == nullptr ? EINVAL : check(*wanted);
  if (error == 0) {
    cq = ibv_create_cq(context, static_cast<int>(wanted->cqe), wanted->cq_context, wanted->channel, 0);
    if (cq == nullptr) return nullptr;
    error = guarded([&] {
      Cq::of(cq).reader = std::make_shared<CompletionReader>();
      set_functions(Cq::of(cq).api);
      return 0;
    });
  }
  if (error == 0) return &Cq::of(cq).api;
  if (cq != nullptr) ibv_destroy_cq(cq);
  errno = error;
  return nullptr;
}

}  // namespace openmrc::verbs
