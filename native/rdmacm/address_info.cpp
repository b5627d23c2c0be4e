// rdma_getaddrinfo: names and services to addresses.
#include <netdb.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "rdmacm/api.hpp"

namespace openmrc::rdmacm {
namespace {

template <typename Value>
Value* copy_of(const Value* from, std::size_t bytes) {
  void* copy = std::malloc(bytes);
  if (copy == nullptr) throw std::bad_alloc();
  return static_cast<Value*>(std::memcpy(copy, from, bytes));
}

char* copy_of(const char* text) { return text == nullptr ? nullptr : copy_of(text, std::strlen(text) + 1); }

void copy_address(const sockaddr* from, socklen_t bytes, sockaddr*& to, socklen_t& to_bytes) {
  if (from == nullptr || bytes == 0) return;
  to = copy_of(from, bytes);
  to_bytes = bytes;
}

int type_of(int space) { return space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC; }

void fill(const addrinfo& from, const rdma_addrinfo& hints, rdma_addrinfo& to) {
  to.ai_flags = hints.ai_flags;
  to.ai_family = from.ai_family;
  const bool datagrams = hints.ai_qp_type == IBV_QPT_UD;
  to.ai_port_space = hints.ai_port_space != 0 ? hints.ai_port_space : datagrams ? RDMA_PS_UDP : RDMA_PS_TCP;
  to.ai_qp_type = hints.ai_qp_type != 0 ? hints.ai_qp_type : type_of(to.ai_port_space);
  if ((hints.ai_flags & RAI_PASSIVE) != 0) {
    to.ai_src_addr = copy_of(from.ai_addr, from.ai_addrlen);
    to.ai_src_len = from.ai_addrlen;
    to.ai_src_canonname = copy_of(from.ai_canonname);
    return;
  }
  to.ai_dst_addr = copy_of(from.ai_addr, from.ai_addrlen);
  to.ai_dst_len = from.ai_addrlen;
  to.ai_dst_canonname = copy_of(from.ai_canonname);
  copy_address(hints.ai_src_addr, hints.ai_src_len, to.ai_src_addr, to.ai_src_len);
}

using List = std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)>;

List convert(const addrinfo* from, const rdma_addrinfo& hints) {
  List list(nullptr, &rdma_freeaddrinfo);
  rdma_addrinfo* last = nullptr;
  for (; from != nullptr; from = from->ai_next) {
    if (from->ai_family != AF_INET && from->ai_family != AF_INET6) continue;
    auto* one = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
    if (one == nullptr) throw std::bad_alloc();
    if (last == nullptr) {
      list.reset(one);
    } else {
      last->ai_next = one;
    }
    last = one;
    fill(*from, hints, *one);
  }
  return list;
}

// Without node and service the result has the addresses of the hints.
List from_hints(const rdma_addrinfo& hints) {
  List list(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))), &rdma_freeaddrinfo);
  if (list == nullptr) throw std::bad_alloc();
  list->ai_flags = hints.ai_flags;
  list->ai_family = hints.ai_family;
  list->ai_qp_type = hints.ai_qp_type;
  list->ai_port_space = hints.ai_port_space;
  copy_address(hints.ai_dst_addr, hints.ai_dst_len, list->ai_dst_addr, list->ai_dst_len);
  copy_address(hints.ai_src_addr, hints.ai_src_len, list->ai_src_addr, list->ai_src_len);
  return list;
}

// The result of getaddrinfo(), or -1 with errno.
int find(const char* node, const char* service, const rdma_addrinfo& hints, rdma_addrinfo** out) {
  if (node == nullptr && service == nullptr) {
    *out = from_hints(hints).release();
    return 0;
  }
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  if ((hints.ai_flags & RAI_PASSIVE) != 0) wanted.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if (hints.ai_family != AF_IB) wanted.ai_family = hints.ai_family;  // with or without RAI_FAMILY, as in rdma-core
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(node, service, &wanted, &found)) return failed;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  *out = convert(found, hints).release();
  return *out == nullptr ? EAI_NONAME : 0;
}

}  // namespace

CM_API int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** out) {
  if (out == nullptr || (node == nullptr && service == nullptr && hints == nullptr)) return result_of(EINVAL);
  int found = 0;
  const int failed = guarded([&] {
    found = find(node, service, hints == nullptr ? rdma_addrinfo{} : *hints, out);
    return 0;
  });
  return failed == 0 ? found : failed;
}

CM_API void rdma_freeaddrinfo(rdma_addrinfo* list) {
  while (list != nullptr) {
    rdma_addrinfo* const next = list->ai_next;
    for (void* part : {static_cast<void*>(list->ai_src_addr), static_cast<void*>(list->ai_dst_addr),
                       static_cast<void*>(list->ai_src_canonname), static_cast<void*>(list->ai_dst_canonname),
                       list->ai_route, list->ai_connect}) {
      std::free(part);
    }
    std::free(list);
    list = next;
  }
}

}  // namespace openmrc::rdmacm
