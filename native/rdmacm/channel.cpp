// Event channels and their events.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

// Never destroyed: programs call during their exit.
std::unordered_set<const void*>& live() {
  static std::unordered_set<const void*>& objects = *new std::unordered_set<const void*>;
  return objects;
}

std::condition_variable& acknowledged() {
  static std::condition_variable& condition = *new std::condition_variable;
  return condition;
}

void signal(Channel& channel) {
  const char byte = 0;
  if (channel.events.size() == 1) (void)::send(channel.ends->writer.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void unsignal(Channel& channel) {
  char byte = 0;
  if (channel.events.empty()) (void)::recv(channel.api.fd, &byte, 1, MSG_DONTWAIT);
}

// Removes events of `id` that `matches`, in their order.
template <typename Matches>
std::deque<std::unique_ptr<Event>> remove_events(Channel& channel, Matches&& matches) {
  std::deque<std::unique_ptr<Event>> removed, kept;
  if (channel.events.empty()) return removed;
  for (std::unique_ptr<Event>& event : channel.events) (matches(*event) ? removed : kept).push_back(std::move(event));
  channel.events = std::move(kept);
  unsignal(channel);
  return removed;
}

// A request that no program will fetch.
void abandon_request(Id& listener, Event& event) {
  if (listener.listener != nullptr) --listener.listener->requests;
  event.link->abandon();
}

// Waits until the channel has an event. The byte stays for other waiters, so nothing is lost if they are faster.
int await_byte(const ChannelEnds& ends) {
  char byte = 0;
  const ssize_t got = ::recv(ends.reader.get(), &byte, 1, MSG_PEEK);
  if (got < 0) return errno;
  return got == 0 ? EINVAL : 0;
}

// The channel that this thread has fetched an event from last, and would have waited on; null once this thread has
// destroyed it.
thread_local const Channel* fetched_from = nullptr;

// Threads that wait on a channel that another one destroys wait on, as with a kernel's channel. So does a thread that
// comes back for the next event just then: rping destroys its channel as soon as the last event is acknowledged, by a
// thread which takes an error for a failure of the program.
int await_nothing() {
  ::poll(nullptr, 0, -1);
  return errno;
}

bool waits(const ChannelEnds& ends) { return (::fcntl(ends.reader.get(), F_GETFL) & O_NONBLOCK) == 0; }

// The id of a request is made when the program fetches its event. An errno: the request is refused.
int make_request_id(Event& event) {
  Id& listener = *event.counted;
  rdma_event_channel* channel = listener.synchronous ? nullptr : listener.api.channel;
  Id* id = nullptr;
  if (const int error = create_id(channel, listener.api.context, listener.api.ps, id)) return error;
  Service& service = Service::get();
  const std::lock_guard guard(service.mutex);
  SocketAddress local, peer;
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  const int fd = event.link->fd();
  if (event.link->state() == LinkState::kAsked && local_address(fd, local) == 0 &&
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0) {
    peer = SocketAddress(reinterpret_cast<const sockaddr*>(&storage));
  }
  const Device* device = local.valid() ? device_at(local) : nullptr;
  if (device == nullptr || !peer.valid()) {
    event.link->abandon();
    free_id(*id);
    return ECONNRESET;
  }
  id->state = IdState::kConnecting;
  id->bind_to(*device);
  id->set_source(local);
  id->set_destination(peer);
  id->link = event.link;
  id->link->set_owner(id);
  id->ack_timeout = listener.ack_timeout;
  const Parameters& remote = event.link->received().parameters;
  id->local.mtu = std::min(remote.mtu, mtu_of(*device));
  id->local.retry_count = remote.retry_count;
  id->local.rnr_retry_count = remote.rnr_retry_count;
  id->local.responder_resources = std::min(remote.initiator_depth, device->reads_max);
  id->local.initiator_depth = std::min(remote.responder_resources, device->reads_max);
  event.api.listen_id = &listener.api;
  event.api.id = &id->api;
  return 0;
}

// The reply to a connection request: with a QP of the id's own, the connection is complete.
void complete_reply(Event& event) {
  Id& id = *event.counted;
  if (id.api.qp == nullptr) return;
  int error = qp_to_ready_to_receive(id);
  if (error == 0) error = qp_to_ready_to_send(id);
  if (error == 0) error = send_ready(id);
  if (error == 0) {
    event.api.event = RDMA_CM_EVENT_ESTABLISHED;
    return;
  }
  qp_to_error(id);
  const std::lock_guard guard(Service::get().mutex);
  // Without a link: another thread destroys the id.
  if (id.link != nullptr && id.link->state() == LinkState::kAnswered) {
    id.link->reject(error == EINVAL ? Reject::kMtu : Reject::kNoResources, {});
  }
  event.api.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.api.status = -error;
}

// `ends` are those that the caller has waited for, or null, and become those of the channel.
int pop(Channel* channel, std::shared_ptr<ChannelEnds>& ends, std::unique_ptr<Event>& event) {
  Service& service = Service::get();
  const std::lock_guard guard(service.mutex);
  if (service.lost()) return EPERM;
  // A later channel may have the address of a destroyed one.
  if (!is_live(channel) || (ends != nullptr && ends != channel->ends)) return EINVAL;
  ends = channel->ends;
  if (channel->events.empty()) return 0;
  event = std::move(channel->events.front());
  channel->events.pop_front();
  unsignal(*channel);
  ++event->counted->reported;
  if (event->link != nullptr) {
    --event->counted->listener->requests;
    event->link->clear_listener();
  }
  return 0;
}

// An errno; `out` stays null while the channel has no event.
int take_waiting(Channel* channel, std::shared_ptr<ChannelEnds>& ends, Event*& out) {
  while (true) {
    std::unique_ptr<Event> event;
    if (const int error = pop(channel, ends, event)) return error;
    if (event == nullptr) return 0;
    if (event->link != nullptr && make_request_id(*event) != 0) {
      const std::lock_guard guard(Service::get().mutex);
      event->link->abandon();
      ++event->counted->acknowledged;
      acknowledged().notify_all();
      continue;  // the client has given up, or this process has no room for another id
    }
    if (event->api.event == RDMA_CM_EVENT_CONNECT_RESPONSE) complete_reply(*event);
    if (event->api.event == RDMA_CM_EVENT_REJECTED) qp_to_error(*event->counted);
    const std::lock_guard guard(Service::get().mutex);
    event->link.reset();
    live().insert(event.get());
    out = event.release();
    return 0;
  }
}

}  // namespace

bool is_live(const Channel* channel) { return channel != nullptr && live().contains(channel); }
bool is_live(const Event* event) { return event != nullptr && live().contains(event); }

int create_channel(Channel*& channel) {
  auto made = std::make_unique<Channel>();
  made->ends = std::make_shared<ChannelEnds>();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  made->ends->reader = nic::FileDescriptor(ends[0]);
  made->ends->writer = nic::FileDescriptor(ends[1]);
  made->api.fd = ends[0];
  live().insert(made.get());
  channel = made.release();
  return 0;
}

void destroy_channel(Channel* channel) {
  live().erase(channel);
  for (Id* id : ids()) {
    if (id->channel == channel) id->channel = nullptr;
  }
  for (const std::unique_ptr<Event>& event : channel->events) {
    if (event->link != nullptr) abandon_request(*event->counted, *event);
  }
  delete channel;
}

std::unique_ptr<Event> make_event(rdma_cm_event_type type, const Message& message) {
  auto event = std::make_unique<Event>();
  event->api.event = type;
  event->data = message.data;
  rdma_conn_param& to = event->api.param.conn;
  const Parameters& from = message.parameters;
  to.private_data = event->data.empty() ? nullptr : event->data.data();
  to.private_data_len = static_cast<std::uint8_t>(event->data.size());
  // As this end sees them.
  to.responder_resources = from.initiator_depth;
  to.initiator_depth = from.responder_resources;
  to.flow_control = from.flow_control ? 1 : 0;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq ? 1 : 0;
  to.qp_num = from.qp_number;
  return event;
}

void push(Id& id, std::unique_ptr<Event> event) {
  if (id.channel == nullptr) {
    if (event->link != nullptr) abandon_request(id, *event);
    return;
  }
  event->counted = &id;
  event->api.id = &id.api;
  id.channel->events.push_back(std::move(event));
  signal(*id.channel);
}

void push(Id& id, rdma_cm_event_type type, int status) {
  auto event = std::make_unique<Event>();
  event->api.event = type;
  event->api.status = status;
  push(id, std::move(event));
}

std::deque<std::unique_ptr<Event>> withdraw(Id& id, const Link* link) {
  if (id.channel == nullptr) return {};
  auto removed = remove_events(*id.channel, [&](const Event& event) {
    return event.counted == &id && (link == nullptr || event.link.get() == link);
  });
  for (const std::unique_ptr<Event>& event : removed) {
    if (event->link != nullptr && id.listener != nullptr) --id.listener->requests;
  }
  return removed;
}

int take_event(Channel* channel, Event*& out) {
  std::shared_ptr<ChannelEnds> ends;
  out = nullptr;
  while (true) {
    const int error = contained([&] { return take_waiting(channel, ends, out); });
    if (out != nullptr) fetched_from = waits(*ends) ? channel : nullptr;
    if (error != 0 || out != nullptr) return error;
    if (const int interrupted = await_byte(*ends)) return interrupted;
  }
}

int acknowledge(Event* event) {
  const std::lock_guard guard(Service::get().mutex);
  if (!is_live(event)) return EINVAL;
  live().erase(event);
  ++event->counted->acknowledged;
  delete event;
  acknowledged().notify_all();
  return 0;
}

void move_to(Id& id, Event& event) {
  --event.counted->reported;
  ++id.reported;
  event.counted = &id;
  acknowledged().notify_all();
}

void await_acknowledgements(Id& id, std::unique_lock<std::mutex>& lock) {
  acknowledged().wait(lock, [&] { return id.reported == id.acknowledged; });
}

int await(Id& id) {
  if (!id.synchronous) return 0;
  if (id.api.event != nullptr) {
    acknowledge(reinterpret_cast<Event*>(id.api.event));
    id.api.event = nullptr;
  }
  Channel* channel = nullptr;
  const int gone = with(&id.api, [&](Id& live) {
    channel = live.channel;
    return 0;
  });
  if (gone != 0) return gone;
  Event* event = nullptr;
  if (const int error = take_event(channel, event)) return error;
  id.api.event = &event->api;
  const int status = event->api.status;
  if (event->api.event == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
  return status < 0 ? -status : status;
}

CM_API rdma_event_channel* rdma_create_event_channel() {
  Channel* channel = nullptr;
  const int failed = guarded([&] {
    if (devices().empty()) return ENODEV;
    const std::lock_guard guard(Service::get().mutex);
    return Service::get().lost() ? EPERM : create_channel(channel);
  });
  return failed == 0 ? &channel->api : nullptr;
}

CM_API void rdma_destroy_event_channel(rdma_event_channel* api) {
  auto* channel = reinterpret_cast<Channel*>(api);
  if (fetched_from == channel) fetched_from = nullptr;
  const std::lock_guard guard(Service::get().mutex);
  if (is_live(channel)) destroy_channel(channel);
}

CM_API int rdma_get_cm_event(rdma_event_channel* api, rdma_cm_event** event) {
  if (event == nullptr) return result_of(EINVAL);
  auto* channel = reinterpret_cast<Channel*>(api);
  Event* taken = nullptr;
  const int error = take_event(channel, taken);
  if (error == EINVAL && channel != nullptr && channel == fetched_from) return result_of(await_nothing());
  if (error != 0) return result_of(error);
  *event = &taken->api;
  return 0;
}

CM_API int rdma_ack_cm_event(rdma_cm_event* event) {
  return guarded([&] { return acknowledge(reinterpret_cast<Event*>(event)); });
}

CM_API const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr const char* kNames[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",      "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",     "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT",
  };
  const auto index = static_cast<std::size_t>(event);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN EVENT";
}

}  // namespace openmrc::rdmacm
