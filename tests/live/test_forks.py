"""Forking processes: the child releases its copies of the parent's resources, and the parent is unaffected."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc.errors import WorkError

pytestmark = [pytest.mark.live]

START = f"""
import gc, multiprocessing, os, socket, subprocess, sys, threading, warnings
import numpy as np
import openmrc
from openmrc.collectives import FileStore, World
from openmrc.errors import ForkedError

warnings.simplefilter("ignore", DeprecationWarning)  # of CPython, about threads and fork
UDP_PORT = {UDP_PORT}


def sockets():
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink(f"/proc/self/fd/{{number}}")
        except FileNotFoundError:
            continue
        if kind.startswith(("socket", "anon_inode", "pipe", "/memfd")):
            found.append((int(number), kind))
    return found


def run_in_child(body):
    pid = os.fork()
    if pid == 0:
        body()
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

# A parent whose forked child lives on; the parent then waits to be killed.
PARENT = (
    START
    + """
device = openmrc.Device(["127.79.0.2"], udp_port=UDP_PORT)
listener = openmrc.listen(device, "127.0.0.1:0", region=bytearray(1 << 20))
print(listener.address, flush=True)
connection = listener.accept(timeout_s=30)
child = os.fork()
if child == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
print("forked", flush=True)
signal_never_comes = threading.Event().wait()
"""
)

# Two connected devices, and a world with this and another process.
PAIR = (
    START
    + """
one = openmrc.Device(["127.79.1.1"], udp_port=UDP_PORT)
other = openmrc.Device(["127.79.1.2"], udp_port=UDP_PORT)
region = bytearray(1 << 16)
listener = openmrc.listen(other, "127.0.0.1:0", region=region)
accepted = []
acceptor = threading.Thread(target=lambda: accepted.append(listener.accept(30)))
acceptor.start()
connection = openmrc.connect(one, listener.address)
acceptor.join()
source = connection.register(bytearray(b"x" * (1 << 16)))
connection.write(source).wait(20)
"""
)


def run(program: str, *, timeout_s: float = 60) -> str:
    """Output of a program, which has to succeed without messages on stderr."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()


@pytest.fixture
def orphan_maker() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()  # the child ends with the pipe


def test_a_killed_parent_is_gone_though_its_child_lives(orphan_maker: subprocess.Popen[str]):
    assert orphan_maker.stdout is not None
    address = orphan_maker.stdout.readline().strip()
    patient = openmrc.QpSettings(exponential_retries=25)
    with openmrc.Device(["127.79.0.1"], udp_port=UDP_PORT) as device:
        connection = openmrc.connect(device, address, settings=patient)
        assert orphan_maker.stdout.readline().strip() == "forked"
        orphan_maker.send_signal(signal.SIGKILL)
        orphan_maker.wait()
        with pytest.raises(WorkError):
            connection.recv_imm(20)
        assert connection.peer_lost is not None
        connection.close()
    with openmrc.Device(["127.79.0.2"], udp_port=UDP_PORT):
        pass  # the port is free


def test_a_child_may_end_as_it_likes_and_the_parent_goes_on():
    program = (
        PAIR
        + """
endings = [lambda: None, lambda: os._exit(0), lambda: gc.collect(), lambda: (connection.close(), listener.close(),
           one.close(), other.close(), source.close())]
for ending in endings:
    assert run_in_child(ending) == 0
    connection.write(source).wait(20)
    assert connection.peer_lost is None and accepted[0].peer_lost is None
context = multiprocessing.get_context("fork")
for _ in range(2):
    process = context.Process(target=print, args=("from a child",))
    process.start()
    process.join()
    assert process.exitcode == 0
connection.write(source).wait(20)
connection.close()
print("done")
"""
    )
    assert run(program).splitlines() == ["from a child", "from a child", "done"]


def test_a_child_has_no_descriptor_of_its_parent():
    program = (
        START
        + """
before = {number for number, _ in sockets()}
"""
        + PAIR.removeprefix(START)
        + """
