"""QPs between all ranks of a job: one TCP connection and one handshake per pair, all pairs at the same time.

The higher rank of a pair listens, the lower one connects. Only ranks that know the listener's token get beyond the
first line: the token is in the card that the listener publishes through the job's store.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from openmrc.config.host_port import host_port, own_host_port
from openmrc.errors import DeviceError, HandshakeError, OpenmrcError, PeerError, PeerUnreachableError
from openmrc.forks import keep_from_children
from openmrc.verbs import CompletionQueue, Device, ProtectionDomain

from .acceptor import PENDING_MAX, Door
from .channel import Channel, listening_socket, new_runner, off_loop, open_channel
from .connection import QpLink
from .handshake_messages import Hello, Member
from .handshake_steps import accept_peer, free, request_peer
from .qp_end import End
from .round_trip import RoundTrips
from .settings import QpSettings

__all__ = ["Mesh", "MeshPeer"]

_DIALLED_MAX = 64  # concurrent handshakes begun by this side
_CHECK_S = 1.0
_SHOWN_REJECTED = 3

Mailbox = Callable[[int], tuple[int, int]]
"""Address of the own mailbox, and the key of a rank's area in it."""
Connected = Callable[[int, list[QpLink], Member], None]
"""Called with a rank, its links and its mailbox before that rank learns that it may send: posts receives."""


@dataclass(frozen=True, slots=True)
class MeshPeer:
    """Another rank, as its card describes it.

    Args:
        address: "HOST:PORT" on which it listens.
        token: Proves that the connecting rank has read the card.
    """

    address: str
    token: str


