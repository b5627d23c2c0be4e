"""Unmodified programs that have to end with status 0 on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from _program_pairs import Hosts, alone, both, missing, tcp_port

__all__ = ["PROGRAMS", "Program"]

_OF_PERFTEST = ("-d", "mrc0", "-F")
_BY_NAME = ("-g", "0")


@dataclass(frozen=True)
class Program:
    """A program with its options; a client has the server's address in addition.

    Args:
        words: The program and the options of both sides; a TCP port follows them.
        server: Words of the server; `{address}` is its address.
        client: Words of the client.
        program: The client's program, if it is not the server's.
    """

    words: tuple[str, ...]
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ("{address}",)
    program: str = ""

    @property
    def name(self) -> str:
        """The command without device and addresses, as in a row of the benchmark."""
        shown = [word for word in self.words if word not in (*_OF_PERFTEST, *_BY_NAME)]
        return " ".join([*shown, *(["and", self.program] if self.program else [])])

    def missing(self) -> str | None:
        """The programs that are not installed; None: all are."""
        return missing(self.words[0], *([self.program] if self.program else []))

    def run(self, hosts: Hosts) -> float:
        """Exit status of both sides, 0.

        Raises:
            ChildError: one of them ended with another status, or did not end.
        """
        port = tcp_port()

        def command(words: Sequence[str], further: Sequence[str]) -> list[str]:
            return [*words, "-p", str(port), *(word.format(address=hosts.server) for word in further)]

        words = [self.program, *self.words[1:]] if self.program else self.words
        both(hosts, command(self.words, self.server), command(words, self.client), port)
        return 0.0


@dataclass(frozen=True)
class Lone(Program):
    """A program that has no other side."""

    def run(self, hosts: Hosts) -> float:
        """Exit status, 0.

        Raises:
            ChildError: it ended with another status, or did not end.
        """
        alone(hosts, self.words)
        return 0.0


def _perftest(text: str) -> Program:
    return Program((*text.split(), *_OF_PERFTEST))


def _pingpong(text: str) -> Program:
    return Program((*text.split(), *_BY_NAME, "-c"))


# Contents are checked by ping-pongs (-c), rping (-V) and ucmatose.
PROGRAMS: tuple[Program, ...] = (
    Lone(("ibv_devinfo",)),
    _pingpong("ibv_rc_pingpong"),
    _pingpong("ibv_rc_pingpong -e"),
    _pingpong("ibv_rc_pingpong -N"),
    _pingpong("ibv_srq_pingpong"),
    _perftest("ib_write_bw -a -n 200"),
    _perftest("ib_write_bw -b -n 1000"),
    _perftest("ib_write_bw -q 4 -n 1000"),
    _perftest("ib_write_lat"),
    _perftest("ib_send_bw"),
    _perftest("ib_send_lat"),
    _perftest("ib_read_bw"),
    _perftest("ib_read_lat"),
    _perftest("ib_atomic_bw"),
    _perftest("ib_atomic_lat"),
    Program(
        ("rping", "-V", "-C", "100"),
        server=("-s", "-a", "{address}"),
        client=("-c", "-a", "{address}"),
    ),
    Program(("ucmatose", "-C", "100", "-S", "4096"), client=("-s", "{address}")),
    Program(("rdma_server",), client=("-s", "{address}"), program="rdma_client"),
    _perftest("ib_write_bw -R"),
)
