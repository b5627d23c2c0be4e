// Functions that refuse, with EOPNOTSUPP, so that programs and test suites fall back or skip.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "verbs/api.hpp"

namespace openmrc::verbs {
namespace {

template <typename Object>
Object* refused() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

// --- datagrams and multicast

VERBS_API ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*) { return refused<ibv_ah>(); }
VERBS_API int ibv_init_ah_from_wc(ibv_context*, std::uint8_t, ibv_wc*, ibv_grh*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;
  return -1;
}
VERBS_API ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t) { return refused<ibv_ah>(); }
VERBS_API int ibv_destroy_ah(ibv_ah*) { return EOPNOTSUPP; }
VERBS_API int ibv_attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) { return EOPNOTSUPP; }
VERBS_API int ibv_detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) { return EOPNOTSUPP; }
VERBS_API int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
  errno = EOPNOTSUPP;
  return -1;
}

// --- objects of other processes, device memory, vendor options

VERBS_API ibv_context* ibv_import_device(int) { return refused<ibv_context>(); }
VERBS_API ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) { return refused<ibv_pd>(); }
VERBS_API void ibv_unimport_pd(ibv_pd*) {}
VERBS_API ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) { return refused<ibv_mr>(); }
VERBS_API void ibv_unimport_mr(ibv_mr*) {}
VERBS_API ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) { return refused<ibv_dm>(); }
VERBS_API void ibv_unimport_dm(ibv_dm*) {}
VERBS_API int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
VERBS_API int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }

// --- parts of a driver: there is no kernel device behind this one

VERBS_API const char* ibv_get_sysfs_path() { return "/sys"; }
VERBS_API int ibv_read_sysfs_file(const char*, const char*, char* text, std::size_t size) {
  if (text != nullptr && size > 0) *text = '\0';
  return -1;
}
VERBS_API void ibv_register_driver(const char*, void*) {}

// The distribution's librdmacm imports these, and calls them for kernel devices only.
VERBS_API void ibv_copy_ah_attr_from_kern(ibv_ah_attr*, const void*) {}
VERBS_API void ibv_copy_path_rec_from_kern(void*, const void*) {}
VERBS_API void ibv_copy_path_rec_to_kern(void*, const void*) {}
VERBS_API void ibv_copy_qp_attr_from_kern(ibv_qp_attr*, const void*) {}

// --- fork: a device belongs to the process that opened it, and memory is not pinned

VERBS_API int ibv_fork_init() { return 0; }
VERBS_API ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
VERBS_API int ibv_dontfork_range(void*, std::size_t) { return 0; }
VERBS_API int ibv_dofork_range(void*, std::size_t) { return 0; }

}  // namespace openmrc::verbs
