"""The fault language: the meaning of lines, and the errors for meaningless ones."""

from __future__ import annotations

import pytest

from openmrc.fabric import (
    Fault,
    FaultDirection,
    FaultError,
    FaultPlace,
    FaultTarget,
    Repair,
    Span,
    make_fabric,
    parse_command,
    parse_fault,
)

MS, S = 10**9, 10**12

MEANINGS = {
    "plane 2 blackhole at 2s for 3s": Fault(FaultTarget(plane=2), "blackhole", start_ps=2 * S, duration_ps=3 * S),
    "host 0 plane 1 down at 4s for 2s": Fault(FaultTarget(plane=1, host=0), "down", start_ps=4 * S, duration_ps=2 * S),
    "host 0 plane 1 blackhole": Fault(FaultTarget(plane=1, host=0), "blackhole"),
    "t0 0 t1 1 plane 3 loss 5% burst 20": Fault(
        FaultTarget(plane=3, t0=0, t1=1), "loss", share_ppb=50_000_000, burst_packets=20
    ),
    "t0 0 t1 1 rate 10%": Fault(FaultTarget(t0=0, t1=1), "rate", share_ppb=100_000_000),
    "t1 2 plane 1 delay 2ms jitter 100us": Fault(
        FaultTarget(plane=1, t1=2), "delay", delay_ps=2 * MS, jitter_ps=MS // 10
    ),
    "t0 1 tx corrupt 0.001%": Fault(FaultTarget(t0=1, direction="tx"), "corrupt", share_ppb=10_000),
    "t0 1 duplicate 1% rx": Fault(FaultTarget(t0=1, direction="rx"), "duplicate", share_ppb=10_000_000),
    "plane 1 reorder 5% 1ms every 500ms for 4s": Fault(
        FaultTarget(plane=1), "reorder", share_ppb=50_000_000, delay_ps=MS, duration_ps=4 * S, period_ps=S // 2
    ),
    "all loss 1%": Fault(FaultTarget(), "loss", share_ppb=10_000_000),
    "ALL Loss 100%": Fault(FaultTarget(), "loss", share_ppb=1_000_000_000),
    "t0 3 t1 4..7 down": Fault(FaultTarget(t0=3, t1=Span(4, 7)), "down"),
    "t1 2 t2 5 plane 0 down": Fault(FaultTarget(plane=0, t1=2, t2=5), "down"),
    "host 3 nic 1 plane 0..1 blackhole": Fault(FaultTarget(plane=Span(0, 1), host=3, nic=1), "blackhole"),
    "plane 3 loss 20% ev 4294967295": Fault(FaultTarget(plane=3), "loss", share_ppb=200_000_000, ev=2**32 - 1),
    "all loss 5% burst 20 ev 7": Fault(FaultTarget(), "loss", share_ppb=50_000_000, burst_packets=20, ev=7),
    "t1 2 reboot at 1s for 5s": Fault(FaultTarget(t1=2), "reboot", start_ps=S, duration_ps=5 * S),
    "repair": Repair(),
    "repair all": Repair(),
    "repair plane 2 at 6s": Repair(FaultTarget(plane=2), start_ps=6 * S),
    "repair fault 3": Repair(fault=3),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_lines_of_the_fault_language_have_their_meaning(text: str) -> None:
    assert parse_command(text) == MEANINGS[text]


@pytest.mark.parametrize("text", MEANINGS)
def test_a_command_written_out_and_read_again_is_the_same(text: str) -> None:
    command = parse_command(text)
    assert parse_command(str(command)) == command


WRONG = {
    "": "a place",
    "blackhole": "a place",
    "plane": "a whole number",
    "plane x down": "at 'x'",
    "plane -1 down": "at '-1'",
    "plane 1": "a fault",
    "plane 1 blakhole": "did you mean 'blackhole'",
    "plan 1 down": "did you mean 'plane'",
    "plane 1 plane 2 down": "at 'plane'",
    "all plane 1 down": "at 'plane'",
    "host 1 t0 2 down": "leave out t0 and t1",
    "plane 1 loss": "after 'loss'",
    "plane 1 loss 0%": "above 0",
    "plane 1 loss 101%": "at '101%'",
    "plane 1 loss 5ms": "at '5ms'",
    "plane 1 loss 0.00000001%": "seven decimals",
    "plane 1 loss 5% burst 0": "at '0'",
    "plane 1 loss 99% burst 2": "long enough",
    "plane 1 rate 0.00001%": "use blackhole",
    "plane 1 delay 2": "at '2'",
    "plane 1 delay 0": "above 0",
    "plane 1 reorder 5%": "after '5%'",
    "plane 1 down at": "after 'at'",
    "plane 1 down at soon": "at 'soon'",
    "plane 1 down at 1s at 2s": "for TIME",
    "plane 1 down fr 3s": "did you mean 'for'",
    "plane 1 down for 0s": "above 0",
    "plane 1 down for 99999h": "30 days",
    "t0 3 t1 7..4 down": "at '7..4'",
    "t0 3 t1 4.. down": "a span such as 4..7",
    "t0 3 t1 4..5..6 down": "a span such as 4..7",
    "plane 0..99999999 down": "at most 65536",
    "nic 3 down": "a NIC of a host",
    "t0 1 t2 2 down": "no link joins a T0 and a T2",
    "plane 1 loss 5% ev": "an EV",
    "plane 1 loss 5% ev 4294967296": "an EV",
    "plane 1 reboot for 5s": "a switch",
    "t0 1 t1 2 reboot for 5s": "a switch",
    "t1 2 reboot": "for TIME",
    "t1 2 reboot for 1s every 2s": "for TIME",
    "repair plane 1 for 3s": "at TIME",
    "repair fault x": "at 'x'",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_line_is_refused_by_its_word(text: str) -> None:
    with pytest.raises(FaultError) as caught:
        parse_command(text)
    assert WRONG[text] in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("t1 3 loss 1%", "t1 3 of all 4 planes; 't1 3 plane 0' is that of one plane"),
        ("t0 1 t1 3 down", "t0 1 t1 3 of all 4 planes; 't0 1 t1 3 plane 0' is that of one plane"),
        ("t0 1 t1 4..7 tx down", "t0 1 t1 4..7 of all 4 planes; 't0 1 t1 4..7 plane 0' is that of one plane"),
        ("t1 3 plane 0 loss 1%", ""),
        ("plane 0..1 loss 1%", ""),
        ("all loss 1%", ""),
    ],
)
def test_a_place_in_all_planes_is_said_to_be_one(text: str, reach: str) -> None:
    assert parse_fault(text).target.reach(4) == reach
    assert parse_fault(text).target.reach(1) == ""


