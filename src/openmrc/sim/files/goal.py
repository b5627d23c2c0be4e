"""Schedules in GOAL text, as LogGOPSim and ATLAHS use them, read into ranks of ops.

    num_ranks 2
    rank 0 {
    l1: calc 1000 cpu 0
    l2: send 4096b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 4096b from 0 tag 7
    }

`calc` counts nanoseconds. `a requires b`: a starts when b is done, which is for a send when it was acknowledged, for a
recv when it was posted and its message has arrived. `a irequires b`: a starts when b starts, that is when everything b
requires is done. Sends and recvs of the same two ranks and tag are matched in the order of the file.

A rank's cpu computes one thing at a time. Here nothing but `requires` orders computations, so two that last, on one cpu
and in no order, are refused. The costs per message of LogGOPS (its o, g, O) belong to that model, not to the file, and
take no time here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openmrc.errors import did_you_mean
from openmrc.sim.files.text import Line, read_lines

__all__ = ["Op", "Rank", "Schedule", "read_schedule"]

RANKS_MAX = 2**31 - 1
BYTES_MAX = 2**44
TIME_PS_MAX = 2**62
_LABEL = r"[a-zA-Z][a-zA-Z0-9_]*"
_NUMBER = "[0-9]{1,20}"
_OP = re.compile(
    rf"(?:({_LABEL})\s*:\s*)?(?:(calc)\s+({_NUMBER})|(send|recv)\s+({_NUMBER})\s*b\s+(to|from)\s+(-?{_NUMBER})"
    rf"(?:\s+tag\s+(-?{_NUMBER}))?)(?:\s+cpu\s+({_NUMBER}))?(?:\s+nic\s+({_NUMBER}))?"
)
_REQUIRES = re.compile(rf"({_LABEL})\s+(requires|irequires)\s+({_LABEL})")


@dataclass
class Op:
    """One operation: `kind` is calc, send or recv; `size` is in bytes, for a calc in units of time."""

    line: Line
    kind: str
    size: int
    peer: int = 0
    tag: int = 0
    cpu: int = 0


@dataclass
class Rank:
    """Operations of a rank, in the order of the file, and (waiting, awaited, immediate, line) for each `requires`."""

    line: Line
    ops: list[Op] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    requires: list[tuple[str, str, bool, Line]] = field(default_factory=list)


@dataclass
class Schedule:
    """Contents of a GOAL file."""

    ranks: int
    by_rank: dict[int, Rank] = field(default_factory=dict)


def read_schedule(path: str | Path) -> Schedule:
    """The schedule of a GOAL file.

    Raises:
        ConfigError: with file and line.
    """
    schedule: Schedule | None = None
    rank: Rank | None = None
    line = Line(path, 1, "")
    for line in _without_block_comments(read_lines(path, "goal", comment="//")):
        if schedule is None:
            if len(line.words) != 2 or line.words[0] != "num_ranks":
                raise line.error("line", line.text.strip(), "`num_ranks N` first")
            schedule = Schedule(line.number_of("num_ranks", line.words[1], 1, RANKS_MAX))
        elif rank is None:
            rank = _open_rank(schedule, line)
        elif line.text.strip() == "}":
            rank = None
        else:
            _read_statement(schedule, rank, line)
    if schedule is None:
        raise line.error("num_ranks", None, "required: a line such as `num_ranks 16`")
    if rank is not None:
        raise rank.line.error("rank", rank.line.text.strip(), "a closing `}` on a line of its own")
    if not any(part.ops for part in schedule.by_rank.values()):
        raise line.error("num_ranks", schedule.ranks, "a schedule with at least one operation")
    return schedule


def _without_block_comments(lines: Iterator[Line]) -> Iterator[Line]:
    opened: Line | None = None
    for line in lines:
        text = line.text
        kept = ""
        while text:
            if opened is None:
                before, mark, text = text.partition("/*")
                kept += before + " "
                opened = line if mark else None
            else:
                _, mark, text = text.partition("*/")
                opened = None if mark else opened
        if kept.strip():
            yield Line(line.source, line.number, kept)
    if opened is not None:
        raise opened.error("comment", "/*", "a closing `*/`")


def _open_rank(schedule: Schedule, line: Line) -> Rank:
    match = re.fullmatch(rf"\s*rank\s+({_NUMBER})\s*\{{\s*", line.text)
    if match is None:
        raise line.error("line", line.text.strip(), "`rank N {`", did_you_mean(line.words[0], ["rank"]))
    number = int(match[1])
    if number >= schedule.ranks:
        raise line.error("rank", number, f"ranks 0 to {schedule.ranks - 1}, as num_ranks says")
    if number in schedule.by_rank:
        raise line.error("rank", number, f"each rank once; line {schedule.by_rank[number].line.number} has it")
    return schedule.by_rank.setdefault(number, Rank(line))


def _read_statement(schedule: Schedule, rank: Rank, line: Line) -> None:
    text = line.text.strip()
    match = _REQUIRES.fullmatch(text)
    if match is not None:
        rank.requires.append((match[1], match[3], match[2] == "irequires", line))
        return
    match = _OP.fullmatch(text)
    if match is None:
        allowed = "`[LABEL:] calc N`, `send Nb to RANK [tag N]`, `recv Nb from RANK [tag N]`, `LABEL requires LABEL`"
        raise line.error("line", text, allowed)
    label, calc, units, message, size, way, peer, tag, cpu, nic = match.groups()
    if nic is not None and int(nic):
        raise line.error("nic", int(nic), "nic 0: a rank is one NIC here", "give every NIC its own rank")
    if label is not None:
        if label in rank.labels:
            at = rank.ops[rank.labels[label]].line.number
            raise line.error("label", label, f"each label once in a rank; line {at} has it")
        rank.labels[label] = len(rank.ops)
    if calc:
        rank.ops.append(Op(line, "calc", line.number_of("calc", units, 0, TIME_PS_MAX), cpu=int(cpu or 0)))
        return
    if (message, way) not in (("send", "to"), ("recv", "from")):
        raise line.error("line", text, "`send ... to` and `recv ... from`")
    if int(peer) < 0 or int(tag or 0) < 0:
        what = "the rank" if int(peer) < 0 else "the tag"
        raise line.error(message, text, f"a message that names {what}: which one -1 would take depends on the run")
    if int(peer) >= schedule.ranks:
        raise line.error("rank", int(peer), f"ranks 0 to {schedule.ranks - 1}, as num_ranks says")
    count = line.number_of("bytes", size, 1, BYTES_MAX)
    rank.ops.append(Op(line, message, count, int(peer), int(tag or 0), int(cpu or 0)))
