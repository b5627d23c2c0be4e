"""Stages of the data path, and the stage of a stack of functions. Pure functions.

A sample belongs to the stage of its innermost function that any stage claims: a lock taken by `udp_sendmsg` is part of
sending, although the lock's function could be called from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "KERNEL_STAGE",
    "STAGES",
    "THREAD_STAGES",
    "Frame",
    "Side",
    "Stage",
    "is_idle",
    "is_interrupted",
    "stage_of",
]


class Side(StrEnum):
    """Owner of a stage's code."""

    KERNEL = "kernel"
    OPENMRC = "openmrc"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the data path.

    Args:
        key: Its name in JSON.
        title: Its name for people.
        side: Owner of its code.
        about: Its work, in words.
    """

    key: str
    title: str
    side: Side
    about: str


class Frame(NamedTuple):
    """A function of a stack: its name and the file that holds it, `[kernel.kallsyms]` for the kernel."""

    symbol: str
    file: str

    @property
    def in_kernel(self) -> bool:
        """True for a function of the kernel or of one of its modules."""
        return self.file.startswith("[") and self.file not in {"[vdso]", "[unknown]", "[vsyscall]", "[heap]", "[stack]"}


STAGES = (
    Stage("kernel_copy", "copy", Side.KERNEL, "payload between user memory and packets"),
    Stage("kernel_send", "send path", Side.KERNEL, "from sendmsg to the device: packets made, routed, cut up"),
    Stage("kernel_receive", "receive path", Side.KERNEL, "from the device to the socket, and recvmsg"),
    Stage("kernel_wakeup", "wake-ups, scheduling", Side.KERNEL, "waits, futexes, timers, switches between threads"),
    Stage("kernel_bridge", "bridge, veth, qdisc", Side.KERNEL, "virtual devices and queueing disciplines"),
    Stage("kernel_rest", "other", Side.KERNEL, "system call entry, page faults, everything else"),
    Stage("seal", "CRC", Side.OPENMRC, "ICRC of packets sent and received"),
    Stage("place", "copy in user space", Side.OPENMRC, "payload from the receive buffer to its place; headers"),
    Stage("engine", "engine", Side.OPENMRC, "protocol: windows, SACKs, paths, congestion control"),
    Stage("driver", "driver", Side.OPENMRC, "sockets, I/O thread, locks, clock, the measuring loop"),
    Stage("python", "Python", Side.OPENMRC, "interpreter and bindings"),
    Stage("rest", "other libraries", Side.REST, "other libraries, functions without a name"),
)

# If perf may not sample the kernel.
KERNEL_STAGE = Stage("kernel", "all of it", Side.KERNEL, "not sampled: time that the kernel charges to the threads")

# Without samples: by thread, and True for the I/O thread of a device.
THREAD_STAGES = (
    (Stage("io_thread_kernel", "I/O thread", Side.KERNEL, "sockets, waits and copies of `openmrc-io`"), True),
    (Stage("application_kernel", "other threads", Side.KERNEL, "system calls of threads that post and wait"), False),
    (Stage("io_thread_user", "I/O thread", Side.OPENMRC, "CRC, copy into place, engine, driver"), True),
    (Stage("application_user", "other threads", Side.OPENMRC, "posting, CRC, sealing, Python"), False),
)

# Functions that run on any processor when packets arrive, during any program; and the one that runs them directly for a
# sending program.
_NETWORK_INTERRUPTS = frozenset({"net_rx_action", "net_tx_action"})
_OWN_INTERRUPT = "__local_bh_enable_ip"

# By full match, without the suffixes that compilers add (.isra.0, .constprop.0, .part.0, .cold).
_KERNEL = {
    "kernel_copy": (
        "_?copy_(to|from)_(iter|user).*|__?copy_user.*|copyin|copyout|rep_movs_alternative|raw_copy_.*"
        "|(__)?(csum|skb)_(and_)?copy_(to_iter|from_iter|bits|datagram_iter|and_csum_bits).*|__skb_datagram_iter"
        "|simple_copy_to_iter|ip_generic_getfrag|csum_partial_copy.*|csum_and_copy.*|memcpy(_orig|_erms)?"
        "|__check_object_size|__check_heap_object|__virt_addr_valid|check_heap_object|skb_splice_.*|copy_page_(to|from)_iter.*"
    ),
    "kernel_wakeup": (
        "(__)?schedule(_.*)?|schedule_hrtimeout.*|finish_task_switch|try_to_wake_up|wake_up_.*|__wake_up.*|wake_q_.*"
        "|sock_def_readable|sock_def_write_space|ep_.*|do_epoll_.*|__x64_sys_epoll_.*|do_sys_poll|do_poll|__x64_sys_p?poll"
        "|eventfd_.*|(__|do_)?futex_.*|do_futex|__x64_sys_futex|do_sched_yield|__x64_sys_sched_yield|ttwu_.*|enqueue_task.*"
        "|dequeue_task.*|pick_next_.*|hrtimer_.*|__hrtimer_.*|do_nanosleep|autoremove_wake_function|pollwake|default_wake_function"
        "|flush_smp_call_function_queue|sched_ttwu_pending|reschedule_.*|tick_.*|update_process_times|sock_poll|udp_poll|tcp_poll"
        "|__switch_to(_.*)?|sysvec_reschedule_ipi|run_rebalance_domains|sched_balance_.*|load_balance.*"
    ),
    "kernel_bridge": (
        "veth_.*|br_.*|__br_.*|tun_.*|macvlan_.*|ipvlan_.*|(htb|tbf|netem|fq|fq_codel|pfifo|prio|clsact|ingress|mq|etf)_.*"
        "|__qdisc_run|qdisc_.*|sch_direct_xmit|tcf_.*|tc_run|cls_bpf_.*|net_tx_action|xdp_.*|nf_hook_.*|nf_.*|nft_.*|dev_forward_skb.*"
    ),
    "kernel_receive": (
        "udpv?6?_recvmsg|udp(v6|4)?_queue_rcv.*|__udp_enqueue_.*|udpv?6?_unicast_rcv_.*|__?udp[46]_lib_.*|udp_rcv|udpv6_rcv"
        "|__skb_recv_udp|skb_recv_.*|first_packet_length|udp_skb_destructor|udp_rmem_release|udp_gro_.*|udp[46]_gro_.*"
        "|(ip|ipv6|ip6)_(rcv|local_deliver|protocol_deliver|input).*|inet6?_gro_.*|__netif_receive_skb.*|netif_receive_.*"
        "|napi_.*|__napi_.*|net_rx_action|process_backlog|enqueue_to_backlog|netif_rx.*|__netif_rx|gro_.*|dev_gro_.*"
        "|.*sys_recv(msg|mmsg|from)|do_recvmmsg|sock_recvmsg|sock_read_iter|put_cmsg|move_addr_to_user|ip_cmsg_recv.*|inet6?_recvmsg"
        "|tcp_recvmsg.*|tcp_v[46]_(rcv|do_rcv)|tcp_rcv_.*|tcp_data_.*|tcp_ack.*|tcp_queue_rcv|tcp_try_.*|tcp_eat_.*|tcp_clean_.*"
        "|tcp_cleanup_rbuf|__?tcp_cleanup_.*|mptcp_(recvmsg|incoming|data_ready).*|skb_attempt_defer_free|skb_defer_free_flush"
    ),
    "kernel_send": (
        "udpv?6?_sendmsg|udp(_v6)?_send_skb|udp_(v6_)?push_.*|__?ip6?_append_data|ip6?_make_skb|ip6?_send_skb|ip6?_output"
        "|ip6?_finish_output.*|__ip_.*output|ip_route_.*|ip6_dst_.*|ip6_route_.*|fib_.*|fib6_.*|__dev_queue_xmit|dev_hard_start_xmit"
        "|validate_xmit_.*|loopback_xmit|skb_segment.*|__?udp[46]?_gso_.*|udp[46]_ufo_.*|__?skb_gso_.*|skb_mac_gso_.*|inet6?_gso_.*"
        "|sock_alloc_send_.*|sk_page_frag_refill|skb_page_frag_refill|sock_wfree|.*sys_send(msg|mmsg|to)|sock_sendmsg.*|sock_write_iter"
        "|inet6?_sendmsg|copy_msghdr_from_user|.*import_iovec|iovec_from_user|sock_kmalloc|sock_kfree_s|move_addr_to_kernel"
        "|neigh_.*|xfrm_lookup.*|tcp_sendmsg.*|tcp_write_.*|__tcp_transmit_skb|__tcp_push_.*|tcp_push.*|tcp_stream_alloc_.*|tcp_tsq_.*"
        "|tcp_tasklet_.*|mptcp_(sendmsg|push).*|sk_stream_.*|skb_clone_tx_timestamp|udp_cmsg_send|ip_cmsg_send|ip6_datagram_send_ctl"
    ),
}
_OWN = {
    "seal": r"openmrc::(seal|intact)\(.*"
    r"|openmrc::wire::(\(anonymous namespace\)::)?(icrc|crc32|FlowIcrc|update_|fold|combine|masked).*",
    "python": r"openmrc::bindings::.*|nanobind::.*|nb_.*|PyInit_.*",
    "driver": r"openmrc::nic::.*|openmrc::collectives::.*|std::.*|void std::.*",
    "engine": r"openmrc::.*|(bool|void|unsigned .*|auto) openmrc::.*",
}
_KERNEL_RULES = [(key, re.compile(pattern)) for key, pattern in _KERNEL.items()]
_OWN_RULES = [(key, re.compile(pattern)) for key, pattern in _OWN.items()]
_SUFFIX = re.compile(r"(\.(isra|constprop|part|cold|llvm|lto_priv)(\.\d+)*| \[clone .*\])+$")
_PYTHON_FILE = re.compile(r".*/(lib)?python3[.\d]*(\.so.*)?$")
_LIBC_FILE = re.compile(r".*/(libc|libpthread|libc-[\d.]+|ld-linux.*|ld-musl.*)\.so.*$")
_COPIES = re.compile(r"(__)?(mem(move|cpy|set)).*")
_ALLOCATES = re.compile(r"_?_?(libc_)?(malloc|free|calloc|realloc|int_malloc|int_free|cfree|int_realloc).*")
_IDLE = re.compile(r".*(cpuidle|cpu_idle|do_idle|default_idle|acpi_idle|mwait_idle|safe_halt|poll_idle|intel_idle).*")


def stage_of(frames: Sequence[Frame]) -> str:
    """Key of a stack's stage, with the innermost function first."""
    if not frames:
        return "rest"
    if frames[0].in_kernel:
        return _kernel_stage(frames)
    return _user_stage(frames[0])


