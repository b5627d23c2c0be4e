"""The path file of a NIC of a planned fabric: rules by structure, equally many for four NICs and for 131,072.

A peer's own address contains plane, T0 and down port of that T0. One rule therefore serves all NICs behind the own T0
and one all other T0s: the far T0 and the NIC port are copied from the peer's address, the T1 from the selector. With
three tiers there is one rule for the own pod and one for the rest, in which the far pod's number is the upper part of
the T0's. If the number of T0s of a pod is not a power of two, this does not hold, and every far pod gets rules of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Network
from typing import Literal

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import BLOCK_BITS, FIELD_BITS
from openmrc.srv6.paths import PathPlan, pack
from openmrc.srv6.rules import SELECTOR_BITS, Copy, NicPaths, NicPort, PathRule, most_specific_first
from openmrc.srv6.usid import USID_BITS

__all__ = ["nic_paths"]

_T0_END = BLOCK_BITS + 2 * FIELD_BITS  # end of the T0's number in a NIC port's own address
_DOWN_END = _T0_END + FIELD_BITS


def nic_paths(
    plan: PathPlan,
    nic: int,
    interfaces: Sequence[str] = (),
    *,
    rate_bps: int | None = None,
    base_rtt_us: int | None = None,
) -> NicPaths:
    """The path file of a NIC: its ports, the existing selectors, and the path rules.

    Args:
        plan: Of the fabric.
        nic: Its number, counted through all hosts.
        interfaces: Name of the network interface of each plane, in plane order; none: according to the routing table.
        rate_bps: Of each port, in b/s, such as the fabric's `rate_bps`; None: as reported by the interface's driver.
        base_rtt_us: Idle round trip of the longest path, such as the fabric's `base_rtt_us`; None: measured with
            probes.

    Raises:
        ConfigError: no such NIC, or not one interface for each plane.
    """
    shape = plan.shape
    if not 0 <= nic < shape.hosts:
        raise ConfigError("nic", nic, f"0 to {shape.hosts - 1}")
    if interfaces and len(interfaces) != shape.planes:
        raise ConfigError("interfaces", list(interfaces), f"{shape.planes} names, one for each plane")
    selectors = tuple(plan.selectors())
    ports = tuple(
        NicPort(
            plane,
            plan.address(nic, plane),
            plan.receive_address(nic, plane),
            selectors,
            interfaces[plane] if interfaces else None,
            rate_bps,
        )
        for plane in range(shape.planes)
    )
    t0 = nic // shape.hosts_per_t0
    rules = [rule for plane in range(shape.planes) for rule in _Rules(plan, plane, t0).all()]
    return NicPaths(ports, most_specific_first(rules), base_rtt_us)


class _Rules:
    """The rules of a NIC in one plane, equal to those of its T0."""

    def __init__(self, plan: PathPlan, plane: int, t0: int) -> None:
        self._plan, self._plane, self._t0 = plan, plane, t0
        self._shape, self._usids = plan.shape, plan.usids
        self._own_pod = t0 // self._shape.t0s_per_pod if self._shape.t0s_per_pod else 0
        self._own = self._usids.t0(plane, t0)
        self._nic = self._usids.nic(plane, 0)

    def all(self) -> Iterator[PathRule]:
        yield self._rule(self._t0, 0, [self._own, self._nic], self._down(1))
        for first, bits in self._pod_blocks(self._own_pod):
            if (first, bits) != (self._t0, 0):
                yield self._up_to_t1(first, bits)
        if self._shape.pods == 1:
            return
        if _is_power_of_2(self._shape.t0s_per_pod):
            yield self._up_to_t2(0, self._usids.t0_bits, 0, self._far_pod())
            return
        for pod in range(self._shape.pods):
            if pod != self._own_pod:
                for first, bits in self._pod_blocks(pod):
                    yield self._up_to_t2(first, bits, pod, ())

    def _up_to_t1(self, first: int, bits: int) -> PathRule:
        t1 = self._usids.t1(self._plane, self._own_pod * self._shape.t1s)
        usids = [self._own, t1, self._usids.t0(self._plane, first), self._nic]
        return self._rule(first, bits, usids, (*self._uplink(1), *self._far_t0(2, bits), *self._down(3)))

    def _up_to_t2(self, first: int, bits: int, pod: int, far_pod: tuple[Copy, ...]) -> PathRule:
        t1, far_t1 = (self._usids.t1(self._plane, one * self._shape.t1s) for one in (self._own_pod, pod))
        t2, far_t0 = self._usids.t2(self._plane, 0), self._usids.t0(self._plane, first)
        up = (*self._uplink(1), *_copy("selector", SELECTOR_BITS, self._usids.selector_bits, 2), *self._uplink(3))
        down = (*far_pod, *self._far_t0(4, bits), *self._down(5))
        return self._rule(first, bits, [self._own, t1, t2, far_t1, far_t0, self._nic], (*up, *down))

    def _rule(self, first: int, bits: int, usids: list[int], copies: tuple[Copy, ...]) -> PathRule:
        """Rule for peers behind 2^bits T0s from the first on; numbers beyond the fabric's T0s get no rule."""
        prefix = IPv6Network((self._plan.blocks.t0_prefix(self._plane, first).network_address, _T0_END - bits))
        return PathRule(prefix, pack(self._plan.blocks, usids), copies)

    def _pod_blocks(self, pod: int) -> Iterator[tuple[int, int]]:
        """The T0s of a pod as (first, bits): 2^bits T0s whose numbers have the same upper bits."""
        in_pod = self._shape.t0s_per_pod
        if self._shape.pods == 1:
            yield 0, self._usids.t0_bits
        elif _is_power_of_2(in_pod):
            yield pod * in_pod, in_pod.bit_length() - 1
        else:
            yield from _aligned_blocks(pod * in_pod, min((pod + 1) * in_pod, self._shape.t0s))

    def _uplink(self, place: int) -> tuple[Copy, ...]:
        end = SELECTOR_BITS - self._usids.second_uplink_bits
        return _copy("selector", end, self._usids.uplink_bits, place)

    def _far_pod(self) -> tuple[Copy, ...]:
        end = _T0_END - (self._shape.t0s_per_pod.bit_length() - 1)
        return _copy("peer", end, self._usids.pod_bits, 3, self._usids.uplink_bits)

    def _far_t0(self, place: int, bits: int) -> tuple[Copy, ...]:
        return _copy("peer", _T0_END, bits, place)

    def _down(self, place: int) -> tuple[Copy, ...]:
        return _copy("peer", _DOWN_END, self._usids.nic_port_bits, place)


def _copy(source: Literal["selector", "peer"], end: int, bits: int, place: int, shift: int = 0) -> tuple[Copy, ...]:
    """The `bits` bits before bit `end`, to the low end of a uSID or `shift` bits above it; no copy for no bits."""
    to = BLOCK_BITS + (place + 1) * USID_BITS - shift - bits
    return (Copy(source, end - bits, bits, to),) if bits else ()


def _is_power_of_2(number: int) -> bool:
    return number.bit_count() == 1


def _aligned_blocks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, bits): the fewest blocks of 2^bits numbers, aligned to their size, that cover the range."""
    while first < end:
        room = (end - first).bit_length() - 1
        bits = min(room, (first & -first).bit_length() - 1) if first else room
        yield first, bits
        first += 1 << bits
