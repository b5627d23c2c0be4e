"""An interface's offloads, read from the kernel by ioctl: requires neither `ethtool` nor privileges."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Feature", "features", "set_features"]

_SIOCETHTOOL = 0x8946
_GET_STRINGS = 0x1B
_GET_STRING_COUNT = 0x37
_GET_FEATURES = 0x3A
_SET_FEATURES = 0x3B
_FEATURE_NAMES = 4  # ETH_SS_FEATURES
_NAME_BYTES = 32
_PER_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Feature:
    """One offload: its state, and True if it can be changed."""

    on: bool
    changeable: bool


def features(name: str) -> Mapping[str, Feature]:
    """Offloads of an interface by the kernel's names in `ethtool -k` ("rx-gro"); empty if the driver reports none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            names = _names(asked, name)
            blocks = _blocks(names)
            states = _ask(asked, name, struct.pack("=II", _GET_FEATURES, blocks) + bytes(16 * blocks))[8:]
        except OSError:
            return {}
    return decode(names, states)


def set_features(name: str, wanted: Iterable[str], *, on: bool) -> None:
    """Switches offloads of an interface on or off; names unknown to its kernel are skipped.

    Args:
        name: Of the interface, in this thread's namespace.
        wanted: Offloads by the names of `features`.
        on: Their new state.

    Raises:
        OSError: the driver refused, or this process may not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        names = _names(asked, name)
        known = [_name_at(names, number) for number in range(len(names) // _NAME_BYTES)]
        masks = [0] * _blocks(names)
        for one in wanted:
            if one in known:
                number = known.index(one)
                masks[number // _PER_BLOCK] |= 1 << number % _PER_BLOCK
        parts = b"".join(struct.pack("=II", mask, mask if on else 0) for mask in masks)
        _ask(asked, name, struct.pack("=II", _SET_FEATURES, len(masks)) + parts)


def decode(names: bytes, states: bytes) -> dict[str, Feature]:
    """Features from the kernel's names, 32 bytes each, and masks by the 32: available, requested, active, never."""
    found = {}
    for number in range(len(names) // _NAME_BYTES):
        text = _name_at(names, number)
        available, _requested, active, never = struct.unpack_from("=IIII", states, number // _PER_BLOCK * 16)
        bit = 1 << number % _PER_BLOCK
        if text:
            found[text] = Feature(bool(active & bit), bool(available & bit) and not never & bit)
    return found


def _names(asked: socket.socket, name: str) -> bytes:
    answer = _ask(asked, name, struct.pack("=IIQI", _GET_STRING_COUNT, 0, 1 << _FEATURE_NAMES, 0))
    (count,) = struct.unpack_from("=I", answer, 16)
    head = struct.pack("=III", _GET_STRINGS, _FEATURE_NAMES, count)
    return _ask(asked, name, head + bytes(_NAME_BYTES * count))[len(head) :]


def _name_at(names: bytes, number: int) -> str:
    return names[number * _NAME_BYTES :][:_NAME_BYTES].partition(b"\0")[0].decode()


def _blocks(names: bytes) -> int:
    return -(-len(names) // _NAME_BYTES // _PER_BLOCK)


def _ask(asked: socket.socket, name: str, command: bytes) -> bytes:
    buffer = array.array("B", command)
    fcntl.ioctl(asked.fileno(), _SIOCETHTOOL, struct.pack("16sQ16x", name.encode()[:15], buffer.buffer_info()[0]))
    return buffer.tobytes()