def is_idle(frames: Sequence[Frame]) -> bool:
    """True if the processor was idle: in the idle loop, and in no interrupt."""
    inside = [frame.symbol for frame in frames if frame.in_kernel]
    idle = any(_IDLE.fullmatch(symbol) for symbol in inside)
    return idle and not any(symbol in {"handle_softirqs", "__do_softirq", "__schedule"} for symbol in inside)


def is_interrupted(frames: Sequence[Frame]) -> bool:
    """True if packets interrupted the running program: they may then belong to any program."""
    inside = {frame.symbol for frame in frames if frame.in_kernel}
    return bool(inside & _NETWORK_INTERRUPTS) and _OWN_INTERRUPT not in inside


def _kernel_stage(frames: Sequence[Frame]) -> str:
    for frame in frames:
        if not frame.in_kernel:
            break
        symbol = _SUFFIX.sub("", frame.symbol)
        for key, pattern in _KERNEL_RULES:
            if pattern.fullmatch(symbol):
                return key
    return "kernel_rest"


def _user_stage(frame: Frame) -> str:
    symbol = _SUFFIX.sub("", frame.symbol)
    if "/openmrc/_native" in frame.file or "/_native." in frame.file:
        return next((key for key, pattern in _OWN_RULES if pattern.fullmatch(symbol)), "engine")
    if _PYTHON_FILE.fullmatch(frame.file):
        return "python"
    if frame.file == "[vdso]":
        return "driver"
    if _LIBC_FILE.fullmatch(frame.file):
        if _COPIES.fullmatch(symbol):
            return "place"
        return "python" if _ALLOCATES.fullmatch(symbol) else "driver"
    return "rest"
