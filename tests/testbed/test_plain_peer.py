"""`perf` and `doctor --peer` over ordinary networks: rates, marks, silence, lost frames."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openmrc.testbed.plain import PlainBed, PlainNetwork, PlainPlane

FAST_BPS, SLOW_BPS = 100_000_000, 20_000_000
CLI = (sys.executable, "-m", "openmrc.cli.main")


@contextmanager
def serving(bed: PlainBed) -> Iterator[None]:
    """`openmrc perf serve` on host 1."""
    ports = ",".join(bed.addresses(1))
    command = [*bed.prefix(1), *CLI, "perf", "serve", "--ports", ports, "--listen", "0.0.0.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert "serving on" in process.stdout.readline()
            yield
        finally:
            process.kill()


def on_host_0(bed: PlainBed, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of openmrc on host 0."""
    command = [*bed.prefix(0), *CLI, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def written(bed: PlainBed, path: Path) -> tuple[dict[str, Any], str]:
    """Record and messages of a short `perf write`."""
    options = ("--ports", ",".join(bed.addresses(0)), "--size", "64KiB", "--depth", "16", "--duration", "1")
    done = on_host_0(bed, "perf", "write", bed.addresses(1)[0], *options, "--json", str(path))
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(path.read_text())
    return record, re.sub(r"\s+", " ", done.stderr)


def examined(bed: PlainBed) -> dict[tuple[str, str], dict[str, Any]]:
    """Findings of the doctor about host 1, by group and name."""
    ports, peer = (",".join(bed.addresses(host)) for host in (0, 1))
    done = on_host_0(bed, "doctor", "--ports", ports, "--peer", peer, "--json", "-")
    findings = json.loads(done.stdout)["findings"]
    return {(one["group"], one["name"]): one for one in findings if one["group"].startswith("peer")}


def limit_frames(bed: PlainBed, plane: int, mtu_bytes: int) -> None:
    """Makes switch ports of the plane silently drop larger packets; the MTU of the hosts' interfaces is unchanged."""
    for host in range(len(bed.hosts)):
        command = ("ip", "-n", bed.switch, "link", "set", f"p{plane}h{host}", "mtu", str(mtu_bytes))
        subprocess.run(command, check=True)


@pytest.fixture
def bed(needs_namespaces: None) -> Iterator[PlainBed]:
    """Two hosts, two planes with jumbo frames, one five times as fast as the other; the peer serves."""
    fast, slow = (PlainPlane(rate_bps, 64 * 1024, mtu_bytes=9000) for rate_bps in (FAST_BPS, SLOW_BPS))
    with PlainBed(PlainNetwork((fast, slow))) as made, serving(made):
        yield made


def test_perf_finds_each_planes_speed(bed: PlainBed, tmp_path: Path) -> None:
    record, _ = written(bed, tmp_path / "write.json")
    assert record["payload_mtu"] == 8192
    (row,) = record["rows"]
    fast, slow = row["planes"]
    assert FAST_BPS / 2 < fast["rate_bps"] < 1.3 * FAST_BPS
    assert SLOW_BPS / 2 < slow["rate_bps"] < 1.3 * SLOW_BPS
    assert row["queue_delay_us"] == max(plane["queue_delay_us"] for plane in row["planes"]) > 0
    assert not any(plane["silent"] or plane["marking"] for plane in row["planes"])
    assert row["retransmitted_share"] == pytest.approx(row["retransmitted_packets"] / row["sent_packets"])


@pytest.mark.slow
def test_the_payload_shrinks_to_the_size_that_arrives_on_every_plane(bed: PlainBed, tmp_path: Path) -> None:
    limit_frames(bed, 1, 1500)
    record, said = written(bed, tmp_path / "write.json")
    assert record["payload_mtu"] == 1428
    assert "packets of 8264 bytes do not arrive on plane 1" in said
    assert "payload MTU lowered to 1428" in said
    planes = record["rows"][0]["planes"]
    assert all(plane["rate_bps"] > SLOW_BPS / 2 and not plane["silent"] for plane in planes)
    found = examined(bed)
    whole, cut = found["peer", "plane 0"], found["peer", "plane 1"]
    assert (whole["verdict"], whole["arriving_bytes"], whole["full_bytes"]) == ("ok", 8264, 8264)
    assert (cut["verdict"], cut["arriving_bytes"], cut["full_bytes"]) == ("could be better", 1500, 8264)
    assert "frames of 8,264 bytes do not arrive on plane 1" in cut["sentence"]
    assert cut["command"].endswith("mtu 1500")
    assert found["peer under load", "stream"]["payload_mtu_bytes"] == 1428


@pytest.mark.slow
def test_the_doctor_measures_every_plane(bed: PlainBed) -> None:
    found = examined(bed)
    fast, slow = (found["peer under load", f"plane {plane}"] for plane in (0, 1))
    assert fast["marks"] is slow["marks"] is False
    assert "broken" not in (fast["verdict"], slow["verdict"])
    assert FAST_BPS / 2 < fast["rate_bps"] < 1.3 * FAST_BPS
    assert SLOW_BPS / 2 < slow["rate_bps"] < 1.3 * SLOW_BPS
    assert "does not mark" in slow["sentence"]
    assert all(plane["base_rtt_us"] > 0 for plane in (fast, slow))
    assert slow["queue_delay_max_us"] >= slow["queue_delay_us"] > 0


@pytest.mark.slow
def test_the_doctor_names_a_silent_plane(bed: PlainBed) -> None:
    bed.silence(1)
    found = examined(bed)
    assert found["peer", "plane 1"]["verdict"] == "broken"
    assert found["peer under load", "plane 0"]["verdict"] != "broken"
    assert found["peer under load", "plane 1"]["verdict"] == "broken"
    assert found["peer under load", "plane 1"]["acked_packets"] == 0
