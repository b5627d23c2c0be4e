"""Reductions, plans and their executor."""

from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

import openmrc._native

def element_bytes(arg: int, /) -> int: ...
def reducible(arg0: int, arg1: int, /) -> bool: ...
def reduce(arg0: int, arg1: int, arg2: int, arg3: int, arg4: int, arg5: bool, /) -> None: ...
def address_of(arg: object, /) -> int: ...
def reduce_engine() -> str: ...

ANY_SOURCE: int = -1

CALL_KINDS: tuple = ...

CALL_ALGORITHMS: tuple = ...

SEQUENCE_BITS: int = 20

EAGER_BYTES_MAX: int = 4056

COMBINED_BYTES_MAX: int = 4

CREDIT_RECEIVES: int = 32

MAILBOX_BYTES: int = 262400

class Plan:
    def __init__(
        self,
        arg0: int,
        arg1: Annotated[NDArray[numpy.uint64], dict(shape=(None, 8), order="C", device="cpu", writable=False)],
        arg2: Annotated[NDArray[numpy.uint32], dict(shape=(None, 2), order="C", device="cpu", writable=False)],
        arg3: Sequence[int],
        arg4: int,
        arg5: int,
        arg6: float,
        arg7: int,
        arg8: Sequence[int],
        arg9: int,
        arg10: bool,
        arg11: bool,
        arg12: bool,
        arg13: tuple[int, int, int, int, int, int],
        arg14: int,
        /,
    ) -> None: ...
    @property
    def steps(self) -> int: ...
    @property
    def buffer_bytes(self) -> list[int]: ...

class Inbox:
    def __init__(self, arg: Sequence[tuple[int, int]], /) -> None: ...

class Executor:
    def __init__(
        self,
        arg0: openmrc._native.Device,
        arg1: int,
        arg2: int,
        arg3: int,
        arg4: int,
        arg5: int,
        arg6: int,
        arg7: int,
        arg8: int,
        /,
    ) -> None: ...
    @property
    def mailbox_address(self) -> int: ...
    @property
    def mailbox_rkeys(self) -> list[int]: ...
    def connect(self, arg0: int, arg1: Sequence[int], arg2: int, arg3: int, /) -> None: ...
    def offer_memory(
        self, arg: int, /
    ) -> (
        tuple[
            tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int]
        ]
        | None
    ): ...
    def open_memory(
        self,
        arg0: int,
        arg1: tuple[
            tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int]
        ],
        /,
    ) -> bool: ...
    def use_memory(self, rank: int, agreed: bool) -> None: ...
    def submit(self, arg0: Plan, arg1: int, arg2: int, arg3: Sequence[tuple[int, int]], /) -> int: ...
    def receive(self, arg0: Inbox, arg1: int, arg2: Plan, arg3: int, arg4: Sequence[tuple[int, int]], /) -> int: ...
    def source(self, arg: int, /) -> int: ...
    def state(self, arg: int, /) -> int: ...
    def wait(self, arg0: int, arg1: int, /) -> int: ...
    def user_of(self, arg0: int, arg1: int, arg2: bool, /) -> int: ...
    def delayed(self, arg: int, /) -> bool: ...
    def failure(self, arg: int, /) -> tuple[int, str]: ...
    def faulty(self, rank: int) -> bool: ...
    def release(self, arg: int, /) -> bool: ...
    def flush(self, arg: int, /) -> bool: ...
    def fail_peer(self, rank: int, reason: str, left: bool = False, culprit: int = -1) -> None: ...
    def close(self) -> None: ...
    def statistics(self) -> dict: ...

class Started:
    def wait(self, timeout_s: float | None = None) -> None: ...
    @property
    def done(self) -> bool: ...
    @property
    def settled(self) -> bool: ...
    @property
    def error(self) -> object: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def source(self) -> None: ...

class Calls:
    def __init__(
        self, executor: object, where: str, key_base: int, view: object, failure_of: object, lateness_of: object
    ) -> None: ...
    def next_key(self) -> int: ...
    def start(
        self, buffer: object | None, op: object | None, algorithm: object | None, traffic_class: object
    ) -> object: ...
    def remember(
        self,
        buffer: object | None,
        op: object | None,
        algorithm: object | None,
        traffic_class: object,
        kind: str,
        chosen: str,
        plan: Plan,
        lane: int,
        scratch_bytes: int,
    ) -> None: ...
