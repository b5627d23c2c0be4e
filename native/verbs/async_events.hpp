// Asynchronous events of one NIC: a thread turns events of the engine into those of verbs, and queues them for the
// contexts that they concern. The descriptor of a context counts the events in its queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nic/device.hpp"
#include "verbs/api.hpp"

namespace openmrc::verbs {

struct Cq;
struct Qp;
struct Srq;

// In a forked child its calls return at once: events are the parent's.
class AsyncEvents {
 public:
  // Starts the thread. The NIC lives until its process ends, and so do these.
  explicit AsyncEvents(nic::Device& device);

  void add(ibv_context& context);
  void remove(ibv_context& context);

  // Before the first event of the object.
  void add(Qp& qp);
  void add(Srq& srq);
  // Its later events are dropped. Returns when the program has acknowledged those that it has taken.
  void remove(Qp& qp);
  void remove(Srq& srq);
  void remove(Cq& cq);

  // Calls `listener` for every change of an EV's state, from the thread, for ever. It must not call these.
  void listen(std::function<void(const Event&)> listener);

  // The next event, or an errno: EAGAIN if the descriptor does not wait.
  int take(ibv_context& context, ibv_async_event& event);
  // Of any NIC. An object that has no event to acknowledge is ignored, and may be gone.
  static void acknowledge(const ibv_async_event& event);

 private:
  struct Known {
    Qp* qp = nullptr;
    bool stopped = false;      // IBV_EVENT_QP_LAST_WQE_REACHED has been raised since the latest reset
    bool peer_active = false;  // and IBV_EVENT_COMM_EST
  };
  using Guard = std::unique_lock<std::mutex>;

  void run();
  int take_queued(ibv_context& context, ibv_async_event& event, bool& taken);
  void acknowledge_object(const void* object);

  // --- under the mutex
  void pump();
  void translate(const Event& event);
  void note_state(const Event& event);
  void note_peer(std::uint32_t lane);
  void note_error(Known& known, std::uint32_t lane, QpErrorCause cause);
  void note_port(PortId port, bool up);
  void raise(ibv_context& context, const ibv_async_event& event);
  void forget(Guard& guard, ibv_context& context, const void* object);

  nic::Device& device_;
  AsyncEvents* next_ = nullptr;  // of another NIC of this process
  std::mutex mutex_;             // taken before those of QPs
  std::condition_variable acknowledged_;
  std::unordered_map<ibv_context*, std::deque<ibv_async_event>> contexts_;
  std::unordered_map<const void*, std::uint32_t> taken_;  // events of an object that wait for their acknowledgement
  std::unordered_map<std::uint32_t, Known> qps_;          // by the number of each lane
  std::unordered_map<SrqId, Srq*> srqs_;
  std::vector<std::function<void(const Event&)>> ev_listeners_;
  PortMask ports_up_ = 0;
};

}  // namespace openmrc::verbs
