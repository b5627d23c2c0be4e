"""Started by test_sandboxes.py: a transfer in a process whose system calls are refused by seccomp.

Usage: sandbox_program.py UDP_PORT ERRNO SYSCALL...    Prints a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import sys
import threading
import time

import openmrc
from openmrc.connection import QpSettings
from openmrc.errors import OpenmrcError
from openmrc.verbs import Access, Device

NUMBERS = {
    "x86_64": {
        "seccomp": 317,
        "sendto": 44,
        "setsockopt": 54,
        "sendmsg": 46,
        "sendmmsg": 307,
        "recvmsg": 47,
        "recvmmsg": 299,
        "epoll_pwait2": 441,
        "memfd_create": 319,
    },
    "aarch64": {
        "seccomp": 277,
        "sendto": 206,
        "setsockopt": 208,
        "sendmsg": 211,
        "sendmmsg": 269,
        "recvmsg": 212,
        "recvmmsg": 243,
        "epoll_pwait2": 441,
        "memfd_create": 279,
    },
}[platform.machine()]
SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, ALL_THREADS = 1, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000


def refuse(calls: list[str], error: int) -> None:
    """From now on, in every thread, for good."""
    rules = [struct.pack("=HBBI", LOAD, 0, 0, 0)]
    for call in calls:
        rules.append(struct.pack("=HBBI", EQUAL, 0, 1, NUMBERS[call]))
        rules.append(struct.pack("=HBBI", RETURN, 0, 0, REFUSE | error))
    rules.append(struct.pack("=HBBI", RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    done = libc.syscall(NUMBERS["seccomp"], SET_MODE_FILTER, ALL_THREADS, program)
    assert done == 0, os.strerror(ctypes.get_errno())


def main() -> None:
    udp_port, error, calls = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    target, data = bytearray(300_000), bytearray(os.urandom(300_000))
    quick = QpSettings(timeout_exponent=10, linear_retries=2, exponential_retries=3)
    with Device(["127.0.0.63"], udp_port=udp_port) as a, Device(["127.0.0.64"], udp_port=udp_port) as b:
        region = b.open_context().alloc_pd().register(target, Access.REMOTE_WRITE)
        with openmrc.listen(b, "127.0.0.1:0", region=region, settings=quick) as listener:
            found: list[openmrc.Connection] = []
            thread = threading.Thread(target=lambda: found.append(listener.accept(timeout_s=5)))
            thread.start()
            client = openmrc.connect(a, listener.address, settings=quick, timeout_s=5)
            thread.join()
        readers = [a.subscribe(), b.subscribe()]
        refuse(calls, error)
        outcome, words, number = "written", "", None
        try:
            client.write(data).wait(10)
        except OpenmrcError as refused:
            outcome, words, number = type(refused).__name__, str(refused), getattr(refused, "errno", None)
        events = [event for reader in readers for event in reader.wait(1) + reader.poll()]
        refusals = {event.errno for event in events if event.name == "port_refused"}  # type: ignore[attr-defined]
        before = a.statistics().turns
        time.sleep(0.3)  # idle, and not turning: nothing is waited for
        turns = a.statistics().turns - before
        result = {"outcome": outcome, "words": words, "errno": number, "same": target == data}
        print(json.dumps(result | {"refusals": sorted(refusals), "turns": turns}))
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
