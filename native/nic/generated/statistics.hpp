// Written by tools/spec.py from spec/nic-statistics.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>

namespace openmrc::nic {

// Sockets of one port.
struct SocketStats {
  // sendto, sendmsg and sendmmsg.
  std::uint64_t send_calls = 0;
  // Datagrams sent.
  std::uint64_t sent_datagrams = 0;
  // Bytes of these from the UDP payload on.
  std::uint64_t sent_bytes = 0;
  // Sends that the kernel cut into datagrams.
  std::uint64_t segmented_sends = 0;
  // recvmmsg and recvmsg, those that found nothing included.
  std::uint64_t receive_calls = 0;
  // Datagrams received.
  std::uint64_t received_datagrams = 0;
  // Bytes of these from the UDP payload on.
  std::uint64_t received_bytes = 0;
  // Receives of several datagrams at once.
  std::uint64_t coalesced_receives = 0;
  // Sends that the kernel did not take yet (EAGAIN, ENOBUFS): the burst is kept and the port rests.
  std::uint64_t would_block = 0;
  // Any other refusal: the datagrams are dropped, as a broken link would.
  std::uint64_t send_errors = 0;
  // Not sent because of `send_errors`, a deregistered region, or no path.
  std::uint64_t dropped_datagrams = 0;
  // Of these: larger than the path MTU.
  std::uint64_t too_long = 0;
  // Of these: EV format SRV6, to a peer that no path rule knows.
  std::uint64_t no_path = 0;
  // Pending ICMP errors and the like.
  std::uint64_t receive_errors = 0;
  // Longer than any packet of this protocol.
  std::uint64_t truncated = 0;
  // Dropped because the receive buffer was full.
  std::uint64_t kernel_drops = 0;
  // Endpoint operations (EV probes, port status) beyond the share that a port reads.
  std::uint64_t endpoint_drops = 0;
  // Receive buffers that the kernel granted.
  std::uint32_t receive_buffer_bytes = 0;
  // Send buffers that the kernel granted.
  std::uint32_t send_buffer_bytes = 0;
  // Latest error of a send.
  std::int32_t last_send_error = 0;
  // errno, if the kernel has refused packets of this port and taken or given none since; else 0.
  std::int32_t refusal = 0;
  // UDP_SEGMENT is in use.
  bool segmentation_offload = false;
  // UDP_GRO is in use.
  bool receive_offload = false;
};

// Waiting and waking: system calls of a device that its sockets do not make.
struct WaitStats {
  // epoll_pwait2, epoll_wait, ppoll and poll, those that return at once included.
  std::uint64_t wait_calls = 0;
  // Waits that had leave to sleep and ended before their time was over.
  std::uint64_t wakeups = 0;
  // To wake I/O threads, or threads that wait for completions or events.
  std::uint64_t eventfd_writes = 0;
  // Of the same.
  std::uint64_t eventfd_reads = 0;
  // timerfd_settime and reads, for the timer by which an I/O thread takes over from threads that poll.
  std::uint64_t timer_calls = 0;
  // sched_yield of an I/O thread while another thread wants the device.
  std::uint64_t yields = 0;
};

// A whole device.
struct DeviceStats {
  // Turns of the I/O threads.
  std::uint64_t turns = 0;
  // Turns by polling threads.
  std::uint64_t progress_calls = 0;
  // [Pauses](../decisions/0069-interrupt-moderation.md) of the I/O threads between looks at their sockets.
  std::uint64_t pauses = 0;
  // Expired timers.
  std::uint64_t timer_runs = 0;
  // Events that the application did not fetch in time.
  std::uint64_t events_dropped = 0;
  // Times that the engine's clock was [set back](../decisions/0055-clock-of-a-device.md).
  std::uint64_t clock_rebases = 0;
  // I/O threads at work now.
  std::uint64_t io_threads = 1;
  // The most that were at work at a time.
  std::uint64_t io_threads_peak = 1;
};

}  // namespace openmrc::nic