def test_where_a_fault_is_wanted_a_repair_is_refused() -> None:
    with pytest.raises(FaultError, match="for TIME"):
        parse_fault("repair all")


@pytest.mark.parametrize("text", ["plane 2 down", "host 4 down", "t0 2 down", "t1 3 down", "t0 0 t1 9 down"])
def test_a_place_the_fabric_lacks_is_refused_with_its_range(text: str) -> None:
    fabric = make_fabric(planes=2, hosts=4, hosts_per_t0=2, t1s=3, rate="100Mbit")
    fault = parse_fault(text)
    with pytest.raises(FaultError, match="this fabric has"):
        fault.target.check(fabric, text)


def test_effects_carry_the_numbers_that_the_native_fabric_takes() -> None:
    effects = parse_fault("all loss 5% burst 20").effects()
    assert (effects.loss_ppb, effects.burst_loss_ppb, effects.burst_packets) == (0, 50_000_000, 20)
    assert parse_fault("all loss 5%").effects().loss_ppb == 50_000_000
    assert parse_fault("all rate 10%").effects().rate_ppm == 100_000
    reorder = parse_fault("all reorder 5% 1ms").effects()
    assert (reorder.reorder_ppb, reorder.reorder_delay_ps, reorder.delay_ps) == (50_000_000, MS, 0)


THREE_TIERS = make_fabric(
    planes=2, hosts=16, nics_per_host=2, hosts_per_t0=2, t1s=4, tiers=3, t0s_per_pod=4, t1_uplinks=2, rate="100Mbit"
)


@pytest.mark.parametrize(
    "text",
    [
        "t2 8 down",
        "t1 8 down",
        "host 16 down",
        "host 0 nic 2 down",
        "t0 0 t1 4 down",
        "t0 0..7 t1 0 down",
        "t1 1 t2 0 down",
    ],
)
def test_a_link_or_switch_that_three_tiers_lack_is_refused(text: str) -> None:
    with pytest.raises(FaultError, match=r"this fabric has|has links to"):
        parse_fault(text).target.check(THREE_TIERS, text)


@pytest.mark.parametrize(
    "text", ["t2 7 down", "t1 7 down", "t0 4 t1 4..7 down", "t1 5 t2 2..3 down", "host 15 nic 1 down"]
)
def test_links_of_three_tiers_are_found(text: str) -> None:
    parse_fault(text).target.check(THREE_TIERS, text)


def test_two_tiers_have_no_t2() -> None:
    with pytest.raises(FaultError, match="no t2"):
        parse_fault("t2 0 down").target.check(make_fabric(planes=1, hosts=4, rate="100Mbit"), "t2 0 down")


def test_a_span_is_one_place_each_and_a_host_all_its_nics() -> None:
    down = parse_fault("t0 3 t1 4..6 plane 1 down")
    assert down.target.places(THREE_TIERS) == [FaultPlace(plane=1, t0=3, t1=t1) for t1 in (4, 5, 6)]
    assert parse_fault("host 3 tx down").target.places(THREE_TIERS) == [
        FaultPlace(host=nic, direction=FaultDirection.TX) for nic in (6, 7)
    ]
    assert parse_fault("host 3 nic 1 down").target.places(THREE_TIERS) == [FaultPlace(host=7)]


def test_a_reboot_is_silent_and_a_loss_can_be_of_one_ev() -> None:
    assert parse_fault("t1 2 reboot for 5s").effects().blackhole is True
    assert parse_fault("all loss 5% ev 9").effects().ev == 9
    assert parse_fault("all loss 5%").effects().ev is None
