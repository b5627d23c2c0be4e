// Asynchronous events: those of verbs, about the objects of this API.
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

bool is_about_cq(ibv_event_type type) { return type == IBV_EVENT_CQ_ERR; }

bool is_about_qp(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

// False: about an object that this API has not made.
bool translate(const ibv_async_event& from, mrc_async_event& to) {
  to = {};
  to.event_type = from.event_type;
  if (is_about_cq(from.event_type)) {
    to.element.cq = static_cast<mrc_cq*>(from.element.cq->cq_context);
    return is_live(to.element.cq) && to.element.cq->verbs == from.element.cq;
  }
  if (is_about_qp(from.event_type)) {
    to.element.qp = static_cast<mrc_qp*>(from.element.qp->qp_context);
    return is_live(to.element.qp) && to.element.qp->verbs == from.element.qp;
  }
  to.element.port_num = from.element.port_num;
  return true;
}

int get_event(mrc_context* context, mrc_async_event* event) {
  if (!is_live(context) || event == nullptr) return EINVAL;
  while (true) {
    ibv_async_event from{};
    errno = 0;
    if (::ibv_get_async_event(context->verbs, &from) != 0) return errno_or(EIO);
    if (translate(from, *event)) return 0;
    ::ibv_ack_async_event(&from);
  }
}

}  // namespace

MRC_API int mrc_get_async_event(mrc_context* context, mrc_async_event* event) {
  return zero_or_minus_one([&] { return get_event(context, event); });
}

MRC_API void mrc_ack_async_event(mrc_async_event* event) {
  if (event == nullptr) return;
  ibv_async_event to{};
  to.event_type = event->event_type;
  if (is_about_cq(event->event_type)) {
    if (!is_live(event->element.cq)) return;
    to.element.cq = event->element.cq->verbs;
  } else if (is_about_qp(event->event_type)) {
    if (!is_live(event->element.qp)) return;
    to.element.qp = event->element.qp->verbs;
  } else {
    to.element.port_num = event->element.port_num;
  }
  ::ibv_ack_async_event(&to);
}

}  // namespace openmrc::mrc_api
