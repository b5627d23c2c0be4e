// Completion channels and completion queues.
#include "mrc_api/controller.hpp"
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

int create_channel(mrc_context* context, mrc_comp_channel** out) {
  if (!is_live(context) || out == nullptr) return EINVAL;
  auto channel = std::make_unique<mrc_comp_channel>();
  errno = 0;
  channel->verbs = ::ibv_create_comp_channel(context->verbs);
  if (channel->verbs == nullptr) return errno_or(ENOMEM);
  channel->context = context;
  ++context->children;
  add_live(channel.get());
  *out = channel.release();
  return 0;
}

int destroy_channel(mrc_comp_channel* channel) {
  if (!is_live(channel)) return EINVAL;
  if (const int error = ::ibv_destroy_comp_channel(channel->verbs)) return error < 0 ? errno_or(EBUSY) : error;
  remove_live(channel);
  --channel->context->children;
  delete channel;
  return 0;
}

int create_cq(mrc_context* context, int entries, void* user, mrc_comp_channel* channel, int vector, bool of_events,
              mrc_cq*& out) {
  if (!is_live(context)) return EINVAL;
  if (channel != nullptr && (!is_live(channel) || channel->context != context)) return EINVAL;
  auto cq = std::make_unique<mrc_cq>();
  errno = 0;
  cq->verbs = ::ibv_create_cq(context->verbs, entries, cq.get(), channel == nullptr ? nullptr : channel->verbs, vector);
  if (cq->verbs == nullptr) return errno_or(ENOMEM);
  cq->context = context;
  cq->user = user;
  cq->of_events = of_events;
  cq->events_max = static_cast<std::size_t>(entries);
  if (of_events) {
    if (const int error = context->controller->add(*cq)) {
      ::ibv_destroy_cq(cq->verbs);
      return error;
    }
  }
  ++context->children;
  add_live(cq.get());
  out = cq.release();
  return 0;
}

int destroy_cq(mrc_cq* cq) {
  if (!is_live(cq)) return EINVAL;
  if (cq->users != 0) return EBUSY;
  if (cq->of_events) cq->context->controller->remove(*cq);
  if (const int error = ::ibv_destroy_cq(cq->verbs)) return error;
  remove_live(cq);
  --cq->context->children;
  delete cq;
  return 0;
}

int get_cq_event(mrc_comp_channel* channel, mrc_cq** cq, void** user) {
  if (!is_live(channel) || cq == nullptr || user == nullptr) return EINVAL;
  ibv_cq* verbs = nullptr;
  void* own = nullptr;
  errno = 0;
  if (::ibv_get_cq_event(channel->verbs, &verbs, &own) != 0) return errno_or(EIO);
  *cq = static_cast<mrc_cq*>(own);
  *user = (*cq)->user;
  return 0;
}

}  // namespace

MRC_API int mrc_create_comp_channel(mrc_context* context, mrc_comp_channel** channel) {
  return guarded([&] { return create_channel(context, channel); });
}

MRC_API int mrc_get_comp_channel_fd(mrc_comp_channel* channel, int* fd) {
  return zero_or_minus_one([&] {
    if (!is_live(channel) || fd == nullptr) return EINVAL;
    *fd = channel->verbs->fd;
    return 0;
  });
}

MRC_API int mrc_destroy_comp_channel(mrc_comp_channel* channel) {
  return guarded([&] { return destroy_channel(channel); });
}

MRC_API mrc_cq* mrc_create_cq(mrc_context* context, int entries, void* user, mrc_comp_channel* channel, int vector) {
  return made<mrc_cq>([&](mrc_cq*& out) { return create_cq(context, entries, user, channel, vector, false, out); });
}

MRC_API mrc_cq* mrc_ctl_create_ev_event_cq(mrc_context* context, int entries, void* user, mrc_comp_channel* channel,
                                           int vector) {
  return made<mrc_cq>([&](mrc_cq*& out) { return create_cq(context, entries, user, channel, vector, true, out); });
}

// On the path of data: the pointer is not looked up.
MRC_API int mrc_poll_cq(mrc_cq* cq, int count_max, ibv_wc* completions) {
  if (cq == nullptr || cq->of_events) {
    errno = EINVAL;
    return -1;
  }
  const int count = ::ibv_poll_cq(cq->verbs, count_max, completions);
  if (count >= 0) return count;
  errno = -count;
  return -1;
}

MRC_API int mrc_destroy_cq(mrc_cq* cq) {
  return guarded([&] { return destroy_cq(cq); });
}

MRC_API int mrc_req_notify_cq(mrc_cq* cq, int solicited_only) {
  return guarded([&] { return is_live(cq) ? ::ibv_req_notify_cq(cq->verbs, solicited_only) : EINVAL; });
}

MRC_API int mrc_get_cq_event(mrc_comp_channel* channel, mrc_cq** cq, void** user) {
  return zero_or_minus_one([&] { return get_cq_event(channel, cq, user); });
}

MRC_API void mrc_ack_cq_events(mrc_cq* cq, unsigned int count) {
  if (is_live(cq)) ::ibv_ack_cq_events(cq->verbs, count);
}

}  // namespace openmrc::mrc_api
