"""Processes that other processes have started, found through /proc."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """True if a process exists and is not a zombie."""
    return _state_and_parent(pid)[0] not in ("", "Z")


def descendants(pid: int) -> set[int]:
    """All processes below one, without zombies."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state, parent = _state_and_parent(int(entry.name))
            if state not in ("", "Z"):
                parents[int(entry.name)] = parent
    found: set[int] = set()
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown} - found
        found |= grown
    return found


def _state_and_parent(pid: int) -> tuple[str, int]:
    """Letter of the state and number of the parent; "" and 0 if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return fields[0], int(fields[1])
