"""Unmodified programs of the distribution over openmrc's libibverbs: both ends on loopback."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from pathlib import Path

import pytest
from own_ports import LOOPBACK
from rdma_programs import LIMIT_S, compiled, needs, run_case, run_pair, wrapped

from openmrc.runs.processes.veth_pairs import VethPair, namespaces_allowed

PERFTEST = (
    "ib_write_bw",
    "ib_write_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
)
pytestmark = needs("ibv_devinfo", "ibv_devices", "ibv_rc_pingpong", *PERFTEST)


def run_alone(words: list[str], *devices: str) -> str:
    done = subprocess.run(wrapped(words, *devices), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_ibv_devinfo_shows_an_active_port():
    shown = run_alone(["ibv_devinfo", "-v"])
    assert "hca_id:\tmrc0" in shown
    assert "PORT_ACTIVE" in shown
    assert "::ffff:127.0.0.1, RoCE v2" in shown


def test_every_list_of_ports_is_a_device():
    shown = run_alone(["ibv_devices"], "127.0.0.1", "127.0.0.2,127.0.0.3")
    assert "mrc0" in shown
    assert "mrc1" in shown


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("ib_write_bw -n 200", id="bandwidth"),
        pytest.param("ib_write_bw -a -n 20", id="all_sizes"),
        pytest.param("ib_write_bw -b -n 200", id="bidirectional"),
        pytest.param("ib_write_bw -q 4 -n 200", id="four_qps"),
        pytest.param("ib_write_bw -l 4 -n 200", id="lists_of_four"),
        pytest.param("ib_write_bw -I 64 -s 32 -n 200", id="inline"),
        pytest.param("ib_write_lat -n 500", id="latency"),
    ],
)
def test_perftest_writes(words: str):
    ended = run_pair([*words.split(), "-d", "mrc0", "-F"])
    assert ended.passed, ended.output


def test_commands_of_the_guide_work_as_printed(repository: Path):
    text = (repository / "docs" / "guides" / "rdma-programs.md").read_text()
    block = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    alone, server, client = [line.removeprefix("$ openmrc run ") for line in block.splitlines()]
    ports, program = alone.removeprefix("--ports ").split(" -- ")
    (line,) = re.findall(r"^```text\n(openmrc: .*?)\n```", text, re.MULTILINE)
    assert line in run_alone(program.split(), ports)
    assert client == server.removesuffix("&") + "127.0.0.1"
    ended = run_pair(server.removesuffix(" &").split(" -- ")[1].split())
    assert ended.passed, ended.output


def test_two_planes():
    ended = run_pair(["ib_write_bw", "-n", "200", "-d", "mrc0", "-F"], ports="127.0.0.1,127.0.0.2")
    assert ended.passed, ended.output


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("ib_send_bw -n 200", id="bandwidth"),
        pytest.param("ib_send_bw -b -e -n 200", id="bidirectional_with_events"),
        pytest.param("ib_send_lat -I 64 -s 32 -n 50", id="inline_latency"),
        pytest.param("ib_read_bw -b -n 100", id="read_bandwidth"),
        pytest.param("ib_read_lat -n 50", id="read_latency"),
        pytest.param("ib_atomic_bw -n 100", id="fetch_and_add"),
        pytest.param("ib_atomic_lat -A CMP_AND_SWAP -n 50", id="compare_and_swap"),
    ],
)
def test_perftest_over_rc(words: str):
    ended = run_pair([*words.split(), "-d", "mrc0", "-F"])
    assert ended.passed, ended.output


@pytest.mark.parametrize("options", ["-c", "-c -e"])
@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_ping_pong_with_checked_contents(options: str, qp: str):
    ended = run_pair(["ibv_rc_pingpong", "-g", "0", "-n", "100", *options.split()], qp=qp)
    assert ended.passed, ended.output
    assert "invalid data" not in ended.output


def test_mrc_alone_refuses_a_send():
    ended = run_pair(["ib_send_bw", "-n", "5", "-d", "mrc0", "-F"], qp="mrc")
    assert ended.client != 0
    assert "Couldn't post send" in ended.output


def test_example_in_c(repository: Path, tmp_path: Path):
    program = compiled(repository / "examples" / "rdma_write.c", tmp_path / "rdma_write")
    assert "mrc0: success, contents equal" in run_alone(program)


@pytest.mark.parametrize("qp", ["pair", "mrc", "rc"])
def test_misuse_is_refused(tmp_path: Path, qp: str):
    program = compiled(Path(__file__).with_name("verbs_misuse.c"), tmp_path / "verbs_misuse")
    done = subprocess.run(wrapped(program, qp=qp), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "all refused\n")


@pytest.fixture(scope="module")
def recovery(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_recovery.c"), tmp_path_factory.mktemp("c") / "verbs_recovery")


@pytest.mark.parametrize(
    ("case", "qp"),
    [
        ("reset", "pair"),
        ("reset", "mrc"),
        ("reset", "rc"),
        ("failed", "pair"),
        ("failed_receive", "pair"),
        ("events", "pair"),
        ("closing", "pair"),
        ("forked", "pair"),
        ("signals", "pair"),
        ("devices", "pair"),
    ],
)
def test_recovery(recovery: list[str], case: str, qp: str):
    run_case(recovery, case, "127.0.0.1", "127.0.0.2", qp=qp)


@pytest.fixture
def namespaces() -> None:
    """Skips if this process may not create network namespaces."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")


