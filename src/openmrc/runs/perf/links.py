"""The connections of one `openmrc perf` client, used together at either end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Self

from openmrc import Connection
from openmrc.runs.perf import measuring_loops as measure
from openmrc.runs.perf.messages import ROUNDS, PerfOptions
from openmrc.runs.processes.message_pattern import Bytes


class Links:
    """The connections of one client, used together."""

    def __init__(self) -> None:
        self._connections: list[tuple[Connection, Bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, _buffer in self._connections:
            connection.close()

    def add(self, connection: Connection, buffer: Bytes) -> None:
        """Adds a connection; keeps the buffer alive as long."""
        self._connections.append((connection, buffer))

    @property
    def connections(self) -> list[Connection]:
        """All of them."""
        return [connection for connection, _buffer in self._connections]

    @property
    def first(self) -> Connection:
        """The connection for latency measurements."""
        return self._connections[0][0]

    def stream(self, message_bytes: int, iterations: int, options: PerfOptions) -> list[measure.StreamResult]:
        """Streams on all connections at the same time."""

        def one(connection: Connection) -> measure.StreamResult:
            assert connection.region is not None
            share = max(1, iterations // len(self._connections))
            return measure.write_stream(
                connection,
                connection.region,
                message_bytes=message_bytes,
                depth=options.depth,
                seconds=(options.duration_s or 0.0) / ROUNDS,
                messages=0 if options.duration_s else share,
                busy=options.busy,
            )

        if len(self._connections) == 1:
            return [one(self.first)]
        return _at_once([partial(one, connection) for connection, _ in self._connections])

    def ping(self, message_bytes: int, iterations: int) -> list[float]:
        """Round trips on the first connection, in microseconds."""
        assert self.first.region is not None
        return measure.ping(self.first, self.first.region, message_bytes=message_bytes, iterations=iterations)

    def pong(self, message_bytes: int, iterations: int) -> int:
        """Answers pings on the first connection."""
        assert self.first.region is not None
        return measure.pong(self.first, self.first.region, message_bytes=message_bytes, iterations=iterations)


def _at_once(jobs: Sequence[Callable[[], measure.StreamResult]]) -> list[measure.StreamResult]:
    """The results of all jobs, each in its own thread. Ctrl-C does not wait for them: they end with the process."""
    results: list[Future[measure.StreamResult]] = [Future() for _ in jobs]

    def run(job: Callable[[], measure.StreamResult], result: Future[measure.StreamResult]) -> None:
        try:
            result.set_result(job())
        except BaseException as error:  # noqa: BLE001  (it is raised where the result is asked for)
            result.set_exception(error)

    for job, result in zip(jobs, results, strict=True):
        threading.Thread(target=run, args=(job, result), daemon=True).start()
    return [result.result() for result in results]
