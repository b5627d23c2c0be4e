"""Planes with settings of their own: resolution, settings of the native fabric, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, FabricFileError, make_fabric, parse_fabric
from openmrc.plan import plan_of

UNLIKE = """
hosts: 2
hosts_per_t0: 1
rate: 100Mbit
delay: 50us
planes:
  - {rate: 500Mbit}
  - {rate: {nic: 10Gbit, t0: 250Mbit}, delay: 5ms, queue_bytes: 256kB, ecn: off}
  - {}
"""


def fabric_of(**changes: Any) -> Fabric:
    return make_fabric(**({"hosts": 2, "hosts_per_t0": 1, "rate": "100Mbit"} | changes))


def refused(**changes: Any) -> ConfigError:
    with pytest.raises(FabricFileError) as caught:
        fabric_of(**changes)
    (problem,) = caught.value.problems
    return problem


def test_a_plane_has_its_own_settings_and_the_fabrics_where_it_has_none() -> None:
    fabric = parse_fabric(UNLIKE)
    first, second, third = fabric.each_plane
    assert [plane.rates.t0 for plane in fabric.each_plane] == [500_000_000, 250_000_000, 100_000_000]
    assert [plane.delays.nic for plane in fabric.each_plane] == [50_000_000, 5 * 10**9, 50_000_000]
    assert second.ports["t0_up"].queue_bytes == second.ports["nic_down"].queue_bytes == 256_000
    assert (first.ecn is None, second.ecn is None, third.ecn is None) == (False, True, False)
    alike = make_fabric(planes=1, hosts=2, hosts_per_t0=1, rate="100Mbit", delay="50us")
    assert third == alike.plane(0)


def test_thresholds_of_a_plane_follow_its_own_rate_and_delay() -> None:
    fabric = parse_fabric(UNLIKE)
    alone = make_fabric(planes=1, hosts=2, hosts_per_t0=1, rate="500Mbit", delay="50us")
    assert fabric.plane(0) == alone.plane(0)


def test_the_fabric_as_a_whole_has_the_slowest_round_trip_and_all_rates_together() -> None:
    fabric = parse_fabric(UNLIKE)
    slow = make_fabric(planes=1, hosts=2, hosts_per_t0=1, rate={"nic": "10Gbit", "t0": "250Mbit"}, delay="5ms")
    assert fabric.base_rtt_ps == slow.base_rtt_ps
    assert fabric.line_rate_bps == 500_000_000 + 10_000_000_000 + 100_000_000
    assert fabric.marks
    assert not fabric.trims


def test_planes_that_say_nothing_are_alike() -> None:
    assert fabric_of(planes=[{}, None]) == fabric_of(planes=2)
    assert fabric_of(planes=2).unlike == ()


def test_the_rate_may_be_left_out_where_every_plane_has_one() -> None:
    rates = [{"rate": "1Gbit"}, {"rate": "40Mbit"}]
    assert make_fabric(planes=rates, hosts=2).line_rate_bps == 1_040_000_000
    with pytest.raises(FabricFileError, match="rate is None; allowed: required"):
        make_fabric(planes=[*rates, {}], hosts=2)


def test_the_native_fabric_is_told_of_every_plane() -> None:
    fabric = parse_fabric(UNLIKE)
    _, unlike = fabric.native_ports()
    assert [ports.t0_up.rate_bps for ports in unlike] == [500_000_000, 250_000_000, 100_000_000]
    assert [ports.t0_up.ecn for ports in unlike] == [True, False, True]
    assert fabric_of(planes=2).native_ports()[1] == ()


def test_a_plain_switch_has_one_fifo_without_marks_and_trimming() -> None:
    fabric = fabric_of(planes=1, queue_bytes="256kB", ecn="off", trim="off", priority="off")
    port = fabric.native_port("t0_up")
    assert (port.queue_bytes, port.ecn, port.trim, port.priority) == (256_000, False, False, False)
    assert fabric_of(planes=1).native_port("t0_up").priority is True


@pytest.mark.parametrize(
    ("planes", "field", "words"),
    [
        ([], "planes", "1 to 16, or a list with settings for each plane"),
        ([{}] * 17, "planes", "1 to 16"),
        ([3], "planes.0", "keys and values"),
        ([{}, {"rate": "fast"}], "planes.1.rate", "a rate such as"),
        ([{"queue_bytes": 10}], "planes.0.queue_bytes", "9216 bytes to 2GiB"),
        ([{"hosts": 3}], "key", "delay, ecn, nic_queue_bytes, priority, queue_bytes, rate, trim"),
        ([{}, {"ecn": {"min_bytes": 5}}], "planes.1.ecn", "min_bytes and max_bytes together"),
        ([{}, {"trim": "on", "priority": "off"}], "planes.1.priority", "on in fabrics that trim"),
    ],
)
def test_mistakes_name_the_plane_and_the_key(planes: Any, field: str, words: str) -> None:
    problem = refused(planes=planes)
    assert problem.field == field
    assert words in problem.allowed


def test_a_fifo_for_everything_cannot_trim() -> None:
    problem = refused(planes=2, trim="on", priority="off")
    assert (problem.field, problem.value, problem.hint) == ("priority", "off", "trim: off")


def test_switches_are_checked_for_the_ports_of_every_plane() -> None:
    switch = {"t0": {"name": "small", "capacity": "2Gbit", "ports": 48}, "t1": "12.8T"}
    planes = [{"rate": "100Mbit"}, {"rate": "2Gbit"}]
    assert refused(planes=planes, t1s=1, switch=switch).field == "switch.t0"


def test_a_plan_and_a_test_bed_want_planes_that_are_alike() -> None:
    fabric = parse_fabric(UNLIKE)
    with pytest.raises(ConfigError, match="equal planes in a plan"):
        plan_of(fabric)
    from openmrc.testbed.layout import Layout

    with pytest.raises(ConfigError, match="equal planes in a test bed"):
        Layout.of(fabric, "bed")
