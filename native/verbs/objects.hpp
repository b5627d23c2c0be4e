// The objects that programs hold. Each begins with the structure of the API, so that its address is both.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "verbs/api.hpp"
#include "verbs/mrc_seam.hpp"
#include "verbs/nic.hpp"

namespace openmrc::verbs {

inline constexpr std::uint32_t kSgeMax = 16;
inline constexpr std::uint32_t kWrMax = 16384;
inline constexpr std::uint32_t kSrqWrMax = 1U << 20;
inline constexpr std::uint8_t kReadsMax = 16;  // READs and atomics in flight on one QP
inline constexpr int kCqeMax = 1 << 20;
inline constexpr std::uint16_t kWriteImmMax = 1024;  // in flight on one QP; both ends must agree, and exchange nothing

// Providers are recognised by the pointer behind `device` (mlx5dv_is_supported), so there has to be one.
struct ListedDevice {
  ibv_device device;
  const void* ops;
  std::atomic<int> references;
  std::array<void*, 8> rest;  // of the private structure of rdma-core
  DeviceDescription description;
};

struct Context {
  verbs_context api;  // programs hold the address of its last member
  std::shared_ptr<Nic> nic;
  ListedDevice* device;
  std::atomic<int> children;  // protection domains, completion queues and channels

  static Context& of(ibv_context* context) {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::uint8_t*>(context) - offsetof(verbs_context, context));
  }
};

struct Pd {
  ibv_pd api;
  DomainId domain;
  std::atomic<int> children;  // memory regions, QPs and SRQs

  static Pd& of(ibv_pd* pd) { return *reinterpret_cast<Pd*>(pd); }
};

struct Mr {
  ibv_mr api;
  std::uint64_t iova;

  static Mr& of(ibv_mr* mr) { return *reinterpret_cast<Mr*>(mr); }
};

struct Srq {
  ibv_srq api;
  SrqId id;
  std::uint32_t wr_max;  // under the lock of the device
  std::uint32_t sge_max;

  static Srq& of(ibv_srq* srq) { return *reinterpret_cast<Srq*>(srq); }
  Nic& nic() const { return *Context::of(api.context).nic; }
};

struct Cq;

// Its descriptor is an epoll set with the eventfd of each CQ.
struct Channel {
  ibv_comp_channel api;
  std::mutex mutex;

  static Channel& of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }
};

struct Qp;
class SendList;
struct CompletionReader;

struct Cq {
  ibv_cq_ex api;
  CqId id;
  std::atomic<int> users;                      // QPs
  std::shared_ptr<nic::Device::Waker> polled;  // in the NIC; read before `stored`
  std::atomic<bool> stored;  // there may be completions in `ready` or `late`, or on the way from the engine to `ready`
  std::mutex mutex;
  std::array<Completion, 32> taken;            // of one poll: on its stack each call would clear them
  std::unordered_map<std::uint32_t, Qp*> qps;  // by each number that a QP has in the engine
  std::uint32_t latest_lane;                   // of `qps`, of the latest completion; 0: none
  Qp* latest_qp;
  std::deque<ibv_wc> ready;  // fetched from the engine on behalf of held work
  std::uint32_t events;      // taken by ibv_get_cq_event; under the channel's mutex, as `closing`
  bool closing;              // being destroyed: no more events are taken
  std::mutex late_mutex;     // taken last; covers what follows
  std::deque<ibv_wc> late;   // made here, behind everything of the engine: flushed work that it never saw
  bool armed;
  std::shared_ptr<CompletionReader> reader;  // of an extended CQ

  static Cq& of(ibv_cq* cq) { return *reinterpret_cast<Cq*>(cq); }
  Nic& nic() const { return *Context::of(api.context).nic; }
};

struct PostedSend {
  std::uint64_t wr_id = 0;
  ibv_wc_opcode opcode = IBV_WC_RDMA_WRITE;
  bool signaled = false;
};

// Work that waits until the other lane has completed everything.
struct HeldSend {
  SendWr wr;
  bool rc = false;
  std::vector<Sge> sges;
  std::vector<std::uint8_t> bytes;  // of inline data
};

// Its lanes are QPs of the engine. WRITE goes over MRC, SEND over RC; with both, RC consumes MRC's receives, and work
// changes from one to the other when everything posted before has completed, which keeps the order of posting.
struct Qp {
  ibv_qp_ex api;
  ibv_qp_init_attr init;
  ibv_qp_attr attributes;
  std::uint32_t mrc, rc;  // numbers in the engine; 0: no such lane
  std::mutex mutex;
  // Work posted and not completed, as a ring, by sequence number: [begin, posted) in the engine, [posted, end) held. The
  // engine completes in order, and unsignaled work with the work behind it.
  std::vector<PostedSend> sends;
  std::uint64_t sends_begin, sends_posted, sends_end;
  bool rc_active;  // the lane of the latest work in the engine
  std::deque<HeldSend> held;
  std::shared_ptr<SendList> list;  // of an extended QP
  // Nothing more enters the engine: a lane has failed, or completions from before a reset are being dropped.
  bool failed;
  // Of the MRC lane; lib_mrc.so sets them.
  std::optional<MrcPaths> mrc_paths;
  MrcNumbers mrc_numbers = default_mrc_numbers();

  static Qp& of(ibv_qp* qp) { return *reinterpret_cast<Qp*>(qp); }
  Nic& nic() const { return *Context::of(api.qp_base.context).nic; }
  std::uint32_t number() const { return api.qp_base.qp_num; }
  bool is_pair() const { return mrc != 0 && rc != 0; }
  std::uint32_t receiver() const { return mrc != 0 ? mrc : rc; }  // whose receive queue it is
  PostedSend& send(std::uint64_t sequence) { return sends[sequence % sends.size()]; }
};

// Protocols of a QP of type RC.
enum class Lanes : std::uint8_t { kPair, kMrc, kRc };
int create_qp(ibv_pd* pd, ibv_qp_init_attr& wanted, Lanes lanes, Qp*& out);

// nullptr: not one of the list.
ListedDevice* find_device(const ibv_device* device);
// Around fork(): the child must not wait for a thread of its parent that makes the list.
void lock_device_list();
void unlock_device_list();

// --- operations behind the function tables of a context

int query_port(ibv_context* context, std::uint8_t port_number, ibv_port_attr* attributes, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t size);
int poll_cq(ibv_cq* cq, int count_max, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

// Posts these requests, `count` of them, or none.
int post_together(Qp& qp, ibv_send_wr* first, std::size_t count);
// Adds a completion that the engine knows nothing about, and an event if the CQ is armed.
void complete_here(Cq& cq, const ibv_wc& completion);
// Under the mutex of `qp`: posts held work whose turn has come.
void release_held(Qp& qp);
// Under the mutex of `qp`, when one of its lanes has failed: fails the other, and flushes held work. Once until a reset.
void fail_all_lanes(Qp& qp);
// Fetches completions on behalf of held work of the CQ's QPs. True: some is still held.
bool drain(Cq& cq);
// Under the mutex of `cq`, when the lanes of `qp` are reset or gone: drops its completions.
void drop_completions(Cq& cq, const Qp& qp);

}  // namespace openmrc::verbs
