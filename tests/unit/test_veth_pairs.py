"""Permission to create network namespaces, as far as the `ip` command tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.runs.processes.veth_pairs import NamespaceError, namespaces_allowed


def answer_of_ip(answer: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an `ip` into the path that refuses to create anything."""
    program = folder / "ip"
    program.write_text(f'#!/bin/sh\n[ "$2" = list ] && exit 0\necho "{answer}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_missing_rights_and_a_missing_command_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_of_ip("mount --make-shared /run/netns failed: Operation not permitted", tmp_path, monkeypatch)
    assert not namespaces_allowed()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert not namespaces_allowed()


def test_another_refusal_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_of_ip("Cannot create namespace file: File exists", tmp_path, monkeypatch)
    with pytest.raises(NamespaceError, match=r"File exists$"):
        namespaces_allowed()
