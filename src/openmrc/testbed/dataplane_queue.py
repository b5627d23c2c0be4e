"""The eBPF program and the real queue of an interface, as rtnetlink messages.

The queue is HTB with two classes at the link's rate, control before data. The program's virtual queue decides about
drops; the real one only makes packets wait, so its limits are far beyond the amount that the program admits.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterable
from typing import Any

from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl import RTM_GETQDISC, RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER
from pyroute2.netlink.rtnl.tcmsg import sched_bpf, tcmsg

from openmrc.linux.netlink import attribute
from openmrc.testbed import namespaces
from openmrc.testbed.dataplane_layout import PortSettings
from openmrc.testbed.netlink_batches import ADD, REPLACE, Message, Netlink

__all__ = [
    "PRIORITY_MAJOR",
    "burst_bytes",
    "limit_bytes",
    "program_messages",
    "queue_drops",
    "queue_messages",
    "rate_messages",
    "software_checksums",
]

PRIORITY_MAJOR = 0x6D72_0000  # handle of the HTB, above the classes
_ROOT_CLASS, _CONTROL_CLASS, _DATA_CLASS = (PRIORITY_MAJOR | minor for minor in (0x1, 0x10, 0x20))
_CONTROL_FIFO, _DATA_FIFO = 0x6D73_0000, 0x6D74_0000
_TC_ROOT, _TC_CLSACT, _TC_EGRESS = 0xFFFF_FFFF, 0xFFFF_FFF1, 0xFFFF_FFF3
_CLSACT_HANDLE = 0xFFFF_0000
_PROTOCOL_ALL = 0x0003
_LINKLAYER_ETHERNET = 1
_TICK_NS = 64
_HTB = struct.Struct("=5I")  # struct tc_htb_glob
_SIZES = struct.Struct("=BBhi4I")  # struct tc_sizespec
_BURST_NS = 1_000_000  # tolerated lateness of the kernel without loss of rate
_BURST_BYTES_MIN = 20_000  # two jumbo frames
_SLACK_NS = 250_000_000  # tolerated lateness of the processor without drops by the real queue
_SLACK_BYTES_MIN = 1 << 20
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17


class _WithBytes(nlmsg):  # type: ignore[misc]
    """A queueing discipline with options as bytes: pyroute2 supports neither bfifo nor a class of 1 byte/s.

    Not a subclass of `tcmsg`, whose compiled attributes it would inherit.
    """

    __slots__ = ()
    prefix = "TCA_"
    fields = tcmsg.fields
    nla_map = (
        (0, "TCA_UNSPEC", "none"),
        (1, "TCA_KIND", "asciiz"),
        (2, "TCA_OPTIONS", "cdata"),
        (8, "TCA_STAB", "cdata"),
    )


def burst_bytes(rate_bps: int) -> int:
    """Bytes that may leave at once after the kernel was late; a larger burst would hide short queues."""
    return max(_BURST_BYTES_MIN, rate_bps * _BURST_NS // (8 * 10**9))


def limit_bytes(settings: PortSettings) -> int:
    """A bound of the real queue above the amount that the virtual one admits."""
    slack = max(_SLACK_BYTES_MIN, settings.rate_bps * _SLACK_NS // (8 * 10**9))
    return settings.queue_bytes + settings.control_queue_bytes + slack


def queue_messages(index: int, settings: PortSettings) -> list[Message]:
    """Replaces the root queue of the interface with this index.

    The table of sizes has no entries: it makes the kernel measure a packet after the program, which may have cut it,
    and add the framing.
    """
    limit = struct.pack("=I", limit_bytes(settings))
    root = _message(_WithBytes(), index, _TC_ROOT, PRIORITY_MAJOR, "htb", attribute(2, _HTB.pack(3, 10, 0x20, 0, 0)))
    root["attrs"].append(["TCA_STAB", attribute(1, _SIZES.pack(0, 0, 0, settings.overhead_bytes, 0, 0, 0, 0))])
    messages = [Message(RTM_NEWQDISC, root, "a queue with two classes", REPLACE), *_classes(index, settings, ADD)]
    for parent, handle in ((_CONTROL_CLASS, _CONTROL_FIFO), (_DATA_CLASS, _DATA_FIFO)):
        fifo = _message(_WithBytes(), index, parent, handle, "bfifo", limit)
        messages.append(Message(RTM_NEWQDISC, fifo, "a queue of bounded bytes", ADD))
    return messages


def rate_messages(index: int, settings: PortSettings) -> list[Message]:
    """Changes the rate of the queue; waiting packets stay."""
    return _classes(index, settings, REPLACE)


def program_messages(index: int, number: int, program: int) -> list[Message]:
    """Attaches the program to every packet that leaves the interface.

    Args:
        index: The interface's.
        number: Of the port, which the program finds in the packet's class.
        program: Descriptor of the program.
    """
    clsact = _message(tcmsg(), index, _TC_CLSACT, _CLSACT_HANDLE, "clsact", None)
    options = sched_bpf.get_parameters(
        {"fd": program, "name": "openmrc-switch", "classid": number, "direct_action": True}
    )
    chosen = _message(tcmsg(), index, _TC_EGRESS, 1, "bpf", options)
    chosen["info"] = 1 << 16 | socket.htons(_PROTOCOL_ALL)
    return [
        Message(RTM_NEWQDISC, clsact, "a hook for eBPF", REPLACE),
        Message(RTM_NEWTFILTER, chosen, "the switches' eBPF program", REPLACE),
    ]


def queue_drops(netlink: Netlink) -> int:
    """Packets dropped by the real queues of a namespace; above 0 only if they malfunction."""
    found = 0
    for data in netlink.dump(RTM_GETQDISC, tcmsg()):
        answer = tcmsg(data)
        answer.decode()
        if answer.get_attr("TCA_KIND") == "bfifo":
            found += answer.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"]
    return found


def software_checksums(namespace: str, names: Iterable[str]) -> None:
    """Makes interfaces complete every checksum before the wire, since a cut datagram gets a new one.

    Otherwise a veth pair passes on packets with incomplete checksums.
    """
    with namespaces.inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in names:
            off = (ctypes.c_uint32 * 2)(_ETHTOOL_STXCSUM, 0)
            request = struct.pack("=16sQ16x", name.encode(), ctypes.addressof(off))
            fcntl.ioctl(control, _SIOCETHTOOL, request)


def _message(body: Any, index: int, parent: int, handle: int, kind: str, options: Any) -> Any:
    body["index"], body["parent"], body["handle"] = index, parent, handle
    body["attrs"] = [["TCA_KIND", kind]] + ([] if options is None else [["TCA_OPTIONS", options]])
    return body


def _classes(index: int, settings: PortSettings, flags: int) -> list[Message]:
    """Both leaves borrow their whole rate from the root class, so their priority alone decides the order."""
    rate = max(1, settings.current_rate_bps // 8)
    burst_ns = burst_bytes(settings.current_rate_bps) * 10**9 // rate
    plans = (
        (PRIORITY_MAJOR, _ROOT_CLASS, _htb_class(rate, rate, burst_ns, 0)),
        (_ROOT_CLASS, _CONTROL_CLASS, _htb_class(1, rate, burst_ns, 0)),
        (_ROOT_CLASS, _DATA_CLASS, _htb_class(1, rate, burst_ns, 1)),
    )
    return [
        Message(
            RTM_NEWTCLASS,
            _message(_WithBytes(), index, parent, handle, "htb", options),
            f"the rate of interface {index}",
            flags,
        )
        for parent, handle, options in plans
    ]


def _htb_class(rate: int, ceiling: int, burst_ns: int, priority: int) -> bytes:
    """Options of a class; rates in bytes per second. `struct tc_htb_opt` and both rates in 64 bits."""
    rates = b"".join(
        struct.pack("=BBHhHI", 0, _LINKLAYER_ETHERNET, 0, 0, 0, min(value, 0xFFFF_FFFF)) for value in (rate, ceiling)
    )
    ticks = min(max(burst_ns // _TICK_NS, 1), 0xFFFF_FFFF)
    parameters = rates + struct.pack("=5I", ticks, ticks, _BURST_BYTES_MIN, 0, priority)
    return attribute(1, parameters) + attribute(6, struct.pack("=Q", rate)) + attribute(7, struct.pack("=Q", ceiling))
