// Protection domains and memory regions. Registration pins nothing and takes the same time for any size.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kNeedsLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// The kernel copies the byte, so that a foreign pointer is an error and not a signal.
bool readable(const std::uint8_t* at) {
  std::uint8_t byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{const_cast<std::uint8_t*>(at), 1};
  const ssize_t got = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  return got == 1 || (got < 0 && errno != EFAULT);  // a sandbox may forbid the call
}

// The kernel adds 0 to the aligned word around the byte, atomically, so that a read-only page is an error and not a signal
// when a message arrives, and no store of the program is lost.
bool writable(std::uint8_t* at) {
  constexpr int kAddNothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  auto* const word = reinterpret_cast<std::uint32_t*>(reinterpret_cast<std::uintptr_t>(at) & ~std::uintptr_t{3});
  std::uint32_t none = 0;
  return ::syscall(SYS_futex, &none, FUTEX_WAKE_OP_PRIVATE, 0, 0, word, kAddNothing) >= 0 || errno != EFAULT;
}

std::uint8_t rights_of(unsigned access) {
  unsigned rights = kLocalRead;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) rights |= kLocalWrite;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights |= kRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights |= kRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights |= kRemoteAtomic;
  return static_cast<std::uint8_t>(rights);
}

int register_region(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access, Mr*& out) {
  if (!is_live(pd) || length == 0) return EINVAL;
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  if ((access & ~(kKnownAccess | IBV_ACCESS_ZERO_BASED)) != 0) return EOPNOTSUPP;
  if ((access & kNeedsLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  auto* const begin = static_cast<std::uint8_t*>(address);
  if (begin + length < begin || iova + length < iova) return EINVAL;
  std::uint8_t* const last = begin + (length - 1);
  if (!readable(begin) || !readable(last)) return EFAULT;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0 && !(writable(begin) && writable(last))) return EFAULT;
  auto mr = std::make_unique<Mr>();
  const std::uint8_t rights = rights_of(access);
  nic::Device& device = Context::of(pd->context).nic->device();
  const Status status = device.register_memory(begin, length, rights, mr->api.lkey, Pd::of(pd).domain, iova);
  if (status != Status::kOk) return errno_of(status);
  mr->api.context = pd->context;
  mr->api.pd = pd;
  mr->api.addr = address;
  mr->api.length = length;
  mr->api.handle = mr->api.rkey = mr->api.lkey;
  ++Pd::of(pd).children;
  out = mr.release();
  add_live(out);
  return 0;
}

ibv_mr* region(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
  Mr* mr = made<Mr>([&](Mr*& out) { return register_region(pd, address, length, iova, access, out); });
  return mr == nullptr ? nullptr : &mr->api;
}

}  // namespace

VERBS_API ibv_pd* ibv_alloc_pd(ibv_context* context) {
  Pd* pd = made<Pd>([&](Pd*& out) {
    if (context == nullptr || !is_live(&Context::of(context))) return EINVAL;
    out = new Pd{};
    out->api.context = context;
    out->domain = Context::of(context).nic->next_domain();
    out->api.handle = out->domain;
    ++Context::of(context).children;
    add_live(out);
    return 0;
  });
  return pd == nullptr ? nullptr : &pd->api;
}

VERBS_API int ibv_dealloc_pd(ibv_pd* api) {
  if (!is_live(api)) return EINVAL;
  Pd& pd = Pd::of(api);
  if (pd.children != 0) return EBUSY;
  if (!remove_live(api)) return EINVAL;
  --Context::of(api->context).children;
  delete &pd;
  return 0;
}

VERBS_API ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return region(pd, address, length, reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned>(access));
}

VERBS_API ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access) {
  return region(pd, address, length, iova, static_cast<unsigned>(access));
}

VERBS_API ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                   unsigned int access) {
  return region(pd, address, length, iova, access);
}

VERBS_API ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

VERBS_API int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}

VERBS_API int ibv_dereg_mr(ibv_mr* api) {
  if (!is_live(api)) return EINVAL;
  return guarded([&] {
    const Status status = Context::of(api->context).nic->device().deregister_memory(api->lkey);
    if (status != Status::kOk && status != Status::kNotFound) return errno_of(status);
    if (!remove_live(api)) return EINVAL;
    --Pd::of(api->pd).children;
    delete &Mr::of(api);
    return 0;
  });
}

}  // namespace openmrc::verbs
