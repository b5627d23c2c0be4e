// Refused calls: multicast and enhanced connections, which need hardware of their own, and sockets over
// RDMA (rsockets). Programs link against all of it.
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/select.h>
#include <sys/uio.h>

#include "rdmacm/api.hpp"
#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {

CM_API int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*) { return result_of(EOPNOTSUPP); }
CM_API int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*) { return result_of(EOPNOTSUPP); }
CM_API int rdma_leave_multicast(rdma_cm_id*, sockaddr*) { return result_of(EADDRNOTAVAIL); }

CM_API int rdma_set_local_ece(rdma_cm_id*, ibv_ece*) { return result_of(EOPNOTSUPP); }
CM_API int rdma_get_remote_ece(rdma_cm_id*, ibv_ece*) { return result_of(EOPNOTSUPP); }

CM_API int rsocket(int, int, int) { return result_of(ENOSYS); }
CM_API int rbind(int, const sockaddr*, socklen_t) { return result_of(ENOSYS); }
CM_API int rlisten(int, int) { return result_of(ENOSYS); }
CM_API int raccept(int, sockaddr*, socklen_t*) { return result_of(ENOSYS); }
CM_API int rconnect(int, const sockaddr*, socklen_t) { return result_of(ENOSYS); }
CM_API int rshutdown(int, int) { return result_of(ENOSYS); }
CM_API int rclose(int) { return result_of(ENOSYS); }
CM_API ssize_t rrecv(int, void*, size_t, int) { return result_of(ENOSYS); }
CM_API ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) { return result_of(ENOSYS); }
CM_API ssize_t rrecvmsg(int, msghdr*, int) { return result_of(ENOSYS); }
CM_API ssize_t rsend(int, const void*, size_t, int) { return result_of(ENOSYS); }
CM_API ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) { return result_of(ENOSYS); }
CM_API ssize_t rsendmsg(int, const msghdr*, int) { return result_of(ENOSYS); }
CM_API ssize_t rread(int, void*, size_t) { return result_of(ENOSYS); }
CM_API ssize_t rreadv(int, const iovec*, int) { return result_of(ENOSYS); }
CM_API ssize_t rwrite(int, const void*, size_t) { return result_of(ENOSYS); }
CM_API ssize_t rwritev(int, const iovec*, int) { return result_of(ENOSYS); }
CM_API int rselect(int, fd_set*, fd_set*, fd_set*, timeval*) { return result_of(ENOSYS); }
CM_API int rgetpeername(int, sockaddr*, socklen_t*) { return result_of(ENOSYS); }
CM_API int rgetsockname(int, sockaddr*, socklen_t*) { return result_of(ENOSYS); }
CM_API int rsetsockopt(int, int, int, const void*, socklen_t) { return result_of(ENOSYS); }
CM_API int rgetsockopt(int, int, int, void*, socklen_t*) { return result_of(ENOSYS); }
CM_API int rfcntl(int, int, ...) { return result_of(ENOSYS); }
CM_API off_t riomap(int, void*, size_t, int, int, off_t) { return result_of(ENOSYS); }
CM_API int riounmap(int, void*, size_t) { return result_of(ENOSYS); }
CM_API size_t riowrite(int, const void*, size_t, off_t, int) { return static_cast<size_t>(result_of(ENOSYS)); }

// Without sockets over RDMA all descriptors are ordinary, those of event channels among them.
CM_API int rpoll(pollfd* fds, nfds_t count, int timeout_ms) { return ::poll(fds, count, timeout_ms); }

}  // namespace openmrc::rdmacm

// Version node OPENMRC_1, for tests and debuggers: the counters of this process.
CM_API void openmrc_rdmacm_counters(openmrc::rdmacm::Counters* counters) {
  using openmrc::rdmacm::Service;
  const std::lock_guard guard(Service::get().mutex);
  *counters = Service::get().counters;
}
