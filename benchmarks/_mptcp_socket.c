/* Preloaded into a program: its TCP sockets are MPTCP sockets. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int domain, int type, int protocol) {
  const int is_stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
  if ((domain == AF_INET || domain == AF_INET6) && is_stream && (protocol == 0 || protocol == IPPROTO_TCP)) {
    protocol = IPPROTO_MPTCP;
  }
  return (int)syscall(SYS_socket, domain, type, protocol);
}

/* Gloo sets SO_REUSEADDR on accepted connections, where TCP ignores it and MPTCP refuses it. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes) {
  const int saved = errno;
  const long result = syscall(SYS_setsockopt, fd, level, option, value, bytes);
  if (result < 0 && errno == EINVAL && level == SOL_SOCKET && option == SO_REUSEADDR) {
    errno = saved;
    return 0;
  }
  return (int)result;
}
