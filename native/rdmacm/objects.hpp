// The objects that programs hold. Each begins with the structure of the API, so that its address is both. The mutex of
// the service covers all of them; QPs change outside it, in the calls of the program.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "rdmacm/api.hpp"
#include "rdmacm/devices.hpp"
#include "rdmacm/link.hpp"
#include "rdmacm/message.hpp"
#include "rdmacm/service.hpp"
#include "rdmacm/socket_address.hpp"

namespace openmrc::rdmacm {

enum class IdState : std::uint8_t { kIdle, kBound, kAddressResolved, kRouteResolved, kListening, kConnecting };

struct Channel;
class Listener;

struct Id {
  rdma_cm_id api{};
  IdState state = IdState::kIdle;
  Channel* channel = nullptr;
  bool synchronous = false;    // the channel is its own, and calls wait for their event
  nic::FileDescriptor socket;  // bound, until it listens or connects
  std::shared_ptr<Link> link;
  std::shared_ptr<Listener> listener;
  const Device* device = nullptr;
  std::uint64_t reported = 0, acknowledged = 0;  // events
  bool reuse_address = false, one_family = false, disconnected = false;
  std::optional<std::uint8_t> type_of_service, ack_timeout;
  // Of the connection; the remote side's parameters are the link's.
  Parameters local;
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms
  ibv_sa_path_rec path{};
  // Of rdma_create_ep: for the QPs of requests, and for rdma_connect.
  std::optional<ibv_qp_init_attr> request_qp;
  ibv_pd* request_pd = nullptr;
  std::vector<std::uint8_t> connect_data;

  static Id& of(rdma_cm_id* id) { return *reinterpret_cast<Id*>(id); }
  void bind_to(const Device& found);
  void set_source(const SocketAddress& address);
  void set_destination(const SocketAddress& address);
  SocketAddress source() const { return SocketAddress(&api.route.addr.src_addr); }
  SocketAddress destination() const { return SocketAddress(&api.route.addr.dst_addr); }
};

struct Event {
  rdma_cm_event api{};
  Id* counted = nullptr;           // whose acknowledgement it needs
  std::vector<std::uint8_t> data;  // private data
  std::shared_ptr<Link> link;      // of a request
};

// A socket pair, which holds a byte while events of its channel wait.
struct ChannelEnds {
  nic::FileDescriptor reader, writer;
};

// Its descriptor is the reader's. A thread that waits has a share in both ends: programs destroy a channel while a thread
// waits for its next event, and that thread waits on, as with the kernel's descriptor. An error would end programs that
// treat it as one, and a number that is free would become that of another file.
struct Channel {
  rdma_event_channel api{-1};
  std::shared_ptr<ChannelEnds> ends;
  std::deque<std::unique_ptr<Event>> events;
};

// --- under the mutex

std::unordered_set<Id*>& ids();
bool is_live(const Channel* channel);
bool is_live(const Event* event);
// An errno; `channel` becomes live.
int create_channel(Channel*& channel);
void destroy_channel(Channel* channel);
// Appends an event of `id`, which the program has to acknowledge.
void push(Id& id, std::unique_ptr<Event> event);
void push(Id& id, rdma_cm_event_type type, int status);
// Removes the events of `id`, or those of one link, that the program has not fetched.
std::deque<std::unique_ptr<Event>> withdraw(Id& id, const Link* link);
// The program acknowledges a fetched event with those of `id`.
void move_to(Id& id, Event& event);
// Waits until the program has acknowledged all events of `id` that it has fetched.
void await_acknowledgements(Id& id, std::unique_lock<std::mutex>& lock);
// The part of an event that a message fills.
std::unique_ptr<Event> make_event(rdma_cm_event_type type, const Message& message);

// --- without it; errnos

// Waits for the next event; the thread may be cancelled while it waits.
int take_event(Channel* channel, Event*& event);
int acknowledge(Event* event);
// For synchronous ids: waits for the event of the call that was just made.
int await(Id& id);
int create_id(rdma_event_channel* channel, void* context, rdma_port_space space, Id*& out);
// Without events that wait for an acknowledgement and without a link.
void free_id(Id& id);
int move_to_channel(Id& id, rdma_event_channel* channel);
// Creates a QP and, where the program names none, its CQs.
int create_qp(Id& id, ibv_pd* pd, ibv_qp_init_attr& wanted);
int create_qp(Id& id, ibv_qp_init_attr_ex& wanted);
void destroy_qp(Id& id);
void destroy_srq(Id& id);
int qp_to_ready_to_receive(Id& id);
int qp_to_ready_to_send(Id& id);
void qp_to_error(Id& id);
int send_ready(Id& id);

// Calls `call` with the id under the mutex. Errnos: EINVAL if there is no such id, EPERM in a forked child.
template <typename Call>
int with(rdma_cm_id* api, Call&& call) {
  Service& service = Service::get();
  const std::lock_guard guard(service.mutex);
  if (service.lost()) return EPERM;
  if (api == nullptr || !ids().contains(&Id::of(api))) return EINVAL;
  return call(Id::of(api));
}

}  // namespace openmrc::rdmacm
