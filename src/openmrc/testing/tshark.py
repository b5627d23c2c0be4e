"""Dissection of captured packets by tshark, a decoder independent of openmrc."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["COMPLAINTS", "capture", "dissect", "tshark_path"]

# Fields by which tshark marks a packet as faulty.
COMPLAINTS = ("_ws.malformed", "_ws.expert.message", "_ws.short", "_ws.unreassembled")
_TIMEOUT_S = 60
_CAPTURE_START_S = 15
_CAPTURE_DRAIN_S = 0.5  # packets reach the file through the kernel's buffer


def tshark_path() -> str | None:
    """Path of tshark, or None."""
    return shutil.which("tshark")


def dissect(pcap: Path, fields: Sequence[str]) -> list[dict[str, str]]:
    """Values of the named fields for every packet of a capture file, "" if a packet lacks one.

    Key "complaints" holds everything that tshark marks as malformed or suspicious; "" means none.

    Args:
        pcap: Capture file.
        fields: Names of tshark's display fields, such as "infiniband.bth.psn".

    Raises:
        FileNotFoundError: tshark is not installed.
        subprocess.CalledProcessError: tshark does not know a field or cannot read the file.
    """
    names = [*fields, *COMPLAINTS]
    command = ["tshark", "-n", "-r", str(pcap), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]
    command += ["--disable-protocol", "rpcordma"]  # its heuristic takes payloads of SEND for its own and complains
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
    packets = []
    for line in done.stdout.splitlines():
        values = dict(zip(names, line.split("\t"), strict=True))
        complaints = " ".join(filter(None, (values.pop(name) for name in COMPLAINTS)))
        packets.append(values | {"complaints": complaints})
    return packets


@contextmanager
def capture(interface: str, pcap: Path, port: int, snap_bytes: int = 0) -> Iterator[None]:
    """Writes the UDP packets to or from a port on an interface to a file for the duration of the block.

    Args:
        interface: Name of the interface, "lo" for loopback.
        pcap: File to write.
        port: UDP port.
        snap_bytes: Captured bytes of each packet; 0: all.

    Raises:
        FileNotFoundError: tshark is not installed.
        RuntimeError: tshark ended or did not start capturing, with its message. Usually privileges are missing.
    """
    log = pcap.with_suffix(".log")
    command = ["tshark", "-n", "-q", "-i", interface, "-f", f"udp port {port}", "-s", str(snap_bytes)]
    command += ["-F", "pcap", "-w", str(pcap)]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        deadline = time.monotonic() + _CAPTURE_START_S
        # The header of the file appears once packets are captured, not before.
        while not (pcap.exists() and pcap.stat().st_size > 0):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tshark does not capture on {interface}: {log.read_text().strip()}")
            time.sleep(0.05)
        yield
        time.sleep(_CAPTURE_DRAIN_S)
    finally:
        process.terminate()
        process.wait(timeout=_TIMEOUT_S)
