"""demo, bench and perf from the outside: output, refusals and messages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_ports import UDP_PORT

pytestmark = pytest.mark.live


def openmrc(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    command = [sys.executable, "-m", "openmrc.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, cwd=cwd)


def one_line(text: str) -> str:
    """Text without line ends and the box around usage errors."""
    return re.sub(r"[\s│]+", " ", text)


BENCH = ("bench", "live", "--seconds", "1")
REFUSED = [
    ((*BENCH, "--planes", "0"), ("planes", "0", "1 to 16")),
    ((*BENCH, "--rate", "fast"), ("--rate", "fast", "250Mbit")),
    ((*BENCH, "--rate", "250"), ("--rate", "250", "a unit is missing")),
    ((*BENCH, "--transport", "mrcc"), ("transport", "mrcc", "did you mean 'mrc'")),
    ((*BENCH, "--loss", "200"), ("--loss", "200", "0 to 100")),
    ((*BENCH, "--fault", "plain 2 blackhole"), ("plain", "did you mean 'plane'")),
    ((*BENCH, "--fault", "plane 9 blackhole"), ("plane 9", "plane 0 to 3")),
    ((*BENCH, "--rate", "0", "--loss", "1"), ("rate", "a rate above 0 for runs with faults")),
    ((*BENCH, "--tcp"), ("--tcp", "only with --rate 0")),
    ((*BENCH, "--udp"), ("--udp", "only with --rate 0")),
    ((*BENCH, "--payload-mtu", "1000"), ("payload_mtu", "1000", "4096")),
    (("bench", "live", "--seconds", "0"), ("seconds", "0", "0.2 to 3600")),
    (("demo", "--seconds", "1"), ("--seconds", "1", "4 to 600")),
    (
        ("demo", "--report", "/no/such/folder/x.html"),
        ("--report", "/no/such/folder/x.html", "No such file or directory"),
    ),
    (("demo", "--picture", "x.bmp"), ("--picture", "x.bmp", ".png")),
    (("perf", "write", "127.0.0.1", "--size", "many"), ("--size", "many", "64KiB")),
    (("perf", "write", "127.0.0.1", "--qps", "0"), ("--qps", "0", "1 to 64")),
    (("perf", "latency", "127.0.0.1", "--size", "7"), ("--size", "7", "a multiple of 8")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[" ".join(case[0][:6]) for case in REFUSED])
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], words: tuple[str, ...]):
    done = openmrc(*arguments)
    said = one_line(done.stderr)
    assert done.returncode == 2, said
    assert "Traceback" not in said
    for word in words:
        assert word in said


@pytest.mark.slow
def test_bench_writes_every_key_the_issue_names(tmp_path: Path):
    path = tmp_path / "result.json"
    done = openmrc(
        "bench",
        "live",
        "--planes",
        "2",
        "--rate",
        "50Mbit",
        "--seconds",
        "2",
        "--seed",
        "9",
        "--fault",
        "plane 1 blackhole at 500ms for 500ms",
        "--json",
        str(path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(path.read_text())
    wanted = {
        "goodput_gbps",
        "limit_gbps",
        "longest_stall_ms",
        "goodput_during_fault_gbps",
        "bytes",
        "content_ok",
        "retransmitted_packets",
        "cpu_seconds_per_gb",
        "per_port",
        "transport",
        "seed",
    }
    assert wanted <= set(result)
    assert result["content_ok"] is True
    assert (result["transport"], result["seed"]) == ("mrc", 9)
    assert 0 < result["goodput_gbps"] <= result["limit_gbps"] == pytest.approx(0.1 * 4096 / 4164)
    assert result["bytes"] > 0
    assert result["goodput_during_fault_gbps"] > 0
    assert [port["port"] for port in result["per_port"]] == [0, 1]
    assert all(port["received_bytes"] > 0 for port in result["per_port"])
    assert result["fabric"]["drop_blackhole"] > 0
    assert result["machine_cpu_seconds_per_gb"] > 0
    assert result["counters"]["reader"]["receive_calls_per_mb"] > 0


def test_unshaped_bench_compares_with_tcp_and_udp(tmp_path: Path):
    path = tmp_path / "result.json"
    command = ("bench", "live", "--planes", "2", "--rate", "0", "--seconds", "1", "--tcp", "--udp", "--json", str(path))
    done = openmrc(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(path.read_text())
    assert result["content_ok"] is True
    assert result["limit_gbps"] == 0
    assert result["goodput_gbps"] > 0
    assert result["tcp_goodput_gbps"] > 0
    assert result["udp_goodput_gbps"] > 0
    for name in ("cpu", "tcp_cpu", "udp_cpu", "machine_cpu", "tcp_machine_cpu", "udp_machine_cpu"):
        assert result[f"{name}_seconds_per_gb"] > 0
    counters = result["counters"]
    assert counters["writer"]["sent_bytes_per_mb"] > 1e6, "payload and headers"
    assert counters["reader"]["sacks_sent_per_mb"] > 0
    assert all(end["wait_calls_per_mb"] >= end["wakeups_per_mb"] > 0 for end in counters.values())
    assert "calls per MB, writer" in done.stdout
    assert "one TCP stream" in done.stdout
    assert "bare UDP stream" in done.stdout
    assert "CPU of the machine" in done.stdout


@pytest.mark.slow
def test_the_demo_leaves_a_report_that_stands_alone(tmp_path: Path):
    done = openmrc(
        "demo",
        "--seconds",
        "5",
        "--rate",
        "20Mbit",
        "--report",
        "report.html",
        "--json",
        "demo.json",
        "--picture",
        "demo.svg",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") >= 3
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "all received bytes were correct" in one_line(done.stdout)
    record = json.loads((tmp_path / "demo.json").read_text())
    assert record["verdict"]["data_correct"] is True
    assert (record["mrc"]["transport"], record["rc"]["transport"]) == ("mrc", "rc")
    assert all(flow["content_ok"] and flow["bytes_checked"] > 0 for flow in record["mrc"]["flows"])
    assert (tmp_path / "demo.svg").read_text().lstrip().startswith("<?xml")


@pytest.fixture
def server() -> Iterator[str]:
    """A perf server on loopback for two clients; its TCP port."""
    command = [sys.executable, "-m", "openmrc.cli.main", "perf", "serve", "--ports", "127.81.0.1,127.81.1.1"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--udp-port", str(UDP_PORT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found is not None
        yield found.group(1)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_perf_measures_bandwidth_and_latency(server: str, tmp_path: Path):
    common = ("127.0.0.1", "--port", server, "--udp-port", str(UDP_PORT), "--iterations", "64")
    write = openmrc("perf", "write", *common, "--json", str(tmp_path / "write.json"))
    assert write.returncode == 0, write.stderr
    assert "BW average[Gb/s]" in write.stdout
    rows = json.loads((tmp_path / "write.json").read_text())["rows"]
    assert [row["bytes"] for row in rows] == [4**power for power in range(3, 12)]
    assert all(row["iterations"] == 64 and row["peak_gbps"] >= row["average_gbps"] > 0 for row in rows)
    assert all(0 <= row["retransmitted_packets"] <= row["sent_packets"] for row in rows)
    assert [[plane["plane"] for plane in row["planes"]] for row in rows] == [[0, 1]] * len(rows)
    assert sum(plane["sent_packets"] for plane in rows[-1]["planes"]) == rows[-1]["sent_packets"]
    assert all(0 < plane["acked_packets"] <= plane["sent_packets"] for plane in rows[-1]["planes"])
    assert all(plane["rate_bps"] > 0 and plane["base_rtt_us"] > 0 for plane in rows[-1]["planes"])
    for row in rows:
        assert row["cpu_seconds_per_gb"] > 0
        assert row["peer_cpu_seconds_per_gb"] > 0
        assert row["machine_cpu_seconds_per_gb"] >= 0
        assert row["peer_machine_cpu_seconds_per_gb"] is None, "both ends are on this machine"
        assert row["counters"]["send_calls_per_mb"] > 0
        assert row["counters"]["sacks_received_per_mb"] > 0
        assert row["peer_counters"]["received_bytes_per_mb"] > 1e6, "payload and headers"
    assert "CPU of the whole machine, s/GB: this one" in write.stdout
    assert "calls per MB, server" in write.stdout
    assert "Retransmitted[%]" in write.stdout
    assert "planes at 4 MiB" in write.stdout
    both = openmrc("perf", "write", *common, "--size", "16KiB", "--qps", "2", "--bidirectional")
    assert both.returncode == 0, both.stderr
    assert "2 QPs" in both.stdout
    latency = openmrc("perf", "latency", *common, "--json", str(tmp_path / "latency.json"))
    assert latency.returncode == 0, latency.stderr
    rows = json.loads((tmp_path / "latency.json").read_text())["rows"]
    for row in rows:
        assert 0 < row["t_min_us"] <= row["t_typical_us"] <= row["p99_us"] <= row["p99_9_us"] <= row["t_max_us"]


def test_perf_without_a_server_says_which_address_and_ends_with_1():
    done = openmrc("perf", "write", "127.0.0.1", "--port", "9", "--size", "64")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr
    assert "openmrc perf serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_perf_refuses_another_number_of_ports(server: str):
    done = openmrc("perf", "write", "127.0.0.1", "--port", server, "--udp-port", str(UDP_PORT), "--ports", "127.81.0.9")
    assert done.returncode == 2
    assert "2 addresses" in one_line(done.stderr)