class Mesh:
    """This rank's connections to all others while they are established.

    Args:
        device: The NIC.
        queue: Receives the completions of all QPs.
        rank: Own number.
        size: Number of ranks.
        job: Name of the job.
        host: Address to listen on.
        settings: Of the QPs.
        urgent: One QP per pair for each: whether it is urgent.
        mailbox: Own mailbox, by rank.
        connected: See `Connected`.
        domain: Of the QPs and the mailbox.

    Raises:
        DeviceError: the address is not of this machine, or the process has no descriptor left.
    """

    def __init__(
        self,
        device: Device,
        queue: CompletionQueue,
        *,
        rank: int,
        size: int,
        job: str,
        host: str,
        settings: QpSettings,
        urgent: Sequence[bool],
        mailbox: Mailbox,
        connected: Connected,
        domain: ProtectionDomain,
    ) -> None:
        self._device, self._queue, self._settings, self._urgent = device, queue, settings, urgent
        self._domain = domain
        self._rank, self._size, self._job = rank, size, job
        self._mailbox, self._connected = mailbox, connected
        where = host_port(host, 0)
        try:
            self._socket = listening_socket(where)
        except OSError as error:
            if isinstance(error, DeviceError):
                raise
            raise DeviceError(error.errno or 0, f"cannot listen on {host}: {error.strerror}") from error
        keep_from_children(self)
        self.card = MeshPeer(own_host_port(self._socket), secrets.token_hex(16))
        self.attempts = 0
        """TCP connections that were begun by this side."""
        self._links: dict[int, list[QpLink]] = {}
        self._greeted: set[int] = set()
        self._path_mtus: dict[tuple[str, ...], int] = {}  # ranks of one host have the same addresses
        self._failure: OpenmrcError | None = None

    @property
    def rejected(self) -> list[str]:
        """Reasons for turning clients away, newest last."""
        return list(self._door.rejected) if self._door is not None else []

    _door: Door | None = None

    def connect(
        self, peers: Mapping[int, MeshPeer], timeout_s: float, check: Callable[[], None]
    ) -> dict[int, list[QpLink]]:
        """Links to all other ranks, by rank and lane. The peers are not watched yet.

        Args:
            peers: All other ranks.
            timeout_s: For everything together.
            check: Called about once a second; raises when another rank has given up.

        Raises:
            PeerError: a rank refuses, cannot be reached, or belongs to another job; it is named.
            TimeoutError: ranks did not connect in time; they are named.
            DeviceError: the process has no descriptor left.
        """

        def whole() -> dict[int, list[QpLink]]:
            with new_runner() as runner:
                return runner.run(self._connect(peers, time.monotonic() + timeout_s, timeout_s, check))

        return off_loop(whole)

    def _leave_to_parent(self) -> None:
        self._socket.close()

    def close(self) -> None:
        """Stops listening; links stay open."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside

    async def _connect(
        self, peers: Mapping[int, MeshPeer], deadline: float, timeout_s: float, check: Callable[[], None]
    ) -> dict[int, list[QpLink]]:
        changed = asyncio.Event()
        self._deadline = deadline

        def note() -> None:
            """Wakes the loop below for relevant changes, not for every rank."""
            assert self._door is not None
            if self._failure or self._door.failure or len(self._links) == self._size - 1:
                changed.set()

        self._door = Door(self._socket, self._greet, note, pending_max=PENDING_MAX + self._size)
        trips, room = RoundTrips(self._device), asyncio.Semaphore(_DIALLED_MAX)

        async def dial(rank: int) -> None:
            try:
                async with room:
                    await self._dial(rank, peers[rank], trips)
            except OpenmrcError as error:
                self._failure = self._failure or error
            finally:
                note()

        self._door.open()
        tasks = [asyncio.create_task(dial(rank)) for rank in range(self._rank + 1, self._size)]
        try:
            while len(self._links) < self._size - 1:
                failure = self._failure or self._door.failure
                if failure is not None:
                    if isinstance(failure, PeerError):
                        check()  # the failure may be a consequence of another rank's report
                    raise failure
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError(self._late(timeout_s))
                try:
                    async with asyncio.timeout(min(left_s, _CHECK_S)):
                        await changed.wait()
                    changed.clear()
                except TimeoutError:
                    check()
            await asyncio.gather(*tasks)
        except BaseException:
            await self._end_handshakes(tasks)
            for links in self._links.values():  # also of handshakes that were completed meanwhile
                for link in links:
                    link.close()
            raise
        await self._end_handshakes(tasks)
        return self._links

    async def _end_handshakes(self, dialling: Sequence[asyncio.Task[None]]) -> None:
        for task in dialling:
            task.cancel()
        await asyncio.gather(*dialling, return_exceptions=True)
        assert self._door is not None
        await self._door.end(None if self._failure is None else str(self._failure))

    async def _dial(self, rank: int, peer: MeshPeer, trips: RoundTrips) -> None:
        self.attempts += 1
        end = self._end()
        channel: Channel | None = None

        def prepare(links: list[QpLink], theirs: Member | None) -> None:
            if theirs is None or theirs.rank != rank:
                raise HandshakeError(f"rank {rank} of {self._job!r} is not the one that answers at {peer.address}")
            self._connected(rank, links, theirs)

        try:
            channel = await open_channel(peer.address, self._deadline)
            channel.peer_name = f"rank {rank} at {peer.address}"
            member = self._member(rank, peer.token)
            self._links[rank] = await request_peer(end, channel, trips, member=member, prepare=prepare)
        except PeerUnreachableError as error:
            free(end, channel, error)
            raise PeerError(f"rank {rank} of {self._job!r} cannot be reached: {error}") from error
        except BaseException as error:
            # A rank that is cut off because of another one learns that one's reason.
            free(end, channel, error if isinstance(error, OpenmrcError) else self._failure)
            raise

    def _end(self) -> End:
        return End(
            self._device, None, self._settings, self._queue, self._urgent, self._domain, path_mtus=self._path_mtus
        )

    async def _greet(self, channel: Channel, hello: Hello) -> None:
        rank = self._checked(hello)
        channel.peer_name = f"rank {rank} at {channel.peer_name}"
        channel.deadline = self._deadline  # authenticated by the token
        self._greeted.add(rank)
        end = self._end()

        def prepare(links: list[QpLink], theirs: Member | None) -> None:
            assert theirs is not None
            self._connected(rank, links, theirs)

        try:
            member = self._member(rank, self.card.token)
            self._links[rank] = await accept_peer(end, hello, channel, member=member, prepare=prepare)
        except OpenmrcError as error:
            end.abandon()
            words = str(error) if str(error).startswith("rank ") else f"{channel.peer_name}: {error}"
            self._failure = self._failure or PeerError(words)
            raise
        except BaseException:
            end.abandon()
            raise

    def _checked(self, hello: Hello) -> int:
        """Rank of a client that belongs to this job."""
        member = hello.member
        if member is None or member.job != self._job or not secrets.compare_digest(member.token, self.card.token):
            raise HandshakeError("only ranks of this job may connect, and the client did not present this rank's token")
        if member.rank >= self._rank:
            raise HandshakeError(
                f"rank {member.rank} does not connect to rank {self._rank}: of a pair the lower rank connects"
            )
        if member.rank in self._greeted:
            raise HandshakeError(f"rank {member.rank} has connected already")
        return member.rank

    def _member(self, rank: int, token: str) -> Member:
        address, rkey = self._mailbox(rank)
        return Member(job=self._job, rank=self._rank, token=token, mailbox_address=address, mailbox_rkey=rkey)

    def _late(self, timeout_s: float) -> str:
        missing = [rank for rank in range(self._size) if rank != self._rank and rank not in self._links]
        words = f"{ranks_in_words(missing)} of {self._job!r} did not connect within {timeout_s:g} s"
        if self.rejected:
            words += f"; turned away meanwhile: {'; '.join(self.rejected[-_SHOWN_REJECTED:])}"
        return words


def ranks_in_words(ranks: Sequence[int]) -> str:
    """For messages: "rank 3", "ranks 3, 5"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
