"""Program of test_collectives_confined.py: one of two ranks, confined by its arguments.

Usage: confined_rank.py RANK STORE PORT UDP_PORT ADDRESS [CONFINEMENT...]    Prints a line of JSON.

Confinements: `user` becomes nobody, `hidden` denies others access to this process's files, `sandboxed` may not create
memory to share, `no-proc` does not know its host.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
from sandbox_program import refuse

from openmrc import Device
from openmrc.collectives import TcpStore, World, hosts

SET_DUMPABLE, NOBODY = 4, 65534


def confine(how: str) -> None:
    """Applies a confinement permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    if how == "user":
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        assert libc.prctl(SET_DUMPABLE, 1, 0, 0, 0) == 0  # reset by the change of the user
    elif how == "hidden":
        assert libc.prctl(SET_DUMPABLE, 0, 0, 0, 0) == 0
    elif how == "sandboxed":
        refuse(["memfd_create"], errno.EPERM)
    elif how == "no-proc":
        hosts._NETWORK = Path("/proc/nothing")
    else:
        raise SystemExit(f"unknown confinement {how}")


def main() -> None:
    rank, store, port, udp_port, address, *confinements = sys.argv[1:]
    "".encode("idna")  # preloads codecs, since Python's own files may be inaccessible to another user
    for how in confinements:
        confine(how)
    buffer = np.full(300_007, float(rank) + 1)
    with (
        Device([port], udp_port=int(udp_port)) as device,
        World(device, int(rank), 2, TcpStore(store, serve=rank == "0"), address=address) as world,
    ):
        world.group.all_reduce(buffer).wait(30)
        world.group.barrier().wait(30)
        found = {"neighbours": world.neighbours, "sites": world.sites, "sum": float(buffer[0])}
        print(json.dumps(found | {"same": bool((buffer == buffer[0]).all())}), flush=True)


if __name__ == "__main__":
    main()