@pytest.mark.root
@pytest.mark.usefixtures("namespaces")
def test_an_address_has_the_mtu_of_its_interface():
    with VethPair(mtu=1500) as pair:
        command = [*pair.prefix(0), *wrapped(["ibv_devinfo"], pair.addresses[0])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert re.search(r"active_mtu:\s+1024 ", done.stdout), done.stdout + done.stderr


@pytest.mark.root
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(("mtu", "qp"), [(9000, "pair"), (9000, "rc"), (4500, "pair")])
def test_ends_with_different_room_agree_on_a_payload(mtu: int, qp: str):
    """A responder fails the QP at a packet that is larger than its own full ones."""
    with VethPair(mtu=9000) as pair:
        subprocess.run(["ip", "-n", pair.names[1], "link", "set", pair.interface, "mtu", str(mtu)], check=True)
        ends = [(pair.prefix(end), pair.addresses[end]) for end in range(2)]
        ended = run_pair(["ib_write_bw", "-n", "200", "-d", "mrc0", "-F"], ends=ends, qp=qp)
    assert ended.passed, ended.output


@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_mixed_work_keeps_its_order(tmp_path: Path, qp: str):
    program = compiled(Path(__file__).with_name("verbs_order.c"), tmp_path / "verbs_order")
    done = subprocess.run(wrapped(program, qp=qp), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "in order\n")


def packets_without_icrc(own: str, words: list[str], qp: str) -> tuple[int, int]:
    """Packets with the mark `no_icrc` in a run on loopback at this address, and all packets."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as capture:
        capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        capture.bind(("lo", 0x0800))
        ended = run_pair(words, ports=own, qp=qp)
        assert ended.passed, ended.output
        address, marked, seen = socket.inet_aton(own), 0, 0
        capture.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while packet := capture.recv(2048):
                if packet[9] != socket.IPPROTO_UDP or packet[12:16] != address:
                    continue
                seen += 1
                marked += packet[28 + 8] >> 2 & 1
    return marked, seen


# proves X.4.12
@pytest.mark.root
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_programs_on_one_kernel_omit_the_icrc_unless_mrc_is_as_published(qp: str, monkeypatch: pytest.MonkeyPatch):
    words = ["ib_write_lat", "-n", "500", "-d", "mrc0", "-F"]
    marked, seen = packets_without_icrc(f"{LOOPBACK}.41", words, qp)
    assert seen > 1000
    assert marked > seen // 2
    monkeypatch.setenv("OPENMRC_SIGNAL", "marks")
    marked, seen = packets_without_icrc(f"{LOOPBACK}.41", words, qp)
    assert seen > 1000
    assert marked == 0
