// Connections: request, reply, refusal, end.
#include <algorithm>
#include <cstring>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

constexpr std::uint8_t kRetriesMax = 7;

// RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH ask for as many as there are.
int choose_depth(std::uint8_t wanted, std::uint8_t limit, std::uint8_t device_max, std::uint8_t& chosen) {
  if (wanted != RDMA_MAX_RESP_RES && wanted > device_max) return EINVAL;
  chosen = std::min(wanted, limit);
  return 0;
}

// Parameters for the other end. Without those of the program, the limits of its device, or of the request.
int fill_local(Id& id, const rdma_conn_param* given, Parameters& to) {
  if (given == nullptr && id.api.qp == nullptr) return EINVAL;
  const bool accepts = id.link != nullptr;
  const std::uint8_t device_max = id.device->reads_max;
  std::uint8_t responder = accepts ? to.responder_resources : device_max;
  std::uint8_t initiator = accepts ? to.initiator_depth : device_max;
  if (given != nullptr) {
    if (const int error = choose_depth(given->responder_resources, responder, device_max, responder)) return error;
    if (const int error = choose_depth(given->initiator_depth, initiator, device_max, initiator)) return error;
    to.flow_control = given->flow_control != 0;
    if (!accepts) to.retry_count = std::min(given->retry_count, kRetriesMax);
    to.rnr_retry_count = std::min(given->rnr_retry_count, kRetriesMax);
    to.srq = given->srq != 0;
    to.qp_number = given->qp_num;
  } else if (!accepts) {
    to.retry_count = to.rnr_retry_count = kRetriesMax;
  }
  to.responder_resources = responder;
  to.initiator_depth = initiator;
  if (id.api.qp != nullptr) {
    to.srq = id.api.srq != nullptr || id.api.qp->srq != nullptr;
    to.qp_number = id.api.qp->qp_num;
  }
  if (to.qp_number == 0 || to.qp_number >= kNumbers) return EINVAL;
  std::memcpy(to.gid.data(), id.device->gid.raw, to.gid.size());
  to.planes = id.device->planes;
  to.kind = id.device->kind;
  to.published = id.device->published;
  return 0;
}

int copy_data(const void* data, std::size_t bytes, std::size_t bytes_max, std::vector<std::uint8_t>& to) {
  if (bytes == 0) return 0;
  if (data == nullptr || bytes > bytes_max) return EINVAL;
  const auto* begin = static_cast<const std::uint8_t*>(data);
  to.insert(to.end(), begin, begin + bytes);
  return 0;
}

int connect(Id& id, const rdma_conn_param* given) {
  if (id.state != IdState::kRouteResolved) return EINVAL;
  Message request{.type = MessageType::kRequest};
  request.data = id.connect_data;
  if (given != nullptr) {
    const std::size_t room = kRequestDataMax - request.data.size();
    if (const int error = copy_data(given->private_data, given->private_data_len, room, request.data)) return error;
  }
  if (const int error = fill_local(id, given, id.local)) return error;
  request.parameters = id.local;
  const int on = 1;  // an own port can be bound again while the connection expires
  ::setsockopt(id.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  id.link = std::make_shared<Link>(std::move(id.socket), LinkState::kConnecting, &id, nullptr);
  id.state = IdState::kConnecting;
  id.link->connect(id.destination(), std::move(request));
  return 0;
}

int check_asked(Id& id) {
  if (id.link == nullptr) return EINVAL;
  if (id.link->state() == LinkState::kClosed || id.link->state() == LinkState::kDraining) return ECONNRESET;
  return id.link->state() == LinkState::kAsked ? 0 : EINVAL;
}

int reply(Id& id, const rdma_conn_param* given) {
  if (const int error = check_asked(id)) return error;
  Message message{.type = MessageType::kReply};
  if (given != nullptr) {
    if (const int error = copy_data(given->private_data, given->private_data_len, kReplyDataMax, message.data)) {
      return error;
    }
  }
  message.parameters = id.local;
  id.link->reply(message);
  return 0;
}

int accept(rdma_cm_id* api, const rdma_conn_param* given) {
  const int refused = with(api, [&](Id& id) {
    if (const int error = check_asked(id)) return error;
    if (given != nullptr && given->private_data_len > kReplyDataMax) return EINVAL;
    return fill_local(id, given, id.local);
  });
  if (refused != 0) return refused;
  Id& id = Id::of(api);
  if (api->qp != nullptr) {
    if (const int error = qp_to_ready_to_receive(id)) return error;
    if (const int error = qp_to_ready_to_send(id)) return error;
  }
  const int failed = with(api, [&](Id& live) { return reply(live, given); });
  if (failed != 0) {
    qp_to_error(id);
    return failed;
  }
  return await(id);
}

int reject(Id& id, const void* data, std::uint8_t bytes) {
  if (id.link == nullptr) return EINVAL;
  std::vector<std::uint8_t> copied;
  if (const int error = copy_data(data, bytes, kRejectDataMax, copied)) return error;
  if (id.link->state() != LinkState::kAsked && id.link->state() != LinkState::kAnswered) return check_asked(id);
  id.link->reject(Reject::kConsumer, copied);
  return 0;
}

int disconnect(rdma_cm_id* api) {
  const int refused = with(api, [](Id& id) { return id.link == nullptr ? EINVAL : 0; });
  if (refused != 0) return refused;
  qp_to_error(Id::of(api));
  bool waits = false;
  const int error = with(api, [&](Id& id) {
    id.link->disconnect();
    // Not if the program has had the event of the peer's call.
    waits = id.synchronous && (id.link->state() == LinkState::kDisconnecting || !id.channel->events.empty());
    return 0;
  });
  return error == 0 && waits ? await(Id::of(api)) : error;
}

}  // namespace

int send_ready(Id& id) {
  return with(&id.api, [](Id& live) {
    if (live.link == nullptr) return EINVAL;
    if (live.link->state() != LinkState::kAnswered) return ECONNRESET;
    live.link->confirm();
    return 0;
  });
}

CM_API int rdma_connect(rdma_cm_id* api, rdma_conn_param* parameters) {
  return guarded([&] {
    const int error = with(api, [&](Id& id) { return connect(id, parameters); });
    return error == 0 ? await(Id::of(api)) : error;
  });
}

CM_API int rdma_accept(rdma_cm_id* api, rdma_conn_param* parameters) {
  return guarded([&] { return accept(api, parameters); });
}

CM_API int rdma_establish(rdma_cm_id* api) {
  return guarded([&] {
    const int error = with(api, [](Id& id) { return id.api.qp != nullptr ? EINVAL : 0; });
    return error == 0 ? send_ready(Id::of(api)) : error;
  });
}

CM_API int rdma_reject(rdma_cm_id* api, const void* data, std::uint8_t bytes) {
  return guarded([&] { return with(api, [&](Id& id) { return reject(id, data, bytes); }); });
}

CM_API int rdma_reject_ece(rdma_cm_id* api, const void* data, std::uint8_t bytes) {
  return rdma_reject(api, data, bytes);
}

CM_API int rdma_notify(rdma_cm_id* api, ibv_event_type event) {
  return guarded([&] {
    return with(api, [&](Id& id) {
      if (event != IBV_EVENT_COMM_EST || id.link == nullptr) return EINVAL;
      if (id.link->state() == LinkState::kReplied) id.link->force_connected();
      return id.link->state() == LinkState::kConnected ? 0 : EINVAL;
    });
  });
}

CM_API int rdma_disconnect(rdma_cm_id* api) {
  return guarded([&] { return disconnect(api); });
}

}  // namespace openmrc::rdmacm
