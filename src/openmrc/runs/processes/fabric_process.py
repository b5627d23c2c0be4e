"""The fabric of a run, as a process started by its parent, which sends it the faults and requests the counters.

open        make the fabric (a pickled `Fabric`)    -> {"ports": ports of every host}
strike      schedule faults, whose times count from now
repair      end all faults
plane_bytes                                        -> {"plane_bytes": bytes delivered to hosts, by plane}
result                                             -> {"result": counters}

Unasked, {"carrier": ...} when a host's link goes down or comes up.
"""

from __future__ import annotations

import base64
import errno
import os
import pickle
from dataclasses import replace
from typing import Any

from openmrc.emulate import EmulatedFabric
from openmrc.errors import DeviceError, OpenmrcError
from openmrc.fabric import Fabric
from openmrc.runs.processes.child import Pipe, adopt

_BASES = 12  # address ranges of loopback to try, so that several runs fit on one machine


def open_fabric(fabric: Fabric) -> EmulatedFabric:
    """The fabric, running, in a free range of loopback addresses.

    Raises:
        DeviceError: the system refused, or all ranges are taken.
    """
    first = os.getpid()
    for attempt in range(_BASES):
        base = f"127.{16 + (first + attempt * 5) % 14 * 16}.0.0"
        try:
            return EmulatedFabric(replace(fabric, address_base=base)).start()
        except DeviceError as error:
            if error.errno != errno.EADDRINUSE or attempt == _BASES - 1:
                raise
    raise AssertionError("unreachable: the last attempt raises")


def _serve(pipe: Pipe) -> None:
    fabric: EmulatedFabric | None = None

    def pass_on(event: dict[str, Any]) -> None:
        if event["event"] == "carrier":
            pipe.send({"carrier": {"host": event["host"], "plane": event["port"], "up": event["up"]}})

    try:
        while (message := pipe.receive()) is not None:
            if message["do"] == "open":
                fabric = open_fabric(pickle.loads(base64.b64decode(message["fabric"])))  # noqa: S301  # from our parent
                fabric.subscribe(pass_on)
                hosts = range(fabric.fabric.hosts)
                pipe.send({"ports": [[str(port) for port in fabric.ports(host)] for host in hosts]})
                continue
            assert fabric is not None
            if message["do"] == "strike":
                for fault in message["faults"]:
                    fabric.inject(fault)
            elif message["do"] == "repair":
                fabric.inject("repair all")
            elif message["do"] == "plane_bytes":
                pipe.send({"plane_bytes": _plane_bytes(fabric)})
            elif message["do"] == "result":
                pipe.send({"result": _result(fabric)})
    finally:
        if fabric is not None:
            fabric.stop()


def _plane_bytes(fabric: EmulatedFabric) -> list[int]:
    totals = [0] * fabric.fabric.planes
    for link in fabric.statistics().links:
        if link.kind == "nic_down":
            totals[link.plane] += link.bytes
    return totals


def _result(fabric: EmulatedFabric) -> dict[str, Any]:
    counters = fabric.statistics().as_dict()
    links = counters.pop("links")
    drops = ("drop_queue", "drop_control_queue", "drop_down", "drop_blackhole", "drop_loss", "drop_crowded")
    harms = ("marks", "trims", "corrupted", "duplicated", "reordered")
    return {
        **counters,
        "cpu_s": counters["cpu_ns"] / 1e9,
        "queue_peak_bytes": max(link["queue_peak_bytes"] for link in links),
        **{name: sum(link[name] for link in links) for name in (*harms, *drops)},
    }


def main() -> None:
    """Serves the parent until it closes the pipe."""
    adopt()
    pipe = Pipe()
    pipe.send({"ready": True})
    try:
        _serve(pipe)
    except (OpenmrcError, OSError) as error:
        pipe.send({"error": str(error)})
        while pipe.receive() is not None:
            pass


if __name__ == "__main__":
    main()
