"""The current faults of a test bed, kept in a file beside its state so that every command knows them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from openmrc.fabric import FaultDirection, FaultPlace
from openmrc.testbed import state
from openmrc.testbed.errors import TestBedError

__all__ = ["FaultFile", "FaultRecord", "Faults"]


@dataclass
class FaultRecord:
    """A fault of the test bed: `text` in the fault language, its unrepaired `places`, `on` while it acts."""

    number: int
    text: str
    places: list[FaultPlace]
    on: bool = False


@dataclass
class Faults:
    """All faults of a test bed, by number; `last` is the highest number so far."""

    last: int = 0
    records: dict[int, FaultRecord] = field(default_factory=dict)


class FaultFile:
    """The faults of one test bed. Every change holds a lock, so several processes may inject and repair faults.

    Args:
        name: Of the test bed.
        made_s: Creation time of the test bed; faults of an earlier one of this name are ignored.
    """

    def __init__(self, name: str, made_s: float) -> None:
        self._path = state.folder() / f"{name}.faults"
        self._made_s = made_s

    @contextmanager
    def change(self) -> Iterator[Faults]:
        """The faults, written back at the end unless the block raises.

        Raises:
            TestBedError: the file cannot be written.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TestBedError(f"{self._path} cannot be written: {error.strerror}") from error
        with os.fdopen(descriptor, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            faults = self._parse(file.read())
            yield faults
            file.seek(0)
            file.truncate()
            records = [asdict(record) for record in faults.records.values()]
            file.write(json.dumps({"made_s": self._made_s, "last": faults.last, "records": records}))

    def read(self) -> Faults:
        """The current faults."""
        try:
            with Path(self._path).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                return self._parse(file.read())
        except FileNotFoundError:
            return Faults()

    def _parse(self, text: str) -> Faults:
        try:
            content = json.loads(text)
        except ValueError:  # empty: just created; anything else: an interrupted write
            return Faults()
        if content["made_s"] != self._made_s:
            return Faults()
        faults = Faults(content["last"])
        for entry in content["records"]:
            record = FaultRecord(**entry)
            record.places = [_place(place) for place in entry["places"]]
            faults.records[record.number] = record
        return faults


def _place(written: dict[str, int | None]) -> FaultPlace:
    direction = FaultDirection(written.pop("direction") or 0)
    return FaultPlace(**written, direction=direction)
