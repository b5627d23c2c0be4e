// System calls as in the C library, except that they are no points of cancellation: a thread that is cancelled in the
// middle of a call would unwind functions that throw nothing. The library's functions would also take two atomic
// operations to prepare for that in every program with threads.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace openmrc::nic::uncancelled {

inline ssize_t send_to(int fd, const void* data, std::size_t bytes, int flags, const sockaddr* to, socklen_t length) {
  return ::syscall(SYS_sendto, fd, data, bytes, flags, to, length);
}

inline ssize_t send_message(int fd, const msghdr* message, int flags) {
  return ::syscall(SYS_sendmsg, fd, message, flags);
}

inline int send_messages(int fd, mmsghdr* messages, unsigned count, int flags) {
  return static_cast<int>(::syscall(SYS_sendmmsg, fd, messages, count, flags));
}

inline ssize_t receive_message(int fd, msghdr* message, int flags) {
  return ::syscall(SYS_recvmsg, fd, message, flags);
}

inline int receive_messages(int fd, mmsghdr* messages, unsigned count, int flags) {
  return static_cast<int>(::syscall(SYS_recvmmsg, fd, messages, count, flags, nullptr));
}

inline int connect(int fd, const sockaddr* to, socklen_t length) {
  return static_cast<int>(::syscall(SYS_connect, fd, to, length));
}

inline void close(int fd) { ::syscall(SYS_close, fd); }

// Of an eventfd or a timerfd.
inline ssize_t read(int fd, std::uint64_t& value) { return ::syscall(SYS_read, fd, &value, sizeof value); }

inline ssize_t write(int fd, std::uint64_t value) { return ::syscall(SYS_write, fd, &value, sizeof value); }

}  // namespace openmrc::nic::uncancelled