import tempfile
folder = tempfile.mkdtemp()
def rank(number):
    device = openmrc.Device([f"127.79.3.{number + 1}"], udp_port=UDP_PORT)
    world = World(device, number, 2, FileStore(folder, 30))
    world.group.barrier().wait(30)
    return world
worlds = []
threads = [threading.Thread(target=lambda number=number: worlds.append(rank(number))) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
from openmrc.collectives import TcpStore
store = TcpStore("127.0.0.1:0", serve=True)
store.set("key", "value")
subscription = one.subscribe()
from openmrc.verbs.carrier import LinkCarrier
carrier = LinkCarrier(one)
own = [entry for entry in sockets() if entry[0] not in before]
assert len(own) > 100
import fcntl
assert all(fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC for number, _ in own), "a program that is started"
def body():
    left = [entry for entry in sockets() if entry[0] not in before]
    assert not left, left
assert run_in_child(body) == 0
for world in worlds:
    world.close(goodbye=True)
connection.close()
carrier.close()
print("done")
"""
    )
    assert run(program) == "done"


def test_everything_of_the_parent_refuses_with_its_reason_and_a_child_opens_its_own_device():
    program = (
        PAIR
        + """
import tempfile, traceback
world = World(one, 0, 1, FileStore(tempfile.mkdtemp(), 30))
uses = [
    one.statistics, one.ports_up, one.progress, one.evs, lambda: one.set_port_state(0, False),
    lambda: openmrc.listen(one, "127.0.0.1:0", region=bytearray(8)), lambda: openmrc.connect(one, listener.address),
    lambda: connection.write(source), lambda: connection.recv_imm(1), lambda: connection.flush(1),
    connection.qp.statistics, connection.qp.ask_peer, lambda: connection.qp.state, lambda: connection.qp.send_cq.poll(),
    lambda: connection.qp.send_cq.wait(1), lambda: connection.register(bytearray(8)),
    lambda: world.group.all_reduce(np.ones(3)), lambda: world.group.barrier(), world.statistics,
]
def body():
    assert one.closed and connection.closed and world.closed
    for use in uses:
        try:
            use()
        except ForkedError as error:
            assert "open a Device in this process" in str(error) and str(os.getppid()) in str(error)
        else:
            raise AssertionError(uses.index(use))
    with openmrc.Device(["127.79.1.3"], udp_port=UDP_PORT) as device:
        with openmrc.connect(device, listener.address) as own:
            own.write(bytearray(b"child"), 100).wait(20)
acceptor = threading.Thread(target=lambda: accepted.append(listener.accept(30)))
acceptor.start()
pid = os.fork()
if pid == 0:
    try:
        body()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
acceptor.join()
assert region[100:105] == b"child"
connection.write(source).wait(20)
connection.close()
print("done")
"""
    )
    assert run(program) == "done"


def test_a_fork_in_the_middle_of_traffic_neither_hangs_nor_hurts():
    """Holds for any lock held by another thread at the time of the fork."""
    program = (
        PAIR
        + """
import tempfile
folder = tempfile.mkdtemp()
over, meet = threading.Event(), threading.Barrier(3)
worlds = {}
def rank(number):
    device = one if number == 0 else other
    worlds[number] = world = World(device, number, 2, FileStore(folder, 30), shared_memory=False)
    meet.wait(30)
    buffer = np.ones(100_000, np.float32)
    while True:
        flag = np.array([float(over.is_set())])
        world.group.broadcast(flag, 0).wait(30)
        if flag[0]:
            return
        world.group.all_reduce(buffer).wait(30)
def events():
    while not over.is_set():
        with one.subscribe() as reader:
            reader.wait(0.001)
threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)] + [threading.Thread(target=events)]
for thread in threads: thread.start()
meet.wait(30)
for turn in range(12):
    pid = os.fork()
    if pid == 0:
        for world in worlds.values():
            world.close()
        one.close()
        connection.close()
        del connection, accepted, worlds, world
        gc.collect()
        sys.exit(0) if turn % 2 else os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    connection.write(source).wait(20)
over.set()
for thread in threads: thread.join()
for world in worlds.values():
    assert world.missing == {}
    world.close()
connection.close()
print("done")
"""
    )
    assert run(program) == "done"
