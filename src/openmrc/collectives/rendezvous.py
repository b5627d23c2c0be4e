"""Texts of ranks, published and gathered through the job's store, in batches if possible; late ranks are named."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openmrc.collectives.stores import Store
from openmrc.errors import PeerError

__all__ = ["Rendezvous"]

_SLICE_S = 1.0  # between two checks for a rank that has given up
_POLL_S, _POLL_MAX_S = 0.001, 0.05
_REASON_CHARACTERS = 1000
_LEAVE_S = 5.0


class _Failure(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    rank: Annotated[int, Field(ge=0, le=65535)]
    reason: Annotated[str, Field(max_length=_REASON_CHARACTERS)]


class Rendezvous:
    """One rank's use of the store at the start of the job.

    Args:
        store: Reachable from all ranks. If it has torch's `wait` and `multi_get`, a round takes three requests; else
        one
            or more for each rank.
        job: Name of the job, part of every key.
        rank: Own number.
        timeout_s: For all rounds together.
    """

    def __init__(self, store: Store, job: str, rank: int, timeout_s: float) -> None:
        self._store: Any = store
        self._job, self._rank, self._timeout_s = job, rank, timeout_s
        self._deadline = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Time until the deadline."""
        return max(0.0, self._deadline - time.monotonic())

    def publish(self, topic: str, text: str) -> None:
        """Publishes the own text on a topic."""
        self._store.set(self._key(self._rank, topic), text)

    def gather(self, topic: str, ranks: Iterable[int]) -> dict[int, str]:
        """Texts of ranks on a topic, by rank, as soon as all have published theirs.

        Raises:
            PeerError: another rank has given up, with its reason; or the store is gone.
            TimeoutError: ranks did not publish theirs in time; the message names them.
        """
        keys = {rank: self._key(rank, topic) for rank in ranks}
        if not keys:
            return {}
        names = list(keys.values())
        while not self._wait(names, min(_SLICE_S, self.left_s)):
            self.check()
            if self.left_s == 0:
                late = [rank for rank, key in keys.items() if not self._store.check([key])]
                who = f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}"
                msg = f"{who} of {self._job!r} did not connect within {self._timeout_s:g} s"
                raise TimeoutError(msg)
        return dict(zip(keys, map(_text, self._get(names)), strict=True))

    def leave_together(self, topic: str, ranks: Iterable[int], limit_s: float = _LEAVE_S) -> None:
        """Waits until all ranks are here, for ranks that are about to fail for a reason that each detects by itself.

        The store may end with the first process that leaves, and the others would then report its end.
        """
        self.publish(topic, "")
        with suppress(OSError, RuntimeError, PeerError):
            self._wait([self._key(rank, topic) for rank in ranks], min(limit_s, self.left_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Reports an exception of the `with` block to the other ranks."""
        if error is not None:
            self.fail(str(error) or type(error).__name__)

    def fail(self, reason: str) -> None:
        """Informs the others that this rank gives up, so that they need not wait for their timeout."""
        failure = _Failure(rank=self._rank, reason=reason[:_REASON_CHARACTERS])
        with suppress(OSError, RuntimeError):  # the store may be the cause
            if not self._store.check([self._failed_key]):  # the first cause is the one to report
                self._store.set(self._failed_key, failure.model_dump_json())

    def check(self) -> None:
        """Checks for a rank that has given up.

        Raises:
            PeerError: one has; with its number and reason.
        """
        if not self._store.check([self._failed_key]):
            return
        try:
            failure = _Failure.model_validate_json(_text(self._store.get(self._failed_key)))
        except ValidationError:
            msg = f"a rank of {self._job!r} gave up while connecting"
            raise PeerError(msg) from None
        msg = f"rank {failure.rank} of {self._job!r} gave up while connecting: {failure.reason}"
        raise PeerError(msg)

    # --- inside

    @property
    def _failed_key(self) -> str:
        return f"openmrc/{self._job}/failed"

    def _key(self, rank: int, topic: str) -> str:
        return f"openmrc/{self._job}/{topic}/{rank}"

    def _wait(self, names: list[str], seconds: float) -> bool:
        if not hasattr(self._store, "wait"):
            return self._poll(names, seconds)
        begun = time.monotonic()
        try:
            self._store.wait(names, timedelta(seconds=max(seconds, 0.001)))
        except (RuntimeError, TimeoutError) as error:  # torch's stores raise the former
            if time.monotonic() - begun >= 0.9 * seconds:
                return False
            msg = f"the store of {self._job!r} failed: {error}"
            raise PeerError(msg) from error
        return True

    def _poll(self, names: list[str], seconds: float) -> bool:
        until = time.monotonic() + seconds
        nap_s = _POLL_S
        while not self._store.check(names):
            if time.monotonic() >= until:
                return False
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, _POLL_MAX_S)
        return True

    def _get(self, names: list[str]) -> list[str | bytes]:
        if hasattr(self._store, "multi_get"):
            with suppress(RuntimeError, NotImplementedError):  # torch's stores have the method, but not all support it
                return list(self._store.multi_get(names))
        return [self._store.get(name) for name in names]


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
