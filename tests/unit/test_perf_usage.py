"""Costs of a transfer at both ends of `openmrc perf`: differences of snapshots, peers on this machine and elsewhere."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from openmrc.errors import HandshakeError
from openmrc.runs.perf.usage import Usage, row_members
from openmrc.runs.processes.device_counters import DeviceCounters, counter_lines

ZERO = DeviceCounters(*(0 for _ in fields(DeviceCounters)))
BUSY = replace(ZERO, send_calls=40, receive_calls=10, wakeups=4, sacks_received=6)
HERE = Usage(cpu_s=1.0, machine_cpu_s=10.0, machine="here", counters=ZERO)
LATER = Usage(cpu_s=1.5, machine_cpu_s=12.0, machine="here", counters=BUSY)


def test_costs_are_differences_for_each_gigabyte_and_megabyte():
    members = row_members((HERE, None), (LATER, None), 2_000_000_000)
    assert members["cpu_seconds_per_gb"] == pytest.approx(0.25)
    assert members["machine_cpu_seconds_per_gb"] == pytest.approx(1.0)
    assert members["counters"]["send_calls_per_mb"] == pytest.approx(0.02)
    assert members["counters"].keys() == {f"{one.name}_per_mb" for one in fields(DeviceCounters)}


def test_a_peer_of_an_older_version_has_no_costs():
    members = row_members((HERE, None), (LATER, None), 1_000_000)
    assert [members[name] for name in members if name.startswith("peer_")] == [None, None, None]


def test_a_machine_is_counted_once():
    there, there_later = (replace(one, machine="there") for one in (HERE, LATER))
    on_one = row_members((HERE, HERE), (LATER, LATER), 1_000_000_000)
    on_two = row_members((HERE, there), (LATER, there_later), 1_000_000_000)
    unknown = row_members(
        (replace(HERE, machine=None), replace(HERE, machine=None)),
        (replace(LATER, machine=None), replace(LATER, machine=None)),
        1_000_000_000,
    )
    assert on_one["peer_machine_cpu_seconds_per_gb"] is None
    assert on_one["peer_cpu_seconds_per_gb"] == pytest.approx(0.5)
    assert on_two["peer_machine_cpu_seconds_per_gb"] == pytest.approx(2.0)
    assert unknown["peer_machine_cpu_seconds_per_gb"] == pytest.approx(2.0)


def test_unknown_and_empty_values_stay_none():
    blind = [replace(one, machine_cpu_s=None) for one in (HERE, LATER)]
    members = row_members((blind[0], None), (blind[1], None), 0)
    assert members["cpu_seconds_per_gb"] is None
    assert members["machine_cpu_seconds_per_gb"] is None
    assert members["counters"] is None


def test_usage_travels_as_json_and_other_messages_are_refused():
    assert Usage.from_dict(LATER.to_dict()) == LATER
    good = LATER.to_dict()
    for wrong in (
        {},
        {"cpu_s": 1.0},
        {**good, "counters": {"send_calls": 1}},
        {**good, "counters": {**good["counters"], "send_calls": "many"}},
        {**good, "cpu_s": "much"},
        {**good, "machine_cpu_s": float("inf")},
        {**good, "machine": 7},
        [],
    ):
        with pytest.raises(HandshakeError, match="usage"):
            Usage.from_dict(wrong)


def test_lines_for_people_leave_out_an_end_that_is_unknown():
    lines = counter_lines({"client": BUSY.per_mb(2_000_000), "server": None})
    assert lines == [
        ("calls per MB, client", "25.0", "send 20.0, receive 5.0, wait 0.0, eventfd 0.0, timer 0.0"),
        ("SACKs per MB", "3.0", "wake-ups per MB: client 2.0"),
    ]
