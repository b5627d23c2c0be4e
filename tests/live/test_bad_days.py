"""Days on which a process, every plane, or the person at the keyboard gives up: bounded, said, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT
from process_tree import alive, descendants
from waiting import until

from openmrc.errors import OpenmrcError
from openmrc.runs.processes.supervisor import ChildError, Family
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.session import execute

pytestmark = [pytest.mark.live, pytest.mark.slow]

LIMIT_S = 60.0


@pytest.fixture
def command() -> Iterator[object]:
    """Starts `openmrc` commands and makes sure that none survives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "openmrc.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for_children(process: subprocess.Popen[str], count: int) -> set[int]:
    """The descendants of a command once it has so many."""
    while len(found := descendants(process.pid)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    ("arguments", "children"),
    [
        (("bench", "live", "--planes", "2", "--rate", "50Mbit", "--seconds", "60"), 3),
        (("bench", "live", "--planes", "1", "--rate", "0", "--seconds", "60"), 2),
        (("demo", "--plain", "--seconds", "60", "--report", "{tmp}/report.html"), 5),
    ],
    ids=["bench", "bench-unshaped", "demo"],
)
@pytest.mark.parametrize("when_s", [0.0, 2.5], ids=["while starting", "in the middle"])
def test_an_interrupt_ends_everything_with_130(command, tmp_path, arguments, children, when_s):
    process = command(*(argument.format(tmp=tmp_path) for argument in arguments))
    wait_for_children(process, children)
    time.sleep(when_s)
    family = descendants(process.pid)
    assert family
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in errors
    until(lambda: not any(map(alive, family)))
    assert not list(tmp_path.iterdir())


def test_an_interrupt_ends_a_perf_server_with_130(command):
    process = command("perf", "serve", "--ports", "127.77.0.1", "--port", "0", "--udp-port", str(UDP_PORT))
    assert process.stdout is not None
    assert "serving on 127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize("qps", ["1", "3"])
def test_an_interrupt_ends_a_perf_client_with_130_and_the_server_lives_on(command, qps):
    server = command("perf", "serve", "--ports", "127.77.0.1", "--port", "0", "--udp-port", str(UDP_PORT))
    port = server.stdout.readline().split(",")[0].rpartition(":")[2]
    common = ("perf", "write", "127.0.0.1", "--port", port, "--udp-port", str(UDP_PORT), "--size", "64KiB")
    client = command(*common, "--qps", qps, "--duration", "100")
    assert "#bytes" in client.stdout.readline() + client.stdout.readline()
    time.sleep(0.5)
    client.send_signal(signal.SIGINT)
    _, errors = client.communicate(timeout=LIMIT_S)
    assert client.returncode == 130
    assert "Traceback" not in errors
    again = command(*common, "--iterations", "10")
    output, errors = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, errors
    assert "65536" in output


def test_when_every_plane_is_dead_the_retries_run_out_and_the_error_says_so():
    plan = RunPlan(
        planes=2,
        rate_bps=50_000_000,
        seconds=6.0,
        faults=("all blackhole at 500ms",),
        message_bytes=32 * 1024,
        connection={"timeout_exponent": 13, "linear_retries": 3, "exponential_retries": 3},
    )
    flow = execute(plan).run.flows[0]
    assert flow.error is not None
    assert "RETRY_EXC_ERR" in flow.error
    assert "did not answer on any path" in flow.error
    assert flow.content_ok
    assert flow.bytes_checked > 0


PEER = f"""
import sys, numpy as np, openmrc
device = openmrc.Device(["127.78.0.2"], udp_port={UDP_PORT})
listener = openmrc.listen(device, "127.0.0.1:0", region=np.zeros(1 << 24, dtype=np.uint8))
print(listener.address, flush=True)
connection = listener.accept(timeout_s=30)
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_peer_that_dies_mid_transfer_errors_the_qp_and_flushes_everything():
    import numpy as np

    import openmrc
    from openmrc.errors import WorkError
    from openmrc.verbs import QpState

    peer = subprocess.Popen([sys.executable, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert peer.stdout is not None
        address = peer.stdout.readline().strip()
        with openmrc.Device(["127.78.0.1"], udp_port=UDP_PORT) as device:
            connection = openmrc.connect(device, address)
            assert peer.stdout.readline().strip() == "connected"
            region = connection.register(np.zeros(1 << 22, dtype=np.uint8))
            connection.write(region).wait(30)
            peer.send_signal(signal.SIGSTOP)  # what is posted from then on stays under way
            os.waitpid(peer.pid, os.WUNTRACED)
            handles = [connection.write(region, imm=index) for index in range(20)]
            peer.kill()
            for handle in handles:
                with pytest.raises(WorkError):
                    handle.wait(30)
            assert connection.qp.state is QpState.ERR
            assert connection.peer_lost is not None
            assert all(handle.done for handle in handles)
            connection.close()
    finally:
        peer.kill()
        peer.communicate()


def test_a_host_that_dies_in_a_run_is_named(monkeypatch):
    """The parent of a run notices within its own waiting, and ends the others."""
    killed: list[int] = []
    real = Family.messages

    def kill_one(self, timeout_s):
        if not killed and len(self.children) == 3:
            victim = next(child for child in self.children if child.name == "host1")
            killed.extend(child.pid for child in self.children)
            os.kill(victim.pid, signal.SIGKILL)
        return real(self, timeout_s)

    monkeypatch.setattr(Family, "messages", kill_one)
    with pytest.raises(ChildError, match=r"host1: was ended by signal 9"):
        execute(RunPlan(planes=1, rate_bps=50_000_000, seconds=30.0, message_bytes=32 * 1024))
    assert len(killed) == 3
    assert not any(alive(pid) for pid in killed)


def test_two_runs_at_the_same_time_do_not_meet():
    """Addresses are chosen so that several fabrics fit on one machine."""
    program = (
        "from openmrc.runs.run_plan import RunPlan\nfrom openmrc.runs.session import execute\n"
        "flow = execute(RunPlan(planes=2, rate_bps=20_000_000, seconds=1.0, message_bytes=16384)).run.flows[0]\n"
        "print(flow.content_ok and flow.bytes_checked > 0 and flow.error is None)\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=LIMIT_S)[0].strip() for process in runs]
    assert said == ["True", "True", "True"]


def test_errors_of_a_run_are_ours():
    assert issubclass(ChildError, OpenmrcError)
