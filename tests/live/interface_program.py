"""Program of test_interfaces_lost.py in a network namespace: transfers while interfaces are removed and created.

Usage: interface_program.py near UDP_PORT CARRIER   creates namespace and cables, removes interfaces
       interface_program.py far UDP_PORT CARRIER    the far end
CARRIER is "carrier" or "plain": with a LinkCarrier or without. The near end prints a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable

import openmrc
from openmrc.verbs import Access, Device, Event, LinkCarrier

BYTES = 50_000
PLANES = (0, 1)


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, timeout=10)


def set_up(side: str, plane: int) -> None:
    """Address of one end of a cable, and that end up; the far end does it when its own appears."""
    name = f"{side}{plane}"
    ip("addr", "add", f"10.77.{plane}.{1 if side == 'a' else 2}/24", "dev", name)
    ip("link", "set", name, "up")


def lay(plane: int, far_pid: int) -> None:
    """A cable between both ends; the far one is set up from here."""
    ip("link", "add", f"a{plane}", "type", "veth", "peer", "name", f"b{plane}", "netns", far_pid)
    set_up("a", plane)
    far = ["nsenter", "--net", "--target", str(far_pid)]
    subprocess.run([*far, sys.executable, __file__, "set-up", str(plane)], check=True, timeout=20)


def device(side: str, udp_port: int) -> Device:
    host = 1 if side == "a" else 2
    return Device([f"10.77.{plane}.{host}%{side}{plane}" for plane in PLANES], udp_port=udp_port)


def far_end(udp_port: int, carrier: bool) -> None:
    print("here", flush=True)
    sys.stdin.readline()  # the cables are there
    with device("b", udp_port) as own, LinkCarrier(own) if carrier else contextlib.nullcontext():
        region = own.open_context().alloc_pd().register(bytearray(BYTES), Access.REMOTE_WRITE)
        with openmrc.listen(own, "10.77.9.2:7701", region=region) as listener:
            print("listening", flush=True)
            with listener.accept(timeout_s=20):
                sys.stdin.readline()


class NearEnd:
    def __init__(self, own: Device, client: openmrc.Connection) -> None:
        self.client = client
        self.events: list[Event] = []
        self.reader = own.subscribe()
        self.writes = 0
        self.steps: list[str] = []

    def write_until(self, step: str, over: Callable[[], bool]) -> None:
        """Transfers until the condition holds; the caller of this program limits its time."""
        print(f"waiting for: {step}", file=sys.stderr, flush=True)
        while True:
            self.client.write(bytearray([self.writes % 256]) * BYTES).wait(10)
            self.writes += 1
            self.events += self.reader.poll()
            if over():
                self.steps.append(step)
                return

    def saw(self, plane: int, up: bool, learned: bool) -> Callable[[], bool]:
        def seen() -> bool:
            changes = [one for one in self.events if one.name == "port_state"]
            return any((one.port, one.up, one.learned) == (plane, up, learned) for one in changes)  # type: ignore[attr-defined]

        return seen


def near_end(udp_port: int, carrier: bool) -> None:
    far_command = ["unshare", "--net", sys.executable, __file__, "far", str(udp_port), sys.argv[3]]
    with subprocess.Popen(far_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        far.stdout.readline()
        for plane in (*PLANES, 9):  # 9 is for the handshake
            lay(plane, far.pid)
        print("go", file=far.stdin, flush=True)
        far.stdout.readline()
        with device("a", udp_port) as own, LinkCarrier(own) if carrier else contextlib.nullcontext():
            client = openmrc.connect(own, "10.77.9.2:7701", timeout_s=10)
            result = exercise(own, client, far.pid)
            print(json.dumps(result), flush=True)
            print("over", file=far.stdin, flush=True)
            client.close()


def exercise(own: Device, client: openmrc.Connection, far_pid: int) -> dict[str, object]:
    near = NearEnd(own, client)
    near.write_until("writes", lambda: near.writes >= 5)
    for plane in PLANES:
        near.events.clear()
        ip("link", "del", f"a{plane}")
        # The other plane, which has been removed before, carries everything now.
        near.write_until(f"down {plane}", near.saw(plane, up=False, learned=False))
        near.write_until(f"down there {plane}", near.saw(plane, up=False, learned=True))
        near.events.clear()
        lay(plane, far_pid)
        near.write_until(f"up {plane}", near.saw(plane, up=True, learned=False))
        near.write_until(f"up there {plane}", near.saw(plane, up=True, learned=True))
    before = [port.socket.sent_bytes for port in own.statistics().ports]
    near.write_until(
        "both planes carry",
        lambda: all(
            now.socket.sent_bytes > was + BYTES for now, was in zip(own.statistics().ports, before, strict=True)
        ),
    )
    refused = [one.to_dict() for one in near.reader.poll() + near.events if one.name == "port_refused"]
    return {"steps": near.steps, "writes": near.writes, "refused": refused}


if __name__ == "__main__":
    if sys.argv[1] == "set-up":
        set_up("b", int(sys.argv[2]))
    else:
        {"near": near_end, "far": far_end}[sys.argv[1]](int(sys.argv[2]), sys.argv[3] == "carrier")
